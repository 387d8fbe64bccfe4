"""Every candidate on the same splits: scores, differences to the reference, the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softset import formats
from softset.formats import shorten
from softset.report.context import Content, Page
from softset.report.drawing import difference_rows, forest, score_rows

if TYPE_CHECKING:
    from softset.comparison.result import CandidateResult

ID, GROUP = "comparison", ""
TITLE = "Every candidate, same splits"
REFERENCE = "The reference is the best baseline at the default threshold, or your model."


def content(page: Page) -> Content | None:
    """The values of the template."""
    c = page.comparison
    done = [x for x in c.candidates if x.mean is not None]
    shown = {x.id: _candidate(x, page) for x in done}
    return {
        "metric": page.metric,
        "reference": page.names[c.reference],
        "reference_is": REFERENCE,
        "scores": forest(score_rows(done)),
        "differences": forest(difference_rows(done), difference=True),
        "shown": shown,
        "single": c.splits.count < 2,
        "families": {x.family for x in done},
        "failed": [
            {"name": page.names[x.id], "error": shorten(x.error, 300)}
            for x in c.candidates
            if x.error
        ],
        "splits": shorten(c.splits.note.strip().rstrip("."), 500),
        "has_points": any(x.operating for x in done),
        "has_thresholds": any(x.thresholds for x in done),
        "tests": len(done) - 1,
        "has_sizes": any(x.size for x in done),
    }


def _candidate(c: CandidateResult, page: Page) -> Content:
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
        "point": _point(c),
        "broken": f"{c.operating.broken} of {page.comparison.splits.count}" if c.operating else "",
    }


def _point(c: CandidateResult) -> str:
    """What the tuned threshold gave: the metric and the constrained rates."""
    if c.operating is None:
        return formats.DASH
    rates = [f"{name} {formats.number(v)}" for name, v in c.operating.rates.items()]
    return ", ".join([formats.number(c.operating.metric), *rates])


def _thresholds(c: CandidateResult) -> str:
    values = [v for v in c.thresholds or [] if not isinstance(v, list)]
    if not values:
        return formats.DASH
    digits = 2 if min(values) >= 0.01 and max(values) <= 0.99 else 4
    low, high = (formats.number(t, digits) for t in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"
