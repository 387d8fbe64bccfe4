"""The part of the page that moves: scores of held-out rows at every threshold, class or label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softset.decisions.thresholds import best_threshold
from softset.metrics.base import Metric
from softset.metrics.formulas import FBeta
from softset.metrics.registry import METRICS
from softset.report import formats, plots
from softset.report.calibration import (
    Recalibrated,
    brier,
    calibration_error,
    recalibrate,
    reliability,
)
from softset.report.counts import Axis, Scores, choose_axis, known_metric
from softset.report.layout import shorten
from softset.report.svg import UNIT, path

VIEWS = 40  # labels or classes with curves of their own, those with most positives
_FEWEST = 1e-9


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


def names_of(comparison: dict[str, Any]) -> dict[str, str]:
    """Candidates' names by their ids."""
    return {str(c["id"]): shorten(c.get("name") or c["id"], 80) for c in comparison["candidates"]}


def shown(comparison: dict[str, Any]) -> list[str]:
    """The candidates with predictions, the winner first."""
    found = comparison.get("predictions") or {}
    known = [k for k, v in found.items() if isinstance(v, dict) and v.get("scores")]
    first = [comparison.get("winner"), comparison.get("reference")]
    order = [*(c for c in first if c in known), *(c for c in known if c not in first)]
    return list(dict.fromkeys(order))[:2]


def views_of(comparison: dict[str, Any]) -> list[View]:
    """What there is to look at, with the winner's scores first."""
    names, task = names_of(comparison), comparison["task"]
    labels = [shorten(c, 80) for c in comparison.get("classes") or []]
    other = "other"
    if task == "binary":
        positive = comparison.get("positive")
        label = shorten(labels[-1] if positive is None and labels else positive, 80)
        other = next((c for c in labels if c != label), other)
        labels = [label]
    sides: list[list[Side]] = [[] for _ in labels]
    for key in shown(comparison):
        found = comparison["predictions"][key]
        p = np.asarray(found["scores"], dtype=np.float64)
        y = np.asarray(found["target"])
        if not p.size:
            continue
        p = np.clip(p.reshape(len(p), -1), 0, 1)
        y = y[:, None] == np.arange(len(labels)) if task == "multiclass" else y.reshape(len(y), -1)
        cuts = _thresholds(found.get("threshold"), task, len(labels))
        for k, place in enumerate(sides):
            scores = Scores(np.ascontiguousarray(p[:, k]), y[:, k].astype(bool))
            place.append(Side(names.get(key, str(key)), scores, cuts[k]))
    views = [View(label, other, s) for label, s in zip(labels, sides, strict=True) if s]
    if len(views) > VIEWS:
        order = np.argsort([-v.sides[0].scores.positives for v in views], kind="stable")
        views = [views[k] for k in sorted(order[:VIEWS])]
    return views


def _thresholds(threshold: Any, task: str, labels: int) -> list[float]:
    if task == "multiclass" or threshold is None:
        return [0.5] * labels
    given = threshold if isinstance(threshold, list | tuple) else [threshold] * labels
    return [min(max(float(t), _FEWEST), 1 - _FEWEST) for t in given]


class Operating:
    """Everything of the views: data for the page's script, and the plots as they first look."""

    def __init__(self, comparison: dict[str, Any], parts: int = 1000) -> None:
        self.task: str = comparison["task"]
        self.parts = parts
        self.views = views_of(comparison)
        self.names = [side.name for side in self.views[0].sides] if self.views else []
        # A view's own metric is that of its positive class; averages are over the labels.
        asked = known_metric(str(comparison["metric"]))
        self.asked = asked
        whole = self.task == "binary"
        self.metric: Metric | None = asked if whole or asked is None else _of_one(asked)
        if self.metric is None or self.metric.curve:
            self.metric = known_metric("f1")
        assert self.metric is not None
        self.stands_in = asked is None or asked.curve
        sides = [s for v in self.views for s in v.sides]
        self.axis = Axis()
        if self.task != "multiclass" and sides:
            best = [
                float(best_threshold(s.scores.p, s.scores.y, self.metric, from_logits=False))
                for s in sides
            ]
            self.best = dict(zip(map(id, sides), best, strict=True))
            telling = [s.threshold for s in sides] + best
            self.axis = choose_axis([s.scores for s in sides], telling)
        self.has_slider = self.task != "multiclass"
        labels = len(comparison.get("classes") or [])
        # An average over the labels makes sense when all of them are here.
        self.complete = self.task == "multilabel" and len(self.views) == labels
        self._made = [[self._side(s) for s in v.sides] for v in self.views]

    # --- data for the script -------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        """What the script reads."""
        return {
            "task": self.task,
            "unit": UNIT,
            "axis": {"logOdds": self.axis.log_odds, "low": self.axis.low, "high": self.axis.high},
            "metrics": self.metrics(),
            "metric": self.metric_key(),
            "average": getattr(self.asked, "average", None) or "macro",
            "views": [
                {"label": v.label, "sides": made}
                for v, made in zip(self.views, self._made, strict=True)
            ],
        }

    def metrics(self) -> list[dict[str, Any]]:
        """The formulas the script knows, the comparison's own first."""
        found = {k: _spec(k, m) for k in METRICS if (m := known_metric(k)) and not m.curve}
        assert self.metric is not None
        own = self.metric_key()
        first = found.pop(own) if own in found else _spec(own, self.metric)
        return [first, *found.values()]

    def metric_key(self) -> str:
        """The name of the views' own metric."""
        assert self.metric is not None
        return self.metric.name

    def _side(self, side: Side) -> dict[str, Any]:
        s, most = side.scores, max(60, self.parts * 2 // 5)
        curves = s.curves()
        repaired = recalibrate(s)
        paths = {k: path(*c, most) for k, c in curves.items()}
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
        if self.has_slider:
            extra = [side.threshold, self.best[id(side)], 0.5]
            thresholds = np.unique(np.append(self.axis.stops(self.parts), extra))
            thresholds = thresholds[(thresholds > 0) & (thresholds < 1)]
            tp, predicted = s.counts(thresholds)
            made |= {"thresholds": thresholds.tolist(), "tp": tp.tolist()}
            made |= {"predicted": predicted.tolist()}
            made["start"] = int(np.searchsorted(thresholds, side.threshold))
        return made

    # --- the first picture ---------------------------------------------------------------------

    def pictures(self) -> dict[str, str]:
        """The plots of the first view."""
        made = self._made[0]
        found = {}
        if self.has_slider:
            found["threshold"] = self._threshold_picture()
        for key, x, y, title in _RATES:
            plot = plots.rates(title, key, x, y)
            if len(made) > 1:
                plot.shape(made[1]["paths"][key], "curve theirs", data_rival=key)
            plot.shape(made[0]["paths"][key], "curve ours", data_path=key)
            if self.has_slider:
                x_at, y_at = self._rate_at_start(key)
                plot.dot(x_at, y_at, "ours point", 6, data_point=key)
            found[key] = str(plot)
        spread = plots.histogram(self.axis)
        spread.shape(made[0]["paths"]["positives"], "filled ours", data_path="positives")
        spread.shape(made[0]["paths"]["negatives"], "filled theirs", data_path="negatives")
        spread.shape(made[0]["paths"]["zero"], "curve zero", data_path="zero")
        if self.has_slider:
            spread.upright(self.views[0].sides[0].threshold, "cursor", data_cursor="histogram")
        found["histogram"] = str(spread)
        honest = plots.reliability()
        for key, colour in (("raw", "theirs"), ("repaired", "ours")):
            honest.shape(made[0]["paths"][key], f"curve {colour}", data_path=key)
            marks = f"{key}Dots"
            honest.shape(made[0]["paths"][marks], f"curve dots {colour}", data_path=marks)
        found["reliability"] = str(honest)
        return found

    def _threshold_picture(self) -> str:
        assert self.metric is not None
        sides, made = self.views[0].sides, self._made[0]
        curves = [
            (np.array(m["thresholds"]), s.scores.values(self.metric, np.array(m["thresholds"])))
            for s, m in zip(sides, made, strict=True)
        ]
        low = plots.value_ticks(np.concatenate([v for _, v in curves]))[0]
        if any(known_metric(m["key"]) in _BELOW_ZERO for m in self.metrics()[:1]):
            low = -1.0
        name = formats.metric_name(self.metric_key())
        plot = plots.threshold_curve(self.axis, low, name)
        if len(curves) > 1:
            plot.curve(*curves[1], "theirs", most=10**6, data_rival="metric")
        plot.curve(*curves[0], "ours", most=10**6, data_path="metric")
        start = sides[0].threshold
        plot.upright(start, "chosen", data_chosen="1")
        plot.upright(start, "cursor", data_cursor="threshold")
        value = float(sides[0].scores.values(self.metric, np.array([start]))[0])
        plot.dot(start, value, "ours point", 6, data_point="metric")
        return str(plot)

    def _rate_at_start(self, key: str) -> tuple[float, float]:
        c = self.at_start(0)
        recall = c["tp"] / max(c["tp"] + c["fn"], 1)
        if key == "pr":
            predicted = c["tp"] + c["fp"]
            return recall, c["tp"] / predicted if predicted else 0.0
        return c["fp"] / max(c["fp"] + c["tn"], 1), recall

    def at_start(self, side: int, view: int = 0) -> dict[str, int]:
        """The counts at the model's own threshold."""
        s = self.views[view].sides[side]
        tp, predicted = (int(c[0]) for c in s.scores.counts(np.array([s.threshold])))
        positives, total = s.scores.positives, s.scores.total
        return {
            "tp": tp,
            "fp": predicted - tp,
            "fn": positives - tp,
            "tn": total - positives - predicted + tp,
        }

    def values_at_start(self, side: int, view: int = 0) -> dict[str, float]:
        """Every metric at the model's own threshold."""
        s = self.views[view].sides[side]
        at = np.array([s.threshold])
        found = {}
        for m in self.metrics():
            metric = self.metric if m["key"] == self.metric_key() else known_metric(m["key"])
            assert metric is not None
            found[m["key"]] = float(s.scores.values(metric, at)[0])
        return found


_RATES = (
    ("pr", "recall", "precision", "precision against recall"),
    ("roc", "false positive rate", "true positive rate", "true against false positive rate"),
)
_BELOW_ZERO = [known_metric(k) for k in ("mcc", "cohen_kappa", "informedness", "markedness")]


def _of_one(metric: Metric) -> Metric:
    """The metric of one label or class."""
    if isinstance(metric, FBeta):
        return FBeta(metric.beta if isinstance(metric.beta, float) else 1.0)
    return replace(metric, average="macro", both_classes=False)


def _spec(key: str, metric: Metric) -> dict[str, Any]:
    """A metric as the script reads it: a formula's name, and how classes are averaged."""
    spec: dict[str, Any] = {"key": key, "name": formats.metric_name(key), "formula": key}
    if isinstance(metric, FBeta):
        spec |= {"formula": "f", "beta": metric.beta}
    elif metric.both_classes:
        spec["formula"] = next(k for k, row in METRICS.items() if row.make is type(metric))
    if metric.both_classes:
        spec["average"] = metric.average
    return spec


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
