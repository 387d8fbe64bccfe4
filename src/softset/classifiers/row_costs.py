"""Costs of each row in a classifier: where they are read from, and what is trained for instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _num_samples

from softset.decisions.costs import absent_column, sample_costs
from softset.metrics.costs import CELLS, Cost
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, get_goal
from softset.typing import Array, ArrayLike, Bools, Floats, Frame, Ints, Rows

# Columns by name, or a matrix (n, 4) of the costs of tp, fp, fn and tn.
Costs: TypeAlias = "ArrayLike | Mapping[str, ArrayLike] | Frame | None"


def cost_columns(goal: Goal, X: Rows, names: Sequence[str] = ()) -> dict[str, Array]:
    """The columns of ``X`` that the costs of ``goal`` name; ``names`` are those of an array."""
    wanted = set(getattr(goal.metric, "columns", {}).values())
    if hasattr(X, "columns"):
        frame = cast(Any, X)
        for cell, name in getattr(goal.metric, "columns", {}).items():
            if name not in list(frame.columns):
                raise absent_column(cell, name, list(frame.columns))
        return {name: frame[name] for name in wanted}
    if not wanted & set(names) or sparse.issparse(X):
        return {}
    x = np.asarray(X)
    return {name: x[:, i] for i, name in enumerate(names) if name in wanted}


def refuse_costs(goal: Goal, sample_cost: Costs = None) -> None:
    """Raise ValueError if there are costs of each row, which a stream of rows has not."""
    if sample_cost is not None or getattr(goal.metric, "columns", None):
        raise ValueError("costs of each row need all rows in memory: pass a data frame.")


def refuse_beside_stream(goal: Goal, sample_weight: ArrayLike | None, sample_cost: Costs) -> None:
    """Raise ValueError if a stream of rows comes with weights or costs that are not in it."""
    if sample_weight is not None:
        raise ValueError(
            "sample_weight must be in the blocks of a stream, (X, y, weight); got it beside them."
        )
    refuse_costs(goal, sample_cost)


def row_costs(goal: Goal, X: Rows, sample_cost: Costs, names: Sequence[str] = ()) -> Floats | None:
    """Costs ``(n, 4)`` of tp, fp, fn and tn, where the metric has costs of each row: by the columns
    of ``X`` that it names, or as ``given``."""
    cost = goal.metric
    if not isinstance(cost, Cost) or cost.matrix is not None:
        if sample_cost is not None:
            raise ValueError(
                "sample_cost is for a metric such as 'cost(fn=amount, fp=5)', got metric "
                f"{goal.name!r}."
            )
        return None
    if sample_cost is None and not cost.columns:
        return None
    values = cost_columns(goal, X, names) if sample_cost is None else sample_cost
    return sample_costs(cost, _num_samples(X), values)


def prices(metric: MetricLike, costs: Floats | None) -> Floats | None:
    """Costs as ``sample_cost`` has them: those of a profit with their sign."""
    sign = getattr(get_goal(metric).metric, "sign", -1)
    return costs if costs is None or sign < 0 else -costs


def mean_prices(costs: Floats, y: Ints, w: Floats) -> tuple[Cost, float]:
    """What is trained for in the place of costs of each row: the mean costs of their class, in
    units of the largest difference that a decision makes; and that unit."""
    tp, _, fn, _ = (w * (y == 1)) @ costs / w[y == 1].sum()
    _, fp, _, tn = (w * (y == 0)) @ costs / w[y == 0].sum()
    unit = float(max(abs(fn - tp), abs(fp - tn)))
    if unit == 0:
        raise ValueError("costs of the rows must depend on the decision: flagging changes nothing.")
    return Cost(tp=tp / unit, fp=fp / unit, fn=fn / unit, tn=tn / unit), unit


def mean_cost(costs: Floats, y: Ints) -> Cost:
    """The cost whose prices are the mean costs of the rows of their class."""
    cost, unit = mean_prices(costs, y, np.ones(len(y)))
    return Cost(**{name: unit * getattr(cost, name) for name in CELLS})


def rows_at(place: Array) -> Array:
    """The inverse of a ``place`` for each row, -1 for none.

    >>> rows_at(np.array([1, -1, 0])).tolist()
    [2, 0]
    """
    return np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :]


def places(has: Bools) -> Ints:
    """The place of each row among those of the mask, -1 for the others.

    >>> places(np.array([True, False, True])).tolist()
    [0, -1, 1]
    """
    return np.where(has, has.cumsum() - 1, -1)
