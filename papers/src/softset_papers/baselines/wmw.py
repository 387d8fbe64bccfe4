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
    code sums instead of averaging, works on logits, and compares positives with positives: see
    ``PublishedWMWLoss``.

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
        y, w = _targets_and_weights(problem)
        p = torch.sigmoid(problem.z).double()
        positive, negative = w * y, w * (1 - y)
        total = pair_sum(p, positive, negative, self.gamma, self.power)
        pairs = positive.sum(-1) * negative.sum(-1)
        return ratio(total, pairs).to(problem.z.dtype)


class PublishedWMWLoss(WMWLoss):
    """``WMWLoss`` as the published code of paper 000 has it, which selects the positives twice.

    The sum of ``max(0, gamma - (z_i - z_j))^power`` over all pairs of positives, on logits: it is
    least where all positives have the same logit, and knows nothing of negatives.

    >>> import torch
    >>> z, y = torch.tensor([1.0, 1.3, -4.0]), torch.tensor([1, 1, 0])
    >>> round(PublishedWMWLoss()(z, y).item(), 6)  # 2 * 0.2^3 + 0.5^3
    0.141
    """

    def value(self, problem: Problem) -> Tensor:
        y, w = _targets_and_weights(problem)
        total = pair_sum(problem.z.double(), w * y, w * y, self.gamma, self.power)
        return total.to(problem.z.dtype)


def pair_sum(v: Tensor, left: Tensor, right: Tensor, gamma: float, power: int) -> Tensor:
    """The sum over i, j of ``left_i right_j max(0, gamma - (v_i - v_j))^power``, ``[*batch]``."""
    v, order = v.sort(-1)
    left, right = left.gather(-1, order), right.gather(-1, order)
    # Pairs count where v_j > v_i - gamma: from `start` on.
    with torch.no_grad():
        start = torch.searchsorted(v.contiguous(), (v - gamma).contiguous(), right=True)
    # (a + v_j)^power with a = gamma - v_i is a sum over k of a^(power-k) v_j^k: sum v_j^k over
    # the suffix once, and every i reads what it needs.
    a, total = gamma - v, torch.zeros_like(v)
    for k in range(power + 1):
        sums = (right * v**k).flip(-1).cumsum(-1).flip(-1)
        sums = torch.nn.functional.pad(sums, (0, 1)).gather(-1, start)
        total = total + math.comb(power, k) * a ** (power - k) * sums
    return (left * total).sum(-1)


def _targets_and_weights(problem: Problem) -> tuple[Tensor, Tensor]:
    """Of every row of every problem, in float64."""
    y = problem.y.double()
    w = torch.ones_like(y) if problem.w is None else problem.w.double().expand_as(y)
    return y.expand_as(problem.z), w.expand_as(problem.z)
