"""Scores and labels -> what the page needs of them: counts at thresholds, curves, histograms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softset.counting.cells import Confusion
from softset.decisions.evaluation import evaluate
from softset.metrics.base import Metric
from softset.metrics.custom import Custom
from softset.metrics.goals import Goal
from softset.metrics.registry import get_goal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EDGE = 0.05  # a threshold nearer to 0 or 1 than this asks for an axis in log-odds
_NEAREST = 1e-6


@dataclass(frozen=True)
class Scores:
    """The scores of one decision: positive or not. ``p`` and ``y`` are ``[rows]``."""

    p: Floats
    y: NDArray[np.bool_]

    @property
    def positives(self) -> int:
        return int(self.y.sum())

    @property
    def total(self) -> int:
        return len(self.y)

    def counts(self, thresholds: Floats) -> tuple[Ints, Ints]:
        """True positives and positive decisions, ``p >= threshold``, at each threshold: exact."""
        everyone, found = np.sort(self.p), np.sort(self.p[self.y])
        predicted = len(everyone) - np.searchsorted(everyone, thresholds, "left")
        tp = len(found) - np.searchsorted(found, thresholds, "left")
        return tp.astype(np.int64), predicted.astype(np.int64)

    def confusion(self, thresholds: Floats) -> Confusion:
        """The same as a ``Confusion`` with a dimension of thresholds."""
        tp, predicted = (torch.as_tensor(c).double() for c in self.counts(thresholds))
        return Confusion(
            tp, predicted, torch.full_like(tp, self.positives), torch.full_like(tp, self.total)
        )

    def values(self, metric: Metric, thresholds: Floats) -> Floats:
        """The metric at each threshold."""
        return np.asarray(metric(self.confusion(thresholds)).numpy(), dtype=np.float64)

    def area(self, metric: str) -> float | None:
        """AUROC or average precision; ``None`` where there is only one class."""
        if not 0 < self.positives < self.total:
            return None
        return float(evaluate(self.p, self.y, metric, from_logits=False))

    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """``pr``: recall and precision; ``roc``: false and true positive rate; at every cut."""
        tp, predicted = self.counts(np.unique(self.p)[::-1])
        fp = predicted - tp
        recall, rejected = tp / max(self.positives, 1), fp / max(self.total - self.positives, 1)
        precision = tp / np.maximum(predicted, 1)
        return {
            "pr": (np.append(0.0, recall), np.append(precision[0], precision)),
            "roc": (np.append(0.0, rejected), np.append(0.0, recall)),
        }

    def histogram(self, axis: Axis, bins: int = 40) -> tuple[Floats, Floats]:
        """The share of the positives, and of the negatives, in each of equal parts of the axis."""
        place = np.minimum((axis(self.p) * bins).astype(int), bins - 1)
        found = [np.bincount(place[k], minlength=bins) for k in (self.y, ~self.y)]
        return found[0] / max(found[0].sum(), 1), found[1] / max(found[1].sum(), 1)


@dataclass(frozen=True)
class Axis:
    """Where a threshold stands between 0 and 1 on paper: itself, or in log-odds.

    >>> Axis()(0.25)
    0.25
    >>> float(round(Axis(log_odds=True, low=0.001, high=0.999)(0.5), 6))
    0.5
    """

    log_odds: bool = False
    low: float = 0.0
    high: float = 1.0

    def __call__(self, t: Any) -> Any:
        if not self.log_odds:
            return t
        low, high = _logit(self.low), _logit(self.high)
        return (_logit(np.clip(t, self.low, self.high)) - low) / (high - low)

    def inverse(self, place: Floats) -> Floats:
        """The threshold at each place."""
        if not self.log_odds:
            return place
        low, high = _logit(self.low), _logit(self.high)
        return 1 / (1 + np.exp(-(low + place * (high - low))))

    def stops(self, parts: int) -> Floats:
        """Thresholds that the slider can reach, evenly apart, in few digits."""
        places = np.arange(1, parts) / parts
        if not self.log_odds:
            return places
        found = []
        for t in self.inverse(places):
            digits = 2 - math.floor(math.log10(min(t, 1 - t)))
            found.append(round(float(t), digits))
        return np.unique(found)

    def ticks(self) -> list[tuple[float, str]]:
        """Thresholds worth writing below the axis."""
        if not self.log_odds:
            return [(k / 5, f"{k / 5:g}") for k in range(6)]
        decades = range(1, 7)
        for step in (1, 2, 3):  # six words are what a phone has room for
            low = [10.0**-k for k in decades if (k - 1) % step == 0]
            known = [*reversed(low), 0.5, *(1 - t for t in low)]
            inside = [t for t in known if self.low <= t <= self.high]
            if len(inside) <= 6:
                break
        return [(t, f"{t:.6f}".rstrip("0")) for t in inside]


def choose_axis(scores: list[Scores], thresholds: list[float]) -> Axis:
    """Log-odds where a threshold is so near to 0 or 1 that a plain axis would not show it."""
    if all(_EDGE <= t <= 1 - _EDGE for t in thresholds):
        return Axis()
    everyone = np.concatenate([s.p for s in scores])
    low = min(float(np.quantile(everyone, 0.02)), 0.4, *(t / 3 for t in thresholds))
    high = max(float(np.quantile(everyone, 0.999)), 0.6, *(1 - (1 - t) / 3 for t in thresholds))
    return Axis(True, max(low, _NEAREST), min(high, 1 - _NEAREST))


def known_goal(name: str) -> Goal | None:
    """The goal of that name if it can be computed from counts, else ``None``."""
    try:
        goal = get_goal(name)
    except ValueError:
        return None
    return None if isinstance(goal.metric, Custom) else goal


def _logit(t: Any) -> Any:
    return np.log(t) - np.log1p(-np.asarray(t))
