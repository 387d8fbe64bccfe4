"""Rows by what they hold: equal rows together.

So a fit does not depend on the order of the rows, a weight of 2 is exactly a row given twice, and
no row has an equal one on the other side of a split."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """Distinct rows in an order of their content, with summed weights."""

    x: Floats
    y: NDArray[np.int64]  # class numbers (n,), or 0/1 (n, labels)
    w: Floats


def row_codes(values: NDArray[np.generic], salt: int = 0) -> NDArray[np.uint64]:
    """A 64-bit hash of each row.

    >>> import numpy as np
    >>> a = row_codes(np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))
    >>> bool(a[0] == a[2]), bool(a[0] == a[1])
    (True, False)
    """
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    start = np.full(1, salt % 2**64, dtype=np.uint64)
    codes = np.repeat(_mix(start), len(bits))
    for column in bits.T:
        codes = _mix(codes ^ column)
    return codes


def _mix(h: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64; unsigned integers wrap around."""
    h = h + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def distinct_rows(x: Floats, y: NDArray[np.int64], w: Floats) -> Rows:
    """Leave out rows of weight zero and put equal ones (inputs and target) together."""
    some = w > 0
    x, y, w = x[some], y[some], w[some]
    both = np.column_stack([x, y])
    codes = row_codes(both)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    if not np.array_equal(both[first][inverse], both):  # two rows of one code: about never
        _, first, inverse = np.unique(both, axis=0, return_index=True, return_inverse=True)
    # Added smallest first: the sum does not depend on the order of the rows.
    order = np.argsort(w, kind="stable")
    summed: Floats = np.bincount(inverse.ravel()[order], weights=w[order]).astype(float)
    return Rows(x[first], y[first], summed)


def _strata(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class; of several labels, the rarest that a row has (or none)."""
    if y.ndim == 1:
        return y
    counts = np.where(y.sum(0) > 0, y.sum(0), len(y) + 1)
    rarity = np.where(y > 0, counts, len(y) + 1)
    return np.where(y.any(1), rarity.argmin(1), -1)


Ints = NDArray[np.int64]


def equal_rows(X: Any) -> Ints:
    """A number for each row, the same for rows that are equal in all columns.

    >>> equal_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()[::2]
    [0, 0]
    """
    if hasattr(X, "columns"):
        from pandas.util import hash_pandas_object

        codes = hash_pandas_object(X, index=False).to_numpy()
    else:
        codes = row_codes(np.asarray(X, dtype=np.float64))
    _, first, found = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))  # numbered as they come
    return order[found.ravel()].astype(np.int64)
