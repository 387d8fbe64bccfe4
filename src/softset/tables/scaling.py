"""Inputs on one scale, heavy tails squashed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softset.tables.rows import Floats

# Scaled values are squashed smoothly into (-SQUASH, SQUASH).
SQUASH = 3.0


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
