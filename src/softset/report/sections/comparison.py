"""Every candidate on the same splits: scores, differences to the reference, the table."""

from __future__ import annotations

from typing import Any

from softset.comparison.result import CandidateResult
from softset.report import formats, plots
from softset.report.geometry import difference_rows, score_rows
from softset.report.layout import shorten
from softset.report.sections.base import Page

ID, GROUP = "comparison", ""
TITLE = "Every candidate, same splits"
REFERENCE = "The reference is what people do by default, or your own model if you gave one."


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads."""
    c = page.comparison
    done = [x for x in c.candidates if x.mean is not None]
    shown = {x.id: _candidate(x, page) for x in done}
    return {
        "metric": page.metric,
        "reference": page.names[c.reference],
        "reference_is": REFERENCE,
        "scores": plots.forest(score_rows(done)),
        "differences": plots.forest(difference_rows(done), difference=True),
        "shown": shown,
        "single": c.splits.count < 2,
        "families": {x.family for x in done},
        "failed": [
            {"name": page.names[x.id], "error": shorten(x.error, 300)}
            for x in c.candidates
            if x.error
        ],
        "splits": shorten(c.splits.note.strip().rstrip("."), 500),
        "has_thresholds": any(x.thresholds for x in done),
        "has_sizes": any(x.size for x in done),
    }


def _candidate(c: CandidateResult, page: Page) -> dict[str, Any]:
    d = c.difference
    return {
        "name": page.names[c.id],
        "description": shorten(c.description, 300),
        "winner": c.id == page.comparison.winner,
        "reference": c.id == page.comparison.reference,
        "mean": formats.number(c.mean),
        "interval": formats.interval(c.low, c.high),
        "rank": formats.number(c.rank, 1),
        "difference": formats.signed(d.mean) if d else formats.DASH,
        "difference_interval": formats.interval(d.low, d.high, formats.signed) if d else "",
        "p": formats.p_value(d.p) if d else formats.DASH,
        "p_adjusted": formats.p_value(d.p_adjusted) if d else formats.DASH,
        "probability": formats.percent(d.probability, 0) if d else formats.DASH,
        "seconds": formats.seconds(c.seconds),
        "size": formats.size(c.size),
        "thresholds": _thresholds(c),
    }


def _thresholds(c: CandidateResult) -> str:
    known = [v for v in c.thresholds or [] if not isinstance(v, list)]
    if not known:
        return formats.DASH
    digits = 2 if min(known) >= 0.01 and max(known) <= 0.99 else 4
    low, high = (formats.number(t, digits) for t in (min(known), max(known)))
    return low if low == high else f"{low}–{high}"
