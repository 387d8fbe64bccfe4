"""Train, validation and test: 64 / 16 / 20 %, standardized by the training rows alone."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softset.checks import check_choice
from softset.tables.rows import row_codes
from softset_papers.datasets.papers import Floats, PaperSet, load_paper_set

DUPLICATES = ("anywhere", "together")
Rows = NDArray[np.intp]


class Part(NamedTuple):
    """Standardized inputs, targets and weights of some rows."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    w: Floats | None


class Parts(NamedTuple):
    """The three parts of one split."""

    train: Part
    validation: Part
    test: Part


def split_rows(data: PaperSet, seed: int = 0, duplicates: str = "anywhere") -> tuple[Rows, ...]:
    """Row numbers for training, validation and test; each part has its share of positives.

    A fifth is for testing (or the official test file), a fifth of the rest for validation, both
    rounded up. With ``duplicates="together"`` rows with equal features are on one side.

    >>> from softset_papers.datasets.papers import load_paper_set
    >>> [len(rows) for rows in split_rows(load_paper_set("synthetic-5"))]
    [3360, 840, 1050]
    """
    check_choice("duplicates", duplicates, DUPLICATES)
    everything = np.arange(len(data.y))
    groups = row_codes(data.x) if duplicates == "together" else everything
    if data.official_test is not None:
        rest, test = everything[~data.official_test], everything[data.official_test]
        if duplicates == "together":
            rest = rest[~np.isin(groups[rest], groups[test])]
    else:
        rest, test = _take(everything, data.y, groups, seed)
    train, validation = _take(rest, data.y[rest], groups[rest], seed + 1)
    return train, validation, test


def _take(
    rows: Rows, y: NDArray[np.int64], groups: NDArray[np.generic], seed: int
) -> tuple[Rows, Rows]:
    """Without and with a fifth of the rows: whole groups, a fifth of each class."""
    rng = np.random.default_rng(seed)
    _, inverse, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    positives = np.bincount(inverse, weights=y, minlength=len(sizes))
    room, wanted = math.ceil(0.2 * len(rows)), round(0.2 * float(y.sum()))
    taken = np.zeros(len(sizes), dtype=bool)
    for group in rng.permutation(np.flatnonzero(positives > 0)):
        # A row with many duplicates may not fit: then others do.
        if positives[group] <= wanted and sizes[group] <= room:
            taken[group] = True
            wanted, room = wanted - positives[group], room - sizes[group]
    for group in rng.permutation(np.flatnonzero(positives == 0)):
        if sizes[group] <= room:
            taken[group] = True
            room -= sizes[group]
    held = taken[inverse]
    return rows[~held], rows[held]


def make_parts(data: PaperSet, seed: int = 0, duplicates: str = "anywhere") -> Parts:
    """The parts of a split, features centered and scaled to unit variance (of the training rows).

    Weights count as so many rows. A feature that is constant in training becomes 0.
    """
    rows = split_rows(data, seed, duplicates)
    train = rows[0]
    share = np.ones(len(train)) if data.weight is None else data.weight[train]
    share = share / share.sum()
    center = share @ data.x[train]
    spread = np.sqrt(share @ (data.x[train] - center) ** 2)
    scale = np.where(spread > 1e-12, spread, np.inf)

    def part(chosen: Rows) -> Part:
        x = ((data.x[chosen] - center) / scale).astype(np.float32)
        return Part(x, data.y[chosen], None if data.weight is None else data.weight[chosen])

    return Parts(*(part(chosen) for chosen in rows))


@cache
def load_parts(
    name: str, split: int, duplicates: str, rows: int | None, data_dir: str | None
) -> Parts:
    """The parts of a split of a set, perhaps of some rows only; kept for the next run."""
    data = load_paper_set(name, data_dir)
    if rows is not None and rows < len(data.y):
        data = _some(data, rows)
    return make_parts(data, split, duplicates)


def _some(data: PaperSet, rows: int) -> PaperSet:
    """So many rows, at least thirty of them positive."""
    rng = np.random.default_rng(0)
    positive = rng.permutation(np.flatnonzero(data.y == 1))
    negative = rng.permutation(np.flatnonzero(data.y == 0))
    wanted = min(len(positive), max(30, round(rows * len(positive) / len(data.y))))
    keep = np.sort(np.concatenate([positive[:wanted], negative[: rows - wanted]]))
    return replace(
        data,
        x=data.x[keep],
        y=data.y[keep],
        weight=None if data.weight is None else data.weight[keep],
        official_test=None if data.official_test is None else data.official_test[keep],
    )
