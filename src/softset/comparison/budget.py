"""What can be done in the time that a comparison may take: how many rows, and which fits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

# Of the time of a comparison, how much is kept for the refit of the winner at most.
REFIT_SHARE = 0.4
# More rows than these are not worth a candidate.
ENOUGH_ROWS = 20_000
# A comparison of fewer fits is none.
FEWEST_FITS = 3
# Estimates are multiplied by this: fits differ, and workers wait for each other.
CAUTION = 1.25


@dataclass(frozen=True)
class Cost:
    """Seconds of a fit: ``fixed + per_row * rows``.

    >>> Cost.through((1000, 2.0), (3000, 3.0))
    Cost(fixed=1.5, per_row=0.0005)
    >>> Cost.through((1000, 2.0), (3000, 1.0))
    Cost(fixed=0.0, per_row=0.002)
    """

    fixed: float
    per_row: float

    @classmethod
    def through(cls, first: tuple[int, float], second: tuple[int, float] | None = None) -> Cost:
        """The line through two measured ``(rows, seconds)``; a proportion where there is none."""
        rows, seconds = first
        if second is not None and second[0] > rows and second[1] > seconds:
            slope = (second[1] - seconds) / (second[0] - rows)
            if slope * rows <= seconds:
                return cls(seconds - slope * rows, slope)
            return cls(0.0, second[1] / second[0])  # it grows faster than the rows
        return cls(0.0, seconds / rows)

    def seconds(self, rows: float) -> float:
        """Of a fit on so many rows."""
        return self.fixed + self.per_row * rows


@dataclass(frozen=True)
class Budget:
    """``seconds`` for ``folds`` splits of ``rows`` rows at most, by ``workers``, and the refit."""

    seconds: float
    rows: int
    folds: int
    workers: int

    def refit(self, costs: Collection[Cost]) -> float:
        """Seconds to keep for the refit of whichever fit wins, on all rows if that can be."""
        longest = max(CAUTION * cost.seconds(self.rows) for cost in costs)
        return min(longest, REFIT_SHARE * self.seconds)

    def affordable(self, costs: Collection[Cost]) -> int:
        """Rows on which one repeat of these fits can be made, the refit aside."""
        left = (self.seconds - self.refit(costs)) / CAUTION
        runs = self.folds / self.workers
        fixed = runs * sum(cost.fixed for cost in costs)
        slope = runs * (1 - 1 / self.folds) * sum(cost.per_row for cost in costs)
        return int(max(0.0, min(self.rows, (left - fixed) / max(slope, 1e-12))))


# Where not all can be made: those that take large tables first, which are seldom far behind there.
_FIRST = ("linear", "boosting", "forest", "networks")
_LAST = ("ensemble",)


def in_order(fits: Collection[str]) -> list[str]:
    """The order in which fits are kept: those that are not known (the user's own) before all."""
    places = {fit: k for k, fit in enumerate(("weighted", "metric", "anneal", "surrogate"), 1)}
    places |= {fit: k for k, fit in enumerate(_FIRST, -len(_FIRST))} | dict.fromkeys(_LAST, 100)
    return sorted(fits, key=lambda fit: places.get(fit, -100))


def choose_fits(budget: Budget, costs: Mapping[str, Cost]) -> list[str]:
    """The first of these fits, as many as can see ``ENOUGH_ROWS`` (or all) rows in the time.

    >>> costs = {"linear": Cost(0, 1e-4), "boosting": Cost(0, 1e-3), "forest": Cost(0, 1e-3)}
    >>> costs |= {"networks": Cost(0, 1e-2), "anneal": Cost(0, 1e-2)}
    >>> choose_fits(Budget(1200, 50_000, 5, 2), costs)
    ['linear', 'boosting', 'forest', 'networks']
    >>> choose_fits(Budget(10, 50_000, 5, 2), costs)
    ['linear', 'boosting', 'forest']
    """
    kept = list(costs)
    while len(kept) > FEWEST_FITS:
        if budget.affordable([costs[f] for f in kept]) >= min(budget.rows, ENOUGH_ROWS):
            break
        kept.pop()
    return kept
