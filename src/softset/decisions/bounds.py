"""At which thresholds a constraint is kept on new rows, with a stated confidence: exact bounds for
monotone rates, tests in a fixed sequence for precision (``promises`` has the reasons)."""

from __future__ import annotations

from math import ceil, log
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import betainc, expit
from scipy.stats import betabinom, binom

from softset.counting.cells import Confusion
from softset.counting.thresholds import all_thresholds
from softset.metrics.meeting import RATES, Constraint
from softset.tasks import BINARY
from softset.typing import Floats, Ints

# Flagged rows of neighboring thresholds of the grid for precision: a fixed sequence that stops at
# every row would stop by chance.
_RATIO = 1.03
# Starting points of that sequence, each with twice the flagged rows of the one before; and the
# fraction of the level for the one that is best if scores are calibrated.
_STARTS, CALIBRATED = 4, 0.5


class Sums(NamedTuple):
    """Counts at every threshold ``(n + 1,)``, and effective numbers of the rows behind them."""

    place: Floats
    flagged: Floats
    tp: Floats
    n_flagged: Floats  # effective flagged rows
    errors: dict[str, Floats]  # by rate, the fraction of its rows that are on the wrong side
    n: dict[str, float]  # by rate, effective rows


def sums_at_thresholds(
    z: torch.Tensor, y: torch.Tensor, w: torch.Tensor, place: torch.Tensor, c: Confusion
) -> Sums:
    """Counts and effective rows at every threshold of the logits ``z``."""
    squares = all_thresholds(z, y, w * w, BINARY).counts

    def effective(sums: torch.Tensor, of_squares: torch.Tensor) -> Floats:
        """Effective numbers of rows; integers where rounding alone keeps them from it."""
        n = np.square(sums.numpy()) / np.maximum(of_squares.numpy(), 1e-300)
        return np.where(np.abs(n - n.round()) < 1e-6, n.round(), n)

    def fraction(errors: torch.Tensor, of: torch.Tensor) -> Floats:
        """Errors as a fraction of the rows that count; 0 of no rows."""
        return errors.numpy() / np.maximum(of.numpy(), 1e-300)

    fpr, negatives = fraction(c.fp, c.negatives), effective(c.negatives, squares.negatives)
    return Sums(
        place.numpy(),
        c.predicted.numpy(),
        c.tp.numpy(),
        effective(c.predicted, squares.predicted),
        {
            "recall": fraction(c.fn, c.support),
            "specificity": fpr,
            "fpr": fpr,
            "alerts": fraction(c.predicted, c.total),
        },
        {
            "recall": float(effective(c.support, squares.support)[0]),
            "specificity": float(negatives[0]),
            "fpr": float(negatives[0]),
            "alerts": float(effective(c.total, squares.total)[0]),
        },
    )


def kept_thresholds(
    constraint: Constraint, sums: Sums, confidence: float, usable: np.ndarray, rows: int
) -> np.ndarray:
    """Mask of the thresholds at which a constraint is promised."""
    if constraint.rate == "precision":
        return _tested(sums, constraint.bound, 1 - confidence, usable)
    n, errors = sums.n[constraint.rate], sums.errors[constraint.rate]
    if n == 0:
        return np.zeros(len(errors), dtype=bool)
    e = np.round(errors * n, 9)
    if constraint.rows is not None:
        most = _most_errors(constraint, n, confidence, np.unique(e), rows)
        return e <= most
    inside = n - e > 0
    tail = betainc(e + 1, np.where(inside, n - e, 1.0), allowed_errors(constraint))
    return np.where(inside, tail, float(allowed_errors(constraint) >= 1)) >= confidence


def allowed_errors(constraint: Constraint) -> float:
    """The rate of errors that a constraint allows."""
    # Rounded, because 1 - 0.95 is 0.050000000000000044.
    return round(1 - constraint.bound, 15) if RATES[constraint.rate][0] > 0 else constraint.bound


def _most_errors(
    constraint: Constraint, n: float, confidence: float, tried: Floats, rows: int
) -> float:
    """The most flagged calibration rows with which a count of alerts is promised; -1 if none."""
    future = constraint.rows or rows
    low, high = -1, len(tried) - 1
    while low < high:  # the largest index at which it is promised, by bisection
        middle = (low + high + 1) // 2
        e = tried[middle]
        sure = e < n and betabinom.cdf(constraint.bound, future, e + 1, n - e) >= confidence
        low, high = (middle, high) if sure or constraint.bound >= future else (low, middle - 1)
    return float(tried[low]) if low >= 0 else -1.0


def _tested(sums: Sums, bound: float, alpha: float, usable: np.ndarray) -> np.ndarray:
    """Mask of the thresholds of the grid whose precision is proved to be at least ``bound``."""
    passed = np.zeros(len(sums.place), dtype=bool)
    if not 0 < bound < 1:
        return ~passed if bound <= 0 else passed
    grid, levels = _grid(sums, bound, alpha, usable)
    if not len(grid):
        return passed
    n = sums.n_flagged[grid]
    k = n * sums.tp[grid] / sums.flagged[grid]
    p = np.where(k > 0, betainc(np.maximum(k, 1e-9), n - k + 1, bound), 1.0)
    carried = 0.0
    for at, value, level in zip(grid, p, levels, strict=True):
        carried = carried + level
        if value > carried or carried == 0:
            carried = 0.0
            continue
        passed[at] = True
    return passed


def _grid(sums: Sums, bound: float, alpha: float, usable: np.ndarray) -> tuple[Ints, Floats]:
    """Thresholds to test, from strict to lenient, and the levels that enter at each; no label is
    read."""
    index = np.flatnonzero(usable & (sums.flagged > 0))[::-1]
    n = sums.n_flagged[index]
    if not len(index):
        return index, np.zeros(0)
    least = ceil(log(alpha) / log(bound))
    steps = [float(least)]
    while steps[-1] < n.max():
        steps.append(max(steps[-1] + 1, steps[-1] * _RATIO))
    grid = np.unique(np.searchsorted(np.maximum.accumulate(n), steps))
    grid = grid[grid < len(index)]
    index, n = index[grid], n[grid]
    if not len(index):
        return index, np.zeros(0)
    levels = np.zeros(len(index))
    each = alpha * (1 - CALIBRATED) / _STARTS
    first = log(each) / log(bound)
    starts = np.searchsorted(n, [first * 2.0**k for k in range(_STARTS)])
    np.add.at(levels, np.minimum(starts, len(index) - 1), each)
    levels[_best_start(sums, index, bound, alpha * CALIBRATED)] += alpha * CALIBRATED
    return index, levels


def _best_start(sums: Sums, grid: Ints, bound: float, alpha: float) -> int:
    """The threshold whose test is most likely to reject if the scores are calibrated."""
    p = expit(sums.place)
    # The mean probability of the flagged rows: between two thresholds lie rows of about theirs.
    steps = -np.diff(sums.flagged, append=0.0)
    mean = (np.cumsum((p * steps)[::-1])[::-1] / np.maximum(sums.flagged, 1e-300))[grid]
    n = np.floor(sums.n_flagged[grid])
    critical = binom.isf(alpha, n, bound) + 1
    return int(np.argmax(binom.sf(critical - 1, n, np.clip(mean, 0, 1))))


def needed_rows(constraint: Constraint, confidence: float, rows: int) -> int | None:
    """The least rows of its kind with which a monotone constraint can be promised at all."""
    if constraint.rows is not None:
        future = constraint.rows or rows
        low, high = 0, 1
        while betabinom.cdf(constraint.bound, future, 1, high) < confidence:
            low, high = high, 2 * high
            if high > 10**12:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            sure = betabinom.cdf(constraint.bound, future, 1, middle) >= confidence
            low, high = (low, middle) if sure else (middle, high)
        return high
    allowed = allowed_errors(constraint)
    if allowed <= 0:
        return None
    least = max(1, ceil(log(1 - confidence) / log(1 - allowed))) if allowed < 1 else 1
    # As ``kept_thresholds`` computes it, so that rounding cannot make one row the difference.
    return least if betainc(1, least, allowed) >= confidence else least + 1
