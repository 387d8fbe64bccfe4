"""Which columns drive the winner."""

from __future__ import annotations

from typing import Any

from softset.report import formats
from softset.report.layout import shorten
from softset.report.sections.base import Page

ID, GROUP = "drivers", ""
TITLE = "What drives it"
_MOST = 20


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads: the columns that matter most, with bars of one scale."""
    found = page.comparison.importances
    if not found:
        return None
    longest = max(found[0].falls, 1e-9)
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
            for i in found[:_MOST]
        ],
        "more": max(0, len(found) - _MOST),
    }
