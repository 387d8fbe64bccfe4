"""The soft metric of arguments where they lie: what ``soft_metric`` computes, with less ado."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import LITTLE, Confusion
from softset.counting.direct import Direct, count_directly
from softset.counting.numerics import under_transform
from softset.counting.problem import Problem, arrange
from softset.counting.steps import Step
from softset.metrics.goals import Fixed, Goal
from softset.metrics.slopes import Slopes, Sums, slopes
from softset.tasks import Task

Again = Callable[[Tensor], Confusion]


@dataclass(slots=True)
class Settings:
    """The arguments of ``metric_loss`` but for the tensors and the metric."""

    task: Task
    step: Step
    threshold: Any
    class_weight: Any
    ignore_index: int | None
    from_logits: bool
    empty: str
    batch_dims: int
    per: Any
    soft_targets: bool

    def arranged(self, scores: Any, target: Any, weight: Any) -> Problem:
        """The problem of a batch."""
        return arrange(
            scores,
            target,
            task=self.task,
            from_logits=self.from_logits,
            sample_weight=weight,
            class_weight=self.class_weight,
            ignore_index=self.ignore_index,
            batch_dims=self.batch_dims,
            per=self.per,
            soft_targets=self.soft_targets,
        )


def direct_loss(
    scores: Any, target: Any, weight: Any, goal: Goal, settings: Settings, again: Again
) -> Tensor | None:
    """``1 - metric``; none where ``soft_metric`` must look closer. ``again`` makes its counts of
    the same scores, with their graph, for second derivatives."""
    whole = type(settings.per) is str and settings.per == "batch" and not settings.batch_dims
    if not whole or not isinstance(goal.where, Fixed):
        return None
    metric, task = goal.metric, settings.task
    if task.exclusive and settings.ignore_index is not None and metric.average == "micro":
        return None  # a class may have to be left out of the sums
    counted = count_directly(
        scores,
        target,
        task=task,
        step=settings.step,
        threshold=settings.threshold,
        from_logits=settings.from_logits,
        sample_weight=weight,
        class_weight=settings.class_weight,
        ignore_index=settings.ignore_index,
        soft=settings.soft_targets,
    )
    if counted is None:
        return None
    sums = Sums(*(t.numpy() for t in counted[2:]))
    if _cancels(sums, LITTLE[counted.kernel.dtype], metric.reads_rest()):
        return None
    known = slopes(metric, task, sums, settings.empty)
    of_cells = partial(metric, empty=settings.empty)
    if known is not None:
        return _Linear.apply(scores, counted, known, of_cells, again)  # type: ignore[no-untyped-call]
    if metric.wants_matrix(task, len(sums.x), training=True):
        return None
    tp, predicted = _Counts.apply(scores, counted, again)  # type: ignore[no-untyped-call]
    cells = (tp, predicted, counted.support, counted.total)
    tp, predicted, support, total = (t.squeeze(0) for t in cells) if task.single else cells
    c = Confusion(tp, predicted, support, total, task)
    return (1 - of_cells(c)).to(scores.dtype)


def _cancels(c: Sums, little: float, rest: bool) -> bool:
    """As in ``cells``: whether a difference would be mostly rounding."""
    n, negatives = c.n[0], c.negatives
    few = (negatives > 0) & (negatives < (little if rest else LITTLE[torch.float64]) * n)
    if rest:
        few |= (c.rejected < little * n) | (c.tn < little * negatives)
    return True in few  # quicker than any()


class _Linear(torch.autograd.Function):
    """One minus a metric whose slopes are known."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, counted: Direct, known: Slopes, of_cells: Any, again: Again
    ) -> Tensor:
        ctx.save_for_backward(z, *counted.read)
        ctx.counted, ctx.known, ctx.of_cells, ctx.again = counted, known, of_cells, again
        return torch.scalar_tensor(1 - known.value.item(), dtype=z.dtype, device="cpu")

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor) -> Any:
        (z, *_), (g,) = ctx.saved_tensors, adjoint
        if torch.is_grad_enabled() or under_transform(g):
            with torch.enable_grad():
                loss = 1 - ctx.of_cells(ctx.again(z))
            (grad,) = torch.autograd.grad(loss, z, g.to(loss.dtype), create_graph=True)
            return grad, None, None, None, None
        by_tp, by_predicted = (torch.from_numpy(s * -g.item()) for s in ctx.known[1:])
        return ctx.counted.gradient(by_tp, by_predicted), None, None, None, None


class _Counts(torch.autograd.Function):
    """``tp`` and ``predicted``, which are known already, and their gradient."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, counted: Direct, again: Again) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(z, *counted.read)
        ctx.counted, ctx.again = counted, again
        return counted.tp, counted.predicted

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor) -> Any:
        z, *_ = ctx.saved_tensors
        if torch.is_grad_enabled() or under_transform(*adjoint):
            with torch.enable_grad():
                c = ctx.again(z)
            sums = [s.reshape(a.shape) for s, a in zip((c.tp, c.predicted), adjoint, strict=True)]
            (grad,) = torch.autograd.grad(sums, z, adjoint, create_graph=True)
            return grad, None, None
        return ctx.counted.gradient(*(a.contiguous() for a in adjoint)), None, None
