"""The one rule by which every claim of the papers is judged, and the evidence it reads.

Numbers of two rows are compared in pairs; the interval of their mean difference decides which is
ahead. ``RULE`` says all of it in words; ``softset paper verdicts`` prints it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from scipy.special import stdtrit

from softset_papers.pages.summary import Shown, Summary, summarize
from softset_papers.results import Record
from softset_papers.specification import Table, Value
from softset_papers.tables import all_tables

HOLDS = "holds"
AT_HALF = "holds at 0.5 only"
AS_PUBLISHED = "holds as published only"
FAILS = "does not hold"
UNTESTED = "could not be tested"
VERDICTS = (HOLDS, AT_HALF, AS_PUBLISHED, FAILS, UNTESTED)

ENOUGH = 10  # pairs, for "level" to say something
LEVEL = 0.95  # of the intervals
RULE = (
    "**Pairs.** Two rows are compared in pairs: the networks of the same split where both rows "
    "were run over ten splits, otherwise the networks of the same seed on one split (marked "
    "*one split*: such an interval knows nothing of other splits). A single number is the mean "
    "over ten splits where the row was run so, otherwise over the networks of one split.",
    f"**Ahead, behind, level.** The mean difference has a {LEVEL:.0%} t-interval. Above 0 the "
    "first row is ahead, below 0 behind; an interval that contains 0 is level if it is of "
    f"{ENOUGH} pairs or more, and undecided if it is of fewer.",
    "**A claim** that one row is better needs it ahead on every dataset that the claim is about; "
    "that it is as good, similar or comparable needs it ahead or level on every one; that it is "
    "worse needs it behind. One dataset where it is decided otherwise is enough for *no*. A "
    "published number comes out if ours is within two standard deviations of both together and "
    "0.005 for rounding, by which the tables mark their cells, too. Other claims state a number "
    "in the text, and the number decides. A theorem needs every number of its check, but for those "
    "of cases that it does not speak of.",
    "**Three ways to judge.** Rows as the equations say, at 0.5; the same rows with thresholds "
    "tuned on validation rows; and as published: judged as the authors' code judges, trained as "
    "the authors' code trains (where all compared rows that it trains otherwise were run so, "
    "else none of them), and Adult as it reads it, where we have such rows. *Holds*: at 0.5, and "
    "tuned. *Holds at 0.5 only*: at 0.5, and not shown tuned. *Holds as published only*: not at "
    "0.5, but as published. *Does not hold*: not at 0.5, and not shown as published. A claim that "
    "has no threshold (the largest of several probabilities, curves, times, theorems), "
    "or is about what was published alone, is judged in one way.",
    "**Reduced evidence** decides nothing: a row with fewer images, smaller networks, a shorter "
    "patience or another network than the paper's, a row of which the cap on epochs ended more "
    "than half of the networks, a time multiplied up from a part, and a row that was not run. Such "
    "a claim *could not be tested*, and so could one that is undecided at 0.5; what the runs "
    "showed stands beside it. Not counted as reduced: the subset of Kaggle, whose rows are "
    "weighted, fewer networks than ten, and the shorter grid search of papers 002 and 003.",
)

# Settings that make a run smaller than the paper's.
_EXTENT = ("images", "width", "patience", "patience_seen")
# Losses whose soft counts the authors' code computes in its own way.
_OTHER_CELLS = ("f1", "f2", "f3", "accuracy", "auroc", "wmw")


class Interval(NamedTuple):
    """A mean difference, the ends of its interval, of how many pairs."""

    mean: float
    low: float
    high: float
    pairs: int
    splits: int

    @property
    def relation(self) -> str:
        """``"ahead"``, ``"behind"``, ``"level"`` or ``"undecided"``."""
        if self.low > 0:
            return "ahead"
        if self.high < 0:
            return "behind"
        return "level" if self.pairs >= ENOUGH else "undecided"


def interval(differences: Sequence[float], splits: int = 1) -> Interval:
    """The mean of paired differences with its t-interval.

    >>> interval([0.01, 0.02, 0.03]).relation, interval([0.02, 0.021, 0.019]).relation
    ('undecided', 'ahead')
    >>> interval([0.0] * 10).relation
    'level'
    """
    n, mean = len(differences), statistics.fmean(differences)
    if n < 2:
        return Interval(mean, -math.inf, math.inf, n, splits)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * statistics.stdev(differences) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n, splits)


# --- views ----------------------------------------------------------------------------------------


class View(NamedTuple):
    """One way to judge: a protocol, tuned or not, rows as the authors' code trains or not."""

    name: str
    protocol: str
    tuned: bool = False
    as_trained: bool = False


HALF = View("at 0.5", "fair")
TUNED = View("tuned", "fair", tuned=True)
PUBLISHED = View("as published", "code", as_trained=True)
CASCADE = (HALF, TUNED, PUBLISHED)

State = bool | None  # None: reduced, not run or undecided


def verdict_of(states: dict[str, State]) -> str:
    """The verdict from what holds under each view; a single view holds or does not.

    >>> verdict_of({"at 0.5": True, "tuned": False, "as published": True})
    'holds at 0.5 only'
    >>> verdict_of({"at 0.5": False, "tuned": False, "as published": True})
    'holds as published only'
    >>> verdict_of({"at 0.5": None}), verdict_of({"at 0.5": False})
    ('could not be tested', 'does not hold')
    """
    first = next(iter(states.values()))
    if first is None:
        return UNTESTED
    if first:
        return HOLDS if states.get(TUNED.name, True) else AT_HALF
    return AS_PUBLISHED if states.get(PUBLISHED.name) else FAILS


def every(states: Sequence[State]) -> State:
    """Whether all hold: one that does not decides, then one that is not known.

    >>> every([True, None, False]), every([True, None]), every([True, True])
    (False, None, True)
    """
    if any(state is False for state in states):
        return False
    return None if any(state is None for state in states) else True


def why_reduced(shown: Shown, table: Table) -> str:
    """Why a row that was run decides nothing; empty if it does."""
    if table.unlike:
        return table.unlike
    usual, whole = (shown.row.options(shown.block, full) for full in (False, True))
    if any(usual.get(name) != whole.get(name) for name in _EXTENT) and not shown.full:
        return "reduced"
    capped, networks = shown.capped
    return f"the cap ended {capped} of {networks}" if 2 * capped > networks else ""


# --- evidence -------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A row on a block of a table."""

    table: str
    block: str
    row: str


class Measured(NamedTuple):
    """What rows have, by split and seed, and why that decides nothing; empty if it does."""

    values: list[dict[tuple[int, int], float]]
    why: str


def _by_split(values: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """The mean of the networks of each split."""
    found: dict[tuple[int, int], list[float]] = {}
    for (split, _), value in values.items():
        found.setdefault((split, 0), []).append(value)
    return {key: statistics.fmean(v) for key, v in found.items()}


@dataclass
class Evidence:
    """What the results say of every row of every table."""

    records: Sequence[Record]
    _summaries: dict[str, Summary] = field(default_factory=dict)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables by id."""
        return all_tables()

    def summary(self, table: str) -> Summary:
        """The summary of a table, made once."""
        if table not in self._summaries:
            self._summaries[table] = summarize(self.tables[table], self.records, "fair")
        return self._summaries[table]

    def shown(self, cell: Cell) -> Shown | None:
        """The row on the block, if it was run there."""
        rows = self.summary(cell.table).shown.get(cell.block, [])
        return next((s for s in rows if s.row.id == cell.row and s.records), None)

    def judged(self, cells: Sequence[Cell], view: View) -> list[Cell]:
        """The rows that stand for these under a view.

        As published: those that the authors' code trains in their place, if none is lacking; and
        on Adult as that code reads it, if they were run there.
        """
        if not view.as_trained:
            return list(cells)
        blocks = ["adult-as-read"] if all(c.block == "adult-codes" for c in cells) else []
        for block in [*blocks, ""]:
            here = [c._replace(block=block or c.block) for c in cells]
            trained = [self._as_trained(c) for c in here]
            found = here if None in trained else [c for c in trained if c is not None]
            if all(self.shown(c) for c in found):
                return found
        return list(cells)

    def _as_trained(self, cell: Cell) -> Cell | None:
        """The row that the authors' code trains in its place; itself if that is the same."""
        rows = self.tables[cell.table].rows
        for row in rows:
            other = cell._replace(row=row.id)
            if row.of == cell.row and self.shown(other) is not None:
                return other
        row = next(r for r in rows if r.id == cell.row)
        options = row.options()
        same = row.fit != "network" or options.get("loss") not in _OTHER_CELLS
        return cell if same or "cells" in options else None

    def over_splits(self, cells: Sequence[Cell]) -> list[Cell]:
        """The same rows over ten splits, if all of them were run so, on every split."""
        found = []
        for cell in cells:
            options = [cell._replace(block=b) for b in (f"{cell.block}-splits", cell.block)]
            found += [c for c in options if self._has_all_splits(c)][:1]
        return found if len(found) == len(cells) else list(cells)

    def _has_all_splits(self, cell: Cell) -> bool:
        shown = self.shown(cell)
        return shown is not None and len(shown.records) == shown.row.splits_on(shown.block) > 1

    def values(self, cell: Cell, metric: str, view: View) -> dict[tuple[int, int], float]:
        """By split and seed what a row has under a view."""
        shown = self.shown(cell)
        found: dict[tuple[int, int], float] = {}
        for record in shown.records if shown is not None else ():
            by_metric = record.result["values"].get(view.protocol, {})
            name = f"{metric} tuned"
            numbers = by_metric.get(name if view.tuned and name in by_metric else metric, ())
            # A fit without chance has one number however many seeds there are.
            for seed, number in zip(record.run["seeds"], numbers, strict=False):
                found[record.run["split"], seed] = number
        return found

    def measured(self, cells: Sequence[Cell], metric: str, view: View) -> Measured:
        """What rows have under a view: numbers by split and seed, and why they decide nothing."""
        used = self.over_splits(self.judged(cells, view))
        values = [self.values(cell, metric, view) for cell in used]
        why = next((w for cell in used if (w := self.reduced(cell))), "")
        return Measured(values, why)

    def compare(self, a: Cell, b: Cell, metric: str, view: View) -> tuple[Interval, str] | None:
        """The interval of ``a - b``, over splits if both rows have several; why it is reduced."""
        (first, second), why = self.measured((a, b), metric, view)
        common = sorted(first.keys() & second.keys())
        splits = {split for split, _ in common}
        if len(splits) > 1 or not common:
            first, second = _by_split(first), _by_split(second)
            common = sorted(first.keys() & second.keys())
            splits = {split for split, _ in common}
        if not common:
            return None
        return interval([first[k] - second[k] for k in common], len(splits)), why

    def reduced(self, cell: Cell) -> str:
        """Why a row decides nothing; empty if it does."""
        shown = self.shown(cell)
        return "not run" if shown is None else why_reduced(shown, self.tables[cell.table])

    def published(self, cell: Cell, metric: str) -> Value | None:
        """What the paper prints."""
        table = self.tables[cell.table]
        block = next(b for b in table.blocks if b.key == cell.block)
        row = next(r for r in table.rows if r.id == cell.row)
        return table.value(block, row, metric)

    def title(self, cell: Cell) -> str:
        """The dataset as the papers call it; the table may not have it yet."""
        tables = (self.tables[cell.table], *self.tables.values())
        return next(b.title for t in tables for b in t.blocks if b.key == cell.block)

    def label(self, cell: Cell) -> str:
        """The row as the table calls it."""
        return next(r.label for r in self.tables[cell.table].rows if r.id == cell.row)
