"""Which thresholds may be the best one: a 95 % confidence interval, by inverting a paired test.

The threshold that is best on a sample is the argmax of a jagged curve. It converges with the cube
root of the rows, and quantiles of it over resampled rows do not cover the best threshold (the
bootstrap is not consistent there). The metric itself has no such trouble: a threshold stays in the
interval unless its metric is significantly below that of the best one, on the same rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.stats import t as student

from softset.counting.cells import Confusion
from softset.counting.thresholds import EQUAL
from softset.decisions.offsets import flips
from softset.decisions.resampling import LEVEL, drawn_weights, work
from softset.decisions.smoothing import effective_rows
from softset.metrics.base import Metric
from softset.tasks import BINARY, MULTICLASS, MULTILABEL, Task
from softset.typing import Floats, Ints

if TYPE_CHECKING:
    from softset.decisions.tuner import Tuner

# Thresholds that are tried: at quantiles of all scores and of those of the class.
_QUANTILES = 48
# Resamples, and numbers that are counted for them in all: many classes have fewer resamples.
_DRAWS, _FEWEST, _WORK = 200, 25, 20_000_000
# Scores up to which offsets have intervals, which need another tuning.
_MOST_WORK = 1_000_000


class Column(NamedTuple):
    """One threshold: rows are taken for the class from it on.

    ``kind`` groups rows that count alike; ``target``, ``below`` and ``above`` are the labels of
    each kind and its decisions on both sides of the threshold, ``(kinds, classes)`` of 0 and 1.
    """

    metric: Metric
    task: Task
    score: Floats
    positive: Ints
    kind: Ints
    target: Floats
    below: Floats
    above: Floats


def threshold_interval(
    tuner: Tuner, scores: Floats, y: Ints, w: Floats, seed: int
) -> Floats | None:
    """95 % confidence interval of the best threshold, ``(2,)``, or ``(labels or classes, 2)``.

    It holds every threshold whose metric is at most ``t`` standard errors below the best one.
    The standard error is that of the difference on the same resampled rows; ``t`` is Student's
    two-sided quantile for the effective number of rows of the rarer side, less one. An end is
    infinite where no threshold is excluded. Those that depend on each other (offsets, micro
    averages) have an interval each, with the others fixed. ``None`` where that would take too long:
    rows times the square of the classes above a million, or very many classes; and for goals whose
    threshold is not the one with the best metric, such as one that meets a constraint.

    >>> from softset.decisions.tuner import Tuner
    >>> from softset.metrics.registry import get_metric
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> z = random.normal(size=1000) + 2 * y
    >>> threshold_interval(Tuner(get_metric("f1"), BINARY), z, y, np.ones(1000), seed=0).round(1)
    array([1.4, 1.8])
    """
    if tuner.goal.where.exact:
        return None
    draws = min(_DRAWS, _WORK // (4 * _QUANTILES * _counted(tuner, scores)))
    if draws < _FEWEST or (tuner.task.exclusive and work(tuner, scores) > _MOST_WORK):
        return None
    some = w > 0
    scores, y, w = scores[some], y[some], w[some]
    best = tuner.best(scores, y, w).logit
    columns = _columns(tuner, best, scores, y)
    random = np.random.default_rng(seed)
    ends = np.array([_interval(column, w, draws, random) for column in columns])
    if tuner.task.exclusive:  # a class is taken from its smallest offset on
        ends = best[:, None] - ends[:, ::-1]
    ends = ends.reshape(*best.shape, 2)
    return np.stack([np.minimum(ends[..., 0], best), np.maximum(ends[..., 1], best)], -1)


def _counted(tuner: Tuner, scores: Floats) -> int:
    """Number of counts at each threshold, over all columns."""
    classes = 1 if tuner.task.single else scores.shape[1]
    if tuner.task.independent and tuner.goal.metric.separable:
        return 4 * classes
    matrix = classes**2 if tuner.goal.wants_matrix(tuner.task, classes) else 0
    return classes * (1 + 3 * classes + matrix)


def _columns(tuner: Tuner, best: Floats, scores: Floats, y: Ints) -> list[Column]:
    if tuner.task.exclusive:
        return [_of_class(tuner.goal.metric, scores + best, y, k) for k in range(len(best))]
    if tuner.task.single:
        return [_of_label(tuner.goal.metric, scores, y)]
    pairs = list(zip(scores.T, y.T, strict=True))
    if tuner.goal.metric.separable:
        metric = replace(tuner.goal.metric, both_classes=False)
        return [_of_label(metric, score, label) for score, label in pairs]
    decided = (scores >= best).astype(np.int64)
    return [_among_labels(tuner.goal.metric, pairs[k][0], y, decided, k) for k in range(len(pairs))]


def _of_label(metric: Metric, score: Floats, y: Ints) -> Column:
    kinds = np.array([[0.0], [1.0]])
    return Column(
        metric, BINARY, score, y == 1, y, kinds, np.zeros_like(kinds), np.ones_like(kinds)
    )


def _among_labels(metric: Metric, score: Floats, y: Ints, decided: Ints, k: int) -> Column:
    rows, kind = np.unique(np.hstack([y, decided]), axis=0, return_inverse=True)
    target, below = np.split(rows.astype(np.float64), 2, axis=1)
    above = below.copy()
    below[:, k], above[:, k] = 0, 1
    return Column(metric, MULTILABEL, score, y[:, k] == 1, kind.ravel(), target, below, above)


def _of_class(metric: Metric, scores: Floats, y: Ints, k: int) -> Column:
    flip, other = (values.numpy() for values in flips(torch.from_numpy(scores), k))
    eye = np.eye(scores.shape[1])
    pairs, kind = np.unique(y * len(eye) + other, return_inverse=True)
    target, below = eye[pairs // len(eye)], eye[pairs % len(eye)]
    above = np.broadcast_to(eye[k], below.shape)
    return Column(metric, MULTICLASS, -flip, y == k, kind, target, below, above)


def _sums(column: Column) -> tuple[Floats, Floats]:
    """What each kind of rows adds to the sums of a confusion, below and above the threshold."""
    y, classes = column.target, column.target.shape[1]
    matrix = column.metric.wants_matrix(column.task, classes)

    def sums(decided: Floats) -> Floats:
        """Of each row, what the counts are sums of."""
        columns = [np.ones((len(y), 1)), y * decided, decided, y]
        if matrix:
            columns.append((y[:, :, None] * decided[:, None]).reshape(len(y), -1))
        return np.hstack(columns)

    return sums(column.below), sums(column.above)


def _confusion(sums: torch.Tensor, task: Task, classes: int) -> Confusion:
    if task.single:
        total, tp, predicted, support = sums.unbind(-1)
        return Confusion.from_sums(tp, predicted, support, total)
    ends = [1, 1 + classes, 1 + 2 * classes, 1 + 3 * classes]
    total, tp, predicted, support, matrix = sums.tensor_split(ends, -1)
    counted = matrix.reshape(*tp.shape, classes) if matrix.shape[-1] else None
    return Confusion.from_sums(tp, predicted, support, total, task, counted)


def _interval(
    column: Column, w: Floats, draws: int, random: np.random.Generator
) -> tuple[float, float]:
    rarer = min(effective_rows(w[column.positive]), effective_rows(w[~column.positive]))
    if rarer == 0:
        return -np.inf, np.inf
    low, high = _tried(column.score, column.score[column.positive])
    # Number of thresholds at which a row is positive; at the highest only infinite scores are.
    taken = np.searchsorted(high, column.score, side="right")
    values = _values(column, taken, len(high), w, draws, random)
    at = int(np.nanargmax(values[0]))
    behind = values[:, at : at + 1] - values
    # Resamples in which the metric is undefined are omitted.
    noise = np.ma.masked_invalid(behind[1:] - behind[0])
    error = np.sqrt((noise**2).mean(0).filled(0.0))
    reach = student.ppf((1 + LEVEL) / 2, max(1.0, rarer - 1))
    inside = np.flatnonzero(behind[0] <= reach * error + EQUAL)
    return float(low[inside[0]]), float(high[inside[-1]])


def _tried(score: Floats, positives: Floats) -> tuple[Floats, Floats]:
    """The scores below and above each threshold to try; the outer ones are infinite."""
    distinct = np.unique(score[np.isfinite(score)])
    at = np.linspace(0, 1, _QUANTILES)
    columns = [part[np.isfinite(part)] for part in (score, positives)]
    near = np.searchsorted(
        distinct, np.concatenate([np.quantile(p, at) for p in columns if len(p)])
    )
    # Of a quantile that is a score, the thresholds on both of its sides.
    some = np.unique([0, *near, *np.minimum(near + 1, len(distinct)), len(distinct)])
    return np.append(-np.inf, distinct)[some], np.append(distinct, np.inf)[some]


def _values(
    column: Column, taken: Ints, count: int, w: Floats, draws: int, random: np.random.Generator
) -> Floats:
    """The metric at each threshold, ``(1 + draws, thresholds)``: of these rows, then resampled."""
    below, above = _sums(column)
    code, group = np.unique(taken * len(below) + column.kind, return_inverse=True)
    drawn = drawn_weights(group.ravel(), w, draws, random)
    place, kind = np.divmod(code, len(below))
    change = (above - below)[kind]
    row, sum_ = np.nonzero(change)
    shape = (len(code), (count + 1) * change.shape[1])
    spread = csr_array((change[row, sum_], (row, place[row] * change.shape[1] + sum_)), shape=shape)
    moved = np.asarray(drawn @ spread).reshape(len(drawn), count + 1, -1)
    from_threshold_on = moved[:, ::-1].cumsum(1)[:, -2::-1]
    sums = np.maximum((drawn @ below[kind])[:, None] + from_threshold_on, 0.0)
    flat = torch.from_numpy(sums.reshape(-1, sums.shape[-1]))
    counted = _confusion(flat, column.task, column.target.shape[1])
    return column.metric(counted).numpy().reshape(len(drawn), count)
