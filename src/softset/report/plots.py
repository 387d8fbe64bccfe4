"""The plots of the report: what is drawn, with which axes. How is in ``svg``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softset.comparison.result import CandidateResult, History
from softset.comparison.statistics import Difference
from softset.report import formats
from softset.report.calibration import Bins
from softset.report.counts import Axis, Floats
from softset.report.svg import (
    TENTHS,
    Marks,
    Plot,
    area,
    dots,
    interval_row,
    nice_ticks,
    path,
    tag,
)

_HEIGHT = 260


@dataclass(frozen=True)
class Intervals:
    """Rows of a plot on one axis, as drawings by their ids, and that axis below them."""

    rows: dict[str, str]
    axis: str


def intervals(candidates: Sequence[CandidateResult], *, difference: bool) -> Intervals:
    """Each candidate's scores, or its difference to the reference, with mean and interval."""
    drawn = []
    for c in candidates:
        found = c.difference if difference else c
        if found is not None:
            points = [] if difference else c.scores
            marks = Marks(found.mean, found.low, found.high, points)
            drawn.append((c.id, marks, colour_of(c.family)))
    return _on_one_axis(drawn, difference)


def steps(differences: Mapping[str, tuple[Difference, bool]]) -> Intervals:
    """Differences with their intervals, by their ids; those that are clear in colour."""
    drawn = [
        (key, Marks(d.mean, d.low, d.high, []), "ours" if clear else "theirs")
        for key, (d, clear) in differences.items()
    ]
    return _on_one_axis(drawn, difference=True)


def _on_one_axis(drawn: Sequence[tuple[str, Marks, str]], difference: bool) -> Intervals:
    known = [v for _, m, _ in drawn for v in (m.mean, m.low, m.high, *m.points) if v is not None]
    known += [0.0] if difference else []
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    # A spread of half a thousandth must not look like a gulf.
    room, middle = max(high - low, 0.01), (low + high) / 2
    low, high = middle - 0.54 * room, middle + 0.54 * room
    ticks = nice_ticks(low, high)

    def axis(value: float) -> float:
        return (value - low) / (high - low)

    zero = 0.0 if difference else None
    rows = {key: interval_row(axis, m, colour, ticks, zero) for key, m, colour in drawn}
    digits = max(2, max((len(f"{t:g}".partition(".")[2]) for t in ticks), default=2))
    write = formats.signed if difference else formats.number
    labels = [
        tag("text", write(t, digits), x=f"{100 * axis(t):.2f}%", y=14, class_="tick middle")
        for t in ticks
        if 0.03 < axis(t) < 0.97
    ]
    below = tag("svg", *(labels or [""]), class_="row", width="100%", height=20, aria_hidden="true")
    return Intervals(rows, below)


def colour_of(family: str) -> str:
    """The class that gives candidates of a family their colour."""
    return "theirs" if family == "plain" else "ours"


def value_ticks(limits: tuple[float, float]) -> list[tuple[float, str]]:
    """Ticks from the least to the largest value that a metric can have."""
    if limits == (0.0, 1.0):
        return list(TENTHS)
    return [(t, formats.number(t, 2).rstrip("0").rstrip(".")) for t in nice_ticks(*limits, 4)]


def threshold_curve(axis: Axis, limits: tuple[float, float], metric: str) -> Plot:
    """The empty axes of metric against threshold; ``limits`` are those of the metric."""
    low, high = limits
    return Plot(
        f"{metric} at every threshold",
        height=_HEIGHT,
        x=axis,
        y=lambda v: (v - low) / (high - low),
        x_ticks=axis.ticks(),
        y_ticks=value_ticks(limits),
        left=7.0,
        name="threshold",
    )


def rates(title: str, name: str, x_name: str, y_name: str) -> Plot:
    """The empty unit square of a precision-recall or ROC plot."""
    plot = Plot(title, height=_HEIGHT + 20, x_name=x_name, y_name=y_name, name=name)
    if name == "roc":
        plot.curve([0, 1], [0, 1], "guide")
    return plot


def histogram_paths(shares: tuple[Floats, Floats]) -> dict[str, str]:
    """Positives upwards and negatives downwards, on one scale, heights as square roots."""
    edges = np.repeat(np.linspace(0, 1, len(shares[0]) + 1), 2)[1:-1]
    up, down = (np.sqrt(np.repeat(s, 2)) for s in shares)
    room = (up.max(initial=0) + down.max(initial=0)) or 1.0
    zero = np.full(len(edges), 0.02 + 0.96 * down.max(initial=0) / room)
    return {
        "positives": area(edges, zero, zero + 0.96 * up / room),
        "negatives": area(edges, zero - 0.96 * down / room, zero),
        "zero": path([0, 1], zero[:2]),
    }


def histogram(axis: Axis) -> Plot:
    """The empty axes of the score histograms."""
    return Plot(
        "How the scores of both classes are spread",
        height=_HEIGHT - 40,
        x=axis,
        x_ticks=axis.ticks(),
        y_ticks=[],
        x_name="score" + (" (log-odds scale)" if axis.log_odds else ""),
        y_name="share of the class",
        left=2.0,
        name="histogram",
    )


def reliability() -> Plot:
    """The empty axes of the reliability diagram."""
    plot = Plot(
        "Share of positives among rows with about the same score",
        height=_HEIGHT - 40,
        x_name="mean score",
        y_name="share that was positive",
    )
    plot.curve([0, 1], [0, 1], "guide")
    return plot


def reliability_paths(name: str, bins: Bins) -> dict[str, str]:
    """The curve of one set of scores, and its points."""
    return {name: path(bins.score, bins.share), f"{name}Dots": dots(bins.score, bins.share)}


@dataclass(frozen=True)
class Frame:
    """The axes that all plots of training share, so that they can be compared."""

    epochs: float
    low: float
    high: float

    @classmethod
    def around(cls, histories: Sequence[History]) -> Frame:
        """Room for every epoch and every value."""
        known = np.concatenate([_numbers(v) for h in histories for v in (h.soft, h.hard)])
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        room = max(high - low, 0.02)
        epochs = max(h.epoch[-1] for h in histories)
        return cls(float(max(epochs, 2)), low - 0.06 * room, high + 0.06 * room)


def training(history: History, frame: Frame, metric: str) -> str:
    """Soft and hard metric on validation data by epoch, and the gap between them."""
    epochs = _numbers(history.epoch)
    soft, hard = _numbers(history.soft), _numbers(history.hard)
    ticks = nice_ticks(frame.low, frame.high, 4)
    digits = max((len(f"{t:g}".partition(".")[2]) for t in ticks), default=1)
    plot = Plot(
        f"soft and hard {metric} by epoch",
        height=190,
        x=lambda v: (v - 1) / (frame.epochs - 1),
        y=lambda v: (v - frame.low) / (frame.high - frame.low),
        x_ticks=[(t, f"{t:.0f}") for t in nice_ticks(1, frame.epochs, 5) if t == int(t)],
        y_ticks=[(t, formats.number(t, max(digits, 1))) for t in ticks],
        x_name="epoch",
        left=11.0,
    )
    if np.isfinite(soft).all() and np.isfinite(hard).all():
        x, most = plot.x(epochs), max(1, len(epochs) // 300)
        plot.shape(area(x[::most], plot.y(soft)[::most], plot.y(hard)[::most]), "gap")
    for name, start in history.phases[1:]:
        plot.upright(start, "phase")
        side = "end" if plot.x(start) > 0.6 else "start"
        shift = -5 if side == "end" else 5
        plot.text(start, frame.low, name, f"tick named {side}", dx=shift, dy="-0.5em")
    plot.curve(epochs, soft, "soft")
    plot.curve(epochs, hard, "ours")
    return str(plot)


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
