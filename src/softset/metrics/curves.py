"""Metrics over all thresholds: areas under curves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softset.checks import check_number
from softset.counting.confusion import Confusion
from softset.counting.numerics import ratio, steps, trapezoids
from softset.metrics.base import Metric


@dataclass(frozen=True)
class Curve(Metric):
    """A metric over all thresholds: ``c`` carries a grid of them, ascending."""

    over_thresholds = True

    def __post_init__(self) -> None:
        super().__post_init__()
        # For two classes there is one area, as in scikit-learn.
        object.__setattr__(self, "both_classes", False)

    def integrate(self, c: Confusion) -> Tensor:
        """The area, along the last dimension."""
        raise NotImplementedError

    def without_grid(self, c: Confusion) -> Confusion:
        """The mean over the thresholds: positives and negatives are the same at all of them."""
        return c.map(lambda t: t.mean(c.task.grid_axis))

    def score(self, c: Confusion) -> Tensor:
        """The area of the counts at the grid."""
        return self.integrate(c.map(lambda t: t.movedim(c.task.grid_axis, -1)))


@dataclass(frozen=True)
class AUROC(Curve):
    """The area under true positive rate against false positive rate.

    The end points (0, 0) and (1, 1) are added: the step is undefined at thresholds 0 and 1.

    ``max_fpr``: the area up to this false positive rate only, standardized to be 1/2 for chance and
    1 for perfect scores (McClish 1989), as in scikit-learn.

    >>> from softset import evaluate
    >>> evaluate([0.9, 0.8, 0.3, 0.2], [1, 0, 1, 0], AUROC(), from_logits=False)
    0.75
    """

    max_fpr: float | None = None

    needs_negatives = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_fpr is not None:
            check_number("max_fpr", self.max_fpr, 1e-6, 1, closed="both")

    @property
    def key(self) -> str:
        """With the largest false positive rate, of a part of the area."""
        if self.max_fpr is None or self.max_fpr == 1:
            return "auroc"
        return "partial_auroc" if self.max_fpr == 0.1 else f"partial_auroc({self.max_fpr!r})"

    def integrate(self, c: Confusion) -> Tensor:
        """The area below recall over the false positive rate, standardized if it is a part."""
        tpr, fpr = ratio(c.tp, c.support), ratio(c.fp, c.negatives)
        m = 1.0 if self.max_fpr is None else self.max_fpr
        area = trapezoids(tpr, fpr, m)
        if m != 1:
            chance = m * m / 2
            area = (1 + (area - chance) / (m - chance)) / 2
        defined = (c.support.mean(-1) > 0) & (c.negatives.mean(-1) > 0)
        return torch.where(defined, area, torch.nan)


@dataclass(frozen=True)
class AveragePrecision(Curve):
    """``sum (recall_k - recall_k+1) precision_k`` over ascending thresholds.

    >>> from softset import evaluate
    >>> scores, y = [0.9, 0.8, 0.3, 0.2], [1, 0, 1, 0]
    >>> round(evaluate(scores, y, AveragePrecision(), from_logits=False), 4)
    0.8333
    """

    base_name = "average_precision"

    def integrate(self, c: Confusion) -> Tensor:
        """Precision times the steps of recall; below the first threshold, the prevalence."""
        recall, precision = ratio(c.tp, c.support), ratio(c.tp, c.predicted)
        prevalence = ratio(c.support, c.total)[..., 0]
        area = (1 - recall[..., 0]) * prevalence + steps(precision, recall)
        return torch.where(c.support[..., 0] > 0, area, 0.0)
