"""Rows of numbers by what they hold: an order of their own, and which of them are equal.

So a fit does not depend on the order of the rows. ``kept_together`` is the one rule for equal rows
and splits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from softset.typing import Array, Floats, Frame, Ints, Matrix, Rows

_BLOCK = 4096
# Kinds of rows whose copies are counted in a stream.
MOST_KINDS = 2**25


class Examples(NamedTuple):
    """Inputs, targets and weights of the same rows."""

    x: Floats  # (n, features)
    y: Ints  # class numbers (n,), or 0/1 (n, labels)
    w: Floats  # (n,)

    def take(self, which: Array) -> Examples:
        """Some of the rows, by number or mask."""
        return Examples(self.x[which], self.y[which], self.w[which])


def row_codes(values: Matrix, salt: int = 0) -> NDArray[np.uint64]:
    """A 64-bit hash of each row, dense or sparse; 0.0 and -0.0 are equal, and so are all NaN.

    >>> a = row_codes(np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))
    >>> bool(a[0] == a[2]), bool(a[0] == a[1])
    (True, False)
    """
    if sparse.issparse(values):
        values = np.asarray(values @ np.random.RandomState(0).randn(values.shape[1]))[:, None]
    numbers = np.asarray(values, dtype=np.float64)
    start = _mix(np.full(1, salt % 2**64, dtype=np.uint64))
    return _coded(np.repeat(start, len(numbers)), numbers)


def _coded(codes: NDArray[np.uint64], numbers: Floats) -> NDArray[np.uint64]:
    """The codes with further columns taken in, in place."""
    for first in range(0, len(numbers), _BLOCK):  # columns of a block stay in the cache
        part = numbers[first : first + _BLOCK].T + 0.0  # -0.0 + 0.0 is 0.0
        part[np.isnan(part)] = np.nan
        block = codes[first : first + _BLOCK]
        for column in np.ascontiguousarray(part).view(np.uint64):
            block[:] = _mix(block ^ column)
    return codes


def _mix(h: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64; unsigned integers wrap around."""
    h = h + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def own_codes(rows: Examples, salt: int = 0) -> NDArray[np.uint64]:
    """A hash for each row of what it holds, inputs and target, and which of the equal ones it is:
    different for all rows, and whatever their order, the same ones.

    >>> rows = Examples(np.ones((3, 1)), np.array([0, 1, 0]), np.ones(3))
    >>> len(np.unique(own_codes(rows))), bool((own_codes(rows) == own_codes(rows)).all())
    (3, True)
    """
    codes = labeled_codes(rows, salt)
    number = np.empty(len(codes), dtype=np.int64)
    order = np.argsort(rows.w)  # equal rows of equal weight may change places
    number[order] = copy_numbers(codes[order])
    return numbered_codes(codes, number)


def labeled_codes(rows: Examples, salt: int = 0) -> NDArray[np.uint64]:
    """A hash for each row of its inputs and target."""
    y = rows.y.reshape(len(rows.y), -1).astype(np.float64)
    return _coded(row_codes(rows.x, salt), y)


def numbered_codes(codes: NDArray[np.uint64], number: Ints) -> NDArray[np.uint64]:
    """The hashes of rows with the numbers of copies taken in, in place; that of the first stays."""
    again = number > 0
    codes[again] = _coded(codes[again], number[again, None].astype(np.float64))
    return codes


def content_codes(rows: Examples) -> NDArray[np.uint64]:
    """A hash for each row of all that it holds: inputs, target and weight."""
    return _coded(row_codes(rows.x), np.column_stack([rows.y, rows.w]).astype(np.float64))


def copy_numbers(codes: Array) -> Ints:
    """0 for the first row with its code, 1 for the second, …

    >>> copy_numbers(np.array([5, 3, 5, 5])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(codes, kind="stable")
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) - np.searchsorted(codes[order], codes[order])
    return number


class CopyCounter:
    """``copy_numbers`` of rows that come block by block: exact for the first ``MOST_KINDS`` kinds
    of rows, of which 12 bytes each are in memory; later kinds count as new.

    >>> counter = CopyCounter()
    >>> [counter(np.array(codes, dtype=np.uint64)).tolist() for codes in ([5, 3, 5], [3, 5, 7])]
    [[0, 0, 1], [1, 2, 0]]
    """

    def __init__(self) -> None:
        self.levels: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []

    def __call__(self, codes: NDArray[np.uint64]) -> Ints:
        kinds, index, sizes = np.unique(codes, return_inverse=True, return_counts=True)
        before = np.zeros(len(kinds), dtype=np.int64)
        for hashes, counts in self.levels:
            at = np.minimum(np.searchsorted(hashes, kinds), len(hashes) - 1)
            before += np.where(hashes[at] == kinds, counts[at], 0)
        number = before[index.ravel()] + copy_numbers(codes)
        if len(kinds) and sum(len(hashes) for hashes, _ in self.levels) < MOST_KINDS:
            self.levels.append((kinds, sizes.astype(np.uint32)))
            while len(self.levels) > 1 and len(self.levels[-2][0]) < 2 * len(self.levels[-1][0]):
                late, early = self.levels.pop(), self.levels.pop()
                self.levels.append(_merged(*early, *late))
        return number


def _merged(
    kinds: NDArray[np.uint64],
    counts: NDArray[np.uint32],
    others: NDArray[np.uint64],
    more: NDArray[np.uint32],
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Two sorted arrays of kinds as one, without sorting again: these are the largest arrays that
    training on a stream has in memory."""
    at = np.searchsorted(kinds, others)
    both = kinds[np.minimum(at, len(kinds) - 1)] == others
    counts[at[both]] += more[both]
    new = ~both
    place = at[new] + np.arange(np.count_nonzero(new))
    earlier = np.ones(len(kinds) + len(place), dtype=bool)
    earlier[place] = False

    def spread(old: Array, fresh: Array) -> Array:
        """Old and new entries in the order of their hashes."""
        result = np.empty(len(earlier), dtype=old.dtype)
        result[place], result[earlier] = fresh[new], old
        return result

    return spread(kinds, others), spread(counts, more)


def ordered_rows(x: Array, y: Ints, w: Floats) -> tuple[Examples, Ints]:
    """Rows of positive weight in a random order that what they hold decides; and for each given row
    its place among them, -1 for none. Equal rows are apart, as in any other random order.

    >>> x = np.array([[1.0], [2.0], [1.0]])
    >>> rows, place = ordered_rows(x, np.array([0, 1, 0]), np.ones(3))
    >>> sorted(rows.x[:, 0].tolist()), bool((rows.x[place] == x).all())
    ([1.0, 1.0, 2.0], True)
    """
    some = np.flatnonzero(w > 0)
    rows = Examples(x, y, w)
    codes = own_codes(rows if len(some) == len(w) else rows.take(some))
    order = some[np.argsort(codes)]
    place = np.full(len(w), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    return rows.take(order), place


def kept_together(codes: Array, share: float) -> Ints | None:
    """The group of each row, equal ones in one; ``None`` where equal rows are split like others.

    A row on one side of a split tells the label of its copy on the other: a leak where copies are
    an accident. Where rows have more than one copy in the mean (columns of few categories), or
    where one kind of row is more than the ``share`` of a fold, that is what the data is like, new
    rows will have been seen as well, and to hold out whole kinds would ask another question.

    >>> kept_together(np.array([3, 1, 3, 2]), 0.5).tolist(), kept_together(np.array([3, 1] * 3), 1)
    ([2, 0, 2, 1], None)
    >>> kept_together(np.array([3, 3, 3, 1, 2, 4]), 0.2) is None
    True
    """
    _, group, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    n = len(codes)
    usual = 2 * len(sizes) < n or sizes.max(initial=0) > max(2, share * n)
    return None if usual else group.ravel().astype(np.int64)


def strata_of(y: Ints) -> Ints:
    """The class of each row; of several labels, the rarest that it has (-1: none).

    >>> strata_of(np.array([[1, 0], [1, 1], [0, 0]])).tolist()
    [0, 1, -1]
    """
    if y.ndim == 1:
        return y
    counts = np.where(y.sum(0) > 0, y.sum(0), len(y) + 1)
    rarity = np.where(y > 0, counts, len(y) + 1)
    return np.where(y.any(1), rarity.argmin(1), -1)


def equal_rows(X: Rows) -> Ints | None:
    """A number for each row of whatever estimators take, the same for rows that are equal, counted
    as they come; ``None`` where equal rows cannot be told (texts).

    >>> equal_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
    [0, 1, 0]
    >>> equal_rows(["some", "texts"])
    """
    if hasattr(X, "iloc"):
        try:
            codes = frame_codes(X)
        except TypeError:  # a column of lists, say
            return None
    else:
        values: Matrix = X if sparse.issparse(X) else np.asarray(X)
        if values.ndim != 2 or values.dtype.kind not in "biuf":
            return None
        codes = row_codes(values)
    _, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))  # numbered as they come
    return order[kind.ravel()].astype(np.int64)


def frame_codes(X: Frame, salt: int = 0) -> NDArray[np.uint64]:
    """A 64-bit hash of each row of a data frame."""
    from pandas.util import hash_pandas_object

    start = _mix(np.full(1, salt % 2**64, dtype=np.uint64))
    return _mix(hash_pandas_object(X, index=False).to_numpy() ^ start)


def alike(X: Rows, share: float) -> Ints | None:
    """``kept_together`` of ``equal_rows``; ``None`` also where equal rows cannot be told.

    >>> alike([[1.0], [2.0], [1.0]], 0.5).tolist(), alike(["some", "texts"], 0.5)
    ([0, 1, 0], None)
    """
    equal = equal_rows(X)
    return None if equal is None else kept_together(equal, share)
