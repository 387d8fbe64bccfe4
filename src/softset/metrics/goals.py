"""A goal is a metric somewhere: at one threshold, over a grid, at the top k, where a constraint is
just met. Losses, evaluation, tuning, boosting, comparison and reports take goals.

A *where* has two jobs. In training it gives the soft counts there. In deciding it says how far each
threshold is from meeting the constraints, and the metric chooses among those that meet them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from softset.counting.cells import Counting, count_cells
from softset.counting.confusion import Confusion
from softset.counting.numerics import raised, ratio, working
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.counting.thresholds import EQUAL
from softset.tasks import BINARY, Task
from softset.typing import Threshold

if TYPE_CHECKING:
    from softset.metrics.base import Metric


class Where:
    """Where a metric is taken; a new kind is a subclass and a row of ``registry.PLACES``."""

    suffix: ClassVar[str] = ""  # of a goal's name, from "@" on
    tunes: ClassVar[bool] = True  # there is a threshold (or offsets) to tune
    by_scores: ClassVar[bool] = False  # scores are evaluated; no threshold is passed
    exact: ClassVar[bool] = False  # rows determine the threshold: it is not smoothed
    adds_up: ClassVar[bool] = True  # counts of microbatches add up to those of the batch
    grid: ClassVar[bool] = False  # counts have a dimension of thresholds

    def check_metric(self, metric: Metric) -> None:
        """Refuse a metric that it is not for."""
        if metric.over_thresholds:
            raise ValueError(
                f"metric {metric.name!r} is an area over all thresholds: it cannot follow '@' or "
                "precede it."
            )

    def check(self, metric: Metric, task: Task) -> None:
        """Refuse a task that it is not for."""

    def refuse_threshold(
        self, goal: Goal, threshold: Threshold, offsets: Threshold | None = None
    ) -> None:
        """Refuse a threshold that would be ignored."""
        default = isinstance(threshold, int | float) and threshold == 0.5
        if self.by_scores and not (default and offsets is None):
            what = "threshold does" if offsets is None else "offsets do"
            raise ValueError(
                f"{what} not apply to {goal.name!r}, which has a threshold of its own."
            )

    def counting(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Counting | None:
        """How the soft counts are made, if by one kernel at thresholds that are given."""
        return None

    def soft_cells(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Confusion:
        """The soft counts that the metric is trained on, with their graph."""
        matrix = metric.wants_matrix(problem.task, problem.classes, training=True)
        return count_cells(problem, step, threshold=threshold, matrix=matrix)

    def hard_cells(
        self,
        metric: Metric,
        problem: Problem,
        threshold: Threshold = 0.5,
        offsets: Threshold | None = None,
    ) -> list[Confusion]:
        """The counts of decisions; one for each size of groups."""
        matrix = metric.wants_matrix(problem.task, problem.classes)
        return [count_cells(problem, threshold=threshold, offsets=offsets, matrix=matrix)]

    def value(self, metric: Metric, c: Confusion, empty: str | None = None) -> Tensor:
        """The metric of ``soft_cells`` or ``hard_cells``."""
        return metric(c, empty=empty)

    def shortfall(self, c: Confusion) -> Tensor | None:
        """Violation of the constraints by each confusion, at most 0; ``None`` without any."""
        return None


@dataclass(frozen=True)
class Fixed(Where):
    """At one threshold, passed or tuned; for multiclass, at offsets of the classes."""

    def counting(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Counting | None:
        return Counting.of(problem, step, threshold)


@dataclass(frozen=True)
class Goal:
    """``metric`` at ``where``.

    >>> from softset import F1
    >>> Goal(F1()).name, Goal(F1()).tunes
    ('f1', True)
    """

    metric: Metric
    where: Where = Fixed()

    def __post_init__(self) -> None:
        self.where.check_metric(self.metric)

    @property
    def key(self) -> str:
        """Its name without the average."""
        return f"{self.metric.key}{self.where.suffix}"

    @property
    def name(self) -> str:
        """The string that ``get_goal`` reads."""
        average = f"_{self.metric.average}" if self.metric.says_average else ""
        return f"{self.key}{average}"

    @property
    def tunes(self) -> bool:
        """Whether there is a threshold (or offsets) to tune."""
        return self.where.tunes

    @property
    def by_scores(self) -> bool:
        """Whether scores are evaluated, instead of decisions at a threshold."""
        return self.where.by_scores

    @property
    def of_decisions(self) -> Goal:
        """The goal of decisions that are already made: the metric alone."""
        return Goal(self.metric)

    def check(self, task: Task) -> Goal:
        """The goal itself; raises ValueError if it is not for this task."""
        self.metric.check(task)
        self.where.check(self.metric, task)
        return self

    def of_label(self, label: int) -> Goal:
        """The goal of one label (or class) alone."""
        return replace(self, metric=self.metric.of_label(label))

    def __call__(self, c: Confusion, *, empty: str | None = None) -> Tensor:
        """The metric of decisions that were counted."""
        return self.metric(c, empty=empty)

    def wants_matrix(self, task: Task, classes: int) -> bool:
        """Whether decisions must be counted as a C x C matrix."""
        return self.metric.wants_matrix(task, classes)

    def soft_cells(self, problem: Problem, step: Step, threshold: Threshold = 0.5) -> Confusion:
        """The soft counts that it is trained on, with their graph."""
        self.where.refuse_threshold(self, threshold)
        self.check(problem.task)
        return self.where.soft_cells(self.metric, problem, step, threshold)

    def soft_value(self, c: Confusion, empty: str | None, in_sets: bool = False) -> Tensor:
        """The value of soft counts, which training maximizes."""
        return self._value([c], empty, in_sets)

    def hard_value(
        self,
        problem: Problem,
        threshold: Threshold = 0.5,
        offsets: Threshold | None = None,
        empty: str | None = None,
    ) -> Tensor:
        """The value of hard decisions, by which a model is evaluated."""
        self.where.refuse_threshold(self, threshold, offsets)
        self.check(problem.task)
        counted = self.where.hard_cells(self.metric, problem, threshold, offsets)
        return self._value(counted, empty, problem.in_sets)

    def _value(self, counted: list[Confusion], empty: str | None, in_sets: bool) -> Tensor:
        values = [self.where.value(self.metric, c, empty) for c in counted]
        if not in_sets:
            return values[0]
        each = zip(values, counted, strict=True)
        return mean_over_groups(self.metric, each, empty, self.where.grid)

    def at_thresholds(self, c: Confusion, usable: Tensor | None = None) -> Tensor:
        """The metric at every threshold ``[*lead, thresholds]``, for each label; -inf where it is
        not ``usable``, or farther than another from meeting the constraints."""
        metric = self.metric if c.task.single else replace(self.metric, both_classes=False)
        c = replace(c, task=BINARY)
        values = metric(c)
        usable = ~values.isnan() if usable is None else usable & ~values.isnan()
        shortfall = self.where.shortfall(c)
        if shortfall is not None:
            shortfall = torch.where(usable, shortfall, float("-inf"))
            usable = usable & (shortfall >= shortfall.amax(-1, keepdim=True) - EQUAL)
        return torch.where(usable, values, float("-inf"))


def prepared(
    problem: Problem,
    prepare: Callable[[Problem], Problem],
    step: Step,
    thresholds: Threshold | None = None,
) -> Problem:
    """``prepare(problem)``, computed in the precision of the kernel that counts it."""
    result = prepare(problem)
    if result is problem:
        return problem
    kernel = Counting.of(result, step, 0.5, thresholds).kernel
    if kernel is not None and kernel.dtype != working(problem.z):
        result = prepare(replace(problem, z=raised(problem.z, kernel.dtype)))
    return result


def mean_over_groups(
    metric: Metric,
    values: Iterable[tuple[Tensor, Confusion]],
    empty: str | None = None,
    grid: bool = False,
) -> Tensor:
    """Mean over groups (images, frames) of the metric of each, ``[*batch]``; with ``average=None``
    one for each class.

    ``values`` are pairs of metrics ``[*batch, groups]`` and the confusions that they are of (with
    ``grid``, at a grid of thresholds that the metrics are averaged over). A group without any
    weight does not count, and with ``empty="ignore"`` nor does one in which the metric is not
    defined. If none counts, the mean is 0; in training 1, which is a loss of 0.

    >>> from softset import F1
    >>> c = Confusion.from_matrix([[[8, 0], [1, 1]], [[9, 1], [0, 0]]], task="binary")
    >>> float(mean_over_groups(F1(), [(F1()(c), c)]))  # of 2/3 and 0
    0.3333333333333333
    >>> float(mean_over_groups(F1(), [(F1()(c), c)], empty="ignore"))
    0.6666666666666666
    """
    sums = []
    for value, c in values:
        counts = _counting_groups(metric, c, empty, grid)
        dim = -2 if metric.average is None and not c.task.single else -1
        count = counts.to(value.dtype).sum(dim)
        sums.append((torch.where(counts, value, 0.0).sum(dim), count))
    total, count = (sum(each[1:], each[0]) for each in zip(*sums, strict=True))
    return ratio(total, count, 0.0 if empty is None else 1.0)


def _counting_groups(metric: Metric, c: Confusion, empty: str | None, grid: bool) -> Tensor:
    """Mask of the groups that count; with ``average=None`` for each class."""
    if c.task.independent and metric.average == "micro":
        c = c.map(lambda t: t.sum(-1, keepdim=True))
    counts = c.total > 0
    both = c.task.single and metric.both_classes
    joint = c.task.exclusive and metric.joint
    if empty == "ignore" and not (both or joint):
        counts = counts & metric.defined(c)
    if grid:  # they are the same at all thresholds
        counts = counts.movedim(c.task.grid_axis, -1)[..., 0]
    if c.task.single or metric.average is None:
        return counts
    return counts.any(-1)
