"""Decisions with costs of each row: "the amount is in this column".

A missed fraud costs its amount, so the same score justifies an alarm in one row and not in another.
With calibrated probabilities, each row is flagged if that is cheaper in expectation. Where scores
are hard to calibrate, one threshold for all rows may be cheaper: both are compared out of fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import torch
from scipy.special import expit

from softset.checks import listed, warn_user
from softset.counting.problem import arrange
from softset.counting.thresholds import gaps, pick
from softset.decisions.calibration import Calibration
from softset.metrics.costs import CELLS, Cost
from softset.metrics.registry import MetricLike, get_metric
from softset.storage.schema import decoded
from softset.tables.splits import dealt_folds
from softset.tasks import BINARY
from softset.typing import Array, ArrayLike, Floats, Frame, Ints, Settings, TensorLike, Weights

FOLDS = 5


@dataclass(frozen=True)
class CostDecision:
    """Decides by costs of each row, either by expected costs (``by_row``) or by one threshold.

    ``row_cost`` and ``threshold_cost`` are the mean costs of a row out of fold, ``plain_cost`` that
    of the default threshold 0.5, ``constant_cost`` that of flagging all rows or none, whichever is
    cheaper, all in the unit of the costs.
    """

    cost: Cost
    threshold: float
    logit: float
    calibration: Calibration
    by_row: bool
    row_cost: float
    threshold_cost: float
    plain_cost: float
    constant_cost: float
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
        return (self.margin(z, sample_costs(self.cost, len(z), sample_cost)) > 0).astype(np.int64)

    def margin(self, z: Floats, costs: Floats | None) -> Floats:
        """Above 0 where a row is flagged: what that is expected to save, or how far the logit is
        above the threshold. ``costs`` ``(n, 4)`` as ``sample_costs`` has them."""
        if not self.by_row:
            return z - np.nextafter(self.logit, -np.inf)
        if costs is None:
            raise ValueError(f"sample_cost must be given: {self.cost.name} is of each row.")
        return saved_by_flagging(self.calibration(z), costs)

    def warn_if_useless(self, category: type[UserWarning] = UserWarning) -> None:
        """Warn of a rule that costs no less than flagging all rows, or none."""
        if min(self.row_cost, self.threshold_cost) >= self.constant_cost:
            warn_user(f"no better than without a model. {self}", category)

    def packed(self) -> Settings:
        """As plain data, for a file, without the metric."""
        return {k: v for k, v in asdict(self).items() if k != "cost"}

    @classmethod
    def unpacked(cls, cost: Cost, data: Settings) -> CostDecision:
        """The inverse of ``packed``; raises ValueError for anything else."""
        names = {f.name for f in fields(cls)} - {"cost"}
        numbers = [v for v in data.values() if not isinstance(v, dict)]
        if set(data) != names or not np.isfinite(numbers).all():
            raise ValueError("costs of each row in the file are malformed.")
        calibration = decoded(Calibration, data["calibration"], "costs.calibration")
        return cls(cost, **{**data, "calibration": calibration})

    def __str__(self) -> str:
        """Which rule it is, and what it saves."""
        rule = (
            "expected costs of each row" if self.by_row else f"one threshold, {self.threshold:.4g}"
        )
        word = "profit" if self.cost.sign > 0 else "cost"
        spent = self.row_cost, self.threshold_cost, self.plain_cost, self.constant_cost
        each = [-self.cost.sign * v for v in spent]
        return (
            f"Decide by {rule}: {word} of a row out of fold {each[0]:.4g} by expected costs, "
            f"{each[1]:.4g} by one threshold, {each[2]:.4g} at 0.5, {each[3]:.4g} without a model "
            f"({self.rows:,} rows)."
        )


def cost_decision(
    scores: TensorLike,
    target: TensorLike,
    metric: MetricLike,
    sample_cost: ArrayLike | Mapping[str, ArrayLike] | Frame | None = None,
    *,
    from_logits: bool | None = None,
    sample_weight: Weights = None,
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
    tp, fp, fn, tn = costs[some].T
    if (tp == fn).all() and (fp == tn).all():
        raise ValueError("costs of the rows must depend on the decision: flagging changes nothing.")
    rule = cheapest_decision(cost, z[some], y[some], weight[some], costs[some])
    rule.warn_if_useless()
    return rule


def cheapest_decision(cost: Cost, z: Floats, y: Ints, w: Floats, costs: Floats) -> CostDecision:
    """What ``cost_decision`` gives for logits and the costs ``(n, 4)`` of their rows."""
    fold = dealt_folds(y, FOLDS)
    by_row, by_threshold = np.zeros(len(z), np.int64), np.zeros(len(z), np.int64)
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        if not test.any() or not train.any():
            continue
        p = Calibration.fit(z[train], y[train], w[train])(z[test])
        by_row[test] = saved_by_flagging(p, costs[test]) > 0
        by_threshold[test] = z[test] >= cheapest_threshold(
            z[train], y[train], w[train], costs[train]
        )
    decided = by_row, by_threshold, (z >= 0).astype(int), np.ones(len(z)), np.zeros(len(z))
    spent = [mean_cost(d, y, w, costs) for d in decided]
    logit = cheapest_threshold(z, y, w, costs)
    return CostDecision(
        cost,
        float(expit(logit)),
        logit,
        Calibration.fit(z, y, w),
        by_row=spent[0] < spent[1],
        row_cost=spent[0],
        threshold_cost=spent[1],
        plain_cost=spent[2],
        constant_cost=min(spent[3:]),
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


def absent_column(cell: str, name: str, names: Sequence[object]) -> ValueError:
    """The error that the column ``name`` is not among ``names``."""
    there = f": {listed(names)}." if names else ". Pass it as sample_cost."
    return ValueError(f"column {name!r} has the costs of {cell}, and is not there{there}")


def _column(cell: str, name: str, values: object, rows: int) -> Array:
    """The column ``name`` of a data frame or a dictionary, as finite numbers."""
    names = list(values.keys()) if hasattr(values, "keys") else []
    if name not in names:
        raise absent_column(cell, name, names)
    try:
        column = np.asarray(values[name], dtype=np.float64)  # type: ignore[index]
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} must hold numbers: it has the costs of {cell}."
        ) from None
    if column.shape != (rows,) or not np.isfinite(column).all():
        raise ValueError(f"column {name!r} must hold {rows} finite numbers, the costs of {cell}.")
    return column


def saved_by_flagging(p: Floats, costs: Floats) -> Floats:
    """The expected cost of not flagging each row less that of flagging it."""
    tp, fp, fn, tn = costs.T
    saved: Floats = p * (fn - tp) + (1 - p) * (tn - fp)
    return saved


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


def mean_cost(flagged: Array, y: Array, w: Floats, costs: Floats) -> float:
    """The mean cost of a row."""
    return float(w @ spent(flagged, y, costs) / w.sum())


def spent(flagged: Array, y: Array, costs: Floats) -> Floats:
    """The cost of each row."""
    tp, fp, fn, tn = costs.T
    return np.where(flagged > 0, np.where(y > 0, tp, fp), np.where(y > 0, fn, tn))


def in_money(cost: Cost, flagged: Array, y: Array, costs: Floats) -> str:
    """What decisions cost, beside doing nothing and flagging all, in a sentence.

    >>> costs = np.array([[0.0, 5.0, 100.0, 0.0], [0.0, 5.0, 30.0, 0.0], [0.0, 5.0, 70.0, 0.0]])
    >>> in_money(Cost(fn="amount", fp=5), np.array([1, 0, 1]), np.array([1, 1, 0]), costs)
    'cost of these 3 rows: 35 (11.67 a row); with no row flagged 130, with all rows flagged 5'
    """
    word, sign = ("profit", -1) if cost.sign > 0 else ("cost", 1)
    none = np.zeros(len(y))
    total, nothing, all_rows = (
        sign * float(spent(d, y, costs).sum()) for d in (flagged, none, none + 1)
    )
    return (
        f"{word} of these {len(y):,} rows: {total:,.6g} ({total / len(y):.4g} a row); with no row "
        f"flagged {nothing:,.6g}, with all rows flagged {all_rows:,.6g}"
    )


def _logits(scores: Floats, from_logits: bool) -> Floats:
    if from_logits:
        return scores
    with np.errstate(divide="ignore"):
        return np.log(scores) - np.log1p(-scores)
