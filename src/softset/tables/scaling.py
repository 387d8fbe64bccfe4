"""Inputs on one scale, heavy tails squashed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from softset.tables.rows import Floats

# Scaled values are squashed smoothly into (-SQUASH, SQUASH).
SQUASH = 3.0
# Scaled values are cut off here, so that no score overflows.
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
        return cls(*center_and_spread(x, w))

    def __call__(self, x: Floats) -> Floats:
        with np.errstate(over="ignore"):  # what is beyond FAR is cut off
            u = np.clip((x - self.center) / self.scale, -FAR, FAR)
        return u / np.sqrt(1 + (u / SQUASH) ** 2)


def center_and_spread(x: Any, w: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each column; infinite where nothing varies.

    Sparse columns are not centred: 0, and the root of the mean square.

    >>> center_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2))
    (array([2., 5.]), array([ 1., inf]))
    """
    share = w / w.sum()
    top = abs(x).max(0).toarray().ravel() if sparse.issparse(x) else np.maximum(x.max(0), -x.min(0))
    top = np.where(top > 0, top, 1.0)  # squares of 1e200 overflow
    if sparse.issparse(x):
        center = np.zeros(len(top))
        spread = np.sqrt((x @ sparse.diags(1 / top)).power(2).T @ share)
    else:
        u = x / top
        center = share @ u
        u -= center
        u *= u
        spread = np.sqrt(share @ u)
    return center * top, np.where(spread > 1e-12, spread * top, np.inf)
