"""The plots of the report: what is drawn, with which axes. How is in ``svg``."""

from __future__ import annotations

from typing import Any

import numpy as np

from softset.report import formats
from softset.report.calibration import Bins
from softset.report.counts import Axis, Floats
from softset.report.svg import TENTHS, Plot, area, dots, interval_row, nice_ticks, path, tag

_HEIGHT = 260


def comparison(candidates: list[dict[str, Any]], *, difference: bool) -> dict[str, Any]:
    """Rows for each candidate with its scores (or differences) on one axis, and that axis."""
    rows: list[dict[str, Any]] = []
    for c in candidates:
        found = (c.get("difference") or {}) if difference else c
        numbers = [found.get(k) if formats.is_number(found.get(k)) else None for k in _ENDS]
        points = [] if difference else [s for s in c.get("scores") or [] if formats.is_number(s)]
        rows.append(dict(zip(_ENDS, numbers, strict=True), points=points, candidate=c))
    known = [v for r in rows for v in (*(r[k] for k in _ENDS), *r["points"]) if v is not None]
    if difference:
        known.append(0.0)
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    # A spread of half a thousandth must not look like a gulf.
    room = max(high - low, 0.01)
    middle = (low + high) / 2
    low, high = middle - 0.54 * room, middle + 0.54 * room
    ticks = nice_ticks(low, high)

    def axis(value: float) -> float:
        return (value - low) / (high - low)

    for r in rows:
        family = "theirs" if r["candidate"].get("family") == "plain" else "ours"
        r["svg"] = interval_row(axis, r, family, ticks, 0.0 if difference else None)
    digits = max(2, max((len(f"{t:g}".partition(".")[2]) for t in ticks), default=2))
    write = formats.signed if difference else formats.number
    labels = [
        tag("text", write(t, digits), x=f"{100 * axis(t):.2f}%", y=14, class_="tick middle")
        for t in ticks
        if 0.03 < axis(t) < 0.97
    ]
    below = tag("svg", *(labels or [""]), class_="row", width="100%", height=20, aria_hidden="true")
    return {"rows": rows, "axis": below}


_ENDS = ("mean", "low", "high")


def value_ticks(values: Floats) -> tuple[float, float, list[tuple[float, str]]]:
    """The range of a metric on paper: [0, 1], or from below if it goes below zero."""
    low = float(np.nanmin(values, initial=0.0))
    if low >= -1e-9:
        return 0.0, 1.0, list(TENTHS)
    return -1.0, 1.0, [(t, formats.number(t, 1).replace(".0", "")) for t in (-1, -0.5, 0, 0.5, 1)]


def threshold_curve(axis: Axis, low: float, metric: str) -> Plot:
    """The empty axes of metric against threshold; ``low`` is 0 or -1."""
    _, _, ticks = value_ticks(np.array([low]))
    return Plot(
        f"{metric} at every threshold",
        height=_HEIGHT,
        x=axis,
        y=lambda v: (v - low) / (1 - low),
        x_ticks=axis.ticks(),
        y_ticks=ticks,
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


def training(history: dict[str, Any], metric: str) -> str | None:
    """Soft and hard metric on validation data by epoch, and the gap between them."""
    epochs = _numbers(history.get("epoch"))
    soft, hard = _numbers(history.get("soft")), _numbers(history.get("hard"))
    longest = max(len(soft), len(hard))
    if longest < 2 or not (np.isfinite(soft).any() or np.isfinite(hard).any()):
        return None
    epochs = epochs if len(epochs) == longest else np.arange(1, longest + 1, dtype=float)
    known = np.concatenate([soft, hard])
    known = known[np.isfinite(known)]
    low, high = float(known.min()), float(known.max())
    room = max(high - low, 0.02)
    low, high = low - 0.06 * room, high + 0.06 * room
    ticks = nice_ticks(low, high, 4)
    digits = max((len(f"{t:g}".partition(".")[2]) for t in ticks), default=1)
    first, last = float(epochs[0]), float(epochs[-1])
    plot = Plot(
        f"soft and hard {metric} by epoch",
        height=190,
        x=lambda v: (v - first) / max(last - first, 1e-9),
        y=lambda v: (v - low) / (high - low),
        x_ticks=[(t, f"{t:.0f}") for t in nice_ticks(first, last, 5) if t == int(t)],
        y_ticks=[(t, formats.number(t, max(digits, 1))) for t in ticks],
        x_name="epoch",
        left=11.0,
    )
    if len(soft) == len(hard) and np.isfinite(soft).all() and np.isfinite(hard).all():
        x, most = plot.x(epochs), max(1, len(epochs) // 300)
        plot.shape(area(x[::most], plot.y(soft)[::most], plot.y(hard)[::most]), "gap")
    for phase in (history.get("phases") or [])[1:]:
        name, start = str(phase[0]), float(phase[1])
        if first < start <= last:
            plot.upright(start, "phase")
            side = "end" if plot.x(start) > 0.6 else "start"
            shift = -5 if side == "end" else 5
            plot.text(start, low, name, f"tick named {side}", dx=shift, dy="-0.5em")
    if len(soft):
        plot.curve(epochs, soft, "soft")
    if len(hard):
        plot.curve(epochs, hard, "ours")
    return str(plot)


def _numbers(values: Any) -> Floats:
    return np.array([np.nan if v is None else v for v in values or []], dtype=np.float64)
