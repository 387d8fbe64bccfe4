"""Scores on overlapping splits -> intervals, tests, and which family of candidates is better.

The scores of repeated K-fold splits share training rows, so that they vary together and their mean
is less certain than it looks. With a correlation of ``n_test / (n_test + n_train)`` between splits,
the variance of the mean of ``J`` scores is ``(1/J + n_test/n_train) s^2`` with the sample variance
``s^2`` (Nadeau and Bengio 2003, Machine Learning 52): exact where the correlation is that one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit
from scipy.stats import rankdata

from softset.checks import check_number

# Differences below this are rounding.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences, its 95 % interval, two-sided ``p``, and P(mean > 0).

    ``probability`` is the posterior of the correlated Bayesian t-test with a flat prior (Corani
    and Benavoli 2015): how sure one may be that the mean difference is above zero.
    """

    mean: float
    low: float
    high: float
    p: float
    probability: float
    p_adjusted: float = 1.0


def interval(
    scores: Sequence[float], test_share: float, level: float = 0.95
) -> tuple[float, float, float]:
    """Mean of the scores of ``J`` splits and its interval, ``test_share`` of the rows in a test.

    >>> [round(v, 3) for v in interval([0.70, 0.72, 0.71, 0.69, 0.73], 0.2)]
    [0.71, 0.681, 0.739]
    """
    check_number("level", level, 0, 1)
    mean, spread, splits = _moments(scores, test_share)
    reach = spread * float(stdtrit(splits - 1, (1 + level) / 2)) if splits > 1 else math.inf
    return mean, mean - reach, mean + reach


def paired(first: Sequence[float], second: Sequence[float], test_share: float) -> Difference:
    """``first - second``, split by split: the corrected resampled t-test.

    >>> found = paired([0.71, 0.74, 0.73, 0.70, 0.75], [0.70, 0.72, 0.71, 0.69, 0.73], 0.2)
    >>> round(found.mean, 3), round(found.p, 3), round(found.probability, 3)
    (0.016, 0.012, 0.994)
    """
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    mean, spread, splits = _moments(differences, test_share)
    _, low, high = interval(differences.tolist(), test_share)
    if spread < _NOTHING or splits < 2:
        # One split says nothing; without any spread, the sign is all there is.
        sure = 0.5 if splits < 2 or abs(mean) < _NOTHING else float(mean > 0)
    else:
        sure = float(stdtr(splits - 1, mean / spread))
    return Difference(mean, low, high, 2 * min(sure, 1 - sure), sure)


def _moments(scores: Any, test_share: float) -> tuple[float, float, int]:
    """Mean, standard error with the correction, number of splits."""
    check_number("test_share", test_share, 0, 1)
    values = np.asarray(scores, dtype=float)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"scores must be finite numbers, one a split, got {scores!r}.")
    factor = 1 / len(values) + test_share / (1 - test_share)
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()), math.sqrt(factor * variance), len(values)


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


@dataclass(frozen=True)
class Decision:
    """``outcome`` is ``"metric"``, ``"plain"`` or ``"none"``; differences are to ``reference``."""

    outcome: str
    winner: str
    reference: str
    best_metric: str
    differences: dict[str, Difference]


def decide(
    scores: Mapping[str, Sequence[float]],
    families: Mapping[str, str],
    test_share: float,
    level: float = 0.05,
) -> Decision:
    """Is a candidate of family ``"metric"`` better than every one of family ``"plain"``?

    The reference is the plain candidate with the best mean, the winner the metric candidate with
    the best mean among the clear ones: both are picked after looking at the scores, which must
    not count as a finding. So

    - a metric candidate has to beat *each* plain one: its p-value is the largest of those (an
      intersection-union test, valid whichever plain candidate is truly the best), adjusted by
      ``holm`` for the number of metric candidates;
    - for the outcome ``"plain"`` the reference has to beat each metric candidate, its largest
      p-value times the number of plain candidates.

    Each side gets half of ``level``. If all candidates are equal, the chance of any outcome but
    ``"none"`` is thus at most ``level``.

    >>> table = {"ce": [0.70, 0.72, 0.71, 0.69, 0.73], "soft": [0.75, 0.77, 0.755, 0.74, 0.785]}
    >>> decide(table, {"ce": "plain", "soft": "metric"}, 0.2).outcome
    'metric'
    """
    check_number("level", level, 0, 1)
    names = {family: [c for c in scores if families[c] == family] for family in ("metric", "plain")}
    for family, found in names.items():
        if not found:
            raise ValueError(f"scores must hold a candidate of family {family!r}, got none.")
    means = {c: float(np.mean(s)) for c, s in scores.items()}
    reference = max(names["plain"], key=means.__getitem__)
    tests = {
        (m, p): paired(scores[m], scores[p], test_share)
        for m in names["metric"]
        for p in names["plain"]
    }
    # Two-sided p-values of the claim "m beats every plain candidate", and of its opposite.
    beats = [_claim(tests[m, p].probability for p in names["plain"]) for m in names["metric"]]
    adjusted = dict(zip(names["metric"], holm(beats), strict=True))
    loses = _claim(1 - tests[m, reference].probability for m in names["metric"])

    clear = [m for m in names["metric"] if adjusted[m] <= level]
    best = max(names["metric"], key=means.__getitem__)
    outcome, winner = "none", reference
    if clear:
        outcome, winner = "metric", max(clear, key=means.__getitem__)
    elif loses * len(names["plain"]) <= level:
        outcome = "plain"
    differences = {
        c: _against(scores, c, reference, test_share, adjusted) for c in scores if c != reference
    }
    return Decision(outcome, winner, reference, best, differences)


def _claim(probabilities: Any) -> float:
    return min(1.0, 2 * max(1 - p for p in probabilities))


def _against(
    scores: Mapping[str, Sequence[float]],
    candidate: str,
    reference: str,
    test_share: float,
    adjusted: dict[str, float],
) -> Difference:
    found = paired(scores[candidate], scores[reference], test_share)
    p = adjusted.get(candidate, min(1.0, found.p * (len(scores) - 1)))
    return Difference(found.mean, found.low, found.high, found.p, found.probability, p)
