"""Precision against recall, and ROC."""

from __future__ import annotations

from softset.report.context import Content, Page

ID, GROUP = "curves", "operating"
TITLE = "Precision, recall and ROC"


def content(page: Page) -> Content | None:
    """The values of the template."""
    if not page.operating.views:
        return None
    scores = page.operating.views[0].sides[0].scores
    return {
        "auroc": scores.area("auroc"),
        "average_precision": scores.area("average_precision"),
        "prevalence": scores.positives / scores.total,
    }
