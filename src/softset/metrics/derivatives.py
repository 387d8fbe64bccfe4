"""A metric of soft counts as a loss, with its derivatives by the counts: no autograd, and no value
is read on the host where the counts are on a device."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softset.counting.confusion import Confusion
from softset.counting.kernels.choice import kernels_for
from softset.counting.kernels.triton.formulas import formula, written
from softset.counting.numerics import NOTHING, Constants, Traced, readable
from softset.counting.problem import Problem
from softset.counting.sums import dual_gradient
from softset.counting.traced import gradient
from softset.metrics.base import REACH, Fraction
from softset.metrics.formulas import FBeta
from softset.metrics.goals import Fixed, Goal
from softset.tasks import Task


class Derivatives(NamedTuple):
    """One minus a metric, and its derivatives ``[2, ...]`` by the degree of positives and of
    negatives: what a positive adds to ``tp`` it takes from ``fn``, and what a negative adds to
    ``fp`` from ``tn``."""

    loss: float | Tensor
    by: NDArray[np.float64] | Tensor


def derivatives(
    goal: Goal, cells: Tensor, problem: Problem, empty: str, dtype: torch.dtype
) -> Derivatives | None:
    """``1 - goal`` in ``dtype``, of cells ``[4, ...]``, and its derivatives; none if autograd must
    find them."""
    metric, task = goal.metric, problem.task

    def value(tp: Traced, fp: Traced, fn: Traced, tn: Traced) -> Traced:
        c = Confusion(tp, fp, fn, tn, task, None, problem.left_out)  # type: ignore[arg-type]
        return goal.soft_value(c, empty, problem.in_sets)  # type: ignore[return-value]

    if readable(cells):
        numbers = cells.numpy()
        total = numbers.sum(0).max()
        if total != 0 and not REACH[0] <= total <= REACH[1]:
            return None
        traced = gradient(value, list(numbers))
        return None if traced is None else Derivatives(float(traced.value), np.array(traced.by))
    if isinstance(goal.where, Fixed) and kernels_for(cells) == "triton":
        source = source_of(goal, task, empty, problem.left_out, problem.in_sets, cells.shape[1:])
        if source is not None:
            return Derivatives(*formula(cells, source, dtype))
    alone = not (task.single and metric.both_classes) and problem.left_out is None
    if isinstance(metric, Fraction) and metric.average == "macro" and alone and not problem.sets:
        fraction = None if goal.where.grid else _fraction(metric)
        if fraction is not None:
            return fraction.derivatives(cells, task, empty, dtype)
    rows = dual_gradient(value, cells)
    return None if rows is None else Derivatives(rows[0].flatten()[0].to(dtype), rows[1:])


@lru_cache(maxsize=256)
def source_of(
    goal: Goal, task: Task, empty: str, left_out: int | None, in_sets: bool, shape: torch.Size
) -> str | None:
    """The kernel of a goal, for cells of this shape."""

    def value(tp: Traced, fp: Traced, fn: Traced, tn: Traced) -> Traced:
        c = Confusion(tp, fp, fn, tn, task, None, left_out)  # type: ignore[arg-type]
        return goal.soft_value(c, empty, in_sets)  # type: ignore[return-value]

    return written(value, tuple(shape))


@lru_cache(maxsize=64)
def _fraction(metric: Fraction) -> _OneFraction | None:
    if isinstance(metric, FBeta) and isinstance(metric.beta, tuple):
        return None  # one for each class
    return _OneFraction(metric)


class _OneFraction:
    """A fraction of two sums of cells, each times a number. The numbers are those that the formula
    itself gives for cells of 1 and 0, so that all sums are one product of matrices."""

    def __init__(self, metric: Fraction) -> None:
        tp, fp, fn, tn = np.eye(4)
        c = Confusion(tp, fp, fn, tn)  # type: ignore[arg-type]
        changes = np.stack([tp - fn, fp - tn])
        sums, by = [], []
        # The fraction, and the one of correct decisions that may take its place.
        for num, den in (metric.fraction(c), (c.rejected, c.total)):
            # By the change of a positive and of a negative: of the loss, which falls with num.
            by.append(-changes @ num)
            sums += [num, den, *np.outer(changes @ den, num)]
        # A little in the denominators: nothing is divided by 0.
        little = np.array([0, NOTHING, 0, 0, 0, NOTHING, 0, 0, 0])
        self.constants = Constants(np.stack([*sums, c.support]), np.stack(by), little)

    def derivatives(self, cells: Tensor, task: Task, empty: str, dtype: torch.dtype) -> Derivatives:
        weights, by, little = self.constants.beside(cells)
        if task.single:
            sums = torch.addmv(little, weights, cells)
        else:
            sums = torch.addmm(little.unsqueeze(-1), weights, cells)
        present = sums[8].sign()  # 1 where there are positives
        by = by if task.single else by.unsqueeze(-1)
        penalized = empty == "penalize" and not task.exclusive
        if penalized:  # a batch without positives: the fraction of correct decisions
            there = present > 0
            sums, by = torch.where(there, sums[:4], sums[4:8]), torch.where(there, by[0], by[1])
        else:
            by = by[0]
        num, den = sums[:2]
        # num' / den + num den' / den^2, of which one division is left.
        by = torch.addcdiv(by, sums[2:4], den)
        if task.single:
            value, by = num / den, by.div_(den)
            if not penalized:
                there = present > 0
                value, by = torch.where(there, value, 1.0), torch.where(there, by, 0.0)
        elif penalized:
            value, by = (num / den).mean(), by.div_(den * den.shape[-1])
        else:
            fraction = present.div_(present.sum().clamp_(min=1)).div_(den)
            value, by = torch.dot(num, fraction), by.mul_(fraction)
            if empty == "ignore":
                value = torch.where((sums[8] > 0).any(), value, 1.0)
        loss = torch.empty((), dtype=dtype, device=cells.device)
        return Derivatives(torch.sub(1.0, value, out=loss), by)
