"""The head of the page: the verdict, and the numbers to remember."""

from __future__ import annotations

import re

from softset import formats
from softset.comparison.result import significance
from softset.formats import shorten
from softset.report.context import Content, Page


def content(page: Page) -> Content:
    """The values of its template."""
    c = page.comparison
    return {
        "eyebrow": _eyebrow(page),
        "verdict": _with_minus(shorten(c.verdict, 600)),
        "advice": _with_minus(shorten(c.advice, 1000)),
        "cards": _cards(page),
        "warnings": [shorten(w, 500) for w in dict.fromkeys(c.warnings)],
    }


def _eyebrow(page: Page) -> list[str]:
    c = page.comparison
    texts = [page.metric, shorten(c.data.file, 80) if c.data.file else ""]
    rows = formats.count(c.data.rows)
    if c.data.used is not None and c.data.used < c.data.rows:
        rows = f"{formats.count(c.data.used)} of {rows}"
    texts.append(f"{rows} rows")
    texts.append(shorten(c.positive_line, 80))
    texts.append(shorten(c.date, 40))
    return [p for p in texts if p]


def _with_minus(text: str) -> str:
    """A real minus sign before numbers."""
    return re.sub(r"(?<![\w.)-])-(?=\d)", formats.MINUS, text)


def _cards(page: Page) -> list[dict[str, str]]:
    """Winner and reference as in the table, and the gain of all stages."""
    c = page.comparison
    cards = [_card(page, c.reference)]
    if c.winner != c.reference:
        cards.insert(0, _card(page, c.winner) | {"class_": "accent"})
    total = c.gains.total
    around = formats.interval(total.low, total.high, formats.signed)
    detail = f"{around} {significance(total)}".strip()
    label = f"gain of all stages over {shorten(c.gains.stages[0].name, 80)}, chosen on other splits"
    gain = {"label": label, "value": formats.signed(total.mean), "detail": detail, "class_": ""}
    return [*cards, gain]


def _card(page: Page, candidate: str) -> dict[str, str]:
    row = next(c for c in page.comparison.candidates if c.id == candidate)
    return {
        "label": f"{page.metric}, {page.names[candidate]}",
        "value": formats.number(row.mean),
        "detail": formats.interval(row.low, row.high),
        "class_": "",
    }
