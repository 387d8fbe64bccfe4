"""A path of models from a start to far away: which to take, by out-of-fold scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from softset.decisions.smoothing import effective_rows
from softset.decisions.tuner import Tuner
from softset.tables.rows import Examples, own_codes
from softset.training.linear import widened
from softset.typing import Array, Ints

# A move must beat the start by more than this many standard errors of the paired difference.
CLEAR = 0.5
RESAMPLES = 60
# With fewer rows of the rarer class for each feature than ``FEW`` a gain is luck more often.
FEW, CLEAR_OF_FEW = 3, 2.0
# With more features than this for each row of the rarest class nothing is moved.
WIDE = 10

# On more rows than this the distance is chosen on a sample: so many rows overfit nothing.
MOST_ROWS = 50_000


class PathPoint(NamedTuple):
    """A point of the path: its penalty (infinite for the start), and out of fold its metric, the
    gain over the start and the standard error of that gain."""

    penalty: float
    value: float
    gain: float
    error: float


@dataclass(frozen=True)
class Target:
    """The linear model of the classes, or of one label, in standardized units."""

    flat: Array
    path: list[PathPoint]
    chosen: int

    def widened(self, some: Array, outputs: int) -> Target:
        """With further columns beside ``some``, of coefficients 0."""
        return replace(self, flat=widened(self.flat, some, outputs))


@dataclass(frozen=True)
class Origin:
    """Where a target's model comes from."""

    start: Target
    scores: Array  # of the start, as those by which the threshold is tuned
    parts: dict[int, Array]  # the chosen point of the path without each fold

    def widened(self, some: Array, outputs: int) -> Origin:
        """As of a target."""
        without_fold = {k: widened(flat, some, outputs) for k, flat in self.parts.items()}
        return Origin(self.start.widened(some, outputs), self.scores, without_fold)


@dataclass(frozen=True)
class FittedPath:
    """The coefficients of the start and of the chosen point, both for all rows; and of the sample
    the out-of-fold scores of both (None if nothing is tuned) and the models of the chosen point
    without each fold."""

    start: Array
    flat: Array
    path: list[PathPoint]
    chosen: int
    oof: tuple[Array, Array] | None
    folds: dict[int, Array]


def origins_of(fitted: list[FittedPath], scores: list[Array]) -> list[Origin]:
    """Where the models come from, with the scores of the starts."""
    pairs = zip(fitted, scores, strict=True)
    return [Origin(Target(f.start, f.path[:1], 0), z, f.folds) for f, z in pairs]


@dataclass(frozen=True)
class Training:
    """What ``scorecard`` and ``logistic_part`` need of fit. Files and pickles do not hold it."""

    rows: Examples  # in the units of the user; two classes: ``x`` of the sample only, else of none
    place: Array | None  # among them, of each row of fit
    sample: Array  # the rows that the path was chosen on
    fold: Array  # of the sample
    tested: Array | slice  # which of the rows are in a fold
    origins: list[Origin]

    def widened(self, some: Array, outputs: int) -> Training:
        """As of a target."""
        x = self.rows.x @ sparse.eye(len(some), format="csr")[some]
        origins = [origin.widened(some, outputs) for origin in self.origins]
        return replace(self, rows=self.rows._replace(x=x), origins=origins)


def rarest_rows(y: Ints, w: Array) -> float:
    """The (effective) rows of the rarest class.

    >>> rarest_rows(np.repeat([0, 1], [90, 10]), np.ones(100))
    10.0
    """
    return min(effective_rows(w[y == k]) for k in np.unique(y[w > 0]))


def errors_needed(rarest: float, features: int) -> float:
    """How many standard errors a gain must have, by the (effective) rows of the rarest class for
    each feature that varies.

    >>> errors_needed(10, 3), errors_needed(10, 4)
    (0.5, 2.0)
    """
    return CLEAR_OF_FEW if rarest < FEW * features else CLEAR


def penalties_tried(path: Sequence[float], rarest: float, features: int) -> list[float]:
    """The penalties of a path; none where the rarest class has fewer (effective) rows than a tenth
    of the features. Logistic regression of so many features separates the rows that it is trained
    on, so that the soft metric has nothing left to gain on them.

    >>> penalties_tried([0.1], 10, 100), penalties_tried([0.1], 10, 101)
    ([0.1], [])
    """
    return [] if rarest * WIDE < features else [float(penalty) for penalty in path]


def choose(
    judged: list[Array],
    y: Array,
    w: Array,
    tuner: Tuner,
    penalties: list[float],
    needed: float,
) -> tuple[list[PathPoint], int]:
    """The points of the path by their out-of-fold decisions or scores (``Tuner.judged``), and which
    one to take.

    The best of those that beat the start, the first, by more than ``needed`` standard errors of the
    paired difference over rows drawn again with replacement; else the start.
    """
    random = np.random.RandomState(0)
    resamples = RESAMPLES if len(judged) > 1 else 1  # a start alone has nothing to beat
    drawn = np.concatenate([np.ones((1, len(y))), random.poisson(1.0, (resamples, len(y)))])
    values = np.array([tuner.judge(d, y, drawn * w) for d in judged])
    gains = values - values[0]
    errors = np.nanstd(gains[:, 1:], axis=1)
    path = [
        PathPoint(p, float(v), float(g), float(e))
        for p, v, g, e in zip(penalties, values[:, 0], gains[:, 0], errors, strict=True)
    ]
    clear = [i for i, point in enumerate(path) if i and point.gain > needed * point.error > 0]
    return path, max(clear, key=lambda i: path[i].value, default=0)


def is_better(start: Array, moved: Array, y: Array, w: Array, tuner: Tuner) -> bool:
    """Whether out-of-fold scores beat those of the start by more than ``CLEAR`` standard errors,
    for a goal that judges scores."""
    return choose([start, moved], y, w, tuner, [np.inf, 0.0], CLEAR)[1] == 1


def sample_limit(rows: int) -> np.uint64:
    """Rows with smaller hashes are in the sample of so many rows: some more than ``MOST_ROWS``.

    >>> int(sample_limit(10)) == 2**64 - 1, round(float(sample_limit(10**7) / 2**64), 6)
    (True, 0.0055)
    """
    share = 1.1 * MOST_ROWS / rows
    return np.uint64(2**64 - 1) if rows <= MOST_ROWS or share >= 1 else np.uint64(share * 2.0**64)


def path_sample(codes: Array, rows: int) -> Array:
    """Which rows of these hashes (``own_codes``) how far to move is chosen on, in their order: all;
    of many the ``MOST_ROWS`` smallest. ``rows`` are all rows, wherever they are."""
    order = np.argsort(codes)
    if rows <= MOST_ROWS:
        return order
    return order[: min(MOST_ROWS, int((codes < sample_limit(rows)).sum()))]


def sample_in_memory(rows: Examples) -> Array:
    """``path_sample`` of rows in memory; all of few rows in the order that they have."""
    n = len(rows.y)
    return np.arange(n) if n <= MOST_ROWS else path_sample(own_codes(rows), n)
