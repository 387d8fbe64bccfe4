"""How sure a tuned cut is, and what it is worth: rows drawn again with replacement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softset.decisions.decision import Decision
from softset.decisions.tuner import Tuner

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEVEL = 0.95
# Draws for what a cut is worth, and for the cut itself, which is tuned anew in each.
_DRAWS, _CUTS, _FEWEST_CUTS = 400, 100, 20
# Scores that are looked at for the interval of a cut: many rows have fewer draws. Offsets look at
# every score once for each class.
_WORK, _MOST_WORK = 2_000_000, 1_000_000
# Decisions that are counted together: bounds memory.
_BLOCK = 2**22


class Worth(NamedTuple):
    """What a tuned cut is worth, on rows that it was not tuned on: each fifth of the rows is
    decided by the best cut of the others.

    ``value`` is the metric so, ``plain`` that of the model's own cut (1/2, or the largest
    probability), ``gain`` their difference with its 95 % interval, from ``low`` to ``high``.
    """

    value: float
    plain: float
    gain: float
    low: float
    high: float

    def __repr__(self) -> str:
        """In four decimals, which is more than anyone can know."""
        gain = ", ".join(f"{name}={getattr(self, name):+.4f}" for name in ("gain", "low", "high"))
        return f"Worth(value={self.value:.4f}, plain={self.plain:.4f}, {gain})"


def worth(tuner: Tuner, crossed: Floats, scores: Floats, y: Ints, w: Floats, seed: int) -> Worth:
    """See ``Worth``; ``crossed`` are the decisions of ``Tuner.crossed``. Both cuts meet the same
    rows in every draw.

    >>> from softset.metrics.registry import get_metric
    >>> z = np.repeat([-3.0, -1.0], [90, 30])
    >>> tuner, y = Tuner(get_metric("f1"), "binary"), np.repeat([0, 1], [90, 30])
    >>> w = np.ones(120)
    >>> found = worth(tuner, tuner.crossed(z, y, w), z, y, w, seed=0)
    >>> found.value, found.plain, found.low
    (1.0, 0.0, 1.0)
    """
    own = Decision.plain(tuner.task, scores.shape[-1]).one_hot(scores)
    # Rows of equal labels and decisions count alike: their weights are added first.
    rows = np.column_stack([a.reshape(len(y), -1) for a in (y, crossed, own)])
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    drawn = [w, *(w * times for times in _draws(len(y), _DRAWS, seed))]
    weights = np.array([np.bincount(kind.ravel(), weights=each) for each in drawn])
    size = max(1, _BLOCK // crossed[first].size)
    values = np.concatenate(
        [
            [tuner.values(d[first], y[first], weights[at : at + size]) for d in (crossed, own)]
            for at in range(0, len(weights), size)
        ],
        axis=1,
    )
    gains = values[0] - values[1]
    low, high = np.nanquantile(gains[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Worth(float(values[0, 0]), float(values[1, 0]), float(gains[0]), float(low), float(high))


def cut_interval(tuner: Tuner, scores: Floats, y: Ints, w: Floats, seed: int) -> Floats | None:
    """The 95 % interval of the best cut, ``(2,)``, or ``(labels or classes, 2)``.

    ``None`` where tuning offsets again and again would take too long: rows times the square of
    the classes above a million.
    """
    work = scores.size
    if tuner.task == "multiclass":
        work *= scores.shape[1]
        if work > _MOST_WORK:
            return None
    cuts = []
    for drawn in _draws(len(y), int(np.clip(_WORK // work, _FEWEST_CUTS, _CUTS)), seed):
        some = drawn > 0
        if len(np.unique(y[some], axis=0)) > 1:
            cuts.append(tuner.best(scores[some], y[some], (w * drawn)[some]).cut)
    return np.quantile(cuts, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0).T


def _draws(rows: int, count: int, seed: int) -> Iterator[Floats]:
    """How often each row is drawn, ``count`` times."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield random.poisson(1.0, rows).astype(np.float64)
