"""Records of runs -> the cells of a table: published beside measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softset.checks import check_choice
from softset_papers.judging import PROTOCOLS
from softset_papers.pages.figures import draw_all
from softset_papers.provenance import moved, pin
from softset_papers.results import Record
from softset_papers.specification import Block, Row, Table, Value, differs
from softset_papers.theory import claims_of

TRAINED = ("train", "images", "graphs")


@dataclass(frozen=True)
class Cell:
    """One number of the paper beside ours; ``tuned`` is ours at a tuned threshold.

    ``undefined`` counts the trials in which ours has no value, such as a correlation with what
    does not move: they are not in the mean.
    """

    published: Value | None
    measured: Value | None
    tuned: Value | None
    marked: bool
    undefined: int = 0


@dataclass(frozen=True)
class Shown:
    """A row on a block: the records it is made of, its cells, and what must be said of them."""

    block: Block
    row: Row
    records: list[Record]
    cells: dict[str, Cell]
    short: str = ""  # how its runs fall short, or go beyond
    before: str = ""  # what these earlier results did otherwise
    full: bool = False

    @property
    def stale(self) -> str:
        """Why it is to be run again, if it is."""
        if self.before:
            return self.before
        changed = any(moved(r.result.get("pin"), pin(r.run)) for r in self.records)
        return "its loss has changed" if changed else ""

    @property
    def capped(self) -> tuple[int, int]:
        """How many networks the cap on epochs ended, not their patience, of how many."""
        ends = [end for r in self.records for end in _ends(r)]
        return sum(end == "max_epochs" for end in ends), len(ends)

    @property
    def trials(self) -> int:
        """How many trials it is the mean of."""
        return sum(len(r.run.get("seeds", ())) for r in self.records)


def _ends(record: Record) -> list[str]:
    """Why the training of each network ended; from its epochs, where that was not recorded."""
    cap, epochs = record.run.get("options", {}).get("max_epochs"), record.result.get("epochs", ())
    derived = ["max_epochs" if cap is not None and n >= cap else "stopped" for n in epochs]
    found: list[str] = record.result.get("outcome", derived)
    return found


@dataclass(frozen=True)
class Summary:
    """A table with its rows by block."""

    table: Table
    protocol: str
    metrics: tuple[str, ...]
    shown: dict[str, list[Shown]]  # by key of the block: rows with something to show
    claims: tuple[Record, ...] = ()  # of theorems
    drawn: tuple[Record, ...] = ()  # of figures that need no training

    @property
    def records(self) -> list[Record]:
        """All that it is made of."""
        found = [r for rows in self.shown.values() for s in rows for r in s.records]
        return [*found, *self.claims, *self.drawn]

    def figures(self) -> list[str]:
        """The figures that belong to it, as SVG."""
        if self.table.kind != "curves":
            return [r.result["svg"] for r in self.drawn]
        rows = [s for rows in self.shown.values() for s in rows if s.records]
        return draw_all([(s.row, s.records[0].result) for s in rows]) if rows else []


def summarize(table: Table, records: Sequence[Record], protocol: str) -> Summary:
    """The cells of a table from all records that belong to it."""
    check_choice("protocol", protocol, PROTOCOLS)
    metrics = table.metrics
    if table.kind == "claim":
        found = {r.run["claim"]: r for r in records if "claim" in r.run}
        own = tuple(found[name] for name in claims_of(table.id) if name in found)
        return Summary(table, protocol, metrics, {}, claims=own)
    if protocol == "fair" and table.kind == "train" and "f1" in metrics:
        metrics = tuple(dict.fromkeys((*metrics, "f1 macro")))
    shown = {}
    for block in table.blocks:
        data = (block.dataset, block.whole)
        own_records = [r for r in records if r.run.get("data") in data]
        rows = [_show(table, block, r, metrics, own_records, protocol) for r in table.rows]
        shown[block.key] = [
            row
            for row in rows
            if any(
                c.measured or c.undefined or (c.published and not block.of)
                for c in row.cells.values()
            )
        ]
    drawn = tuple(r for r in records if r.run.get("figure") == table.id)
    return Summary(table, protocol, metrics, shown, drawn=drawn)


def _show(
    table: Table,
    block: Block,
    row: Row,
    metrics: Sequence[str],
    records: Sequence[Record],
    protocol: str,
) -> Shown:
    own = [(r, m) for r in records if (m := _match(r.run, table, block, row)) is not None]
    if not own:
        return Shown(block, row, [], _cells(table, block, row, metrics, [], protocol))
    best = max((_extent(r.run, m, block) for r, m in own), default=None)
    by_split: dict[int, Record] = {}
    for record, match in sorted(own, key=lambda pair: len(pair[0].run.get("seeds", ()))):
        if _extent(record.run, match, block) == best:
            by_split[record.run["split"]] = record  # of one split, the run with most trials
    chosen = [by_split[split] for split in sorted(by_split)]
    match = next(m for r, m in own if r is chosen[0])
    return Shown(
        block,
        row,
        chosen,
        _cells(table, block, row, metrics, chosen, protocol),
        _shortened(table, block, row, chosen, match),
        "; ".join(row.before[name] for name in match.lacking),
        match.full,
    )


# --- which records belong to a row ----------------------------------------------------------------


@dataclass(frozen=True)
class _Match:
    """How a run fits a row: as the paper in full, or made before a setting was there."""

    full: bool
    lacking: tuple[str, ...]


_LIMITS = ("max_epochs", "patience")  # may be less in a quick look


def _match(run: dict[str, Any], table: Table, block: Block, row: Row) -> _Match | None:
    """Whether a run is of this row, perhaps with fewer rows or epochs."""
    if block.whole and run.get("data") == block.whole:
        block = block.in_full()
    here = (block.dataset, block.duplicates, table.kind, row.splits_on(block))
    its = (run.get("data"), run.get("duplicates"), run.get("kind", "train"), run.get("splits", 1))
    if here != its:
        return None
    if not row.settings:
        return _Match(False, ())
    if run.get("fit") != row.fit:
        return None
    for full in (False, True):
        wanted = row.options(block, full)
        missing = tuple(n for n in row.before if n in wanted and n not in run["options"])
        wanted = {k: v for k, v in wanted.items() if k not in missing}
        if _but_limits(run["options"]) == _but_limits(wanted):
            whole = {k: v for k, v in row.options(block, True).items() if k not in missing}
            return _Match(bool(row.full) and run["options"] == whole, missing)
    return None


def _but_limits(options: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if k not in _LIMITS}


def _extent(run: dict[str, Any], match: _Match, block: Block) -> tuple[Any, ...]:
    """Of runs of one row those that go furthest are shown, never mixed with others."""
    rows = math.inf if run["rows"] is None else run["rows"]
    return (
        rows,
        run.get("data") == block.whole,
        not match.lacking,
        match.full,
        run.get("options", {}).get("max_epochs", 0),
    )


def _shortened(table: Table, block: Block, row: Row, records: list[Record], match: _Match) -> str:
    """In words how runs fall short of the row, or go beyond it."""
    run = records[0].run
    words = ["the whole dataset"] if block.whole and run["data"] == block.whole else []
    if run["rows"] is not None:
        words.append(f"{run['rows']} rows")
    usual, own = row.options(block).get("max_epochs", 0), run.get("options", {})
    if own.get("max_epochs", 0) < usual and not match.full:
        words.append(f"{own['max_epochs']} epochs")
    trials = sum(len(r.run.get("seeds", ())) for r in records)
    few = trials < table.trials_on(block) and has_networks(table, row)
    if (words or few) and trials:
        words.append(f"{trials} trial{'s' if trials > 1 else ''}")
    return ", ".join(words)


def has_networks(table: Table, row: Row) -> bool:
    """Whether the trials of a row are small networks, ten of them unless it is said."""
    return table.kind == "train" and row.fit in ("network", "searched")


# --- cells ----------------------------------------------------------------------------------------


def _cells(
    table: Table,
    block: Block,
    row: Row,
    metrics: Sequence[str],
    records: Sequence[Record],
    protocol: str,
) -> dict[str, Cell]:
    cells = {}
    for metric in metrics:
        published = table.value(block, row, metric)
        measured = _mean(records, protocol, metric)
        tuned = _mean(records, protocol, f"{metric} tuned")
        marked = (
            published is not None
            and measured is not None
            and table.kind in TRAINED
            and differs(published, measured.mean, measured.sd or 0.0)
        )
        undefined = sum(v is None for v in _numbers(records, protocol, metric))
        cells[metric] = Cell(published, measured, tuned, marked, undefined)
    return cells


def _numbers(records: Sequence[Record], protocol: str, metric: str) -> list[float | None]:
    return [v for r in records for v in r.result["values"].get(protocol, {}).get(metric, ())]


def _mean(records: Sequence[Record], protocol: str, metric: str) -> Value | None:
    values = [v for v in _numbers(records, protocol, metric) if v is not None]
    if not values:
        return None
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Value(statistics.fmean(values), sd)


# --- what is to be run again ----------------------------------------------------------------------


@dataclass(frozen=True)
class Stale:
    """A row whose results another run would change, and why."""

    table: Table
    block: Block
    row: Row
    why: str
    again: bool  # the run has the same description: its result must be forgotten first

    @property
    def command(self) -> str:
        """What runs it again."""
        how = "--again" if self.again else "--resume"
        where = f"--dataset {self.block.key} --row {self.row.id}"
        return f"softset paper run {self.table.id} {where} {how}"


def stale_rows(tables: Sequence[Table], records: Sequence[Record]) -> list[Stale]:
    """Rows with results that were made otherwise than today: by earlier settings, or another loss.

    The pin of a loss (see ``provenance``) says whether it has changed.
    """
    return [
        Stale(table, s.block, s.row, s.stale, again=not s.before)
        for table in tables
        for rows in summarize(table, records, "fair").shown.values()
        for s in rows
        if s.stale
    ]
