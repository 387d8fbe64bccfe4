"""The mean of a metric over sets: images, groups, frames."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.numerics import ratio
from softset.metrics.base import Metric, grid_axis
from softset.metrics.custom import Custom


def mean_over_sets(
    metric: Metric,
    parts: Iterable[tuple[Tensor, Confusion]],
    empty: str | None = None,
    grid: bool = False,
) -> Tensor:
    """The mean of each set's metric, ``[*batch]``; with ``average=None`` one for each class.

    ``parts`` are values ``[*batch, sets]`` and the confusions they are of (with ``grid``: at a grid
    of thresholds, over which values are averaged already). A set without any weight does not count,
    and with ``empty="ignore"`` nor does one in which the metric is not defined. If none counts, it
    is 0; in training 1, which is a loss of 0.

    >>> from softset import F1
    >>> c = Confusion.from_matrix([[[8, 0], [1, 1]], [[9, 1], [0, 0]]], task="binary")
    >>> float(mean_over_sets(F1(), [(F1()(c), c)]))  # of 2/3 and 0
    0.3333333333333333
    >>> float(mean_over_sets(F1(), [(F1()(c), c)], empty="ignore"))
    0.6666666666666666
    """
    total, count = torch.zeros(()), torch.zeros(())
    for values, c in parts:
        there = _counts(metric, c, empty, grid)
        dim = -2 if metric.average is None and not c.task.single else -1
        sums = torch.where(there, values, 0.0).sum(dim)
        total, count = total.to(sums) + sums, count.to(sums) + there.sum(dim)
    return ratio(total, count, 0.0 if empty is None else 1.0)


def _counts(metric: Metric, c: Confusion, empty: str | None, grid: bool) -> Tensor:
    """Which sets count; with ``average=None`` for which class."""
    if grid:
        axis = grid_axis(c)
        c = c.each(lambda t: t.select(axis, 0))
    if c.task.independent and metric.average == "micro":
        c = c.map(lambda t: t.sum(-1, keepdim=True))
    there = c.total > 0
    both = c.task.single and metric.both_classes
    joint = c.task.exclusive and metric.joint
    own = isinstance(metric, Custom) and not c.task.single
    if empty == "ignore" and not (both or joint or own):
        there = there & metric.defined(c)
    if c.task.single or metric.average is None:
        return there
    return there.any(-1)
