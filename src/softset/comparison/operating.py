"""Operating points: what a fixed threshold gives on test rows, and whether it meets constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softset.counting.cells import Confusion, confusion
from softset.metrics.goals import Goal
from softset.metrics.meeting import RATES, Meeting
from softset.typing import Array

if TYPE_CHECKING:
    from softset.comparison.result import OperatingPoint

# A constraint that is missed by less is met.
_MET = 1e-9


class Point(NamedTuple):
    """The fields of an ``OperatingPoint``."""

    metric: float
    rates: dict[str, float]
    broken: int


def constrained_rates(goal: Goal) -> list[str]:
    """The names of the rates that the goal constrains; empty if it has no constraint.

    >>> from softset.metrics.registry import get_goal
    >>> constrained_rates(get_goal("f1@recall>=0.8&fpr<=0.1")), constrained_rates(get_goal("f1"))
    (['recall', 'fpr'], [])
    """
    if not isinstance(goal.where, Meeting):
        return []
    texts = goal.where.suffix.removeprefix("@").split("&")
    return [text.replace("<", ">").partition(">")[0] for text in texts]


def operating_point(goal: Goal, predicted: Array, y: Array) -> Point | None:
    """The metric and the constrained rates of predictions (0 and 1); None without a constraint."""
    rates = constrained_rates(goal)
    if not rates or np.ndim(y) != 1:
        return None
    return point_at(goal, confusion(predicted.astype(float), y, from_logits=False))


def point_at(goal: Goal, c: Confusion) -> Point:
    """The operating point of counts."""
    rates = {name: float(RATES[name][1](c)) for name in constrained_rates(goal)}
    missed = float(goal.where.excess(c)) < -_MET if isinstance(goal.where, Meeting) else False
    return Point(float(goal.metric(c)), rates, int(missed))


def mean_point(points: Sequence[OperatingPoint | None]) -> Point | None:
    """The mean over splits, and in how many of them a constraint was not met."""
    reached = [p for p in points if p is not None]
    if not reached:
        return None
    rates = {name: float(np.mean([p.rates[name] for p in reached])) for name in reached[0].rates}
    broken = sum(p.broken for p in reached)
    return Point(float(np.mean([p.metric for p in reached])), rates, broken)
