"""The plots of the report: what is drawn, with which axes. How is in ``svg``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softset.comparison.result import History
from softset.metrics.registry import range_of
from softset.report import formats
from softset.report.calibration import Bins
from softset.report.geometry import Axis, Floats, Row, nice_ticks
from softset.report.svg import Plot, area, dots, path, percent, tag

if TYPE_CHECKING:
    from softset.report.operating import Operating

_HEIGHT = 260
_HISTOGRAM = {"positives": "filled ours", "negatives": "filled theirs", "zero": "curve zero"}


@dataclass(frozen=True)
class Forest:
    """Rows of intervals on one axis, as drawings by their ids, and that axis below them."""

    rows: dict[str, str]
    axis: str


def forest(rows: Sequence[Row], *, difference: bool = False) -> Forest:
    """Every row in one line: each split a tick, the interval a bar, the mean a dot."""
    values = [v for r in rows for v in (r.mean, r.low, r.high, *r.points) if v is not None]
    axis = Axis.around([*values, 0.0] if difference else values)
    ticks = axis.ticks(formats.signed if difference else formats.number)

    def at(value: float) -> str:
        return percent(100 * axis(value))

    def upright(value: float, class_: str, y1: int = 0, y2: int = 34) -> str:
        return tag("line", x1=at(value), x2=at(value), y1=y1, y2=y2, class_=class_)

    behind = [upright(t, "grid") for t, _ in ticks] + [upright(0.0, "zero")] * difference
    drawn = {}
    for row in rows:
        color = color_of(row.accent)
        shapes = [upright(v, f"split {color}", 13, 21) for v in row.points]
        if row.low is not None and row.high is not None:
            ends = {"x1": at(row.low), "x2": at(row.high), "y1": 17, "y2": 17}
            shapes.append(tag("line", **ends, class_=f"interval {color}"))
        shapes.append(tag("circle", cx=at(row.mean), cy=17, r=5, class_=f"mean {color}"))
        drawn[row.id] = _strip(34, *behind, *shapes)
    labels = [
        tag("text", words, x=at(t), y=14, class_="tick middle")
        for t, words in ticks
        if 0.03 < axis(t) < 0.97
    ]
    return Forest(drawn, _strip(20, *labels))


def _strip(height: int, *shapes: str) -> str:
    """A drawing as wide as its cell of a table."""
    shapes = shapes or ("",)
    return tag("svg", *shapes, class_="row", width="100%", height=height, aria_hidden="true")


def color_of(accent: bool) -> str:
    """The class that gives a candidate or a gain its color."""
    return "ours" if accent else "theirs"


def pictures(operating: Operating) -> dict[str, str]:
    """The plots of the first view, as they look before the page's script moves them."""
    start = operating.views[0].sides[0].threshold if operating.has_slider else None
    paths, *others = (made["paths"] for made in operating.made[0])
    drawn = {
        "pr": Plot("precision against recall", x_name="recall", y_name="precision"),
        "roc": Plot(
            "true against false positive rate",
            x_name="false positive rate",
            y_name="true positive rate",
        ),
        "histogram": _histogram(operating.axis, paths, start),
        "reliability": _reliability(paths),
    }
    drawn["roc"].curve([0, 1], [0, 1], "guide")
    for key in ("pr", "roc"):
        drawn[key].height, drawn[key].name = _HEIGHT + 20, key
        for rival in others:
            drawn[key].shape(rival[key], "curve theirs", data_rival=key)
        drawn[key].shape(paths[key], "curve ours", data_path=key)
    if start is not None:
        v = operating.values_at_start()
        drawn["pr"].dot(v["recall"], v["precision"], "ours point", 6, data_point="pr")
        drawn["roc"].dot(1 - v["specificity"], v["recall"], "ours point", 6, data_point="roc")
        drawn["threshold"] = _threshold(operating, start)
    return {key: str(plot) for key, plot in drawn.items()}


def _threshold(operating: Operating, start: float) -> Plot:
    """The metric against the threshold."""
    own = operating.metrics[0]
    plot = Plot(
        f"{own.name} at every threshold",
        height=_HEIGHT,
        x=operating.axis,
        y=Axis(*range_of(own.metric)),
        left=7.0,
        name="threshold",
    )
    ways = (("ours", {"data_path": "metric"}), ("theirs", {"data_rival": "metric"}))
    sides = zip(ways, operating.views[0].sides, operating.made[0], strict=False)
    for (color, found_by), side, made in reversed(list(sides)):
        stops = np.array(made["thresholds"])
        values = side.scores.values(own.metric, stops)
        plot.curve(stops, values, color, most=10**6, **found_by)
    plot.upright(start, "chosen", data_chosen="1")
    plot.upright(start, "cursor", data_cursor="threshold")
    plot.dot(start, operating.values_at_start()[own.key], "ours point", 6, data_point="metric")
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


def _histogram(axis: Axis, paths: dict[str, str], start: float | None) -> Plot:
    """How the scores of both classes are spread."""
    plot = Plot(
        "How the scores of both classes are spread",
        height=_HEIGHT - 40,
        x=axis,
        y_ticks=[],
        x_name="score" + (" (log-odds scale)" if axis.log_odds else ""),
        y_name="share of the class",
        left=2.0,
        name="histogram",
    )
    for key, class_ in _HISTOGRAM.items():
        plot.shape(paths[key], class_, data_path=key)
    if start is not None:
        plot.upright(start, "cursor", data_cursor="histogram")
    return plot


def reliability_paths(name: str, bins: Bins) -> dict[str, str]:
    """The curve of one set of scores, and its points."""
    return {name: path(bins.score, bins.share), f"{name}Dots": dots(bins.score, bins.share)}


def _reliability(paths: dict[str, str]) -> Plot:
    """The reliability diagram: scores as they are, and recalibrated."""
    plot = Plot(
        "Share of positives among rows with about the same score",
        height=_HEIGHT - 40,
        x_name="mean score",
        y_name="share that was positive",
    )
    plot.curve([0, 1], [0, 1], "guide")
    for key, color in (("raw", "theirs"), ("repaired", "ours")):
        plot.shape(paths[key], f"curve {color}", data_path=key)
        plot.shape(paths[f"{key}Dots"], f"curve dots {color}", data_path=f"{key}Dots")
    return plot


def training(histories: Sequence[History], metric: str) -> list[str]:
    """Soft and hard metric on validation rows by epoch, and the gap between them: a picture for
    each history, all with the same axes."""
    epochs = Axis(1.0, float(max(2, *(h.epoch[-1] for h in histories))))
    known = [v for h in histories for v in (*h.soft, *h.hard) if v is not None]
    values = Axis.around(known, least=0.02)
    whole = [t for t in nice_ticks(epochs.low, epochs.high) if t == int(t)]
    pictures = []
    for history in histories:
        plot = Plot(
            f"soft and hard {metric} by epoch",
            height=190,
            x=epochs,
            y=values,
            x_ticks=[(t, f"{t:.0f}") for t in whole],
            x_name="epoch",
            left=11.0,
        )
        _draw_history(plot, history)
        pictures.append(str(plot))
    return pictures


def _draw_history(plot: Plot, history: History) -> None:
    curves = (history.epoch, history.soft, history.hard)
    epochs, soft, hard = (np.array(c, dtype=np.float64) for c in curves)  # NaN for None
    if np.isfinite(soft).all() and np.isfinite(hard).all():
        x, most = plot.x(epochs), max(1, len(epochs) // 300)
        plot.shape(area(x[::most], plot.y(soft)[::most], plot.y(hard)[::most]), "gap")
    for name, start in history.phases[1:]:
        plot.upright(start, "phase")
        side = "end" if plot.x(start) > 0.6 else "start"
        shift = -5 if side == "end" else 5
        plot.text(start, plot.y.low, name, f"tick named {side}", dx=shift, dy="-0.5em")
    plot.curve(epochs, soft, "soft")
    plot.curve(epochs, hard, "ours")
