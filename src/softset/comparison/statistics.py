"""Scores on overlapping splits -> intervals and tests.

The scores of repeated K-fold splits share training rows, so that they vary together and their mean
is less certain than it looks. With a correlation of ``n_test / (n_test + n_train)`` between splits,
the variance of the mean of ``J`` scores is ``(1/J + n_test/n_train) s^2`` with the sample variance
``s^2`` (Nadeau and Bengio 2003, Machine Learning 52): exact where the correlation is that one.

Scores are counts of rows in disguise, so few splits may agree by chance and show no spread at all.
``s^2`` therefore has a floor, by ``one_row``, the change of the score by one wrong decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit
from scipy.stats import rankdata

from softset.checks import check_number
from softset.counting.cells import Confusion
from softset.metrics.registry import MetricLike, get_goal
from softset.tasks import MULTILABEL, Task


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences, its 95 % interval, two-sided ``p``, and P(mean > 0).

    ``probability`` is the posterior of the correlated Bayesian t-test with a flat prior (Corani
    and Benavoli 2015): how sure one may be that the mean difference is above zero. A single split
    has no interval.
    """

    mean: float
    low: float | None
    high: float | None
    p: float
    probability: float
    p_adjusted: float = 1.0


def one_row_of(metric: MetricLike, task: Task, counts: Sequence[int], rows: int) -> float:
    """How much one wrong decision takes from a perfect score: the grain of a metric.

    ``counts`` are the test rows of each class (of each label), ``rows`` those of all. The rarest
    class is missed once, or seen once too often, whichever costs more.

    >>> from softset.metrics.registry import get_metric
    >>> from softset.tasks import BINARY
    >>> [round(one_row_of(get_metric(m), BINARY, [90, 10], 100), 3) for m in ("accuracy", "f1")]
    [0.01, 0.053]
    """
    sizes = np.maximum(np.asarray(counts, dtype=np.float64), 1)
    goal, found = get_goal(metric), 0.0
    if not goal.where.grid:
        counted = _labels_wrong(sizes, rows) if task.independent else _class_wrong(sizes, task)
        perfect, *wrong = goal(counted).tolist()
        found = max(abs(perfect - value) for value in wrong)
    # One positive behind all negatives costs an area about 1 / positives.
    return found if 0 < found < math.inf else 1 / float(sizes.min())


def _class_wrong(sizes: NDArray[np.float64], task: Task) -> Confusion:
    """All right; one row of the rarest class taken for the commonest; of the first class for the
    last, which costs most where classes have an order; and the reverse of both."""
    rare, *_, common = np.argsort(sizes, kind="stable").tolist()
    last = len(sizes) - 1
    pairs = [(rare, common), (common, rare), (0, last), (last, 0)]
    matrices = np.tile(np.diag(sizes), (1 + len(pairs), 1, 1))
    for k, (i, j) in enumerate(pairs, 1):
        matrices[k, i, i] -= 1
        matrices[k, i, j] += 1
    return Confusion.from_matrix(torch.from_numpy(matrices), task=task)


def _labels_wrong(sizes: NDArray[np.float64], rows: int) -> Confusion:
    """All right; each label missed once; each label seen once too often."""
    one, same = np.eye(len(sizes)), np.tile(sizes, (len(sizes), 1))
    tp = torch.from_numpy(np.concatenate([sizes[None], sizes - one, same]))
    predicted = torch.from_numpy(np.concatenate([sizes[None], sizes - one, sizes + one]))
    total = torch.full_like(tp, float(max(rows, sizes.max() + 1)))
    return Confusion.from_sums(tp, predicted, torch.from_numpy(sizes), total, MULTILABEL)


def interval(
    scores: Sequence[float],
    test_share: float,
    one_row: float,
    level: float = 0.95,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float | None, float | None]:
    """Mean of the scores of ``J`` splits and its interval, ``test_share`` of the rows in a test.

    It stays ``within`` what the metric can be. A single split has no interval.

    >>> [round(v, 3) for v in interval([0.70, 0.72, 0.71, 0.69, 0.73], 0.2, one_row=0.01)]
    [0.71, 0.681, 0.739]
    """
    check_number("level", level, 0, 1)
    mean, low, high = _interval(*_moments(scores, test_share, one_row**2 / 12), level)
    if low is None or high is None:
        return mean, None, None
    return mean, max(low, min(within[0], mean)), min(high, max(within[1], mean))


def paired(
    first: Sequence[float], second: Sequence[float], test_share: float, one_row: float
) -> Difference:
    """``first - second``, split by split: the corrected resampled t-test.

    Candidates that are ``k`` rows apart disagree in ``k`` rows or more. If each disagreement went
    either way by chance, as it does between equals, the variance of their difference would be
    ``k`` rows squared or more (McNemar 1947): that is the floor of the variance.

    >>> found = paired([0.71, 0.74, 0.73, 0.70, 0.75], [0.70, 0.72, 0.71, 0.69, 0.73], 0.2, 0.001)
    >>> round(found.mean, 3), round(found.p, 3), round(found.probability, 3)
    (0.016, 0.012, 0.994)
    >>> paired([0.6] * 5, [0.5] * 5, 0.2, one_row=0.05).p > 0.05
    True
    """
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    floor = one_row * max(abs(float(differences.mean())), one_row / 12)
    mean, error, splits = _moments(differences, test_share, floor)
    sure = float(stdtr(splits - 1, mean / error)) if splits > 1 else 0.5  # one split says nothing
    _, low, high = _interval(mean, error, splits, 0.95)
    return Difference(mean, low, high, 2 * min(sure, 1 - sure), sure)


def _interval(
    mean: float, error: float, splits: int, level: float
) -> tuple[float, float | None, float | None]:
    if splits < 2:
        return mean, None, None
    reach = error * float(stdtrit(splits - 1, (1 + level) / 2))
    return mean, mean - reach, mean + reach


def _moments(scores: Any, test_share: float, floor: float) -> tuple[float, float, int]:
    """Mean, standard error with the correction, number of splits.

    ``floor`` is the least variance of a score: at least that of rounding to whole rows, which is
    ``one_row ** 2 / 12``.
    """
    check_number("test_share", test_share, 0, 1)
    check_number("one_row", floor, 0, math.inf)
    values = np.asarray(scores, dtype=float)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"scores must be finite numbers, one a split, got {scores!r}.")
    factor = 1 / len(values) + test_share / (1 - test_share)
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()), math.sqrt(factor * max(variance, floor)), len(values)


def holm(p: Sequence[float]) -> list[float]:
    """P-values adjusted so that the chance of any false finding is below the level (Holm 1979).

    >>> [round(v, 3) for v in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def mean_ranks(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean over splits of each candidate's rank, 1 for the best; equal scores share theirs.

    >>> mean_ranks({"a": [0.9, 0.8], "b": [0.7, 0.8]})
    {'a': 1.25, 'b': 1.75}
    """
    table: NDArray[np.float64] = np.array(list(scores.values()), dtype=float)
    ranks = rankdata(-np.round(table, 12), axis=0).mean(1)
    return dict(zip(scores, ranks.tolist(), strict=True))
