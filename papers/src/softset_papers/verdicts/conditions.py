"""What a claim says of the results, as conditions: each gives a state and the numbers for it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from softset_papers.pages.layout import column_name
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

    ``tables`` are those of the two rows; ``on`` the keys of the blocks.
    """

    wanted: str
    a: str
    b: str
    metric: str
    tables: tuple[str, str]
    on: tuple[str, ...] = FOUR

    def __call__(self, evidence: Evidence, view: View) -> Found:
        return together([self._on(evidence, view, block) for block in self.on])

    def _on(self, evidence: Evidence, view: View, block: str) -> Found:
        a, b = Cell(self.tables[0], block, self.a), Cell(self.tables[1], block, self.b)
        block = evidence.read_as(block, (a, b), view)
        a, b = a._replace(block=block), b._replace(block=block)
        title = evidence.title(a)
        found = evidence.compare(a, b, self.metric, view)
        if found is None:
            return one(None, f"{_named(title, self.metric)}: no pairs were run")
        state = None if found.relation == "undecided" else found.relation in WANTED[self.wanted]
        why = evidence.reduced(a, view) or evidence.reduced(b, view)
        name = _named(title, self.metric)
        rows = " against ".join(
            evidence.label(evidence.as_trained(c) if view.as_trained else c) for c in (a, b)
        )
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
        values = list(evidence.values(cell, self.metric, view).values())
        if not values:
            return one(None, f"{evidence.title(cell)} not run")
        mean, why = statistics.fmean(values), evidence.reduced(cell, view)
        text = f"{_named(evidence.title(cell), self.metric)} {mean:.3f}"
        return one(self.low <= mean <= self.high, text, why=why)


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
        values = [list(evidence.values(c, self.metric, view).values()) for c in cells]
        if not all(values):
            return one(None, f"{evidence.title(cells[0])} not run")
        means = [statistics.fmean(v) for v in values]
        name = _named(evidence.title(cells[0]), self.metric)
        text = f"{name} {min(means):.3f} to {max(means):.3f}"
        why = next((w for c in cells if (w := evidence.reduced(c, view))), "")
        return one(max(means) - min(means) <= self.most, text, why=why)


@dataclass(frozen=True)
class Reproduced:
    """The measured mean is within ``within`` of the published one."""

    table: str
    row: str
    metric: str
    on: tuple[str, ...]
    within: float

    def __call__(self, evidence: Evidence, view: View) -> Found:
        return together([self._on(evidence, view, block) for block in self.on])

    def _on(self, evidence: Evidence, view: View, block: str) -> Found:
        cell = Cell(self.table, block, self.row)
        values = list(evidence.values(cell, self.metric, view).values())
        published = evidence.published(cell, self.metric)
        if not values or published is None:
            return one(None, f"{evidence.title(cell)} not run")
        mean = statistics.fmean(values)
        name = _named(evidence.title(cell), self.metric)
        text = f"{name} {mean:.3f}, published {published.mean:g}"
        close = abs(mean - published.mean) <= self.within
        return one(close, text, why=evidence.reduced(cell, view))


@dataclass(frozen=True)
class Gap:
    """A published difference of two rows is reached by half or more."""

    table: str
    a: str
    b: str
    metric: str
    block: str

    def __call__(self, evidence: Evidence, view: View) -> Found:
        a, b = (Cell(self.table, self.block, row) for row in (self.a, self.b))
        means = [list(evidence.values(c, self.metric, view).values()) for c in (a, b)]
        printed = [evidence.published(c, self.metric) for c in (a, b)]
        if not all(means) or printed[0] is None or printed[1] is None:
            return one(None, "not run")
        ours = statistics.fmean(means[0]) - statistics.fmean(means[1])
        theirs = printed[0].mean - printed[1].mean
        text = f"{evidence.title(a)} {ours:+.3f}, published {theirs:+.2f}"
        why = evidence.reduced(a, view) or evidence.reduced(b, view)
        return one(ours / theirs >= 0.5, text, why=why)


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
