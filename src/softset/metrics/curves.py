"""Metrics over all thresholds: areas under curves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.numerics import ratio
from softset.metrics.base import Metric, grid_axis


@dataclass(frozen=True)
class Curve(Metric):
    """A metric over all thresholds: ``c`` carries a grid of them, ascending."""

    curve = True
    of_positives = True  # and ``negatives``

    def integrate(self, c: Confusion) -> Tensor:
        """The area, along the last dimension."""
        raise NotImplementedError

    def score(self, c: Confusion) -> Tensor:
        return self.integrate(c.map(lambda t: t.movedim(grid_axis(c), -1)))


@dataclass(frozen=True)
class AUROC(Curve):
    """The area under true positive rate against false positive rate.

    The end points (0, 0) and (1, 1) are added: the step is undefined at thresholds 0 and 1.
    """

    base_name = "auroc"
    needs_negatives = True

    def integrate(self, c: Confusion) -> Tensor:
        tpr, fpr = ratio(c.tp, c.support), ratio(c.fp, c.negatives)
        one, zero = torch.ones_like(tpr[..., :1]), torch.zeros_like(tpr[..., :1])
        tpr, fpr = torch.cat([one, tpr, zero], -1), torch.cat([one, fpr, zero], -1)
        area = ((tpr[..., 1:] + tpr[..., :-1]) * (fpr[..., :-1] - fpr[..., 1:])).sum(-1) / 2
        defined = (c.support > 0) & (c.negatives > 0)
        return torch.where(defined[..., 0], area, torch.nan)


@dataclass(frozen=True)
class AveragePrecision(Curve):
    """``sum (recall_k - recall_k+1) precision_k`` over ascending thresholds."""

    base_name = "average_precision"

    def integrate(self, c: Confusion) -> Tensor:
        recall, precision = ratio(c.tp, c.support), ratio(c.tp, c.predicted)
        one, zero = torch.ones_like(recall[..., :1]), torch.zeros_like(recall[..., :1])
        prevalence = ratio(c.support, c.total)[..., :1]
        recall = torch.cat([one, recall, zero], -1)
        precision = torch.cat([prevalence, precision], -1)
        area = ((recall[..., :-1] - recall[..., 1:]) * precision).sum(-1)
        return torch.where(c.support[..., 0] > 0, area, 0.0)
