"""Scores and labels -> what the page needs of them: counts at thresholds, curves, histograms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.cuts import all_cuts
from softset.decisions.evaluation import evaluate
from softset.metrics.custom import Custom
from softset.metrics.goals import Goal
from softset.metrics.registry import get_goal
from softset.report.geometry import Axis, Floats
from softset.tasks import BINARY


@dataclass(frozen=True)
class Scores:
    """The scores of one decision: positive or not. All are ``[rows]``; ``w`` are weights.

    >>> scores = Scores(np.array([0.2, 0.4, 0.4, 0.9]), np.array([False, True, False, True]))
    >>> scores.confusion(np.array([0.4, 0.5])).predicted.tolist()
    [3.0, 1.0]
    """

    p: Floats
    y: NDArray[np.bool_]
    w: Floats | None = None

    @property
    def positives(self) -> int:
        return int(self.y.sum())

    @property
    def total(self) -> int:
        return len(self.y)

    @cached_property
    def cuts(self) -> tuple[Floats, Confusion]:
        """Every distinct score, and the counts at each as the threshold and above all of them."""
        w = None if self.w is None else torch.from_numpy(self.w)
        cuts = all_cuts(torch.from_numpy(self.p), torch.from_numpy(self.y), w, BINARY)
        distinct = cuts.width > 0
        return np.unique(self.p), cuts.counts.map(lambda t: t[distinct])

    def confusion(self, thresholds: Floats) -> Confusion:
        """The counts where ``p >= threshold`` is positive, with a dimension of thresholds."""
        scores, counts = self.cuts
        place = torch.from_numpy(np.searchsorted(scores, thresholds, "left"))
        return counts.map(lambda t: t[place])

    def values(self, metric: Callable[[Confusion], Tensor], thresholds: Floats) -> Floats:
        """The metric at each threshold."""
        return np.asarray(metric(self.confusion(thresholds)).numpy(), dtype=np.float64)

    def area(self, metric: str) -> float | None:
        """AUROC or average precision; ``None`` where there is only one class."""
        if not 0 < self.positives < self.total:
            return None
        return float(evaluate(self.p, self.y, metric, from_logits=False))

    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """``pr``: recall and precision; ``roc``: false and true positive rate; at every cut."""
        downwards = self.cuts[1].map(lambda t: t.flip(0))  # from "all are negative" on
        cells = (downwards.tp, downwards.fp, downwards.predicted)
        tp, fp, predicted = (cell.numpy() for cell in cells)
        recall, rejected = tp / max(self.positives, 1), fp / max(self.total - self.positives, 1)
        precision = tp / np.maximum(predicted, 1)
        precision[0] = precision[1]
        return {"pr": (recall, precision), "roc": (rejected, recall)}

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
