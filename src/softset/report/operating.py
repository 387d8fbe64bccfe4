"""Scores of held-out rows at every threshold, class or label: the interactive sections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NotRequired, TypedDict

import numpy as np

from softset import formats
from softset.comparison.result import Comparison
from softset.counting.cells import Confusion
from softset.decisions.thresholds import best_threshold
from softset.formats import shorten
from softset.metrics.base import Metric
from softset.metrics.registry import METRICS, get_goal, get_metric, label_of, range_of
from softset.report.calibration import (
    Bins,
    Recalibrated,
    brier,
    calibration_error,
    recalibrate,
    reliability,
)
from softset.report.context import PER_CLASS, known_goal, names_of, shown
from softset.report.counts import Scores
from softset.report.drawing import UNIT, Axis, Plot, area, dots, path
from softset.tasks import get_task
from softset.typing import ArrayLike, Floats

VIEWS = 40  # labels or classes with curves of their own, those with most positives
_EDGE = 1e-9  # a threshold of 0 or 1 has no place in log-odds
_SCALE = 1e6  # values of metrics are embedded as integers, multiplied by this
_HEIGHT = 260
_HISTOGRAM = {"positives": "filled ours", "negatives": "filled theirs", "zero": "curve zero"}


@dataclass(frozen=True)
class Side:
    """One candidate's scores for one view, and its threshold."""

    name: str
    scores: Scores
    threshold: float


@dataclass(frozen=True)
class View:
    """One decision: the positive class, a label, or a class against the rest."""

    label: str
    other: str  # what it is not
    sides: list[Side]


def views_of(comparison: Comparison) -> list[View]:
    """What there is to look at, with the winner's scores first."""
    names, task = names_of(comparison), get_task(comparison.task)
    labels, other = [shorten(c, 80) for c in comparison.classes], "other"
    if task.single:
        other, *labels = labels
    sides: list[list[Side]] = [[] for _ in labels]
    for key, model in shown(comparison).items():
        p = np.asarray(model.scores, dtype=np.float64).reshape(len(model.target), -1)
        y = task.target_of(np.asarray(model.target), len(labels))
        default = task.exclusive or model.threshold is None
        threshold = 0.5 if default else np.asarray(model.threshold, dtype=np.float64)
        thresholds = np.broadcast_to(np.clip(threshold, _EDGE, 1 - _EDGE), (len(labels),))
        for k, side in enumerate(sides):
            scores = Scores(np.ascontiguousarray(p[:, k]), y[:, k].astype(bool))
            side.append(Side(names[key], scores, float(thresholds[k])))
    views = [View(label, other, s) for label, s in zip(labels, sides, strict=True) if s]
    if len(views) > VIEWS:
        order = np.argsort([-v.sides[0].scores.positives for v in views], kind="stable")
        views = [views[k] for k in sorted(order[:VIEWS])]
    return views


class SideData(TypedDict):
    """The data of a side for the page's script: the curves, and the values at every stop."""

    positives: int
    total: int
    auroc: float | None
    averagePrecision: float | None
    paths: dict[str, str]
    texts: dict[str, str]
    thresholds: NotRequired[list[float]]
    tp: NotRequired[list[int]]
    predicted: NotRequired[list[int]]
    start: NotRequired[int]
    values: NotRequired[dict[str, list[int | None]]]
    best: NotRequired[dict[str, int]]
    negative: NotRequired[dict[str, list[int | None]]]


@dataclass(frozen=True)
class ThresholdMetric:
    """A metric whose value depends on the threshold."""

    key: str
    metric: Metric

    @property
    def name(self) -> str:
        return label_of(self.metric)


class Operating:
    """The views, the data for the page's script, and the numbers at the model's threshold."""

    def __init__(self, comparison: Comparison, stops: int = 1000) -> None:
        self.task = get_task(comparison.task)
        self.stops = stops
        self.views = views_of(comparison)
        self.names = [side.name for side in self.views[0].sides] if self.views else []
        asked = known_goal(comparison.metric)
        self.stands_in = asked is None or not asked.tunes
        # The metric of a view is that of its positive class; averages are over the labels.
        goal = asked if asked is not None and asked.tunes else get_goal("f1")
        single = (
            goal.metric
            if self.task.single
            else replace(goal.metric, average="macro", both_classes=False)
        )
        self.goal, self.metric = replace(goal, metric=single), single
        self.has_slider = not self.task.exclusive
        self.average = "macro" if self.stands_in or asked is None else asked.metric.average
        # An average over the labels makes sense when all of them are here.
        all_labels = self.task.independent and len(self.views) == len(comparison.classes)
        self.complete = all_labels and self.average in ("macro", "weighted")
        sides = [s for v in self.views for s in v.sides]
        self.axis = Axis()
        self.best: dict[int, float] = {}
        if self.has_slider and sides:
            for s in sides:
                tuned = best_threshold(s.scores.p, s.scores.y, self.goal, from_logits=False)
                self.best[id(s)] = float(tuned)
            telling = [s.threshold for s in sides] + list(self.best.values())
            everyone = np.concatenate([s.scores.p for s in sides])
            self.axis = Axis.of_thresholds(everyone, telling)
        self.sides = [[self._side(s) for s in v.sides] for v in self.views]

    def data(self) -> dict[str, object]:
        """The data of the page's script."""
        return {
            "task": self.task,
            "unit": UNIT,
            "scale": _SCALE,
            "axis": {"logOdds": self.axis.log_odds, "low": self.axis.low, "high": self.axis.high},
            "metrics": [
                {"key": m.key, "name": m.name, "range": range_of(m.metric)}
                | {"ticks": Axis(*range_of(m.metric)).ticks()}
                for m in self.metrics
            ],
            "average": self.average if self.complete else None,
            "views": [
                {"label": v.label, "sides": sides}
                for v, sides in zip(self.views, self.sides, strict=True)
            ],
        }

    @cached_property
    def metrics(self) -> list[ThresholdMetric]:
        """All that have a threshold, the comparison's own first."""
        named = {name: get_metric(name) for name in METRICS}
        named = {self.metric.name: self.metric} | named
        return [ThresholdMetric(key, m) for key, m in named.items() if get_goal(m).tunes]

    def _side(self, side: Side) -> SideData:
        s, most = side.scores, max(60, self.stops * 2 // 5)
        recalibrated = recalibrate(s)
        paths = {k: path(*c, most) for k, c in s.curves().items()}
        paths |= histogram_paths(s.histogram(self.axis))
        paths |= reliability_paths("raw", reliability(s.p, s.y))
        paths |= {"recalibrated": "M0 0", "recalibratedDots": ""}
        texts = {"calibration": _calibration_words(side, recalibrated)}
        texts["map"] = "" if recalibrated is None else recalibrated.code
        texts["mapKind"] = "" if recalibrated is None else recalibrated.kind
        if recalibrated is not None:
            paths |= reliability_paths("recalibrated", reliability(recalibrated.p, s.y))
        data: SideData = {
            "positives": s.positives,
            "total": s.total,
            "auroc": s.area("auroc"),
            "averagePrecision": s.area("average_precision"),
            "paths": paths,
            "texts": texts,
        }
        if self.has_slider:
            self._add_stops(data, side)
        return data

    def _add_stops(self, data: SideData, side: Side) -> None:
        """Add counts and every metric at each stop of the slider."""
        extra = [side.threshold, self.best[id(side)], 0.5]
        thresholds = np.unique(np.append(self.axis.stops(self.stops), extra))
        thresholds = thresholds[(thresholds > 0) & (thresholds < 1)]
        counted = side.scores.confusion(thresholds)
        values = {m.key: np.asarray(m.metric(counted)) for m in self.metrics}
        data["thresholds"] = thresholds.tolist()
        data["tp"] = counted.tp.long().tolist()
        data["predicted"] = counted.predicted.long().tolist()
        data["start"] = int(np.searchsorted(thresholds, side.threshold))
        data["values"] = {key: _whole(v) for key, v in values.items()}
        data["best"] = {key: _highest(v, thresholds) for key, v in values.items()}
        if self.task.single:
            negatives = _negatives(counted)
            data["negative"] = {key: _whole(get_metric(key)(negatives)) for key in PER_CLASS}

    def at_start(self) -> Confusion:
        """The counts of the first view at the candidate's own threshold."""
        s = self.views[0].sides[0]
        return s.scores.confusion(np.array([s.threshold])).map(lambda t: t[0])

    def values_at_start(self) -> dict[str, float]:
        """Every metric there."""
        return {m.key: float(m.metric(self.at_start())) for m in self.metrics}


def _negatives(c: Confusion) -> Confusion:
    """The same decisions, counted for the other class."""
    return Confusion(c.tn, c.fn, c.fp, c.tp)


def _whole(values: ArrayLike) -> list[int | None]:
    numbers = np.asarray(values, dtype=np.float64).tolist()
    return [round(v * _SCALE) if np.isfinite(v) else None for v in numbers]


def _highest(values: ArrayLike, thresholds: Floats) -> int:
    """The best stop; of equally good ones the nearest to 1/2."""
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=-np.inf)
    best = np.flatnonzero(numbers >= numbers.max() - 1e-12)
    return int(best[abs(thresholds[best] - 0.5).argmin()])


def _calibration_words(side: Side, recalibrated: Recalibrated | None) -> str:
    """The reliability diagram in a sentence or two."""
    s = side.scores
    bins = reliability(s.p, s.y)
    enough = bins.rows >= min(max(20, s.total // 200), bins.rows.max())
    worst = int((enough * abs(bins.score - bins.fraction)).argmax())
    words = (
        f"Among the {formats.count(bins.rows[worst])} rows with a score near "
        f"{bins.score[worst]:.2f}, {formats.percent(float(bins.fraction[worst]), 0)} were "
        "positive. "
        f"Mean distance between score and fraction: {calibration_error(s.p, s.y):.3f} as scored"
    )
    error = brier(s.p, s.y)
    if recalibrated is None:
        return f"{words}, Brier score {error:.4f}. Too few rows of a class to recalibrate."
    return (
        f"{words}, {calibration_error(recalibrated.p, s.y):.3f} recalibrated; "
        f"Brier score {error:.4f} and {brier(recalibrated.p, s.y):.4f}."
    )


# --- pictures ------------------------------------------------------------------------------------


def pictures(operating: Operating) -> dict[str, str]:
    """The plots of the first view, as they look before the page's script moves them."""
    start = operating.views[0].sides[0].threshold if operating.has_slider else None
    paths, *others = (data["paths"] for data in operating.sides[0])
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
        for other in others:
            drawn[key].shape(other[key], "curve theirs", data_other=key)
        drawn[key].shape(paths[key], "curve ours", data_path=key)
    if start is not None:
        v = operating.values_at_start()
        drawn["pr"].dot(v["recall"], v["precision"], "ours point", 6, data_point="pr")
        drawn["roc"].dot(1 - v["specificity"], v["recall"], "ours point", 6, data_point="roc")
        drawn["threshold"] = _threshold(operating, start)
    return {key: str(plot) for key, plot in drawn.items()}


def _threshold(operating: Operating, start: float) -> Plot:
    """The metric against the threshold."""
    metric = operating.metrics[0]
    plot = Plot(
        f"{metric.name} at every threshold",
        height=_HEIGHT,
        x=operating.axis,
        y=Axis(*range_of(metric.metric)),
        left=7.0,
        name="threshold",
    )
    ways = (("ours", {"data_path": "metric"}), ("theirs", {"data_other": "metric"}))
    sides = zip(ways, operating.views[0].sides, operating.sides[0], strict=False)
    for (color, selector), side, data in reversed(list(sides)):
        stops = np.array(data["thresholds"])
        values = side.scores.values(metric.metric, stops)
        plot.curve(stops, values, color, most=10**6, **selector)
    plot.upright(start, "chosen", data_chosen="1")
    plot.upright(start, "cursor", data_cursor="threshold")
    plot.dot(start, operating.values_at_start()[metric.key], "ours point", 6, data_point="metric")
    return plot


def histogram_paths(shares: tuple[Floats, Floats]) -> dict[str, str]:
    """Positives upwards and negatives downwards, on one scale, heights as square roots."""
    edges = np.repeat(np.linspace(0, 1, len(shares[0]) + 1), 2)[1:-1]
    up, down = (np.sqrt(np.repeat(s, 2)) for s in shares)
    height = (up.max(initial=0) + down.max(initial=0)) or 1.0
    zero = np.full(len(edges), 0.02 + 0.96 * down.max(initial=0) / height)
    return {
        "positives": area(edges, zero, zero + 0.96 * up / height),
        "negatives": area(edges, zero - 0.96 * down / height, zero),
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
        y_name="fraction of the class",
        left=2.0,
        name="histogram",
    )
    for key, class_ in _HISTOGRAM.items():
        plot.shape(paths[key], class_, data_path=key)
    if start is not None:
        plot.upright(start, "cursor", data_cursor="histogram")
    return plot


def reliability_paths(name: str, bins: Bins) -> dict[str, str]:
    """The reliability curve of scores, and its points."""
    return {name: path(bins.score, bins.fraction), f"{name}Dots": dots(bins.score, bins.fraction)}


def _reliability(paths: dict[str, str]) -> Plot:
    """The reliability diagram: scores as they are, and recalibrated."""
    plot = Plot(
        "Fraction of positives among rows with about the same score",
        height=_HEIGHT - 40,
        x_name="mean score",
        y_name="fraction that was positive",
    )
    plot.curve([0, 1], [0, 1], "guide")
    for key, color in (("raw", "theirs"), ("recalibrated", "ours")):
        plot.shape(paths[key], f"curve {color}", data_path=key)
        plot.shape(paths[f"{key}Dots"], f"curve dots {color}", data_path=f"{key}Dots")
    return plot
