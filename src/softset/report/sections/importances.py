"""Permutation importances of the winner."""

from __future__ import annotations

from softset import formats
from softset.formats import shorten
from softset.report.context import Content, Page

ID, GROUP = "importances", ""
TITLE = "Feature importances"
_MOST = 20


def content(page: Page) -> Content | None:
    """The values of the template: the columns with the largest, with bars of one scale."""
    importances = page.comparison.importances
    if not importances:
        return None
    longest = max(importances[0].falls, 1e-9)
    return {
        "metric": page.metric,
        "winner": page.names[page.comparison.winner],
        "rows": [
            {
                "column": shorten(i.column, 80),
                "falls": formats.number(i.falls),
                "spread": formats.number(i.spread),
                "wide": f"{100 * min(1, max(0, i.falls / longest)):.2f}%",
            }
            for i in importances[:_MOST]
        ],
        "more": max(0, len(importances) - _MOST),
    }
