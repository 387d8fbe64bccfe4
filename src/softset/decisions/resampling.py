"""The gain of a tuned threshold, by the bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softset.decisions.decision import Decision
from softset.typing import Floats, Ints

if TYPE_CHECKING:
    from softset.decisions.tuner import Tuner

LEVEL = 0.95
_DRAWS = 400
# Scores up to which tuning is repeated within folds; above, the optimism of a threshold that is
# tuned on so many rows is far below its standard error.
_MOST_WORK = 100_000


class Gain(NamedTuple):
    """The gain of tuning the threshold, on rows that neither the threshold nor the choice to use it
    has seen: each fifth of the rows is decided by the threshold of the others, which is the default
    where tuning does not help them.

    ``value`` is the metric so, ``plain`` that of the default threshold (1/2, or the largest
    probability), ``gain`` their difference with its 95 % bootstrap interval, from ``low`` to
    ``high``, which at 20 positives covers the true gain in .82 to .90 of fits (docs/benchmarks.md).
    """

    value: float
    plain: float
    gain: float
    low: float
    high: float

    def __repr__(self) -> str:
        """In four decimals."""
        gain = ", ".join(f"{name}={getattr(self, name):+.4f}" for name in ("gain", "low", "high"))
        return f"Gain(value={self.value:.4f}, plain={self.plain:.4f}, {gain})"


def tuning_gain(
    tuner: Tuner, crossed: Floats, scores: Floats, y: Ints, w: Floats, seed: int
) -> Gain:
    """See ``Gain``; ``crossed`` are the decisions of ``Tuner.crossed``, by which ``Tuner.tune``
    chose: they are optimistic, and are used only where there are so many rows that it does not
    matter. Both decisions are evaluated on the same rows in every resample.

    >>> from softset.decisions.tuner import Tuner
    >>> from softset.metrics.registry import get_metric
    >>> z = np.repeat([-3.0, -1.0], [90, 30])
    >>> tuner, y = Tuner(get_metric("f1"), "binary"), np.repeat([0, 1], [90, 30])
    >>> w = np.ones(120)
    >>> gain = tuning_gain(tuner, tuner.crossed(z, y, w), z, y, w, seed=0)
    >>> gain.value, gain.plain, gain.low
    (1.0, 0.0, 1.0)
    """
    much = work(tuner, scores) > _MOST_WORK
    tuned = crossed if much else tuner.crossed(scores, y, w, tuner.tune)
    default = Decision.plain(tuner.task, scores.shape[-1]).one_hot(scores)
    # Rows of equal labels and decisions count alike.
    rows = np.column_stack([a.reshape(len(y), -1) for a in (y, tuned, default)])
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    weights = drawn_weights(kind.ravel(), w, _DRAWS, np.random.default_rng(seed))
    values = [tuner.values(d[first], y[first], weights) for d in (tuned, default)]
    gains = values[0] - values[1]
    low, high = np.nanquantile(gains[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Gain(*(float(v) for v in (values[0][0], values[1][0], gains[0], low, high)))


def work(tuner: Tuner, scores: Floats) -> int:
    """Scores that tuning reads: for offsets, every score once for each class."""
    return scores.size * (scores.shape[1] if tuner.task.exclusive else 1)


def drawn_weights(group: Ints, w: Floats, draws: int, random: np.random.Generator) -> Floats:
    """The weight of each group of rows, ``(1 + draws, groups)``: as it is, then of rows drawn
    again with replacement.

    Each row is drawn a Poisson number of times: so is the sum over rows of equal weight. Of other
    weights it is a Poisson number of as many effective rows, with the same mean and variance.
    """
    weight, square = (np.bincount(group, weights=v) for v in (w, w * w))
    unit = np.divide(square, weight, out=np.ones_like(weight), where=weight > 0)
    return np.vstack([weight, random.poisson(weight / unit, (draws, len(weight))) * unit])
