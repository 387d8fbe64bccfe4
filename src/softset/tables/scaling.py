"""Inputs on one scale, heavy tails squashed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from softset.typing import Floats, Matrix

# Scaled values are squashed smoothly into (-SQUASH, SQUASH).
SQUASH = 3.0
# Rows that are looked at before all of them are.
_SOME = 1000
# Sparse columns within this factor of the others' size share one scale.
_ALIKE = 10.0
# Scaled values are clipped here, so that no score overflows.
FAR = 1e100


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
        """Center and spread of weighted rows."""
        return cls(*center_and_spread(x, w))

    def __call__(self, x: Floats) -> Floats:
        with np.errstate(over="ignore"):  # what is beyond FAR is clipped
            u = np.clip((x - self.center) / self.scale, -FAR, FAR)
        return u / np.sqrt(1 + (u / SQUASH) ** 2)


class Moments:
    """Mean and standard deviation of rows that come block by block; ``scaler`` is ``Scaler.of``
    all of them, but for rounding. Squares of numbers beyond 1e150 overflow.

    >>> moments = Moments()
    >>> moments.add(np.array([[1.0], [2.0]]), np.ones(2))
    >>> moments.add(np.array([[6.0]]), np.ones(1))
    >>> moments.scaler().center
    array([3.])
    """

    def __init__(self) -> None:
        self.weight = 0.0
        self.center = np.zeros(1)
        self.squares = np.zeros(1)  # weighted, about the center

    def add(self, x: Floats, w: Floats) -> None:
        """Further rows (Chan, Golub and LeVeque 1979: how two parts make a whole)."""
        weight = float(w.sum())
        if weight > 0:
            center = w @ x / weight
            self._join(weight, center, w @ (x - center) ** 2)

    def merge(self, other: Moments) -> None:
        """The rows of another part."""
        if other.weight > 0:
            self._join(other.weight, other.center, other.squares)

    def _join(self, weight: float, center: Floats, squares: Floats) -> None:
        apart = center - self.center
        total = self.weight + weight
        self.squares = self.squares + squares + apart**2 * (self.weight * weight / total)
        self.center = self.center + apart * (weight / total)
        self.weight = total

    def scaler(self) -> Scaler:
        """Of all rows so far."""
        spread = np.sqrt(self.squares / self.weight)
        least = 1e-12 * np.maximum(np.abs(self.center), np.finfo(float).tiny)
        return Scaler(self.center, np.where(spread > least, spread, np.inf))


def center_and_spread(x: Matrix, w: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each column; infinite where nothing varies.

    Sparse columns are not centered, and have one scale, the median over columns of the root of the
    mean square of what is not zero: to divide a rare word by its deviation would make it as large
    as a frequent one, and the penalty on its coefficient nothing. A column that is ten times larger
    or smaller than the others has its own scale.

    >>> center_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2))
    (array([2., 5.]), array([ 1., inf]))
    """
    share = w / w.sum()
    top = abs(x).max(0).toarray().ravel() if sparse.issparse(x) else np.maximum(x.max(0), -x.min(0))
    top = np.where(top > 0, top, 1.0)  # squares of 1e200 overflow
    if sparse.issparse(x):
        return np.zeros(len(top)), _sparse_scale(x, share, top)
    u = x / top
    center = share @ u
    u -= center
    u *= u
    spread = np.sqrt(share @ u)
    return center * top, np.where(spread > 1e-12, spread * top, np.inf)


def _sparse_scale(x: Matrix, share: Floats, top: Floats) -> Floats:
    """One scale for sparse columns of about the same size; infinite for columns of zeros.

    ``share`` are the weights of rows, ``top`` the largest absolute values of columns.
    """
    squares = (x @ sparse.diags(1 / top)).power(2).T @ share
    return sparse_scale(top * np.sqrt(squares), (x != 0).T @ share)


def sparse_scale(size: Floats, filled: Floats) -> Floats:
    """The scale of sparse columns, from the root of their mean squares and the fraction of rows in
    which they are not zero."""
    scale = size / np.sqrt(np.where(filled > 0, filled, 1.0))
    some = filled > 0
    if not some.any():
        return np.full(len(scale), np.inf)
    order = np.argsort(scale[some])  # the weighted median: a few large columns do not move it
    below = np.cumsum(filled[some][order])
    common = scale[some][order][np.searchsorted(below, below[-1] / 2)]
    alike = (scale > common / _ALIKE) & (scale < common * _ALIKE)
    return np.where(some, np.where(alike, common, scale), np.inf)


def varies(x: Matrix) -> NDArray[np.bool_]:
    """Which columns differ between rows.

    >>> varies(np.array([[1.0, 7.0], [2.0, 7.0]])).tolist()
    [True, False]
    """
    if sparse.issparse(x):
        return (x.max(0) != x.min(0)).toarray().ravel()
    varying = (x[:_SOME] != x[0]).any(0)
    undecided = np.flatnonzero(~varying)  # most columns vary in the first rows already
    varying[undecided] = (x[:, undecided] != x[0, undecided]).any(0)
    return varying
