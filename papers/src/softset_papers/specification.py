"""A table of a paper as data: which sets, which rows, how trained, and what was published."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from softset.checks import nearest

PROTOCOLS = ("fair", "published", "code")
"""How trained networks are judged.

- ``fair``: on probabilities, at threshold 0.5 and at one tuned on validation; AUROC is exact.
- ``published``: what the text of paper 000 says: the mean over thresholds 0.1 … 0.9, on
  probabilities; AUROC of the thresholded decisions, which is what its tables hold.
- ``code``: as ``published``, but with the *logits* of every loss that does not end in a sigmoid
  (cross-entropy, WMW, adversarial, Dice) cut at 0.1 … 0.9, as the published code does.
"""


class Value(NamedTuple):
    """A published number and its standard deviation, if one is given."""

    mean: float
    sd: float | None = None


@dataclass(frozen=True)
class Block:
    """The part of a table for one data set: its name in the paper, and ours."""

    title: str
    dataset: str
    duplicates: str = "anywhere"
    extra: bool = False  # not in the paper
    untuned: str = "at 0.5"  # how it is decided where nothing is tuned

    @property
    def key(self) -> str:
        """What tells blocks apart."""
        return self.dataset + ("-together" if self.duplicates == "together" else "")


@dataclass(frozen=True)
class Row:
    """One way to train.

    ``fit`` names a function in ``softset_papers.runner.FITS`` and ``options`` is what it gets:
    plain values only, for they identify the run in the file of results. ``full`` changes them to
    what the paper did, where that is too much for a desk.
    """

    id: str
    label: str
    options: dict[str, Any]
    fit: str = "network"
    extra: bool = False  # not in the paper
    slow: bool = False  # hours: run only when it is asked for by name
    full: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table, with published values by block title, row id and metric.

    ``kind`` is ``"train"``, or names a function in ``softset_papers.runner.KINDS`` for what is not
    trained (counts, weights, figures).
    """

    id: str
    title: str
    blocks: tuple[Block, ...] = ()
    rows: tuple[Row, ...] = ()
    metrics: tuple[str, ...] = ()
    published: dict[str, dict[str, dict[str, Value]]] = field(default_factory=dict)
    kind: str = "train"
    note: str = ""
    trials: int = 10

    def value(self, block: Block, row: Row, metric: str) -> Value | None:
        """What the paper says, if anything."""
        return self.published.get(block.title, {}).get(row.id, {}).get(metric)


_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:±(\d+(?:\.\d+)?))?")


def read_values(metrics: tuple[str, ...], text: str) -> dict[str, dict[str, Value]]:
    """Published values from lines ``row: 0.75±0.01 0.85±0.01 …``, one number for each metric.

    >>> read_values(("f1",), "bce: 0.70±0.02")
    {'bce': {'f1': Value(mean=0.7, sd=0.02)}}
    """
    found = {}
    for line in filter(None, map(str.strip, text.strip().splitlines())):
        row, _, numbers = line.partition(":")
        parts = numbers.split()
        if len(parts) != len(metrics):
            raise ValueError(f"row {row!r} has {len(parts)} values for {len(metrics)} metrics.")
        found[row] = {m: _value(part) for m, part in zip(metrics, parts, strict=True)}
    return found


def _value(text: str) -> Value:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"a published value looks like 0.75±0.01, got {text!r}.")
    return Value(float(match[1]), None if match[2] is None else float(match[2]))


def differs(published: Value, mean: float, sd: float) -> bool:
    """Whether they are more than two standard deviations apart (and more than rounding).

    >>> differs(Value(0.70, 0.02), 0.72, 0.01), differs(Value(0.70, 0.02), 0.80, 0.01)
    (False, True)
    """
    spread = math.hypot(published.sd or 0.0, sd)
    return abs(published.mean - mean) > 2 * spread + 0.005


def find_table(name: str) -> Table:
    """A table by its id, such as ``000-table-1``."""
    tables = all_tables()
    if name not in tables:
        hint = nearest(name, tables)
        raise ValueError(f"ID must be a table of 'softset paper list', got {name!r}.{hint}")
    return tables[name]


def all_tables() -> dict[str, Table]:
    """Every table by id."""
    from softset_papers import tables_000, tables_001, tables_002, tables_003, tables_images
    from softset_papers.theory import CLAIMS

    modules = [tables_000, tables_001, tables_002, tables_003, tables_images]
    tables = {table.id: table for module in modules for table in module.TABLES}
    tables["theory"] = Table("theory", "All theorems", kind="claim")
    return tables | {c.id: Table(c.id, c.title, kind="claim") for c in CLAIMS.values()}
