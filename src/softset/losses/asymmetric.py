"""The asymmetric loss for many labels, most of which are absent."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from softset.checks import check_choice, check_number
from softset.counting.problem import Problem
from softset.losses.pointwise import MeanLoss


class AsymmetricLoss(MeanLoss):
    """``-(1 - p)^g+ log p`` of positives, ``-q^g- log(1 - q)`` of negatives with ``q = max(p - m,
    0)``: easy negatives count less, and not at all below ``margin`` (Ridnik et al. 2021).

    ``gamma_positive=0`` and ``gamma_negative=4`` are the paper's. The mean, where its code sums.

    >>> loss = AsymmetricLoss(gamma_negative=0, margin=0)  # cross-entropy
    >>> round(loss(torch.zeros(1, 2), torch.tensor([[1, 0]])).item(), 4)
    0.6931
    """

    def __init__(
        self,
        gamma_positive: float = 0.0,
        gamma_negative: float = 4.0,
        margin: float = 0.05,
        *,
        task: str = "multilabel",
        **settings: Any,
    ) -> None:
        check_choice("task", task, ("binary", "multilabel"))
        super().__init__(task=task, **settings)
        check_number("gamma_positive", gamma_positive, 0, math.inf, closed="low")
        check_number("gamma_negative", gamma_negative, 0, math.inf, closed="low")
        check_number("margin", margin, 0, 1, closed="low")
        self.gamma_positive, self.gamma_negative = float(gamma_positive), float(gamma_negative)
        self.margin = float(margin)

    def each(self, problem: Problem) -> Tensor:
        """``-y (1 - p)^a log p - (1 - y) p_m^b log(1 - p_m)`` with ``p_m = max(p - margin, 0)``."""
        z, y = problem.z, problem.y
        p, complement = torch.sigmoid(z), torch.sigmoid(-z)
        positive = -F.logsigmoid(z) * _power(complement, self.gamma_positive)
        if self.margin == 0:
            q, log_rest = p, F.logsigmoid(-z)
        else:
            q, log_rest = (
                (p - self.margin).clamp(min=0),
                (complement + self.margin).clamp(max=1).log(),
            )
        return torch.where(y > 0, positive, -log_rest * _power(q, self.gamma_negative))


def _power(x: Tensor, gamma: float) -> Tensor:
    """``x^gamma``; the floor keeps the derivative of a power below 1 finite."""
    if gamma == 0:
        return torch.ones_like(x)
    return x.clamp(min=torch.finfo(x.dtype).eps ** 2) ** gamma
