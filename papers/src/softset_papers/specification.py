"""A table of a paper as data: its sets, its rows, and every setting with where it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

# --- settings -----------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A value and where it comes from: a key of ``SOURCES``."""

    value: Any
    source: str


Settings = dict[str, Setting]
SOURCES = {"paper": "the paper", "code": "the authors' code", "ours": "us"}


def paper(**values: Any) -> Settings:
    """Settings that the paper states.

    >>> paper(patience=100) | ours(trees=10)
    {'patience': Setting(value=100, source='paper'), 'trees': Setting(value=10, source='ours')}
    """
    return {name: Setting(value, "paper") for name, value in values.items()}


def code(**values: Any) -> Settings:
    """Settings that the paper leaves open and the authors' published code has."""
    return {name: Setting(value, "code") for name, value in values.items()}


def ours(**values: Any) -> Settings:
    """Settings that neither states, or that we made smaller."""
    return {name: Setting(value, "ours") for name, value in values.items()}


def plain(settings: Settings) -> dict[str, Any]:
    """The values alone."""
    return {name: setting.value for name, setting in settings.items()}


# --- tables -------------------------------------------------------------------------------------


class Value(NamedTuple):
    """A number and its standard deviation, if one is given; ``printed`` as in the paper."""

    mean: float
    sd: float | None = None
    printed: str = ""


Values = dict[str, dict[str, dict[str, Value]]]  # by title of the block, id of the row, metric


@dataclass(frozen=True)
class Block:
    """The part of a table for one data set: its name in the paper, and ours.

    With several ``splits`` the trials are spread over them, one split after the other. ``of`` is
    the title of the part of the paper's table whose values stand beside it, if it is not its own.
    ``rows`` and ``trials`` are the rows that are run here, all if left out (any other is run when
    it is asked for by name), and how many networks, the table's if left out. ``updates`` is how
    many updates the paper made of a network of curves. ``whole`` is the dataset of which
    ``dataset`` is a weighted subset: ``--full`` reads it where its file is there.
    """

    title: str
    dataset: str
    duplicates: str = "anywhere"
    extra: bool = False  # not in the paper
    untuned: str = "at 0.5"  # how it is decided where nothing is tuned
    splits: int = 1
    weighted: bool = False  # rows have weights, which not every method can take
    of: str = ""
    rows: tuple[str, ...] = ()
    trials: int | None = None
    updates: int = 0
    whole: str = ""

    def in_full(self) -> Block:
        """The block on the whole dataset, whose rows have no weights."""
        return replace(self, dataset=self.whole, whole="", weighted=False) if self.whole else self

    @property
    def key(self) -> str:
        """What tells blocks apart."""
        together = "-together" if self.duplicates == "together" else ""
        return self.dataset + together + ("-splits" if self.splits > 1 else "")


@dataclass(frozen=True)
class Row:
    """One way to train.

    ``fit`` is a key of ``softset_papers.kinds.tabular.FITS`` and ``settings`` is what it gets:
    numbers and text only, for they identify the run in the file of results.

    Args:
        full: what ``--full`` changes, to what the paper did where that is too much for a desk.
        on: by the key of a block, what is different there.
        fixed: settings that are written in the code and the same for every run; only shown.
        splits: over how many splits the trials are spread; that of the block if left out.
        before: settings that earlier results lack, and what those did instead. Such results are
            shown, and said to need another run.
        unweighted: it cannot take weights of rows.
        of: the id of the row whose published values stand beside it, if it is not its own.
    """

    id: str
    label: str
    settings: Settings = field(default_factory=dict)
    fit: str = "network"
    extra: bool = False  # not in the paper
    slow: bool = False  # hours: run only when it is asked for by name
    full: Settings = field(default_factory=dict)
    on: dict[str, Settings] = field(default_factory=dict)
    fixed: Settings = field(default_factory=dict)
    splits: int | None = None
    before: dict[str, str] = field(default_factory=dict)
    unweighted: bool = False
    of: str = ""

    def options(self, block: Block | None = None, full: bool = False) -> dict[str, Any]:
        """The values of all settings on a block."""
        own = {} if block is None else self.on.get(block.key, {})
        return plain(self.settings | own | (self.full if full else {}))

    def splits_on(self, block: Block) -> int:
        """Over how many splits the trials are spread there."""
        return block.splits if self.splits is None else self.splits


@dataclass(frozen=True)
class Table:
    """A table, with published values by block title, row id and metric.

    ``kind`` is a key of ``softset_papers.runner.KINDS``: ``"train"``, or what is done for tables
    that are counted, drawn or proved. ``lacks`` says in words what ``--full`` leaves out of the
    paper's protocol; ``full_trials`` is how many trials the paper made. ``unlike`` says why none of
    its rows can decide a claim, if none can.
    """

    id: str
    title: str
    blocks: tuple[Block, ...] = ()
    rows: tuple[Row, ...] = ()
    metrics: tuple[str, ...] = ()
    kind: str = "train"
    note: str = ""
    trials: int = 10
    full_trials: int = 10
    lacks: str = ""
    unlike: str = ""
    published: Values = field(default_factory=dict)

    @property
    def lacking(self) -> str:
        """In words what ``--full`` leaves out of the paper's protocol."""
        subsets = [b.title for b in self.blocks if b.whole]
        whole = f"the whole dataset of {subsets[0]}, unless its file is there" if subsets else ""
        found = "; ".join(text for text in (self.lacks, whole) if text)
        return found or "nothing that the paper states"

    def trials_on(self, block: Block) -> int:
        """How many networks a row has there."""
        return self.trials if block.trials is None else block.trials

    def runs(self, block: Block, row: Row) -> bool:
        """Whether a row is run there without being asked for by name."""
        return not row.slow and (not block.rows or row.id in block.rows)

    def value(self, block: Block, row: Row, metric: str) -> Value | None:
        """What the paper says, if anything."""
        rows = self.published.get(block.of or block.title, {})
        return rows.get(row.of or row.id, {}).get(metric)


def differs(published: Value, mean: float, sd: float) -> bool:
    """Whether they are more than two standard deviations apart (and more than rounding).

    >>> differs(Value(0.70, 0.02), 0.72, 0.01), differs(Value(0.70, 0.02), 0.80, 0.01)
    (False, True)
    """
    spread = math.hypot(published.sd or 0.0, sd)
    return abs(published.mean - mean) > 2 * spread + 0.005


_UNSHOWN = ("loss", "output", "judged", "step")  # the label of the row or the protocol says it


def sources(rows: Iterable[Row], full: Iterable[Row] = ()) -> dict[str, str]:
    """In words, by source, the settings of some rows; values that differ are all named.

    ``full``: those that were run by the paper's protocol.

    >>> row = Row("f1", "F1", paper(batch_size=1024) | code(dropout=0.5))
    >>> sources([row])
    {'paper': 'batch size 1024', 'code': 'dropout 0.5'}
    """
    found: dict[str, dict[str, list[str]]] = {}
    for row, more in (*((r, {}) for r in rows), *((r, r.full) for r in full)):
        every = [row.settings | row.fixed | more, *row.on.values()]
        for name, setting in (pair for settings in every for pair in settings.items()):
            if name not in _UNSHOWN:
                values = found.setdefault(setting.source, {}).setdefault(name, [])
                value = setting.value
                if name == "grid" and not row.settings.get("anneal"):
                    value = {k: v for k, v in value.items() if k != "cooling"}  # nothing cools
                text = _words(value)
                if text not in values:
                    values.append(text)
    return {
        source: ", ".join(
            f"{name.replace('_', ' ')} {' or '.join(values)}"
            for name, values in found[source].items()
        )
        for source in SOURCES
        if source in found
    }


def _words(value: Any) -> str:
    """A value of a setting for reading: lists and dicts without quotes."""
    if isinstance(value, dict):
        return "(" + "; ".join(f"{k.replace('_', ' ')} {_words(v)}" for k, v in value.items()) + ")"
    if isinstance(value, list | tuple):
        return "/".join(map(_words, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
