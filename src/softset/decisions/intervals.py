"""All metrics of predictions, with confidence intervals.

A metric of decisions depends on the rows only through the cells of the confusion matrix, so the
cells are drawn, from the Dirichlet distribution of what they may be in the population. Cells in
which no row was seen are not taken for impossible: every cell counts a little more than it has.
For the lower end, errors get more of that, for the upper end, right decisions. Of a metric that is
a ratio of two cells this lies between the intervals of Jeffreys and of Clopper and Pearson.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student

from softset.checks import check_number
from softset.counting.cells import Confusion
from softset.counting.problem import arrange
from softset.decisions.costs import spent
from softset.decisions.evaluation import evaluate, evaluate_problem
from softset.metrics.costs import Cost
from softset.metrics.goals import Goal
from softset.metrics.registry import METRICS, MetricLike, decided_elsewhere
from softset.tasks import MULTILABEL, Task, get_task
from softset.typing import Array, ArrayLike, Floats, Settings

# Resamples for areas, which need a sort each.
_AREA_RESAMPLES = 200
_BLOCK = 2**22
# Pseudo-counts of correct and wrong cells, for the lower end and for the upper one; fewer for
# multiclass and multilabel, so that they do not outweigh the rows.
_ADDED = ((1 / 6, 1 / 2), (1 / 2, 1 / 6))
# An area of rows without any error is as sure as this: so many rows of the rarer class are added,
# all wrong for the lower end, and its variance is a multiple of that of a fraction of these rows.
_AREA_ADDED, _AREA_VARIANCE = 0.5, 0.25


class Interval(NamedTuple):
    """A metric by its name, its value and its confidence interval."""

    metric: str
    value: float
    low: float
    high: float


def metric_table(
    probabilities: ArrayLike | None,
    decisions: ArrayLike,
    target: ArrayLike,
    *,
    task: str = "binary",
    from_logits: bool = False,
    metrics: Iterable[MetricLike] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
) -> list[Interval]:
    """The interval of every metric, also where no error was seen; never NaN.

    Args:
        probabilities: ``(n,)`` of the positive class, ``(n, classes)`` or ``(n, labels)``; or
            ``None``, and then there are no areas under curves. Logits with ``from_logits=True``.
        decisions: class codes ``(n,)``, or 0 and 1 ``(n, labels)``.
        target: like ``decisions``.
        metrics: default all of ``METRICS``.
        sample_weight: ``(n,)``. A row of weight 0 does not count, one of weight k counts k times in
            the value; the interval is of the effective number of rows, ``(sum w)^2 / sum w^2``.

    >>> rows = metric_table(None, [1, 1, 0, 0], [1, 1, 0, 0], metrics=["accuracy", "f1"])
    >>> [(row.metric, row.value, round(row.low, 1), row.high) for row in rows]
    [('accuracy', 1.0, 0.4, 1.0), ('f1', 1.0, 0.3, 1.0)]
    """
    task = get_task(task)
    check_number("level", level, 0, 1)
    check_number("resamples", resamples, 1, 1e6, closed="low")
    y, decided = np.asarray(target, dtype=np.int64), np.asarray(decisions, dtype=np.int64)
    if y.shape != decided.shape:
        raise ValueError(f"target has shape {y.shape}, decisions {decided.shape}; they must agree.")
    w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if w.shape != y.shape[:1] or not (w >= 0).all() or not w.any():
        raise ValueError(f"sample_weight must be {len(y)} numbers from 0 that are not all 0.")
    some = w > 0
    y, decided, w = y[some], decided[some], w[some]
    p = None if probabilities is None else np.asarray(probabilities)[some]
    goals = [decided_elsewhere(m) for m in (METRICS if metrics is None else metrics)]
    random = np.random.default_rng(seed)
    classes = _classes(p, y, decided)
    counted, *drawn = _confusions(y, decided, w, task, classes, int(resamples), random)
    rows, ends = [], [(1 - level) / 2, (1 + level) / 2]
    for m in goals:
        if m.by_scores:
            if p is None:
                continue
            area = Area(m, p, y, w, task, from_logits)
            settings: Settings = {"task": task, "from_logits": from_logits, "sample_weight": w}
            value = float(evaluate(p, y, m, **settings))
            if m.where.exact:
                low, high = np.nanquantile(area.drawn(random), ends)
            else:
                low, high = _area_interval(area, value, level, random)
        else:
            value = float(m(counted))
            quantiles = [np.nanquantile(m(c).numpy(), ends) for c in drawn]
            low, high = np.min(quantiles), np.max(quantiles)
        # The interval holds the value.
        rows.append(
            Interval(m.name, value, float(np.fmin(low, value)), float(np.fmax(high, value)))
        )
    return rows


def _classes(p: Array | None, y: Array, decided: Array) -> int:
    columns = p.shape[1] if p is not None and p.ndim == 2 else 2
    return max(columns, int(y.max()) + 1, int(decided.max()) + 1)


# --- metrics of decisions -------------------------------------------------------------------------


def _confusions(
    y: Array,
    decided: Array,
    w: Array,
    task: Task,
    classes: int,
    draws: int,
    random: np.random.Generator,
) -> list[Confusion]:
    """The confusion, and what it may be in the population, for either end: ``[draws]`` each.

    A cell is drawn as so many rows of one weight, ``unit``, as have its sum and variance.
    """
    if task.independent:
        return _of_labels(y, decided, w, draws, random)
    d = 2 if task.single else classes
    sums, squares = (
        np.bincount(y * d + decided, weights=v, minlength=d * d).reshape(d, d) for v in (w, w * w)
    )
    unit = np.where(sums > 0, squares, (w * w).sum()) / np.where(sums > 0, sums, w.sum())
    cells = sums / unit
    share = np.sqrt(2 / d)
    off = 1 / (d - 1)
    matrices = [sums] + [
        unit
        * random.standard_gamma(
            cells + share * np.where(np.eye(d) > 0, right, wrong * off), (draws, d, d)
        )
        for right, wrong in _ADDED
    ]
    return [Confusion.from_matrix(torch.from_numpy(m), task=task) for m in matrices]


def _of_labels(
    y: Array, decided: Array, w: Array, draws: int, random: np.random.Generator
) -> list[Confusion]:
    """Labels of a row belong together: rows are drawn, by weights."""
    cells = [y * decided, (1 - y) * (1 - decided), (1 - y) * decided, y * (1 - decided)]
    columns = w[:, None] * np.concatenate(cells, 1)
    size = max(1, _BLOCK // len(y))
    blocks = [min(size, draws - start) for start in range(0, draws, size)]
    drawn = np.concatenate([random.standard_gamma(1.0, (k, len(y))) @ columns for k in blocks])
    share = 1 / np.sqrt(y.shape[1])
    unit = (w * w).sum() / w.sum()

    def counted(sums: Array) -> Confusion:
        """Confusions, of which these are the cells one after another."""
        tp, tn, fp, fn = (torch.from_numpy(s) for s in np.split(sums, 4, axis=-1))
        return Confusion(tp, fp, fn, tn, MULTILABEL)

    counts = [counted(columns.sum(0))]
    for right, wrong in _ADDED:
        added = np.repeat([right, wrong], 2 * y.shape[1]) * share
        counts.append(counted(drawn + unit * random.standard_gamma(added, drawn.shape)))
    return counts


# --- areas under curves ---------------------------------------------------------------------------


class Area(NamedTuple):
    """The arguments of an area under a curve."""

    metric: Goal
    p: Array
    y: Array
    w: Array
    task: Task
    from_logits: bool

    def drawn(self, random: np.random.Generator) -> Array:
        """The area with random weights of the rows, for each resample."""
        size = max(1, _BLOCK // self.p.size)
        values = []
        for start in range(0, _AREA_RESAMPLES, size):
            count = min(size, _AREA_RESAMPLES - start)
            problem = arrange(
                torch.from_numpy(self.p).expand(count, *self.p.shape),
                self.y,
                task=self.task,
                from_logits=self.from_logits,
                sample_weight=self.w * random.standard_gamma(1.0, (count, len(self.y))),
                batch_dims=1,
            )
            values.append(evaluate_problem(problem, self.metric).numpy())
        return np.concatenate(values)

    def rows(self) -> float:
        """Of the rarer class; of several, so many as have the variance of their mean. 0 if one of
        two classes has none."""
        y = np.eye(self.p.shape[1])[self.y] if self.task.exclusive else self.y
        y = y.reshape(len(y), -1)
        squares = np.array([self.w**2 @ y, self.w**2 @ (1 - y)])
        sums = np.array([self.w @ y, self.w @ (1 - y)])
        rarer = (sums**2 / np.where(sums > 0, squares, 1)).min(0)  # the effective number
        rarer = rarer[rarer > 0]
        return float(len(rarer) ** 2 / (1 / rarer).sum()) if len(rarer) else 0.0


def _area_interval(
    area: Area, value: float, level: float, random: np.random.Generator
) -> tuple[float, float]:
    """On the scale of logits, with Student's quantile for the rows of the rarer class.

    Rows count with random weights, none of them zero: no class vanishes, as it does where rows are
    drawn. Everything is possible where the area is not defined, because a class has no rows.
    """
    rows = area.rows()
    if np.isnan(value) or not rows:
        return 0.0, 1.0
    error = float(np.std(area.drawn(random)))
    reach = student.ppf((1 + level) / 2, max(2.0, rows - 1))

    def end(area: float, sign: int) -> float:
        """One end of the interval of an area, by the logit of the area."""
        spread = area * (1 - area)
        if spread == 0:
            return area
        least = np.sqrt(_AREA_VARIANCE * spread / rows)
        return float(expit(logit(area) + sign * reach * max(error, least) / spread))

    more = rows + _AREA_ADDED
    return end(rows * value / more, -1), end((rows * value + _AREA_ADDED) / more, 1)


def cost_interval(
    cost: Cost, flagged: Array, y: Array, costs: Floats, level: float, w: Floats | None = None
) -> Interval:
    """The metric, minus the mean cost of a row (or the mean profit), with an interval: normal, by
    the standard error of a mean."""
    w = np.ones(len(y)) if w is None else w
    each = -spent(flagged, y, costs)
    value = float(w @ each / w.sum())
    error = float(np.sqrt((w**2) @ (each - value) ** 2) / w.sum())
    reach = float(norm.ppf((1 + level) / 2)) * error
    return Interval(cost.name, value, value - reach, value + reach)
