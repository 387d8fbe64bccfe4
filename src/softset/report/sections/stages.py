"""The gain of each stage."""

from __future__ import annotations

from softset import formats
from softset.comparison.result import Difference, significance
from softset.formats import shorten
from softset.report.context import Content, Page
from softset.report.drawing import forest, gain_rows

ID, GROUP = "stages", ""
TITLE = "The gain of each stage"


def content(page: Page) -> Content | None:
    """The values of the template."""
    gains = page.comparison.gains
    if len(gains.stages) < 2:
        return None
    rows = [
        {
            "id": stage.id,
            "name": shorten(stage.name, 80),
            "choice": page.names[stage.choice],
            "mean": formats.number(stage.mean),
            **_gain(stage.gain),
        }
        for stage in gains.stages
    ]
    total: Content = {"id": "all", "name": "all stages", "choice": "", "mean": ""}
    rows.append(total | _gain(gains.total))
    return {
        "metric": page.metric,
        "rows": rows,
        "plot": forest(gain_rows(gains), difference=True),
        "single": page.comparison.splits.count < 2,
        "note": page.comparison.stages_note(),
    }


def _gain(gain: Difference | None) -> Content:
    if gain is None:
        return {"gain": ""}
    return {
        "gain": formats.signed(gain.mean),
        "interval": formats.interval(gain.low, gain.high, formats.signed),
        "significant": gain.significant,
        "significance": significance(gain),
    }
