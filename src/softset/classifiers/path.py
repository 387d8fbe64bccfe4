"""A path of models from a start to far away: which to take, by rows they have not seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softset.decisions.tuner import Tuner

Array = NDArray[Any]
# A move must beat the start by more than this many standard errors of the paired difference.
CLEAR = 0.5
RESAMPLES = 60
# With fewer rows of the rarer class for each feature than ``FEW`` a gain is luck more often.
FEW, CLEAR_OF_FEW = 3, 2.0


class PathPoint(NamedTuple):
    """A point of the path: its penalty (infinite for the start), and out of fold its metric, the
    gain over the start and the standard error of that gain."""

    penalty: float
    value: float
    gain: float
    error: float


def errors_needed(y: NDArray[np.int64], features: int) -> float:
    """How many standard errors a gain must have, by the rows of the rarer class for each feature.

    >>> errors_needed(np.repeat([0, 1], [90, 10]), 3), errors_needed(np.repeat([0, 1], [90, 10]), 4)
    (0.5, 2.0)
    """
    return CLEAR_OF_FEW if np.bincount(y).min() < FEW * features else CLEAR


def choose(
    decided: list[Array],
    y: Array,
    w: Array,
    tuner: Tuner,
    penalties: list[float],
    needed: float,
) -> tuple[list[PathPoint], int]:
    """The points of the path by their out-of-fold decisions, and which one to take.

    The best of those that beat the start, the first, by more than ``needed`` standard errors of the
    paired difference over rows drawn again with replacement; else the start.
    """
    random = np.random.RandomState(0)
    drawn = np.concatenate([np.ones((1, len(y))), random.poisson(1.0, (RESAMPLES, len(y)))])
    values = np.array([tuner.values(d, y, drawn * w) for d in decided])
    gains = values - values[0]
    errors = np.nanstd(gains[:, 1:], axis=1)
    path = [
        PathPoint(p, float(v), float(g), float(e))
        for p, v, g, e in zip(penalties, values[:, 0], gains[:, 0], errors, strict=True)
    ]
    clear = [i for i, point in enumerate(path) if i and point.gain > needed * point.error > 0]
    return path, max(clear, key=lambda i: path[i].value, default=0)
