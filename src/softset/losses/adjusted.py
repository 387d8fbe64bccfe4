"""Cross-entropy for long tails: logits shifted by the prior of the training set."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softset.checks import check_number
from softset.counting.arguments import as_numbers
from softset.counting.problem import Problem
from softset.losses.pointwise import CrossEntropyLoss
from softset.typing import TensorLike


class LogitAdjustedLoss(CrossEntropyLoss):
    """Cross-entropy of ``z_k + tau log prior_k`` (Menon et al. 2021).

    The shift is part of the training only: decisions by the unshifted logits then go for balanced
    accuracy. Of binary and multilabel problems the shift is ``tau log(p / (1 - p))``.

    Args:
        prior: of the *training set*: fractions or counts of the classes; for ``task="binary"`` the
            fraction of positives, for ``"multilabel"`` one for each label.
        tau: how much of it.

    >>> loss = LogitAdjustedLoss([90, 10])
    >>> round(loss(torch.zeros(1, 2), torch.tensor([1])).item(), 4)  # -log 0.1
    2.3026
    """

    def __init__(
        self, prior: TensorLike, tau: float = 1.0, *, task: str = "multiclass", **settings: Any
    ) -> None:
        super().__init__(task=task, **settings)
        task = self.task
        check_number("tau", tau, 0, math.inf, closed="low")
        p = as_numbers("prior", prior).detach().double()
        if p.dim() != task.class_dims:
            raise ValueError(
                f"prior must be one number{f' for each {task.unit}' * task.class_dims}, got shape "
                f"{list(p.shape)}."
            )
        if task.exclusive:
            check_number("prior", p, 0, math.inf, hint="Every class needs examples.")
            shift = (p / p.sum()).log()
        else:
            check_number("prior", p, 0, 1)
            shift = torch.logit(p)
        self.tau = float(tau)
        self.shift: Tensor
        self.register_buffer("shift", tau * shift, persistent=False)

    def _examples(self, problem: Problem) -> Tensor:
        shift = self.shift.to(problem.z)
        shift = shift.unsqueeze(-1) if self.task.independent else shift
        if self.task.exclusive and len(shift) != problem.classes:
            raise ValueError(
                f"prior must have a number for each of {problem.classes} classes, got {len(shift)}."
            )
        return super()._examples(replace(problem, z=problem.z + shift))


def BalancedSoftmaxLoss(counts: TensorLike, **settings: Any) -> LogitAdjustedLoss:  # noqa: N802
    """``-log(n_y e^{z_y} / sum n_k e^{z_k})`` (Ren et al. 2020): ``LogitAdjustedLoss`` with
    ``tau=1``, from the counts of the classes in the training set.

    >>> BalancedSoftmaxLoss([90, 10]).tau
    1.0
    """
    return LogitAdjustedLoss(counts, 1.0, **settings)
