"""A goal is a metric somewhere: at one threshold, over a grid, at the top k, where a constraint is
just met. Losses, evaluation, tuning, boosting, comparison and reports take goals.

A *where* has two jobs. In training it gives the soft counts at its place. In deciding it says how
far each threshold is from being allowed, and of those that are, the metric chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from softset.counting.cells import Confusion, Counting, count_cells
from softset.counting.cuts import EQUAL
from softset.counting.numerics import raised, working
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.metrics.base import Metric
from softset.metrics.curves import Curve
from softset.metrics.sets import mean_over_sets
from softset.tasks import BINARY, Task


class Where:
    """Where a metric is taken; a new kind is a subclass and a row of ``registry.PLACES``."""

    suffix: ClassVar[str] = ""  # of a goal's name, from "@" on
    tunes: ClassVar[bool] = True  # there is a threshold (or offsets) to choose
    by_scores: ClassVar[bool] = False  # it has a place of its own: the scores are judged by it
    exact: ClassVar[bool] = False  # the threshold follows from the rows: no smoothing, no doubt
    adds_up: ClassVar[bool] = True  # counts of parts of a batch add up to those of the whole
    grid: ClassVar[bool] = False  # counts have a dimension of thresholds

    def check_metric(self, metric: Metric) -> None:
        """Refuse a metric that it is not for."""
        if isinstance(metric, Curve):
            raise ValueError(f"metric {metric.name!r} is over all thresholds: it has no place.")

    def check(self, metric: Metric, task: Task) -> None:
        """Refuse a task that it is not for."""

    def refuse_threshold(self, goal: Goal, threshold: Any, offsets: Any = None) -> None:
        """Refuse a threshold that would be ignored."""
        default = isinstance(threshold, int | float) and threshold == 0.5
        if self.by_scores and not (default and offsets is None):
            what = "threshold does" if offsets is None else "offsets do"
            raise ValueError(f"{what} not apply to {goal.name!r}, which has a place of its own.")

    def soft_cells(
        self, metric: Metric, problem: Problem, step: Step, threshold: Any = 0.5
    ) -> Confusion:
        """The soft counts that the metric is trained on, with their graph."""
        matrix = metric.wants_matrix(problem.task, problem.classes, training=True)
        return count_cells(problem, step, threshold=threshold, matrix=matrix)

    def hard_cells(
        self, metric: Metric, problem: Problem, threshold: Any = 0.5, offsets: Any = None
    ) -> list[Confusion]:
        """The counts of decisions; several where sets have several sizes."""
        matrix = metric.wants_matrix(problem.task, problem.classes)
        return [count_cells(problem, threshold=threshold, offsets=offsets, matrix=matrix)]

    def value(self, metric: Metric, c: Confusion, empty: str | None = None) -> Tensor:
        """The metric of counts at this place."""
        return metric(c, empty=empty)

    def shortfall(self, c: Confusion) -> Tensor | None:
        """How far each confusion is from being allowed, at most 0; ``None`` if all are."""
        return None


@dataclass(frozen=True)
class Fixed(Where):
    """At one threshold, which is given or tuned; of several classes, at their offsets."""


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
        """As ``get_goal`` reads it."""
        average = f"_{self.metric.average}" if self.metric.says_average else ""
        return f"{self.key}{average}"

    @property
    def tunes(self) -> bool:
        """Whether there is a threshold (or offsets) to choose."""
        return self.where.tunes

    @property
    def by_scores(self) -> bool:
        """Whether scores are judged, at a place of the goal's own, instead of decisions."""
        return self.where.by_scores

    @property
    def of_decisions(self) -> Goal:
        """The metric of decisions, at any threshold."""
        return Goal(self.metric)

    def check(self, task: Task) -> Goal:
        """Itself, if it is for this task."""
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

    def soft_cells(self, problem: Problem, step: Step, threshold: Any = 0.5) -> Confusion:
        """The soft counts that it is trained on, with their graph."""
        self.where.refuse_threshold(self, threshold)
        self.check(problem.task)
        return self.where.soft_cells(self.metric, problem, step, threshold)

    def soft_value(self, c: Confusion, empty: str | None, in_sets: bool = False) -> Tensor:
        """What training makes large, of soft counts."""
        return self._value([c], empty, in_sets)

    def hard_value(
        self, problem: Problem, threshold: Any = 0.5, offsets: Any = None, empty: str | None = None
    ) -> Tensor:
        """What it is judged by."""
        self.where.refuse_threshold(self, threshold, offsets)
        self.check(problem.task)
        counted = self.where.hard_cells(self.metric, problem, threshold, offsets)
        return self._value(counted, empty, problem.in_sets)

    def _value(self, counted: list[Confusion], empty: str | None, in_sets: bool) -> Tensor:
        values = [self.where.value(self.metric, c, empty) for c in counted]
        if not in_sets:
            return values[0]
        each = zip(values, counted, strict=True)
        return mean_over_sets(self.metric, each, empty, self.where.grid)

    def of_cuts(self, c: Confusion, usable: Tensor | None = None) -> Tensor:
        """The metric of every cut ``[*lead, cuts]``, each label on its own: -inf of those that are
        not ``usable``, or that others are nearer to being allowed than."""
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
    prepare: Any,
    step: Step,
    threshold: Any = 0.5,
    thresholds: Any = None,
) -> Problem:
    """``prepare(problem)``, from scores with the digits that its counting needs."""
    made: Problem = prepare(problem)
    if made is problem:
        return problem
    kernel = Counting.of(made, step, threshold, thresholds).kernel
    if kernel is not None and kernel.dtype != working(problem.z):
        made = prepare(replace(problem, z=raised(problem.z, kernel.dtype)))
    return made
