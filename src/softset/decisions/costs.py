"""Decisions with costs of each row: "the amount is in this column".

A missed fraud costs its amount, so the same score justifies an alarm in one row and not in another.
With calibrated probabilities, each row is flagged if that is cheaper in expectation. Where scores
are hard to calibrate, one threshold for all rows may be cheaper: both are compared out of fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit

from softset.counting.cuts import gaps, pick
from softset.counting.problem import arrange
from softset.decisions.calibration import Calibration
from softset.metrics.costs import CELLS, Cost
from softset.metrics.registry import MetricLike, get_metric
from softset.tables.splits import dealt_folds
from softset.tasks import BINARY
from softset.typing import Array, ArrayLike, Floats, Frame, Ints, TensorLike

FOLDS = 5


@dataclass(frozen=True)
class CostDecision:
    """Decides by costs of each row, either by expected costs (``by_row``) or by one threshold.

    ``row_cost`` and ``threshold_cost`` are the mean costs of a row out of fold, ``plain_cost`` that
    of the default threshold 0.5, all in the unit of the costs.
    """

    cost: Cost
    threshold: float
    logit: float
    calibration: Calibration
    by_row: bool
    row_cost: float
    threshold_cost: float
    plain_cost: float
    rows: int

    def __call__(
        self,
        scores: ArrayLike,
        sample_cost: ArrayLike | Mapping[str, ArrayLike] | Frame | None = None,
        *,
        from_logits: bool = True,
    ) -> Ints:
        """0 and 1 for each row."""
        z = _logits(np.asarray(scores, dtype=np.float64), from_logits)
        if not self.by_row:
            return (z >= self.logit).astype(np.int64)
        costs = sample_costs(self.cost, len(z), sample_cost)
        return flagged_by_cost(self.calibration(z), costs)

    def __str__(self) -> str:
        """Which rule it is, and what it saves."""
        rule = (
            "expected costs of each row" if self.by_row else f"one threshold, {self.threshold:.4g}"
        )
        word = "profit" if self.cost.sign > 0 else "cost"
        each = [-self.cost.sign * v for v in (self.row_cost, self.threshold_cost, self.plain_cost)]
        return (
            f"Decide by {rule}: {word} of a row out of fold {each[0]:.4g} by expected costs, "
            f"{each[1]:.4g} by one threshold, {each[2]:.4g} at 0.5 ({self.rows:,} rows)."
        )


def cost_decision(
    scores: TensorLike,
    target: TensorLike,
    metric: MetricLike,
    sample_cost: ArrayLike | Mapping[str, ArrayLike] | Frame | None = None,
    *,
    from_logits: bool | None = None,
    sample_weight: TensorLike | None = None,
) -> CostDecision:
    """The cheapest decision for costs of each row: by expected costs, or by one threshold,
    whichever is cheaper out of fold.

    Args:
        scores: logits of rows that the model has not seen, or probabilities with
            ``from_logits=False``.
        target: their labels, 0 and 1.
        metric: a ``Cost``, such as ``"cost(fn=amount, fp=5)"``.
        sample_cost: the columns that it names, as a data frame or a dictionary; or a matrix
            ``(n, 4)`` of the costs of tp, fp, fn and tn of each row, in the place of its prices.

    >>> random = np.random.default_rng(0)
    >>> z, amount = random.normal(size=1000), random.exponential(20, 1000)
    >>> y = random.random(1000) < expit(z)
    >>> rule = cost_decision(z, y, "cost(fn=amount, fp=5)", {"amount": amount})
    >>> rule.by_row, rule([0.0, 0.0], {"amount": [100.0, 1.0]}).tolist()
    (True, [1, 0])
    """
    cost = get_metric(metric)
    if not isinstance(cost, Cost) or cost.matrix is not None:
        raise ValueError(f"metric must be a cost of tp, fp, fn and tn, got {cost.name!r}.")
    problem = arrange(
        scores, target, task=BINARY, from_logits=from_logits, sample_weight=sample_weight
    )
    z = _logits(problem.z.double().reshape(-1).numpy(), problem.from_logits)
    if np.isnan(z).any():
        raise ValueError(f"scores must not be NaN, got {int(np.isnan(z).sum())} of them.")
    weight = problem.weights().double().reshape(-1).numpy()
    y = problem.y.reshape(-1).numpy().astype(np.int64)
    costs, some = sample_costs(cost, len(z), sample_cost), weight > 0
    z, y, weight, costs = z[some], y[some], weight[some], costs[some]
    fold = dealt_folds(y, FOLDS)
    by_row, by_threshold = np.zeros(len(z), np.int64), np.zeros(len(z), np.int64)
    for k in range(FOLDS):
        rest, test = fold != k, fold == k
        known = (z[rest], y[rest], weight[rest])
        if not test.any() or not rest.any():
            continue
        by_row[test] = flagged_by_cost(Calibration.fit(*known)(z[test]), costs[test])
        by_threshold[test] = z[test] >= cheapest_threshold(*known, costs[rest])
    spent = [mean_cost(d, y, weight, costs) for d in (by_row, by_threshold, (z >= 0).astype(int))]
    logit = cheapest_threshold(z, y, weight, costs)
    return CostDecision(
        cost,
        float(expit(logit)),
        logit,
        Calibration.fit(z, y, weight),
        by_row=spent[0] < spent[1],
        row_cost=spent[0],
        threshold_cost=spent[1],
        plain_cost=spent[2],
        rows=len(z),
    )


def sample_costs(
    cost: Cost, rows: int, values: ArrayLike | Mapping[str, ArrayLike] | Frame | None
) -> Floats:
    """Costs ``(rows, 4)`` of tp, fp, fn and tn; a profit is a negative cost."""
    if values is not None and not hasattr(values, "keys"):
        matrix = np.asarray(values, dtype=np.float64)
        if matrix.shape != (rows, len(CELLS)) or not np.isfinite(matrix).all():
            raise ValueError(
                f"sample_cost must be {rows} x 4 finite numbers (tp, fp, fn, tn), or the columns "
                f"by name, got shape {matrix.shape}."
            )
        return matrix if cost.sign < 0 else -matrix
    columns = []
    for cell in CELLS:
        price = getattr(cost, cell)
        columns.append(_column(cell, price, values, rows) if isinstance(price, str) else price)
    costs = np.column_stack([np.broadcast_to(np.asarray(c, np.float64), (rows,)) for c in columns])
    return -cost.sign * costs


def _column(cell: str, name: str, values: object, rows: int) -> Array:
    """The column ``name`` of a data frame or a dictionary, as finite numbers."""
    names = list(values.keys()) if hasattr(values, "keys") else []
    if name not in names:
        raise ValueError(
            f"column {name!r} has the costs of {cell}, and is not there"
            + (f": {', '.join(map(str, names))}." if names else ". Pass it as sample_cost.")
        )
    try:
        column = np.asarray(values[name], dtype=np.float64)  # type: ignore[index]
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} must hold numbers: it has the costs of {cell}."
        ) from None
    if column.shape != (rows,) or not np.isfinite(column).all():
        raise ValueError(f"column {name!r} must hold {rows} finite numbers, the costs of {cell}.")
    return column


def flagged_by_cost(p: Floats, costs: Floats) -> Ints:
    """Whether to flag each row: its expected cost is lower than that of not flagging."""
    tp, fp, fn, tn = costs.T
    return (p * tp + (1 - p) * fp < p * fn + (1 - p) * tn).astype(np.int64)


def cheapest_threshold(z: Floats, y: Ints, w: Floats, costs: Floats) -> float:
    """The logit with the least total cost of all thresholds, exactly."""
    tp, fp, fn, tn = costs.T
    saved = w * np.where(y > 0, fn - tp, tn - fp)  # by flagging a row
    z = np.where(w > 0, z, np.inf)
    order = np.argsort(z, kind="stable")
    place, width = gaps(torch.from_numpy(z[order]))
    total = np.append(np.cumsum(saved[order][::-1])[::-1], 0.0)
    best = pick(torch.from_numpy(total), place, width)
    return float(place[best])


def mean_cost(flagged: Ints, y: Ints, w: Floats, costs: Floats) -> float:
    """The mean cost of a row."""
    tp, fp, fn, tn = costs.T
    each = np.where(flagged > 0, np.where(y > 0, tp, fp), np.where(y > 0, fn, tn))
    return float(w @ each / w.sum())


def _logits(scores: Floats, from_logits: bool) -> Floats:
    if from_logits:
        return scores
    with np.errstate(divide="ignore"):
        return np.log(scores) - np.log1p(-scores)
