"""The Lovász extension of the Jaccard loss (Berman, Rannen Triki and Blaschko 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.numerics import full_precision, ratio, wide
from softset.counting.problem import PER, Problem
from softset.losses.loss import Loss, refuse_words
from softset.losses.pointwise import arrange_logits
from softset.tasks import get_task
from softset.typing import Groups, Weights

SETTINGS = ("task", "per", "ignore_index")


class LovaszLoss(Loss):
    """``sum_i m_(i) (J_i - J_(i-1))`` over errors in falling order, where ``J_i`` is the Jaccard
    loss if exactly the first i are mistakes.

    Errors are ``max(0, 1 - z (2y - 1))`` for ``task="binary"`` (Lovász hinge) and ``"multilabel"``
    (the mean over labels); for ``"multiclass"`` ``1 - p_k`` of the examples of class k and ``p_k``
    of the others, the mean over the classes that are there (Lovász-softmax). Shapes and ``per`` as
    for ``metric_loss``. A weight of 2 is a position given twice.

    >>> LovaszLoss()(torch.tensor([2.0, -0.5]), torch.tensor([1, 0])).item()
    0.25
    """

    takes_sets = True

    def __init__(
        self,
        *,
        task: str = "binary",
        per: str = "batch",
        ignore_index: int | None = None,
        **unknown: object,
    ) -> None:
        super().__init__()
        refuse_words("LovaszLoss", unknown, SETTINGS)
        task = get_task(task)
        check_choice("per", per, PER)
        self.task, self.per, self.ignore_index = task, per, ignore_index

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        sample_weight: Weights = None,
        per: Groups | None = None,
    ) -> Tensor:
        """The loss of a batch; ``per`` takes the place of the loss's own."""
        return self._of(scores, target, sample_weight, self.per if per is None else per, 0)

    def of_members(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """One loss for each member: scores ``[K, N, ...]``; target and weight with or without that
        dimension."""
        return self._of(scores, target, weight, self.per, 1)

    def _of(
        self,
        scores: Tensor,
        target: Tensor,
        weight: Weights,
        per: Groups | None,
        batch_dims: int,
    ) -> Tensor:
        settings = {"ignore_index": self.ignore_index, "per": per}
        problem = arrange_logits(scores, target, weight, batch_dims, self.task, **settings)
        with full_precision(problem.z):
            if not problem.in_sets:
                return self.value(problem)
            total = count = torch.zeros((), device=problem.z.device)
            for part in problem.by_set():
                there = (part.weights() > 0).any(-1)
                there = there.any(-1) if self.task.independent else there
                total = total + torch.where(there, self.value(part), 0.0).sum(-1)
                count = count + there.sum(-1)
            return ratio(total, count.to(total.dtype))

    def value(self, problem: Problem) -> Tensor:
        """The loss of each problem, ``[*batch]``."""
        z, y, w = problem.z, problem.y, problem.weights()
        if self.task.exclusive:
            is_class = y.unsqueeze(-2) == torch.arange(problem.classes, device=z.device).unsqueeze(
                -1
            )
            p = torch.softmax(z, -1).mT
            each = _extension(torch.where(is_class, 1 - p, p), is_class, w.unsqueeze(-2))
            present = (is_class & (w.unsqueeze(-2) > 0)).any(-1).to(each.dtype)
            return ratio((each * present).sum(-1), present.sum(-1))
        each = _extension((1 - torch.where(y > 0, z, -z)).clamp(min=0), y > 0, w)
        return each if self.task.single else each.mean(-1)


def _extension(errors: Tensor, positive: Tensor, w: Tensor) -> Tensor:
    """The Lovász extension along the last dimension."""
    errors, order = errors.sort(-1, descending=True)
    dtype = wide(errors.device)
    w = w.to(dtype).expand(order.shape).gather(-1, order)
    mass = positive.expand(order.shape).gather(-1, order).to(dtype) * w
    size = mass.sum(-1, keepdim=True)
    intersection, union = size - mass.cumsum(-1), size + (w - mass).cumsum(-1)
    jaccard = 1 - ratio(intersection, union, 1.0)
    slope = torch.diff(jaccard, dim=-1, prepend=torch.zeros_like(size))
    return (errors * slope.to(errors.dtype)).sum(-1)
