"""What each step towards the metric is worth."""

from __future__ import annotations

from typing import Any

from softset.comparison.statistics import Difference
from softset.comparison.verdict import significance
from softset.report import formats, plots
from softset.report.geometry import gain_rows
from softset.report.layout import shorten
from softset.report.sections.base import Page

ID, GROUP = "ladder", ""
TITLE = "What each step is worth"


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads."""
    ladder = page.comparison.ladder
    if len(ladder.rungs) < 2:
        return None
    rows = [
        {
            "id": rung.id,
            "name": shorten(rung.name, 80),
            "choice": page.names[rung.choice],
            "mean": formats.number(rung.mean),
            **_step(rung.step, rung.clear),
        }
        for rung in ladder.rungs
    ]
    whole = {"id": "all", "name": "all of it", "choice": "", "mean": ""}
    rows.append(whole | _step(ladder.worth, ladder.clear))
    return {
        "metric": page.metric,
        "rows": rows,
        "plot": plots.forest(gain_rows(ladder), difference=True),
        "single": page.comparison.splits.count < 2,
        "note": page.comparison.steps_note(),
    }


def _step(step: Difference | None, clear: bool) -> dict[str, Any]:
    if step is None:
        return {"step": ""}
    return {
        "step": formats.signed(step.mean),
        "interval": formats.interval(step.low, step.high, formats.signed),
        "significant": clear,
        "said": significance(clear),
    }
