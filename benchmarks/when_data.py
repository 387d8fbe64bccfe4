"""The data of the study ``when.py``: sets, made-up families with a known optimum, what is done to
them along each axis of data."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import softset as ss
from common import load, splits, zenodo
from softset.tables.rows import Examples
from softset.tasks import BINARY, MULTICLASS, Task

# Larger sets are thinned to so many rows, by class, for time.
MOST_ROWS = 8_000
DIGITS = ("digits", "digits, long tail")
# For the axes of data: enough positives to take some away, and not so large that it takes long.
MANY = ("abalone", "cocktailparty", "mammography", "satimage", "sick_euthyroid", "thyroid_sick",
        "wine_quality")  # fmt: skip


class Problem(NamedTuple):
    """Rows to train on and to test on; ``chance`` is P(y = 1 | x) of the test rows, if known."""

    train: Examples
    test: Examples
    classes: int = 2
    chance: np.ndarray | None = None

    @property
    def task(self) -> Task:
        return BINARY if self.classes == 2 else MULTICLASS


# --- made-up families: the probability of the positive class is known -----------------------------

FEATURES, TRAIN_ROWS, TEST_ROWS = 8, 3000, 20_000


def _density(x: np.ndarray, center: tuple[float, float]) -> np.ndarray:
    """Of a normal distribution around ``center`` in the first two features, up to a factor."""
    return np.exp(-((x[:, :2] - np.array(center)) ** 2).sum(1) / 2)


def _two_kinds(x: np.ndarray) -> np.ndarray:
    """Positives of two kinds, negatives of two kinds, none in line: normal distributions."""
    yes = 0.6 * _density(x, (2.5, 0.0)) + 0.4 * _density(x, (0.0, 2.5))
    no = 0.75 * _density(x, (0.0, 0.0)) + 0.25 * _density(x, (3.0, -3.0))
    return 0.1 * yes / (0.1 * yes + 0.9 * no)


FAMILIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    # Logistic regression is the truth.
    "made up: logistic": lambda x: expit(-3.4 + 1.6 * x[:, 0] + 0.8 * x[:, 1]),
    # Its direction is right (inputs are normal), its probabilities are wrong.
    "made up: steps": lambda x: np.where(
        x[:, 0] + 0.5 * x[:, 1] > 1.5, 0.45, np.where(x[:, 0] + 0.5 * x[:, 1] > 0, 0.08, 0.01)
    ),
    # No direction is right.
    "made up: two kinds": _two_kinds,
    "made up: interaction": lambda x: expit(-4 + 1.2 * (x[:, 0] + x[:, 1]) + 2 * x[:, 0] * x[:, 1]),
    # The first feature lowers the chance of most rows, and raises it where it is worth deciding.
    "made up: two regions": lambda x: np.where(
        x[:, 1] < 1, expit(-3.5 - 1.2 * x[:, 0]), expit(-0.5 + 2 * x[:, 0])
    ),
}


def _inputs(name: str, n: int, random: np.random.RandomState) -> np.ndarray:
    x = random.randn(n, FEATURES)
    if name == "made up: two kinds":
        positive = random.rand(n) < 0.1
        first = np.where(positive, random.rand(n) < 0.6, random.rand(n) < 0.75)
        places = np.array([[[3.0, -3.0], [0.0, 0.0]], [[0.0, 2.5], [2.5, 0.0]]])
        x[:, :2] += places[positive.astype(int), first.astype(int)]
    return x


def made_up(name: str, split: int) -> Problem:
    """Fresh rows for every split. Targets are drawn with the family's probability."""
    random = np.random.RandomState([split, list(FAMILIES).index(name)])
    x = _inputs(name, TRAIN_ROWS + TEST_ROWS, random)
    chance = FAMILIES[name](x)
    y = (random.rand(len(x)) < chance).astype(np.int64)
    rows = Examples(x, y, np.ones(len(y)))
    train = np.arange(len(y)) < TRAIN_ROWS
    return Problem(rows.take(train), rows.take(~train), chance=chance[~train])


def optimum(problem: Problem, metric: str) -> float | None:
    """The metric of the test rows by the best cut of the true probabilities.

    For a metric of counts no rule does better on average (Koyejo et al. 2014). The cut is the best
    of these very rows, so that it is, if anything, too high by a little.
    """
    if problem.chance is None:
        return None
    p, y = np.clip(problem.chance, 1e-12, 1 - 1e-12), problem.test.y
    cut = ss.best_threshold(p, y, metric, from_logits=False)
    return float(ss.evaluate(p, y, metric, threshold=cut, from_logits=False))


# --- sets -----------------------------------------------------------------------------------------


def real_sets(directory: Path) -> list[str]:
    return [*zenodo(directory), "adult", "cocktailparty", "creditcard"]


@lru_cache(maxsize=2)
def _rows(directory: Path, name: str) -> Examples:
    if name in DIGITS:
        x, y = load_digits(return_X_y=True)
        if name != "digits":  # of class k a share of 0.7^k is kept
            keep = np.random.RandomState(0).rand(len(y)) < 0.7**y
            x, y = x[keep], y[keep]
        return Examples(x, y.astype(np.int64), np.ones(len(y)))
    rows = Examples(*load(directory, name))
    if len(rows.y) > MOST_ROWS:
        every = np.arange(len(rows.y))
        kept, _ = train_test_split(every, train_size=MOST_ROWS, stratify=rows.y, random_state=0)
        rows = rows.take(np.sort(kept))
    return rows


def problem_of(directory: Path, name: str, split: int) -> Problem:
    """Training and test rows of a set as they are."""
    if name in FAMILIES:
        return made_up(name, split)
    rows = _rows(directory, name)
    train, test = splits(rows.y, split + 1)[split]
    return Problem(rows.take(train), rows.take(test), len(np.unique(rows.y)))


# --- what is done to them -------------------------------------------------------------------------


def _share(
    rows: Examples, share: float, random: np.random.RandomState, of: int | None = None
) -> Examples:
    """A share of the rows of each class, or of those of one class; at least 8 of each."""
    keep = np.zeros(len(rows.y), dtype=bool)
    for c in np.unique(rows.y):
        own = random.permutation(np.flatnonzero(rows.y == c))
        size = len(own) if of is not None and c != of else max(8, round(share * len(own)))
        keep[own[:size]] = True
    return rows.take(keep)


def _flipped(
    rows: Examples, share: float, random: np.random.RandomState, positives: bool
) -> Examples:
    flip = random.rand(len(rows.y)) < share
    flip &= (rows.y == 1) | (not positives)
    return rows._replace(y=np.where(flip, 1 - rows.y, rows.y))


def _holed(rows: Examples, share: float, random: np.random.RandomState) -> Examples:
    return rows._replace(x=np.where(random.rand(*rows.x.shape) < share, np.nan, rows.x))


def _rows_axis(share: float):
    return lambda p, r: p._replace(train=_share(p.train, share, r))


def _positives_axis(train: float, test: float):
    return lambda p, r: p._replace(
        train=_share(p.train, train, r, of=1), test=_share(p.test, test, r, of=1)
    )


def _noise_axis(share: float, positives: bool):
    return lambda p, r: p._replace(train=_flipped(p.train, share, r, positives))


def _missing_axis(share: float):
    return lambda p, r: p._replace(train=_holed(p.train, share, r), test=_holed(p.test, share, r))


# Axis -> level -> what is done to a problem. The base point is on every axis and is not repeated.
DATA_AXES: dict[str, dict[str, Callable[[Problem, np.random.RandomState], Problem]]] = {
    "rows": {f"1/{k} of the rows": _rows_axis(1 / k) for k in (2, 4, 8)},
    "positives": {f"1/{k} of the positives": _positives_axis(1 / k, 1 / k) for k in (2, 4)},
    "noise": {
        **{f"{k} % of labels flipped": _noise_axis(k / 100, False) for k in (5, 10, 20)},
        **{f"{k} % of positives called negative": _noise_axis(k / 100, True) for k in (5, 10, 20)},
    },
    "prevalence": {
        "1/4 of the positives in training": _positives_axis(1 / 4, 1),
        "1/4 of the positives in test": _positives_axis(1, 1 / 4),
    },
    "missing": {f"{k} % of values missing": _missing_axis(k / 100) for k in (10, 30)},
}


def changed(problem: Problem, axis: str, level: str, split: int) -> Problem:
    """The problem at a level of a data axis."""
    random = np.random.RandomState([split, 1 + list(DATA_AXES).index(axis)])
    return DATA_AXES[axis][level](problem, random)
