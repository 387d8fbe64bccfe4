"""Scores and labels -> what the page needs of them: counts at thresholds, curves, histograms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from softset.counting.cells import Confusion
from softset.decisions.evaluation import evaluate
from softset.metrics.base import Metric
from softset.metrics.custom import Custom
from softset.metrics.goals import Goal
from softset.metrics.registry import get_goal
from softset.report.geometry import Axis, Floats

Ints = NDArray[np.int64]


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


def known_goal(name: str) -> Goal | None:
    """The goal of that name if it can be computed from counts, else ``None``."""
    try:
        goal = get_goal(name)
    except ValueError:
        return None
    return None if isinstance(goal.metric, Custom) else goal
