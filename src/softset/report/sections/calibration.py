"""Whether scores are probabilities, and a map that makes them so."""

from __future__ import annotations

from softset.report.context import Content, Page

ID, GROUP = "calibration", ""
TITLE = "What the scores mean"


def content(page: Page) -> Content | None:
    """The values of the template."""
    if not page.operating.views:
        return None
    return {"texts": page.operating.sides[0][0]["texts"]}
