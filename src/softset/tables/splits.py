"""Splits: a hold-out by content, and repeated stratified folds that keep groups on one side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from softset.tables.rows import (
    Examples,
    alike,
    kept_together,
    own_codes,
    row_codes,
    strata_of,
)
from softset.typing import Ints, Rows


def content_split(rows: Examples, fraction: float, salt: int) -> tuple[NDArray[np.intp], ...]:
    """The one hold-out: numbers of the rows to train on, and of those to hold out.

    About ``fraction`` of the rows of each class are held out (of several labels: of the rows whose
    rarest label it is). They are chosen by a hash of their inputs and ``salt``, so that the order
    of the rows does not matter, and rows with equal inputs stay on one side where that can be a
    leak (``kept_together``). A class with one distinct row trains (where all have one, nothing is
    held out); what has more duplicates than are to be held out trains too.

    >>> rows = Examples(np.arange(20.0)[:, None] // 2, np.arange(20) // 16, np.ones(20))
    >>> train, held = content_split(rows, 0.25, salt=0)
    >>> len(held), bool(np.isin(rows.x[held], rows.x[train]).any())
    (6, False)
    """
    group, sizes, strata, rarest = _salted_groups(rows, min(fraction, 1 - fraction), salt)
    held = np.zeros(len(sizes), dtype=bool)
    in_class = np.bincount(group[strata == rarest[group]], minlength=len(sizes))
    for k in np.unique(rarest):
        of_class = np.flatnonzero(rarest == k)  # in the order of their codes: random
        count = in_class[of_class].sum()
        wanted = min(max(1, round(fraction * count)), count - 1)
        fits = sizes[of_class] <= wanted
        taken = fits & (np.cumsum(np.where(fits, in_class[of_class], 0)) <= wanted)
        if not taken.any() and len(of_class) > 1:
            taken[sizes[of_class].argmin()] = True
        held[of_class[taken]] = True
    for k in np.unique(strata):  # a class that is held out altogether would be unknown
        of_class = group[strata == k]
        if held[of_class].all():
            held[of_class] = False
    return np.flatnonzero(~held[group]), np.flatnonzero(held[group])


def _salted_groups(
    rows: Examples, share: float, salt: int
) -> tuple[NDArray[np.intp], Ints, Ints, Ints]:
    """The group of each row, equal inputs together where ``kept_together`` says so; the sizes of
    the groups, which are in a random order; the class of each row, by its rank (0 is the rarest);
    the rarest class in each group."""
    codes = row_codes(rows.x, salt)
    if kept_together(codes, share) is None:
        codes = own_codes(rows, salt)
    groups, group, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    group = group.ravel()
    # Rows with equal inputs but different targets count as the rarest of their classes.
    classes, strata = np.unique(strata_of(rows.y), return_inverse=True)
    strata = strata.ravel()
    rank = np.argsort(np.argsort(np.bincount(strata), kind="stable"))
    rarest = np.full(len(groups), len(classes))
    np.minimum.at(rarest, group, rank[strata])
    return group, sizes, rank[strata], rarest


def salted_folds(rows: Examples, folds: int, salt: int) -> Ints:
    """The fold of every row, from 0; -1 is in none: a class with one distinct row is always
    trained on.

    By a hash of their inputs and ``salt``, as ``content_split``: the order of the rows does not
    matter, and rows with equal inputs are in one fold where that can be a leak. Where fewer than
    two folds have rows, none has.

    >>> rows = Examples(np.arange(20.0)[:, None] // 2, np.arange(20) // 16, np.ones(20))
    >>> fold = salted_folds(rows, 5, salt=0)
    >>> np.bincount(fold).tolist(), bool((fold[::2] == fold[1::2]).all())
    ([4, 4, 4, 4, 4], True)
    """
    group, _, strata, rarest = _salted_groups(rows, 1 / folds, salt)
    fold = dealt_folds(rarest, folds)
    for k in np.unique(strata):
        groups = np.unique(group[strata == k])
        if len(np.unique(fold[groups])) == 1:
            fold[groups] = -1
    used, place = np.unique(fold[fold >= 0], return_inverse=True)
    fold[fold >= 0] = place.ravel() if len(used) > 1 else -1
    return fold[group]


def content_folds(rows: Examples, folds: int) -> Ints:
    """The fold of every row: each class dealt out in an order of content, equal rows together where
    that can be a leak (``kept_together``).

    >>> rows = Examples(np.arange(8.0)[:, None] // 2, np.arange(8) // 4, np.ones(8))
    >>> fold = content_folds(rows, 2)
    >>> bool((fold[::2] == fold[1::2]).all()), np.bincount(fold[:4]).tolist()
    (True, [2, 2])
    """
    codes = row_codes(rows.x)
    if kept_together(codes, 1 / folds) is None:
        codes = own_codes(rows)
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return dealt_folds(strata_of(rows.y)[first], folds)[group.ravel()]


def dealt_folds(classes: Ints, folds: int) -> Ints:
    """A fold for every row: each class is dealt out in turn, equally to all folds.

    >>> dealt_folds(np.array([0, 0, 0, 1, 1]), 2).tolist()
    [0, 1, 0, 1, 0]
    """
    fold = np.empty(len(classes), dtype=np.int64)
    dealt = 0
    for c in np.unique(classes):
        of_class = np.flatnonzero(classes == c)
        fold[of_class] = (dealt + np.arange(len(of_class))) % folds
        dealt += len(of_class)
    return fold


def repeated_folds(
    strata: Ints, groups: Ints | None, folds: int, repeats: int, seed: int
) -> NDArray[np.int8]:
    """The fold of every row in every repeat, ``[repeats, rows]``.

    Each fold has the same fraction of every stratum, as nearly as groups allow: groups of several
    rows are placed first, the largest before the others, where they fit best; single rows even it
    out.

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
            of_class = random.permutation(single[stratum[single] == c])
            place[of_class] = _even_out(filled[:, c], len(of_class), random)
        result[repeat] = place[members]
    return result


def stratified_folds(X: Rows, y: Ints, folds: int, seed: int) -> Ints:
    """The fold of every row of whatever estimators take: each fold has its share of every class.

    Equal rows are in one fold where that can be a leak (``kept_together``), unless a class would
    then be missing from what the other folds train on.

    >>> fold = stratified_folds([[0], [0], [1], [2], [3], [4]], np.array([0, 0, 0, 1, 1, 1]), 3, 0)
    >>> bool(fold[0] == fold[1]), np.bincount(fold[3:]).tolist()
    (True, [1, 1, 1])
    """
    strata = np.unique(strata_of(y), return_inverse=True)[1].ravel()
    for groups in (alike(X, 1 / folds), None):
        fold = repeated_folds(strata, groups, folds, 1, seed)[0].astype(np.int64)
        if all(len(np.unique(strata[fold != k])) == strata.max() + 1 for k in range(folds)):
            break
    return fold


def _even_out(filled: NDArray[np.float64], count: int, random: np.random.RandomState) -> Ints:
    """Folds for ``count`` rows, so that the emptiest get most."""
    low, high = filled.min(), filled.max() + count
    while high - low > 0.5:  # the level up to which all of them can be filled
        level = (low + high) / 2
        enough = np.maximum(np.floor(level) - filled, 0).sum() <= count
        low, high = (level, high) if enough else (low, level)
    counts = np.maximum(np.floor(low) - filled, 0).astype(np.int64)
    remaining = count - int(counts.sum())
    reachable = np.lexsort([random.rand(len(filled)), filled + counts])
    while remaining > 0:
        counts[reachable[: min(remaining, len(filled))]] += 1
        remaining -= min(remaining, len(filled))
    return np.repeat(np.arange(len(filled)), counts)


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
