"""Counts at thresholds, curves and histograms of scores and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.thresholds import all_thresholds
from softset.decisions.evaluation import evaluate
from softset.tasks import BINARY
from softset.typing import Floats

if TYPE_CHECKING:
    from softset.report.drawing import Axis


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
    def at_every_score(self) -> tuple[Floats, Confusion]:
        """Every distinct score, and the counts at each as the threshold and above all of them."""
        w = None if self.w is None else torch.from_numpy(self.w)
        thresholds = all_thresholds(torch.from_numpy(self.p), torch.from_numpy(self.y), w, BINARY)
        distinct = thresholds.width > 0
        return np.unique(self.p), thresholds.counts.map(lambda t: t[distinct])

    def confusion(self, thresholds: Floats) -> Confusion:
        """The counts where ``p >= threshold`` is positive, with a dimension of thresholds."""
        scores, counts = self.at_every_score
        index = torch.from_numpy(np.searchsorted(scores, thresholds, "left"))
        return counts.map(lambda t: t[index])

    def values(self, metric: Callable[[Confusion], Tensor], thresholds: Floats) -> Floats:
        """The metric at each threshold."""
        return np.asarray(metric(self.confusion(thresholds)).numpy(), dtype=np.float64)

    def area(self, metric: str) -> float | None:
        """AUROC or average precision; ``None`` where there is only one class."""
        if not 0 < self.positives < self.total:
            return None
        return float(evaluate(self.p, self.y, metric, from_logits=False))

    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """``pr``: recall and precision; ``roc``: false and true positive rate, by threshold."""
        downwards = self.at_every_score[1].map(lambda t: t.flip(0))  # from "all are negative" on
        cells = (downwards.tp, downwards.fp, downwards.predicted)
        tp, fp, predicted = (cell.numpy() for cell in cells)
        recall, rejected = tp / max(self.positives, 1), fp / max(self.total - self.positives, 1)
        precision = tp / np.maximum(predicted, 1)
        precision[0] = precision[1]
        return {"pr": (recall, precision), "roc": (rejected, recall)}

    def histogram(self, axis: Axis, bins: int = 40) -> tuple[Floats, Floats]:
        """The fraction of the positives, and of the negatives, in equal bins of the axis."""
        index = np.minimum((axis(self.p) * bins).astype(int), bins - 1)
        positives, negatives = (np.bincount(index[k], minlength=bins) for k in (self.y, ~self.y))
        return positives / max(positives.sum(), 1), negatives / max(negatives.sum(), 1)
