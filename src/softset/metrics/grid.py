"""Goals over a grid of thresholds: areas under curves, and means of a metric."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from softset.counting.cells import Counting, count_cells
from softset.counting.confusion import Confusion
from softset.counting.numerics import readable
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.counting.thresholds import all_thresholds
from softset.counting.values import check_labels, check_not_nan
from softset.metrics.base import Metric
from softset.metrics.goals import Fixed, Goal, Where, prepared
from softset.typing import Threshold

DEFAULT_GRID = tuple(i / 100 for i in range(1, 100))


@dataclass(frozen=True)
class Grid(Where):
    """Over a grid of thresholds: an area integrates over it, other metrics are averaged.

    Multiclass areas are one against the rest. Hard areas are exact, by sorting.
    """

    thresholds: Threshold = DEFAULT_GRID

    tunes = False
    by_scores = True
    grid = True

    def check_metric(self, metric: Metric) -> None:
        """Every metric can be averaged."""

    def counting(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Counting | None:
        if readable(problem.scores):
            return None
        return Counting.of(self._prepared(metric, problem, step), step, thresholds=self.thresholds)

    def soft_cells(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Confusion:
        problem = self._prepared(metric, problem, step)
        return count_cells(problem, step, thresholds=self.thresholds)

    def _prepared(self, metric: Metric, problem: Problem, step: Step) -> Problem:
        if not metric.over_thresholds:
            return problem
        return prepared(problem, Problem.one_against_rest, step, thresholds=self.thresholds)

    def hard_cells(
        self,
        metric: Metric,
        problem: Problem,
        threshold: Threshold = 0.5,
        offsets: Threshold | None = None,
    ) -> list[Confusion]:
        if not metric.over_thresholds:
            return [count_cells(problem, thresholds=self.thresholds)]
        problem = problem.one_against_rest(to_rank=True)
        pooled = problem.task.independent and metric.average == "micro"
        return [_at_all(part.pooled() if pooled else part) for part in problem.by_set()]

    def value(self, metric: Metric, c: Confusion, empty: str | None = None) -> Tensor:
        value = metric(c, empty=empty)
        return value if metric.over_thresholds else value.mean(-1)


def _at_all(problem: Problem) -> Confusion:
    """The counts at every threshold between scores."""
    check_not_nan(problem.z, torch.isnan(problem.z))
    if not problem.soft:
        check_labels(problem.y)
    c = all_thresholds(problem.z.double(), problem.y, problem.w, problem.task).counts
    c = replace(c, left_out=problem.left_out)
    return c if problem.task.single else c.map(lambda t: t.mT)


def over_grid(goal: Goal, thresholds: Threshold | None) -> Goal:
    """The goal over a grid of thresholds, if one is given."""
    if thresholds is None:
        return goal
    if not isinstance(goal.where, Fixed | Grid):
        raise ValueError(f"thresholds do not apply to {goal.name!r}, which has a place of its own.")
    return replace(goal, where=Grid(thresholds))
