"""The table that was compared on."""

from __future__ import annotations

from softset import formats
from softset.formats import shorten
from softset.report.context import ROWS, Content, Page

ID, GROUP = "data-summary", ""
TITLE = "Data"
_NOTES = 50


def content(page: Page) -> Content | None:
    """The values of the template. Warnings of the page's head are not repeated."""
    data = page.comparison.data
    notes = [n for n in dict.fromkeys(data.notes) if n not in page.comparison.warnings]
    return {
        "file": shorten(data.file or "", 200),
        "rows": formats.count(data.rows),
        "features": formats.count(data.features),
        "outputs": formats.count(data.outputs),
        "fewer": _fewer(page),
        "unit": page.unit,
        "classes": [
            {
                "label": shorten(c.label, 80),
                "rows": formats.count(c.rows),
                "fraction": formats.percent(c.rows / max(data.rows, 1)),
                "wide": f"{100 * min(1, c.rows / max(data.rows, 1)):.2f}%",
            }
            for c in data.classes[:ROWS]
        ],
        "columns": [
            {
                "name": shorten(c.name, 80),
                "kind": shorten(c.kind, 20),
                "missing": formats.count(c.missing),
                "distinct": formats.count(c.values),
                "outputs": formats.count(c.outputs),
            }
            for c in data.columns[:ROWS]
        ],
        "more_columns": max(0, len(data.columns) - ROWS),
        "notes": [shorten(n, 400) for n in notes[:_NOTES]],
    }


def _fewer(page: Page) -> str:
    """How many rows were really used, if not all."""
    data, sentences = page.comparison.data, []
    if data.used is not None and data.used < data.rows:
        sentences.append(f"{formats.count(data.used)} of the rows were compared on")
    if data.refitted is not None and data.refitted < data.rows:
        sentences.append(f"the model was fitted on {formats.count(data.refitted)}")
    text = ", ".join(sentences)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
