"""The head of the page: the verdict, and the numbers to remember."""

from __future__ import annotations

import re
from typing import Any

from softset.comparison.ladder import Ladder, Rung
from softset.comparison.verdict import significance
from softset.report import formats
from softset.report.layout import shorten
from softset.report.sections.base import Page


def content(page: Page) -> dict[str, Any]:
    """What its template reads."""
    c = page.comparison
    return {
        "eyebrow": _eyebrow(page),
        "verdict": _with_minus(shorten(c.verdict, 600)),
        "advice": _with_minus(shorten(c.advice, 1000)),
        "cards": _cards(page, c.ladder),
        "warnings": [shorten(w, 500) for w in dict.fromkeys(c.warnings)],
    }


def _eyebrow(page: Page) -> list[str]:
    c = page.comparison
    parts = [page.metric, shorten(c.data.file, 80) if c.data.file else ""]
    rows = formats.count(c.data.rows)
    if c.data.used is not None and c.data.used < c.data.rows:
        rows = f"{formats.count(c.data.used)} of {rows}"
    parts.append(f"{rows} rows")
    if c.positive is not None:
        parts.append(f"positive: {shorten(c.positive, 60)}")
    parts.append(shorten(c.date, 40))
    return [p for p in parts if p]


def _with_minus(text: str) -> str:
    """A real minus sign before numbers."""
    return re.sub(r"(?<![\w.)-])-(?=\d)", formats.MINUS, text)


def _cards(page: Page, ladder: Ladder) -> list[dict[str, str]]:
    """What choosing gives, what people do by default, and what is between them."""
    c, first, last = page.comparison, ladder.rungs[0], ladder.rungs[-1]
    cards = [_card(f"{page.metric}, {shorten(first.name, 60)}", first)]
    if c.winner != c.reference:
        cards.insert(0, _card(f"{page.metric} to expect", last) | {"class_": "accent"})
    worth = ladder.worth
    around = formats.interval(worth.low, worth.high, formats.signed)
    detail = f"{around} {significance(ladder.clear)}".strip()
    gain = {"label": "worth", "value": formats.signed(worth.mean), "detail": detail, "class_": ""}
    return [*cards, gain]


def _card(label: str, rung: Rung) -> dict[str, str]:
    value, detail = formats.number(rung.mean), formats.interval(rung.low, rung.high)
    return {"label": label, "value": value, "detail": detail, "class_": ""}
