"""All metrics of one set of predictions, with confidence intervals.

A metric of decisions depends on the rows only through the cells of the confusion matrix, so the
cells are drawn, from the Dirichlet distribution of what they may be in the population. Cells in
which no row was seen are not taken for impossible: every cell counts a little more than it has.
For the lower end, errors get more of that, for the upper end, right decisions. Of a metric that is
a ratio of two cells this lies between the intervals of Jeffreys and of Clopper and Pearson.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import t as student

from softset.checks import check_number
from softset.counting.cells import Confusion
from softset.counting.problem import arrange
from softset.decisions.evaluation import evaluate, evaluate_problem
from softset.metrics.base import Metric
from softset.metrics.registry import METRICS, MetricLike, decided_elsewhere

Array = NDArray[Any]
# Resamples for areas, which need a sort each.
_AREA_RESAMPLES = 200
_BLOCK = 2**22
# What right and wrong cells count more than they have, for one end and for the other. Of several
# classes or labels less, so that what is added to all of them together does not outweigh the rows.
_ADDED = ((1 / 6, 1 / 2), (1 / 2, 1 / 6))
# An area of rows without any error is as sure as this: so many rows of the rarer class are added,
# all wrong for the lower end, and its variance is a share of that of a fraction of these rows.
_AREA_ADDED, _AREA_VARIANCE = 0.5, 0.25


class Interval(NamedTuple):
    """A metric by its name, its value and its confidence interval."""

    metric: str
    value: float
    low: float
    high: float


def metric_table(
    probabilities: Any,
    decisions: Any,
    target: Any,
    *,
    task: str = "binary",
    from_logits: bool = False,
    metrics: Iterable[MetricLike] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """The interval of every metric, also where no error was seen; never NaN.

    Args:
        probabilities: ``(n,)`` of the positive class, ``(n, classes)`` or ``(n, labels)``; or
            ``None``, and then there are no areas under curves. Logits with ``from_logits=True``.
        decisions: numbers of classes ``(n,)``, or 0 and 1 ``(n, labels)``.
        target: like ``decisions``.
        metrics: all of ``METRICS`` if left out.

    >>> rows = metric_table(None, [1, 1, 0, 0], [1, 1, 0, 0], metrics=["accuracy", "f1"])
    >>> [(row.metric, row.value, round(row.low, 1), row.high) for row in rows]
    [('accuracy', 1.0, 0.4, 1.0), ('f1', 1.0, 0.3, 1.0)]
    """
    check_number("level", level, 0, 1)
    check_number("resamples", resamples, 1, 1e6, closed="low")
    y, decided = np.asarray(target, dtype=np.int64), np.asarray(decisions, dtype=np.int64)
    if y.shape != decided.shape:
        raise ValueError(f"target has shape {y.shape}, decisions {decided.shape}; they must agree.")
    found = [decided_elsewhere(m) for m in (METRICS if metrics is None else metrics)]
    random = np.random.default_rng(seed)
    classes = _classes(probabilities, y, decided)
    counted, *drawn = _confusions(y, decided, task, classes, int(resamples), random)
    rows = []
    for m in found:
        if m.curve and probabilities is None:
            continue
        if m.curve:
            area = Area(m, np.asarray(probabilities), y, task, from_logits)
            value = float(evaluate(area.p, y, m, task=task, from_logits=from_logits))
            low, high = _area_interval(area, value, level, random)
        else:
            value = float(m(counted))
            ends = [(1 - level) / 2, (1 + level) / 2]
            quantiles = [np.nanquantile(m(c).numpy(), ends) for c in drawn]
            low, high = np.min(quantiles), np.max(quantiles)
        # The value itself is always possible.
        rows.append(
            Interval(m.name, value, float(np.fmin(low, value)), float(np.fmax(high, value)))
        )
    return rows


def _classes(probabilities: Any, y: Array, decided: Array) -> int:
    given = 2
    if probabilities is not None and np.ndim(probabilities) == 2:
        given = int(np.shape(probabilities)[1])
    return max(given, int(y.max()) + 1, int(decided.max()) + 1)


# --- metrics of decisions -------------------------------------------------------------------------


def _confusions(
    y: Array, decided: Array, task: str, classes: int, draws: int, random: np.random.Generator
) -> list[Confusion]:
    """The confusion, and what it may be in the population, for either end: ``[draws]`` each."""
    if task == "multilabel":
        return _of_labels(y, decided, draws, random)
    d = 2 if task == "binary" else classes
    cells = np.bincount(y * d + decided, minlength=d * d).reshape(d, d)
    share = np.sqrt(2 / d)
    off = 1 / (d - 1)
    matrices = [cells.astype(np.float64)] + [
        random.standard_gamma(
            cells + share * np.where(np.eye(d) > 0, right, wrong * off), (draws, d, d)
        )
        for right, wrong in _ADDED
    ]
    return [Confusion.from_matrix(torch.from_numpy(m), task=task) for m in matrices]


def _of_labels(
    y: Array, decided: Array, draws: int, random: np.random.Generator
) -> list[Confusion]:
    """Labels of a row belong together: rows are drawn, by weights."""
    cells = [y * decided, (1 - y) * (1 - decided), (1 - y) * decided, y * (1 - decided)]
    columns = np.concatenate(cells, 1).astype(np.float64)
    size = max(1, _BLOCK // len(y))
    blocks = [min(size, draws - start) for start in range(0, draws, size)]
    drawn = np.concatenate([random.standard_gamma(1.0, (k, len(y))) @ columns for k in blocks])
    share = 1 / np.sqrt(y.shape[1])

    def counted(sums: Array) -> Confusion:
        tp, tn, fp, fn = (torch.from_numpy(s) for s in np.split(sums, 4, axis=-1))
        return Confusion(tp, tp + fp, tp + fn, tp + tn + fp + fn, "multilabel")

    found = [counted(columns.sum(0))]
    for right, wrong in _ADDED:
        added = np.repeat([right, wrong], 2 * y.shape[1]) * share
        found.append(counted(drawn + random.standard_gamma(added, drawn.shape)))
    return found


# --- areas under curves ---------------------------------------------------------------------------


class Area(NamedTuple):
    """What an area under a curve is of."""

    metric: Metric
    p: Array
    y: Array
    task: str
    from_logits: bool

    def drawn(self, random: np.random.Generator) -> Array:
        """The area with random weights of the rows, several times."""
        size = max(1, _BLOCK // self.p.size)
        found = []
        for start in range(0, _AREA_RESAMPLES, size):
            count = min(size, _AREA_RESAMPLES - start)
            problem = arrange(
                torch.from_numpy(self.p).expand(count, *self.p.shape),
                self.y,
                task=self.task,
                from_logits=self.from_logits,
                sample_weight=random.standard_gamma(1.0, (count, len(self.y))),
                batch_dims=1,
            )
            found.append(evaluate_problem(problem, self.metric).numpy())
        return np.concatenate(found)

    def rows(self) -> float:
        """Of the rarer class; of several, so many as have the variance of their mean. 0 if one of
        two classes has none."""
        y = np.eye(self.p.shape[1])[self.y] if self.task == "multiclass" else self.y
        positives = y.reshape(len(y), -1).sum(0)
        rarer = np.minimum(positives, len(y) - positives)
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
        spread = area * (1 - area)
        if spread == 0:
            return area
        least = np.sqrt(_AREA_VARIANCE * spread / rows)
        return float(expit(logit(area) + sign * reach * max(error, least) / spread))

    more = rows + _AREA_ADDED
    return end(rows * value / more, -1), end((rows * value + _AREA_ADDED) / more, 1)
