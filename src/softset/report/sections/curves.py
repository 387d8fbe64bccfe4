"""Precision against recall, and ROC."""

from __future__ import annotations

from typing import Any

from softset.report.sections.base import Page

ID, GROUP = "curves", "operating"
TITLE = "Precision, recall and ROC"


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads."""
    if not page.operating.views:
        return None
    scores = page.operating.views[0].sides[0].scores
    return {
        "auroc": scores.area("auroc"),
        "average_precision": scores.area("average_precision"),
        "prevalence": scores.positives / scores.total,
    }
