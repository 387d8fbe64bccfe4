"""Rows by what they hold: equal rows together, a validation split by content, robust scaling.

So a fit does not depend on the order of the rows, a weight of 2 is exactly a row given twice, and
no row has its twin on the other side of a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Scaled values are squashed smoothly into (-SQUASH, SQUASH).
SQUASH = 3.0


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


def _strata(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class; of several labels, the rarest that a row has (or none)."""
    if y.ndim == 1:
        return y
    counts = np.where(y.sum(0) > 0, y.sum(0), len(y) + 1)
    rarity = np.where(y > 0, counts, len(y) + 1)
    return np.where(y.any(1), rarity.argmin(1), -1)


@dataclass(frozen=True)
class Scaler:
    """``u = (x - center) / scale``, then ``u / sqrt(1 + (u / 3)^2)``: heavy tails stay within 3.

    ``center`` is the mean and ``scale`` the standard deviation (weighted); a constant column
    becomes 0.
    """

    center: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats, w: Floats) -> Scaler:
        share = w / w.sum()
        top = np.abs(x).max(0)
        top = np.where(top > 0, top, 1.0)  # squares of 1e200 overflow
        center = share @ (x / top)
        spread = np.sqrt(share @ (x / top - center) ** 2)
        varied = spread > 1e-12
        return cls(center * top, np.where(varied, spread * top, np.inf))

    def __call__(self, x: Floats) -> Floats:
        u = np.clip((x - self.center) / self.scale, -1e100, 1e100)
        return u / np.sqrt(1 + (u / SQUASH) ** 2)
