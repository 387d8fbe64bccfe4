"""The part of the page that moves: scores of held-out rows at every threshold, class or label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from softset.comparison.result import Comparison, Predictions
from softset.counting.cells import Confusion
from softset.decisions.thresholds import best_threshold
from softset.metrics.base import Metric
from softset.metrics.registry import METRICS, get_goal, get_metric, label_of, range_of
from softset.report import formats, plots
from softset.report.calibration import (
    Recalibrated,
    brier,
    calibration_error,
    recalibrate,
    reliability,
)
from softset.report.counts import Scores, known_goal
from softset.report.geometry import Axis, Floats
from softset.report.layout import shorten
from softset.report.svg import UNIT, path
from softset.tasks import get_task

VIEWS = 40  # labels or classes with curves of their own, those with most positives
_EDGE = 1e-9  # a threshold of 0 or 1 has no place in log-odds
_PARTS = 1e6  # values of metrics are embedded as whole numbers of these
PER_CLASS = ("precision", "recall", "f1")  # shown of each class


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


def names_of(comparison: Comparison) -> dict[str, str]:
    """Candidates' names by their ids."""
    return {c.id: shorten(c.name, 80) for c in comparison.candidates}


def shown(comparison: Comparison) -> dict[str, Predictions]:
    """The predictions of two candidates at most, the winner's first."""
    found = comparison.predictions
    first = dict.fromkeys([comparison.winner, comparison.reference, *found])
    return {key: found[key] for key in first if key in found}


def views_of(comparison: Comparison) -> list[View]:
    """What there is to look at, with the winner's scores first."""
    names, task = names_of(comparison), get_task(comparison.task)
    labels, other = [shorten(c, 80) for c in comparison.classes], "other"
    if task.single:
        other, *labels = labels
    sides: list[list[Side]] = [[] for _ in labels]
    for key, found in shown(comparison).items():
        p = np.asarray(found.scores, dtype=np.float64).reshape(len(found.target), -1)
        y = task.target_of(np.asarray(found.target), len(labels))
        cut: Any = 0.5 if task.exclusive or found.threshold is None else found.threshold
        cuts = np.broadcast_to(np.clip(cut, _EDGE, 1 - _EDGE), (len(labels),))
        for k, place in enumerate(sides):
            scores = Scores(np.ascontiguousarray(p[:, k]), y[:, k].astype(bool))
            place.append(Side(names[key], scores, float(cuts[k])))
    views = [View(label, other, s) for label, s in zip(labels, sides, strict=True) if s]
    if len(views) > VIEWS:
        order = np.argsort([-v.sides[0].scores.positives for v in views], kind="stable")
        views = [views[k] for k in sorted(order[:VIEWS])]
    return views


@dataclass(frozen=True)
class Moving:
    """A metric whose value moves with the threshold."""

    key: str
    metric: Metric

    @property
    def name(self) -> str:
        return label_of(self.metric)


class Operating:
    """Everything of the views: data for the page's script, and the numbers as they first are."""

    def __init__(self, comparison: Comparison, parts: int = 1000) -> None:
        self.task = get_task(comparison.task)
        self.parts = parts
        self.views = views_of(comparison)
        self.names = [side.name for side in self.views[0].sides] if self.views else []
        asked = known_goal(comparison.metric)
        self.stands_in = asked is None or not asked.tunes
        # A view's own metric is that of its positive class; averages are over the labels.
        goal = asked if asked is not None and asked.tunes else get_goal("f1")
        own = goal.metric if self.task.single else replace(goal.metric, **_OF_ONE)
        self.goal, self.metric = replace(goal, metric=own), own
        self.has_slider = not self.task.exclusive
        self.average = "macro" if self.stands_in or asked is None else asked.metric.average
        # An average over the labels makes sense when all of them are here.
        whole = self.task.independent and len(self.views) == len(comparison.classes)
        self.complete = whole and self.average in ("macro", "weighted")
        sides = [s for v in self.views for s in v.sides]
        self.axis = Axis()
        self.best: dict[int, float] = {}
        if self.has_slider and sides:
            for s in sides:
                found = best_threshold(s.scores.p, s.scores.y, self.goal, from_logits=False)
                self.best[id(s)] = float(found)
            telling = [s.threshold for s in sides] + list(self.best.values())
            everyone = np.concatenate([s.scores.p for s in sides])
            self.axis = Axis.of_thresholds(everyone, telling)
        self.made = [[self._side(s) for s in v.sides] for v in self.views]

    def data(self) -> dict[str, Any]:
        """What the script reads."""
        return {
            "task": self.task,
            "unit": UNIT,
            "parts": _PARTS,
            "axis": {"logOdds": self.axis.log_odds, "low": self.axis.low, "high": self.axis.high},
            "metrics": [
                {"key": m.key, "name": m.name, "range": range_of(m.metric)}
                | {"ticks": Axis(*range_of(m.metric)).ticks()}
                for m in self.metrics
            ],
            "average": self.average if self.complete else None,
            "views": [
                {"label": v.label, "sides": made}
                for v, made in zip(self.views, self.made, strict=True)
            ],
        }

    @cached_property
    def metrics(self) -> list[Moving]:
        """All that have a threshold, the comparison's own first."""
        found = {name: get_metric(name) for name in METRICS}
        found = {self.metric.name: self.metric} | found
        return [Moving(key, m) for key, m in found.items() if get_goal(m).tunes]

    def _side(self, side: Side) -> dict[str, Any]:
        s, most = side.scores, max(60, self.parts * 2 // 5)
        repaired = recalibrate(s)
        paths = {k: path(*c, most) for k, c in s.curves().items()}
        paths |= plots.histogram_paths(s.histogram(self.axis))
        paths |= plots.reliability_paths("raw", reliability(s.p, s.y))
        paths |= {"repaired": "M0 0", "repairedDots": ""}
        texts = {"calibration": _calibration_words(side, repaired)}
        texts["map"] = "" if repaired is None else repaired.code
        texts["mapKind"] = "" if repaired is None else repaired.kind
        if repaired is not None:
            paths |= plots.reliability_paths("repaired", reliability(repaired.p, s.y))
        made: dict[str, Any] = {
            "positives": s.positives,
            "total": s.total,
            "auroc": s.area("auroc"),
            "averagePrecision": s.area("average_precision"),
            "paths": paths,
            "texts": texts,
        }
        return made | (self._stops(side) if self.has_slider else {})

    def _stops(self, side: Side) -> dict[str, Any]:
        """Counts and every metric at each stop of the slider."""
        extra = [side.threshold, self.best[id(side)], 0.5]
        thresholds = np.unique(np.append(self.axis.stops(self.parts), extra))
        thresholds = thresholds[(thresholds > 0) & (thresholds < 1)]
        counted = side.scores.confusion(thresholds)
        values = {m.key: np.asarray(m.metric(counted)) for m in self.metrics}
        made = {
            "thresholds": thresholds.tolist(),
            "tp": counted.tp.long().tolist(),
            "predicted": counted.predicted.long().tolist(),
            "start": int(np.searchsorted(thresholds, side.threshold)),
            "values": {key: _whole(v) for key, v in values.items()},
            "best": {key: _highest(v, thresholds) for key, v in values.items()},
        }
        if self.task.single:
            rest = _negatives(counted)
            made["negative"] = {key: _whole(get_metric(key)(rest)) for key in PER_CLASS}
        return made

    def at_start(self) -> Confusion:
        """The counts of the first view at the candidate's own threshold."""
        s = self.views[0].sides[0]
        return s.scores.confusion(np.array([s.threshold])).map(lambda t: t[0])

    def values_at_start(self) -> dict[str, float]:
        """Every metric there."""
        return {m.key: float(m.metric(self.at_start())) for m in self.metrics}


_OF_ONE: dict[str, Any] = {"average": "macro", "both_classes": False}


def _negatives(c: Confusion) -> Confusion:
    """The same decisions, counted for the other class."""
    return Confusion(c.tn, c.fn, c.fp, c.tp)


def _whole(values: Any) -> list[int | None]:
    found = np.asarray(values, dtype=np.float64)
    return [round(v * _PARTS) if np.isfinite(v) else None for v in found.tolist()]


def _highest(values: Any, thresholds: Floats) -> int:
    """The best stop; of equally good ones the nearest to 1/2."""
    found = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=-np.inf)
    best = np.flatnonzero(found >= found.max() - 1e-12)
    return int(best[abs(thresholds[best] - 0.5).argmin()])


def _calibration_words(side: Side, repaired: Recalibrated | None) -> str:
    """What the reliability diagram shows, in a sentence or two."""
    s = side.scores
    bins = reliability(s.p, s.y)
    enough = bins.rows >= min(max(20, s.total // 200), bins.rows.max())
    worst = int((enough * abs(bins.score - bins.share)).argmax())
    words = (
        f"Among the {formats.count(bins.rows[worst])} rows with a score near "
        f"{bins.score[worst]:.2f}, {formats.percent(float(bins.share[worst]), 0)} were positive. "
        f"Mean distance between score and share: {calibration_error(s.p, s.y):.3f} as scored"
    )
    error = brier(s.p, s.y)
    if repaired is None:
        return f"{words}, Brier score {error:.4f}. Too few rows of a class to recalibrate."
    return (
        f"{words}, {calibration_error(repaired.p, s.y):.3f} recalibrated; "
        f"Brier score {error:.4f} and {brier(repaired.p, s.y):.4f}."
    )
