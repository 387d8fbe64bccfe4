"""Whether scores are probabilities, and a map that makes them so."""

from __future__ import annotations

from typing import Any

from softset.report.sections.base import Page

ID, GROUP = "calibration", ""
TITLE = "What the scores mean"


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads."""
    if not page.operating.views:
        return None
    return {"texts": page.operating.data()["views"][0]["sides"][0]["texts"]}
