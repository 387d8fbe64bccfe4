"""A loss of a whole batch, with the signature of every loss, for one network or many at once."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from softset.counting.numerics import full_precision
from softset.counting.problem import Problem
from softset.losses.loss import Loss
from softset.losses.pointwise import arrange_logits
from softset.tasks import BINARY


class BatchLoss(Loss):
    """``loss(scores, target, sample_weight=None)`` of binary logits ``(N,)`` or ``(N, 1)``.

    A subclass gives ``value``; ``of_members`` is the same with a leading dimension of networks.
    """

    def value(self, problem: Problem) -> Tensor:
        """The loss of each problem, ``[*batch]``, from ``z, y, w`` ``[*batch, N]``."""
        raise NotImplementedError

    def forward(self, scores: Tensor, target: Tensor, sample_weight: Any = None) -> Tensor:
        return self._of(scores, target, sample_weight, 0)

    def of_members(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """One loss for each member: scores ``[K, N]``, target ``[N]`` or ``[K, N]``."""
        return self._of(scores, target, weight, 1)

    def _of(self, scores: Tensor, target: Tensor, weight: Any, batch_dims: int) -> Tensor:
        problem = arrange_logits(scores, target, weight, batch_dims, BINARY)
        with full_precision(problem.z):
            return self.value(problem)
