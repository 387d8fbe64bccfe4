"""The metric against the threshold, with a slider that moves everything below it."""

from __future__ import annotations

from typing import Any

from softset.report.sections.base import Page

ID, GROUP = "threshold", "operating"
TITLE = "{Curve} against threshold"


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads; several classes have no single threshold."""
    operating = page.operating
    if not operating.views or not operating.has_slider:
        return None
    return {
        "metric": f"{page.metric[:1].upper()}{page.metric[1:]}",
        "start": operating.views[0].sides[0].threshold,
        "at": operating.at_start(),
        "values": operating.values_at_start(),
        "held_out": page.held_out,
    }
