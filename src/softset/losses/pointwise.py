"""Losses that are means over examples: the cross-entropy family that soft metrics compete with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from softset.checks import check_number
from softset.counting.arguments import as_numbers
from softset.counting.numerics import full_precision, raised, readable, working
from softset.counting.problem import Problem, arrange, weights_by_class
from softset.counting.values import check_labels
from softset.losses.loss import Loss, refuse_words
from softset.tasks import get_task
from softset.typing import Weights

SETTINGS = ("task", "class_weight", "ignore_index", "soft_targets")


def arrange_logits(
    scores: Tensor,
    target: Tensor,
    weight: Weights,
    batch_dims: int,
    task: str,
    **settings: Any,
) -> Problem:
    """Logits, labels and weights, arranged and checked, in the precision to compute a loss in.

    ``settings`` are further ones of ``arrange``.

    >>> found = arrange_logits(torch.tensor([2.0]).half(), torch.tensor([1]), None, 0, "binary")
    >>> found.z
    tensor([2.])
    """
    arguments = {"sample_weight": weight, "batch_dims": batch_dims, **settings}
    problem = arrange(scores, target, task=task, from_logits=True, **arguments)
    labels = not problem.task.exclusive and not problem.soft
    if labels and readable(problem.z, problem.y):
        check_labels(problem.y)
    return replace(problem, z=raised(problem.z, working(problem.z)))


def class_weight_buffer(class_weight: Weights) -> Tensor | None:
    """Class weights as a module keeps them: numbers in float64."""
    if class_weight is None:
        return None
    v = as_numbers("class_weight", class_weight)
    if v.requires_grad:
        raise ValueError(
            "class_weight of a loss is a constant, got one that requires a gradient. Pass its "
            "detach(), or learn it with metric_loss(..., class_weight=...)."
        )
    return v.double()


class MeanLoss(Loss):
    """``sum s_i v_i l_i / sum s_i`` with sample weights ``s`` and class weights ``v``.

    Class weights do not enter the denominator: with ``v_y = n / n_y`` of the training set the
    expected loss is the class-balanced one of paper 004 eq. 2, whatever a batch looks like.

    Shapes as for ``confusion``. With ``soft_targets`` a loss is linear in them: the expectation
    over classes drawn by the target.
    """

    def __init__(
        self,
        *,
        task: str = "binary",
        class_weight: Weights = None,
        ignore_index: int | None = None,
        soft_targets: bool = False,
        **unknown: object,
    ) -> None:
        super().__init__()
        refuse_words(type(self).__name__, unknown, SETTINGS)
        task = get_task(task)
        self.task, self.ignore_index, self.soft_targets = task, ignore_index, soft_targets
        self.class_weight: Tensor | None
        self.register_buffer("class_weight", class_weight_buffer(class_weight), persistent=False)

    def each(self, problem: Problem) -> Tensor:
        """The loss of every example, in the layout of ``Problem``."""
        raise NotImplementedError

    def of_classes(self, problem: Problem) -> Tensor:
        """The loss of every example if it were of each class, in a last dimension."""
        several = self.task.exclusive
        like = problem.y[..., 0].long() if several else problem.y
        each = []
        for k in range(problem.classes if several else 2):
            hard = replace(problem, y=torch.full_like(like, k), soft=False)
            losses, v = self.each(hard), self.class_weights(hard)
            each.append(losses if v is None else losses * v.to(losses.dtype))
        return torch.stack(each, -1)

    def class_weights(self, problem: Problem) -> Tensor | None:
        """The class weight of every example."""
        if self.class_weight is None:
            return None
        return weights_by_class(self.class_weight, problem)

    def forward(self, scores: Tensor, target: Tensor, sample_weight: Weights = None) -> Tensor:
        """The mean over all rows, weighted."""
        return self._mean(scores, target, sample_weight, 0)

    def of_members(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """One loss for each member: scores ``[K, N, ...]``; target and weight with or without that
        dimension."""
        return self._mean(scores, target, weight, 1)

    def _mean(self, scores: Tensor, target: Tensor, weight: Weights, batch_dims: int) -> Tensor:
        """The mean over all but the first ``batch_dims`` dimensions."""
        settings = {"ignore_index": self.ignore_index, "soft_targets": self.soft_targets}
        problem = arrange_logits(scores, target, weight, batch_dims, self.task, **settings)
        with full_precision(problem.z):
            losses = self._examples(problem)
            if problem.w is None:
                return losses.flatten(batch_dims).mean(-1)
            w = problem.w.to(losses.dtype).expand_as(losses)
            mass = w.flatten(batch_dims).sum(-1).clamp(min=torch.finfo(losses.dtype).tiny)
            return (losses * w).flatten(batch_dims).sum(-1) / mass

    def _examples(self, problem: Problem) -> Tensor:
        """The loss of every example times its class weight."""
        if problem.soft:
            y = problem.y.to(problem.z.dtype)
            shares = y if self.task.exclusive else torch.stack([1 - y, y], -1)
            return (self.of_classes(problem) * shares).sum(-1)
        losses, by_class = self.each(problem), self.class_weights(problem)
        return losses if by_class is None else losses * by_class.to(losses.dtype)


class CrossEntropyLoss(MeanLoss):
    """``-log p_y`` (paper 004 eq. 13), of the logits.

    >>> import torch
    >>> round(CrossEntropyLoss()(torch.tensor([0.0]), torch.tensor([1])).item(), 4)
    0.6931
    """

    def each(self, problem: Problem) -> Tensor:
        """``-log p_y``, by the log-softmax or the log-sigmoid."""
        z, y = problem.z, problem.y
        if self.task.exclusive:
            entropy = -torch.log_softmax(z, -1).gather(-1, y.unsqueeze(-1)).squeeze(-1)
        else:
            entropy = F.binary_cross_entropy_with_logits(z, y.to(z.dtype), reduction="none")
        return self.shaped(entropy)

    def of_classes(self, problem: Problem) -> Tensor:
        """All classes by one log-softmax."""
        if not self.task.exclusive:
            return super().of_classes(problem)
        losses, v = self.shaped(-torch.log_softmax(problem.z, -1)), self.class_weight
        return losses if v is None else losses * v.to(losses)

    def shaped(self, entropy: Tensor) -> Tensor:
        """The loss, from the cross-entropy."""
        return entropy


class MeanAbsoluteErrorLoss(MeanLoss):
    """``2 - 2 p_y`` (paper 004 eq. 14), robust to wrong labels.

    >>> import torch
    >>> MeanAbsoluteErrorLoss()(torch.tensor([0.0]), torch.tensor([1])).item()
    1.0
    """

    def each(self, problem: Problem) -> Tensor:
        """``2 - 2 p_y``, the absolute errors of all classes."""
        z, y = problem.z, problem.y
        if self.task.exclusive:
            return 2 - 2 * torch.softmax(z, -1).gather(-1, y.unsqueeze(-1)).squeeze(-1)
        return 2 * torch.sigmoid(torch.where(y > 0, -z, z))


class FocalLoss(CrossEntropyLoss):
    """``-(1 - p_y)^gamma log p_y``: easy examples count less (Lin et al. 2017).

    >>> import torch
    >>> round(FocalLoss(2.0)(torch.tensor([0.0]), torch.tensor([1])).item(), 4)
    0.1733
    """

    def __init__(self, gamma: float = 2.0, **settings: Any) -> None:
        super().__init__(**settings)
        check_number("gamma", gamma, 0, float("inf"), closed="low")
        self.gamma = gamma

    def shaped(self, entropy: Tensor) -> Tensor:
        """``(1 - p_y)^gamma`` times the cross-entropy."""
        if self.gamma == 0:
            return entropy
        # 1 - p_y without cancelling; the floor keeps the derivative of a power below 1 finite.
        hard = (-torch.expm1(-entropy)).clamp(min=torch.finfo(entropy.dtype).eps ** 2)
        return hard**self.gamma * entropy
