"""Where things stand in a picture: axes with their ticks, and the rows of a plot of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softset.comparison.ladder import Ladder
from softset.comparison.result import CandidateResult
from softset.report import formats

Floats = NDArray[np.float64]
Ticks = Sequence[tuple[float, str]]
_EDGE = 0.05  # a threshold nearer to 0 or 1 than this asks for an axis in log-odds
_NEAREST = 1e-6


@dataclass(frozen=True)
class Axis:
    """Where a value stands between 0 and 1 on paper: evenly between ``low`` and ``high``, or in
    log-odds.

    >>> Axis(-1.0, 1.0)(0.5), Axis(-1.0, 1.0).ticks()[0]
    (0.75, (-1.0, '−1.0'))
    >>> float(round(Axis(0.001, 0.999, log_odds=True)(0.5), 6))
    0.5
    """

    low: float = 0.0
    high: float = 1.0
    log_odds: bool = False

    @classmethod
    def around(cls, values: Iterable[float], least: float = 0.01) -> Axis:
        """Room for all values; a spread below ``least`` must not look like a gulf."""
        finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
        middle = (min(finite) + max(finite)) / 2
        half = 0.54 * max(max(finite) - min(finite), least)
        return cls(middle - half, middle + half)

    @classmethod
    def of_thresholds(cls, p: Floats, thresholds: Sequence[float]) -> Axis:
        """Of scores ``p``: in log-odds if a threshold is so near to 0 or 1 that it would not show
        on an even axis."""
        if all(_EDGE <= t <= 1 - _EDGE for t in thresholds):
            return cls()
        low = min(float(np.quantile(p, 0.02)), 0.4, *(t / 3 for t in thresholds))
        high = max(float(np.quantile(p, 0.999)), 0.6, *(1 - (1 - t) / 3 for t in thresholds))
        return cls(max(low, _NEAREST), min(high, 1 - _NEAREST), log_odds=True)

    def __call__(self, value: Any) -> Any:
        low, high = self._ends
        if self.log_odds:
            value = _logit(np.clip(value, self.low, self.high))
        return (value - low) / (high - low)

    def inverse(self, place: Floats) -> Floats:
        """The value at each place."""
        low, high = self._ends
        value = low + place * (high - low)
        return 1 / (1 + np.exp(-value)) if self.log_odds else value

    @property
    def _ends(self) -> tuple[float, float]:
        return (_logit(self.low), _logit(self.high)) if self.log_odds else (self.low, self.high)

    def stops(self, parts: int) -> Floats:
        """Thresholds that the slider can reach, evenly apart, in few digits."""
        places = np.arange(1, parts) / parts
        if not self.log_odds:
            return places
        values = self.inverse(places).tolist()
        return np.unique([round(t, 2 - math.floor(math.log10(min(t, 1 - t)))) for t in values])

    def ticks(self, write: Callable[[float, int], str] = formats.number) -> Ticks:
        """Values worth writing beside the axis, all with the same number of decimals."""
        if self.log_odds:
            return self._odds_ticks()
        values = nice_ticks(self.low, self.high)
        digits = max((len(f"{t:g}".partition(".")[2]) for t in values), default=0)
        return [(t, write(t, digits)) for t in values]

    def _odds_ticks(self) -> Ticks:
        for step in (1, 2, 3):  # six words are what a phone has room for
            low = [10.0**-k for k in range(1, 7, step)]
            known = [*reversed(low), 0.5, *(1 - t for t in low)]
            inside = [t for t in known if self.low <= t <= self.high]
            if len(inside) <= 6:
                break
        return [(t, f"{t:.6f}".rstrip("0")) for t in inside]


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between ``low`` and ``high``.

    >>> nice_ticks(0.63, 0.78)
    [0.65, 0.7, 0.75]
    """
    raw = (high - low) / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(m * base for m in (1, 2, 2.5, 5, 10) if m * base >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) + 0.0 for k in range(first, last + 1)]


@dataclass(frozen=True)
class Row:
    """A row of a plot of intervals: a mean, the ends of its interval, and every split.

    ``accent``: drawn in the color of what is trained for the metric, or of a significant gain.
    """

    id: str
    accent: bool
    mean: float
    low: float | None
    high: float | None
    points: Sequence[float] = ()


def score_rows(candidates: Iterable[CandidateResult]) -> list[Row]:
    """The scores of every candidate that has some."""
    return [
        Row(c.id, c.family == "metric", c.mean, c.low, c.high, c.scores)
        for c in candidates
        if c.mean is not None
    ]


def difference_rows(candidates: Iterable[CandidateResult]) -> list[Row]:
    """The difference of every candidate to the reference, which has none."""
    return [
        Row(c.id, c.family == "metric", d.mean, d.low, d.high)
        for c in candidates
        if (d := c.difference) is not None
    ]


def gain_rows(ladder: Ladder) -> list[Row]:
    """The gain of every rung over the one below it, and of the last over the first (``"all"``)."""
    steps = [(r.id, r.clear, r.step) for r in ladder.rungs if r.step is not None]
    gains = [*steps, ("all", ladder.clear, ladder.worth)]
    return [Row(key, clear, d.mean, d.low, d.high) for key, clear, d in gains]


def _logit(t: Any) -> Any:
    return np.log(t) - np.log1p(-np.asarray(t))
