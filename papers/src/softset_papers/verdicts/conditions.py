"""What a claim says of the results, as conditions: each gives a state and the numbers for it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from softset_papers.pages.layout import column_name
from softset_papers.specification import differs
from softset_papers.verdicts.rule import Cell, Evidence, Interval, State, View, every

FOUR = ("cocktailparty", "adult-codes", "mammography", "creditcard-subset")


class Part(NamedTuple):
    """One number of a condition: whether it is as claimed, in short, and with its interval."""

    state: State
    short: str
    full: str


class Found(NamedTuple):
    """Whether a condition holds under a view, and the numbers it rests on."""

    state: State
    parts: tuple[Part, ...]


def one(state: State, short: str, full: str = "", why: str = "") -> Found:
    """A condition of a single number; ``why`` says that it decides nothing."""
    end = f", {why}" if why else ""
    state = None if why else state
    return Found(state, (Part(state, short + end, (full or short) + end),))


class Condition(Protocol):
    """One condition of a claim."""

    def __call__(self, evidence: Evidence, view: View) -> Found: ...


def together(found: Sequence[Found]) -> Found:
    """All of them."""
    return Found(every([f.state for f in found]), tuple(p for f in found for p in f.parts))


# --- differences ----------------------------------------------------------------------------------

WANTED: dict[str, tuple[str, ...]] = {
    "better": ("ahead",),
    "as good": ("ahead", "level"),
    "worse": ("behind",),
}


@dataclass(frozen=True)
class Against:
    """Row ``a`` is better than ``b`` (or as good, or worse) in a metric on some datasets.

    ``tables`` are those of the two rows; ``on`` the keys of the blocks; ``called`` tells it apart
    from other comparisons of the same claim.
    """

    wanted: str
    a: str
    b: str
    metric: str
    tables: tuple[str, str]
    on: tuple[str, ...] = FOUR
    called: str = ""

    def __call__(self, evidence: Evidence, view: View) -> Found:
        return together([self._on(evidence, view, block) for block in self.on])

    def _on(self, evidence: Evidence, view: View, block: str) -> Found:
        a, b = Cell(self.tables[0], block, self.a), Cell(self.tables[1], block, self.b)
        compared = evidence.compare(a, b, self.metric, view)
        judged = evidence.judged((a, b), view)
        name = _named(evidence.title(judged[0]), self.metric)
        name = f"{self.called}, {name}" if self.called else name
        if compared is None:
            return one(None, f"{name}: no pairs were run")
        found, why = compared
        state = None if found.relation == "undecided" else found.relation in WANTED[self.wanted]
        rows = " against ".join(evidence.label(c) for c in judged)
        short = f"{name} {_signed(found.mean)} {found.relation}"
        return one(state, short, f"{name}, {rows}: {words(found)}", why)


def words(found: Interval) -> str:
    """A difference as text.

    >>> words(Interval(0.0123, 0.001, 0.024, 10, 10))
    '+0.012 [+0.001, +0.024] ahead'
    """
    where = "" if found.splits > 1 else ", one split"
    few = f", {found.pairs} pairs" if found.pairs < 10 else ""
    if found.pairs < 2:
        return f"{_signed(found.mean)} {found.relation}, one pair"
    return (
        f"{_signed(found.mean)} [{_signed(found.low)}, {_signed(found.high)}] "
        f"{found.relation}{where}{few}"
    )


def _named(title: str, metric: str) -> str:
    """The dataset, with the metric where it is not F1."""
    return title if metric == "f1" else f"{title}, {column_name(metric)}"


def _signed(value: float) -> str:
    text = f"{value:+.{4 if abs(value) < 0.001 else 3}f}"
    return "0" if float(text) == 0 else text


# --- numbers --------------------------------------------------------------------------------------


def _means(evidence: Evidence, cells: Sequence[Cell], metric: str, view: View) -> _Means | None:
    """The means of rows, with their spread; None if one was not run."""
    values, why = evidence.measured(cells, metric, view)
    if not all(values):
        return None
    numbers = [list(v.values()) for v in values]
    spread = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in numbers]
    name = _named(evidence.title(evidence.judged(cells, view)[0]), metric)
    return _Means(name, [statistics.fmean(v) for v in numbers], spread, why)


class _Means(NamedTuple):
    name: str
    means: list[float]
    spread: list[float]
    why: str


def _not_run(evidence: Evidence, cell: Cell) -> Found:
    return one(None, f"{evidence.title(cell)}: not run")


@dataclass(frozen=True)
class Means:
    """The mean of a row lies between two numbers on some datasets."""

    table: str
    row: str
    metric: str
    on: tuple[str, ...]
    low: float = float("-inf")
    high: float = float("inf")

    def __call__(self, evidence: Evidence, view: View) -> Found:
        return together([self._on(evidence, view, block) for block in self.on])

    def _on(self, evidence: Evidence, view: View, block: str) -> Found:
        cell = Cell(self.table, block, self.row)
        found = _means(evidence, [cell], self.metric, view)
        if found is None:
            return _not_run(evidence, cell)
        (mean,) = found.means
        label = evidence.label(evidence.judged([cell], view)[0])
        full = f"{found.name}, {label}: {mean:.3f}"
        return one(self.low <= mean <= self.high, f"{found.name} {mean:.3f}", full, found.why)


@dataclass(frozen=True)
class Spread:
    """The means of some rows differ by no more than ``most``."""

    table: str
    rows: tuple[str, ...]
    metric: str
    on: tuple[str, ...]
    most: float

    def __call__(self, evidence: Evidence, view: View) -> Found:
        return together([self._on(evidence, view, block) for block in self.on])

    def _on(self, evidence: Evidence, view: View, block: str) -> Found:
        cells = [Cell(self.table, block, row) for row in self.rows]
        found = _means(evidence, cells, self.metric, view)
        if found is None:
            return _not_run(evidence, cells[0])
        low, high = min(found.means), max(found.means)
        return one(high - low <= self.most, f"{found.name} {low:.3f} to {high:.3f}", why=found.why)


@dataclass(frozen=True)
class Reproduced:
    """The published mean comes out: within two standard deviations, as the tables mark cells."""

    table: str
    row: str
    metric: str
    block: str
    called: str = ""

    def __call__(self, evidence: Evidence, view: View) -> Found:
        cell = Cell(self.table, self.block, self.row)
        found = _means(evidence, [cell], self.metric, view)
        published = evidence.published(cell, self.metric)
        if found is None or published is None:
            return _not_run(evidence, cell)
        (mean,), (sd,) = found.means, found.spread
        name = f"{self.called}, {found.name}" if self.called else found.name
        text = f"{name} {mean:.3f} ± {sd:.3f}, published {published.printed or published.mean}"
        return one(not differs(published, mean, sd), text, why=found.why)


@dataclass(frozen=True)
class Gap:
    """A published difference of two rows is reached by half or more."""

    table: str
    a: str
    b: str
    metric: str
    block: str

    def __call__(self, evidence: Evidence, view: View) -> Found:
        cells = [Cell(self.table, self.block, row) for row in (self.a, self.b)]
        found = _means(evidence, cells, self.metric, view)
        printed = [evidence.published(c, self.metric) for c in cells]
        if found is None or printed[0] is None or printed[1] is None:
            return _not_run(evidence, cells[0])
        ours, theirs = found.means[0] - found.means[1], printed[0].mean - printed[1].mean
        text = f"{found.name} {ours:+.3f}, published {theirs:+.2f}"
        return one(ours / theirs >= 0.5, text, why=found.why)


@dataclass(frozen=True)
class Theorem:
    """All findings of a check hold, but for those that leave out what the claim assumes.

    ``assumed``: words in the findings of that kind.
    """

    id: str
    assumed: tuple[str, ...] = ()

    def __call__(self, evidence: Evidence, view: View) -> Found:
        del view
        record = next((r for r in evidence.records if r.run.get("claim") == self.id), None)
        if record is None:
            return one(None, "not run")
        findings = [
            f
            for f in record.result["findings"]
            if not any(word in f["what"] for word in self.assumed)
        ]
        held = [f for f in findings if f["holds"]]
        failed = next((f for f in findings if not f["holds"]), None)
        text = f"{len(held)} of {len(findings)} numbers as claimed"
        why = "" if failed is None else f"; not: {failed['what']}"
        return one(failed is None, text + why)


@dataclass(frozen=True)
class Number:
    """A number that a function finds in the evidence, with its own limit."""

    find: Callable[[Evidence], Found]

    def __call__(self, evidence: Evidence, view: View) -> Found:
        del view
        return self.find(evidence)


@dataclass(frozen=True)
class Untested:
    """Nothing was run that would tell."""

    why: str

    def __call__(self, evidence: Evidence, view: View) -> Found:
        del evidence, view
        return one(None, self.why)
