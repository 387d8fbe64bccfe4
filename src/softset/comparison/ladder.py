"""What the choosing is worth, and each step towards the metric on its own.

Candidates stand on rungs, the plain ones first. To choose on a rung is to take the candidate with
the best mean among those on it and below it. The best of many flatters itself, so what choosing is
worth is never read off the scores that it was done by: each split is scored by the candidate that
is chosen on the *other* splits. (On those of its own repeat: its test rows are in none of them.
Of more than five folds a fifth is left out at a time. Left out one by one, a split that speaks for
a candidate lacks where it would be chosen, so that the scores of the chosen spread too little.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from softset.comparison.statistics import Difference, holm, interval, paired

RungId = Literal["own", "default", "tuned", "metric", "ensemble"]
RUNGS: tuple[RungId, ...] = ("own", "default", "tuned", "metric", "ensemble")
# What is smaller by this factor is called simpler.
SIMPLER = 10.0
# The folds of a repeat are scored in so many parts, each by what is chosen on the others.
PARTS = 5
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rung:
    """Choosing among the candidates of a rung and of those below it.

    ``choice`` is chosen on all splits; ``scores`` are those of candidates that were chosen without
    looking at the split, with their ``mean`` and its 95 % interval. ``step`` is the difference to
    the rung below; ``clear`` says whether there is one, by Holm's method over the whole ladder.
    """

    id: RungId
    name: str
    choice: str
    scores: list[float]
    mean: float
    low: float | None
    high: float | None
    step: Difference | None
    clear: bool


@dataclass(frozen=True)
class Simpler:
    """Choosing among models that are smaller than the winner by a factor of ``SIMPLER`` or more.

    ``difference`` is to choosing among all, ``times`` how often ``candidate`` fits into the winner.
    """

    candidate: str
    times: float
    difference: Difference
    clear: bool


@dataclass(frozen=True)
class Ladder:
    """The rungs that there are, the lowest first, and what the highest is worth over it."""

    rungs: list[Rung]
    worth: Difference
    clear: bool
    simpler: Simpler | None


@dataclass(frozen=True)
class Table:
    """Scores ``[candidates, splits]`` of candidates that are in order of preference: of equal ones
    the first is chosen. ``folds`` splits in turn are a repeat."""

    names: tuple[str, ...]
    scores: Floats
    folds: int

    @classmethod
    def of(
        cls,
        scores: Mapping[str, Sequence[float]],
        rungs: Mapping[str, str],
        sizes: Mapping[str, int | None],
        folds: int,
    ) -> Table:
        """Lower rungs first, then the smaller model."""

        def simplicity(name: str) -> tuple[int, float]:
            size = sizes.get(name)
            return RUNGS.index(cast(RungId, rungs[name])), np.inf if size is None else size

        names = tuple(sorted(scores, key=simplicity))
        return cls(names, np.array([scores[c] for c in names], dtype=np.float64), folds)

    def among(self, names: Sequence[str]) -> Table:
        """The table of some candidates."""
        kept = [i for i, name in enumerate(self.names) if name in names]
        return replace(self, names=tuple(self.names[i] for i in kept), scores=self.scores[kept])

    def best(self) -> str:
        """The one with the best mean on all splits."""
        return self.names[_first_best(self.scores)]

    def choosing(self) -> list[float]:
        """The score of each split by the candidate that is best on the others of its repeat.

        A repeat without others is left out. A single split in all is scored by its own best: one
        split can tell nothing in any case.

        >>> table = Table(("a", "b"), np.array([[0.9, 0.1, 0.2], [0.5, 0.5, 0.5]]), folds=3)
        >>> table.best(), table.choosing()
        ('b', [0.5, 0.1, 0.2])
        """
        count = self.scores.shape[1]
        if count == 1:
            return [float(self.scores[:, 0].max())]
        parts = [s % self.folds * min(PARTS, self.folds) // self.folds for s in range(count)]
        found = []
        for split in range(count):
            start = split - split % self.folds
            repeat = range(start, min(start + self.folds, count))
            others = [s for s in repeat if parts[s] != parts[split]]
            if others:
                found.append(float(self.scores[_first_best(self.scores[:, others]), split]))
        return found


def _first_best(scores: Floats) -> int:
    return int(np.argmax(np.round(scores.mean(1), 12)))


def climb(
    scores: Mapping[str, Sequence[float]],
    rungs: Mapping[str, str],
    sizes: Mapping[str, int | None],
    *,
    folds: int,
    one_row: float,
    names: Mapping[RungId, str] | None = None,
    level: float = 0.05,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Ladder:
    """The ladder of some candidates: ``scores`` of each split, their ``rungs``, bytes of the model;
    ``names`` are those of the rungs, ``within`` is what the metric can be.

    Every claim (the worth of it all, each step, what simplicity costs) is a corrected resampled
    t-test (``paired``) of scores by candidates that were chosen on other splits, and Holm's method
    is over all of them. If all candidates are equal, the chance of any clear claim is thus at most
    ``level``: see ``python benchmarks/verdicts.py`` for how often it happens.

    >>> low = [0.50, 0.52, 0.49, 0.51, 0.50]
    >>> table = {"plain": low, "cut": [v + 0.1 for v in low], "soft": [v + 0.1 for v in low]}
    >>> stands = {"plain": "default", "cut": "tuned", "soft": "metric"}
    >>> found = climb(table, stands, {}, folds=5, one_row=0.001)
    >>> [(r.choice, r.clear) for r in found.rungs], round(found.worth.mean, 3), found.clear
    ([('plain', False), ('cut', True), ('cut', False)], 0.1, True)
    """
    table, share = Table.of(scores, rungs, sizes, folds), 1 / folds
    there = [r for r in RUNGS if r in {rungs[c] for c in scores}]
    tables = [
        table.among([c for c in table.names if rungs[c] in there[: k + 1]])
        for k in range(len(there))
    ]
    chosen = [t.choosing() for t in tables]
    claims = {
        f"step {k}": paired(chosen[k], chosen[k - 1], share, one_row)
        for k in range(1, len(there))
        if len(there) > 2  # else the only step is the whole
    }
    claims["worth"] = paired(chosen[-1], chosen[0], share, one_row)
    simple = _smaller(table, sizes)
    if simple is not None:
        claims["simpler"] = paired(simple.choosing(), chosen[-1], share, one_row)
    adjusted = holm([claim.p for claim in claims.values()])
    claims = {
        name: replace(claim, p_adjusted=p)
        for (name, claim), p in zip(claims.items(), adjusted, strict=True)
    }
    found = []
    for k, rung in enumerate(there):
        mean, low, high = interval(chosen[k], share, one_row, within=within)
        step = None if k == 0 else claims.get(f"step {k}", claims["worth"])
        clear = step is not None and step.p_adjusted <= level
        name, best = (names or {}).get(rung, rung), tables[k].best()
        found.append(Rung(rung, name, best, chosen[k], mean, low, high, step, clear))
    price = None
    if simple is not None:
        difference, best = claims["simpler"], simple.best()
        times = cast(int, sizes[table.best()]) / max(1, cast(int, sizes[best]))
        price = Simpler(best, times, difference, difference.p_adjusted <= level)
    return Ladder(found, claims["worth"], claims["worth"].p_adjusted <= level, price)


def _smaller(table: Table, sizes: Mapping[str, int | None]) -> Table | None:
    """The candidates that are far smaller than the best one; None if there are none."""
    most = sizes.get(table.best())
    if most is None:
        return None
    small = [c for c in table.names if SIMPLER * (sizes.get(c) or np.inf) <= most]
    return table.among(small) if small else None
