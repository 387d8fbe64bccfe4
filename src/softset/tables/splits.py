"""Splits: a hold-out by content, and repeated stratified folds that keep groups on one side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from softset.tables.rows import Ints, Rows, _strata, row_codes


def content_split(rows: Rows, fraction: float, salt: int) -> tuple[NDArray[np.intp], ...]:
    """Training and validation row numbers: ``fraction`` of each class, chosen by hashed content.

    A class with one distinct row trains; rows with equal inputs stay on one side.
    """
    codes = row_codes(rows.x, salt)
    # Rows with equal inputs but different targets count as one, in the class of the first.
    values, first, group = np.unique(codes, return_index=True, return_inverse=True)
    strata = _strata(rows.y)[first]
    held = np.zeros(len(values), dtype=bool)
    for stratum in np.unique(strata):
        own = np.flatnonzero(strata == stratum)  # in the order of their codes: random
        count = min(max(1, round(fraction * len(own))), len(own) - 1)
        held[own[:count]] = True
    if not held.any():  # every class has one row: early stopping needs some
        held[: max(1, round(fraction * len(held)))] = len(held) > 1
    validation = held[group.ravel()]
    return np.flatnonzero(~validation), np.flatnonzero(validation)


def repeated_folds(
    strata: Ints, groups: Ints | None, folds: int, repeats: int, seed: int
) -> NDArray[np.int8]:
    """The fold of every row in every repeat, ``[repeats, rows]``.

    Each fold has its share of every stratum, as nearly as groups allow: groups of several rows are
    placed first, the largest before the others, where they fit best; single rows even it out.

    >>> folds = repeated_folds(np.array([0] * 8 + [1] * 4), None, folds=4, repeats=1, seed=0)
    >>> np.bincount(folds[0, :8]).tolist(), np.bincount(folds[0, 8:]).tolist()
    ([2, 2, 2, 2], [1, 1, 1, 1])
    """
    n = len(strata)
    members = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    sizes = np.bincount(members)
    classes = int(strata.max()) + 1
    table = np.zeros((len(sizes), classes))
    np.add.at(table, (members, strata), 1.0)
    totals = np.maximum(table.sum(0), 1)
    result = np.empty((repeats, n), dtype=np.int8)
    for repeat in range(repeats):
        random = np.random.RandomState([seed % 2**32, repeat])
        place = np.full(len(sizes), -1, dtype=np.int64)
        filled = np.zeros((folds, classes))
        several = random.permutation(np.flatnonzero(sizes > 1))
        for g in several[np.argsort(-sizes[several], kind="stable")]:
            share = table[g] / totals
            # The fold whose squared fill, summed over strata, grows least.
            cost = (2 * filled / totals * share).sum(1)
            place[g] = k = int(random.permutation(np.flatnonzero(cost <= cost.min() + 1e-12))[0])
            filled[k] += table[g]
        single = np.flatnonzero(sizes == 1)
        stratum = np.empty(len(sizes), dtype=np.int64)
        stratum[members] = strata
        for c in np.unique(stratum[single]):
            own = random.permutation(single[stratum[single] == c])
            place[own] = _even_out(filled[:, c], len(own), random)
        result[repeat] = place[members]
    return result


def _even_out(filled: NDArray[np.float64], count: int, random: np.random.RandomState) -> Ints:
    """Folds for ``count`` rows, so that the emptiest get most."""
    low, high = filled.min(), filled.max() + count
    while high - low > 0.5:  # the level up to which all of them can be filled
        level = (low + high) / 2
        enough = np.maximum(np.floor(level) - filled, 0).sum() <= count
        low, high = (level, high) if enough else (low, level)
    given = np.maximum(np.floor(low) - filled, 0).astype(np.int64)
    rest = count - int(given.sum())
    reachable = np.lexsort([random.rand(len(filled)), filled + given])
    while rest > 0:
        given[reachable[: min(rest, len(filled))]] += 1
        rest -= min(rest, len(filled))
    return np.repeat(np.arange(len(filled)), given)


def join(first: Ints, second: Ints) -> Ints:
    """Groups such that rows together in either one are together.

    >>> join(np.array([0, 0, 1, 2]), np.array([5, 6, 6, 7])).tolist()
    [0, 0, 0, 1]
    """
    a = np.unique(first, return_inverse=True)[1].ravel()
    b = np.unique(second, return_inverse=True)[1].ravel() + a.max() + 1
    nodes = int(b.max()) + 1
    graph = coo_matrix((np.ones(len(a)), (a, b)), shape=(nodes, nodes))
    return connected_components(graph, directed=False)[1][a].astype(np.int64)
