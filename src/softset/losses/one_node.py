"""A soft metric as one node of the graph, where a kernel counts the arguments where they lie.

It is what ``problem_loss`` computes, by the same kernel and the same formula: the formula is
differentiated at once, on a handful of numbers (``counting.traced``), and the backward pass is one
call of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import Confusion, Counting
from softset.counting.kernels.interface import InPlace, composed
from softset.counting.numerics import under_transform
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.counting.traced import gradient
from softset.metrics.base import REACH
from softset.metrics.custom import Custom
from softset.metrics.goals import Fixed, Goal


def one_node(problem: Problem, goal: Goal, step: Step, threshold: Any, empty: str) -> Tensor | None:
    """``1 - metric``; none where there is more to be done."""
    metric, task = goal.metric, problem.task
    if type(goal.where) is not Fixed or isinstance(metric, Custom) or problem.arguments is None:
        return None
    if metric.wants_matrix(task, problem.classes, training=True):
        return None
    counting = Counting.of(problem, step, threshold)
    counted = counting.in_place()
    if counted is None:
        return None

    def value(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        return metric(Confusion(tp, fp, fn, tn, task, None, problem.left_out), empty=empty)

    cells = counted.cells.numpy()
    total = cells.sum(0).max()
    known = gradient(value, cells) if total == 0 or REACH[0] <= total <= REACH[1] else None
    if known is None:
        c = counting.counted(counted)
        return (1 - goal.soft_value(c, empty)).to(problem.scores.dtype)
    return _Loss.apply(problem.scores, counting, counted, value, known)  # type: ignore[no-untyped-call]


class _Loss(torch.autograd.Function):
    """One minus a metric that is known already, with its derivatives by the cells."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        counting: Counting,
        counted: InPlace,
        value: Callable[..., Any],
        known: tuple[float, Any],
    ) -> Tensor:
        at, by = known
        ctx.counting, ctx.counted, ctx.value, ctx.by = counting, counted, value, by
        # What is read again: autograd refuses it if it was changed in between.
        ctx.save_for_backward(*counting.problem.read)
        return torch.scalar_tensor(1 - at, dtype=scores.dtype, device="cpu")

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> Any:
        scores, *_ = ctx.saved_tensors
        if torch.is_grad_enabled() or under_transform(adjoint):
            cells = composed(ctx.counting.kernel, ctx.counting.problem)
            with torch.enable_grad():
                loss = 1 - ctx.value(*cells)
            (grad,) = torch.autograd.grad(loss, scores, adjoint.to(loss.dtype), create_graph=True)
        else:
            (tp, fp, fn, tn), g = ctx.by, -adjoint.item()
            grad = ctx.counted.gradient(g * (tp - fn), g * (fp - tn))
        return grad, *[None] * 4
