"""The metric against the threshold, with a slider that moves everything below it."""

from __future__ import annotations

from softset.report.context import Content, Page

ID, GROUP = "threshold", "operating"
TITLE = "{Curve} against threshold"


def content(page: Page) -> Content | None:
    """The values of the template; multiclass targets have no single threshold."""
    operating = page.operating
    if not operating.views or not operating.has_slider:
        return None
    return {
        "metric": f"{page.metric[:1].upper()}{page.metric[1:]}",
        "start": operating.views[0].sides[0].threshold,
        "at": operating.at_start(),
        "values": operating.values_at_start(),
        "held_out": page.held_out,
        "name": page.names[page.shown[0]],
        "mean": next(c.mean for c in page.comparison.candidates if c.id == page.shown[0]),
    }
