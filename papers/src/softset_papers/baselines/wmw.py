"""The Wilcoxon-Mann-Whitney statistic as a loss (Yan et al. 2003): an approach to AUROC."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softset.checks import check_number
from softset.counting.numerics import ratio
from softset.counting.problem import Problem
from softset_papers.baselines.batch import BatchLoss


class WMWLoss(BatchLoss):
    """The mean of ``max(0, gamma - (p_i - p_j))^power`` over positives i and negatives j.

    Pairs are weighted with the product of their weights. A sort and suffix sums of powers give all
    pairs in O(n log n); values are exact to rounding. A batch of one class gives 0.

    ``gamma = 0.2`` and ``power = 3`` are from the published code of paper 000, not its text. That
    code sums instead of averaging, works on logits, and compares positives with positives.

    >>> import torch
    >>> p = torch.tensor([0.5, 0.6])
    >>> round(WMWLoss()(torch.logit(p), torch.tensor([1, 0])).item(), 6)  # 0.3^3
    0.027
    """

    def __init__(self, gamma: float = 0.2, power: int = 3) -> None:
        super().__init__()
        check_number("gamma", gamma, 0, 1, closed="high")
        check_number("power", power, 1, 6, closed="both")
        if power != int(power):
            raise ValueError(f"power must be a whole number, got {power!r}.")
        self.gamma, self.power = float(gamma), int(power)

    def value(self, problem: Problem) -> Tensor:
        z, y = problem.z, problem.y.double()
        w = torch.ones_like(y) if problem.w is None else problem.w.double().expand_as(y)
        p, order = torch.sigmoid(z).double().sort(-1)
        y, w = y.expand_as(p).gather(-1, order), w.expand_as(p).gather(-1, order)
        positive, negative = w * y, w * (1 - y)
        # Pairs count where p_j > p_i - gamma: from `start` on.
        with torch.no_grad():
            start = torch.searchsorted(p.contiguous(), (p - self.gamma).contiguous(), right=True)
        # (a + p_j)^power with a = gamma - p_i is a sum over k of a^(power-k) p_j^k: sum p_j^k over
        # the suffix once, and every i reads what it needs.
        a, total = self.gamma - p, torch.zeros_like(p)
        for k in range(self.power + 1):
            sums = (negative * p**k).flip(-1).cumsum(-1).flip(-1)
            sums = torch.nn.functional.pad(sums, (0, 1)).gather(-1, start)
            total = total + math.comb(self.power, k) * a ** (self.power - k) * sums
        pairs = positive.sum(-1) * negative.sum(-1)
        return ratio((positive * total).sum(-1), pairs).to(z.dtype)
