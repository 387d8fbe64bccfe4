"""Rows of numbers by what they hold: equal rows together.

So a fit does not depend on the order of the rows, a weight of 2 is exactly a row given twice, and
no row has an equal one on the other side of a split."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from softset.checks import listed, warn_user
from softset.tables.kinds.number import is_identifier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_BLOCK = 4096


class Rows(NamedTuple):
    """Inputs, targets and weights of the same rows."""

    x: Floats  # (n, features)
    y: Ints  # class numbers (n,), or 0/1 (n, labels)
    w: Floats  # (n,)

    def take(self, which: NDArray[Any]) -> Rows:
        """Some of the rows, by number or mask."""
        return Rows(self.x[which], self.y[which], self.w[which])


def row_codes(values: NDArray[np.generic], salt: int = 0) -> NDArray[np.uint64]:
    """A 64-bit hash of each row; 0.0 and -0.0 are equal, and so are all NaN.

    >>> a = row_codes(np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))
    >>> bool(a[0] == a[2]), bool(a[0] == a[1])
    (True, False)
    """
    numbers = np.asarray(values, dtype=np.float64)
    start = _mix(np.full(1, salt % 2**64, dtype=np.uint64))
    return _coded(np.repeat(start, len(numbers)), numbers)


def _coded(codes: NDArray[np.uint64], numbers: Floats) -> NDArray[np.uint64]:
    """The codes with further columns taken in, in place."""
    for first in range(0, len(numbers), _BLOCK):  # columns of a block stay in the cache
        part = numbers[first : first + _BLOCK].T + 0.0  # -0.0 + 0.0 is 0.0
        part[np.isnan(part)] = np.nan
        own = codes[first : first + _BLOCK]
        for column in np.ascontiguousarray(part).view(np.uint64):
            own[:] = _mix(own ^ column)
    return codes


def _mix(h: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64; unsigned integers wrap around."""
    h = h + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def distinct_rows(x: Floats, y: Ints, w: Floats) -> tuple[Rows, Ints]:
    """Rows in an order of their content: equal ones (inputs and target) are one, their weights
    summed; those of weight zero are left out. And for each given row its place among them, -1 for
    none.

    >>> x = np.array([[1.0], [2.0], [1.0]])
    >>> rows, place = distinct_rows(x, np.array([0, 1, 0]), np.ones(3))
    >>> sorted(zip(rows.x[:, 0].tolist(), rows.w.tolist())), bool((rows.x[place] == x).all())
    ([(1.0, 2.0), (2.0, 1.0)], True)
    """
    some = w > 0
    place = np.full(len(w), -1, dtype=np.int64)
    if not some.all():
        x, y, w = x[some], y[some], w[some]
    codes = _coded(row_codes(x), y.reshape(len(y), -1).astype(np.float64))
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    place[some] = inverse.ravel()
    if len(first) == len(codes):  # different codes: different rows
        return Rows(x[first], y[first], w[first].astype(float)), place
    both = np.column_stack([x, y])
    # Two different rows with one code: about never.
    if not np.array_equal(both[first][inverse], both, equal_nan=True):
        _, first, inverse = np.unique(both, axis=0, return_index=True, return_inverse=True)
        place[some] = inverse.ravel()
    # Added smallest first: the sum does not depend on the order of the rows.
    order = np.argsort(w, kind="stable")
    summed: Floats = np.bincount(inverse.ravel()[order], weights=w[order]).astype(float)
    return Rows(x[first], y[first], summed), place


def row_order(x: Any) -> Floats | NDArray[np.uint64]:
    """A number for each row that depends on what it holds alone: equal rows have equal ones."""
    if sparse.issparse(x):
        return np.asarray(x @ np.random.RandomState(0).randn(x.shape[1])).ravel()
    return row_codes(x)


def distinct_sparse(rows: Rows) -> Rows:
    """Without rows of weight zero, equal ones (inputs and target) put together."""
    rows = rows.take(rows.w > 0)
    both = np.column_stack([row_order(rows.x), rows.y])
    _, first, inverse = np.unique(both, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(rows.w, kind="stable")  # sums do not depend on the order of the rows
    summed: Floats = np.bincount(inverse.ravel()[order], weights=rows.w[order]).astype(float)
    return Rows(rows.x[first], rows.y[first], summed)


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


def equal_rows(X: Any) -> Ints:
    """A number for each row of a data frame or array, the same for rows that are equal.

    In an array, columns with a different whole number in every row (identifiers) are not looked
    at, with a warning; of a data frame leave out those that its schema marks.

    >>> equal_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
    [0, 1, 0]
    """
    if hasattr(X, "columns"):
        from pandas.util import hash_pandas_object

        codes = hash_pandas_object(X, index=False).to_numpy()
    else:
        codes = row_codes(_without_identifiers(np.asarray(X, dtype=np.float64)))
    _, first, found = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))  # numbered as they come
    return order[found.ravel()].astype(np.int64)


def alike(X: Any) -> Ints | None:
    """A number for each row of whatever estimators take, the same for rows that are equal.

    ``None`` where that cannot be told (texts), and where most rows have an equal one (a few
    categories): there that is what the data is like, and nothing has to be kept together.

    >>> alike([[1.0], [2.0], [1.0]]).tolist(), alike(["some", "texts"]), alike([[1.0]] * 3)
    ([0, 1, 0], None, None)
    """
    if sparse.issparse(X):
        codes: Any = row_order(X)
    elif hasattr(X, "iloc"):
        from pandas.util import hash_pandas_object

        try:
            codes = hash_pandas_object(X, index=False).to_numpy()
        except TypeError:  # a column of lists, say
            return None
    else:
        values = np.asarray(X)
        if values.ndim != 2 or values.dtype.kind not in "biuf":
            return None
        codes = row_codes(values)
    kinds, found = np.unique(codes, return_inverse=True)
    return None if 2 * len(kinds) < len(codes) else found.ravel().astype(np.int64)


def _without_identifiers(x: Floats) -> Floats:
    alike = [not is_identifier(column) for column in x.T]
    if all(alike) or not any(alike):
        return x
    warn_user(
        f"column(s) {listed(i for i, other in enumerate(alike) if not other)} hold a different "
        "whole number in every row, as a customer number does; duplicate rows are searched for "
        "without them. If they are identifiers, leave them out.",
    )
    return x[:, alike]
