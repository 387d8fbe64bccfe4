"""Published values, read from one TOML file for each paper (``000.toml``).

A table there is ``[ID.BLOCK]`` with a line for each row: a value for each of the table's
``metrics``, or ``{ metric = value }`` where rows have different ones. A value is what is printed,
``"0.75 ± 0.01"``, or ``"0.82"`` where no deviation is given.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from softset_papers.specification import Value, Values

PAPERS = sorted(f.name[:3] for f in files(__package__).iterdir() if f.name.endswith(".toml"))
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?")


def values_of(table: str) -> Values:
    """What was published in a table, by block, row and metric; nothing if it is not in the files.

    >>> values_of("000-table-1")["Adult"]["bce"]["f1"]
    Value(mean=0.26, sd=0.06, printed='0.26 ± 0.06')
    """
    return tables_in(table[:3]).get(table, {}) if table[:3] in PAPERS else {}


@cache
def tables_in(paper: str) -> dict[str, Values]:
    """Every table of the file of a paper."""
    text = (files(__package__) / f"{paper}.toml").read_text(encoding="utf-8")
    return read_values(text)


def read_values(text: str) -> dict[str, Values]:
    """The tables of a TOML text, checked.

    >>> read_values('''
    ... [000-table-9]
    ... metrics = ["f1", "accuracy"]
    ... [000-table-9.Adult]
    ... bce = ["0.56 ± 0.05", "0.80"]
    ... ''')
    {'000-table-9': {'Adult': {'bce': {'f1': Value(mean=0.56, sd=0.05, printed='0.56 ± 0.05'), \
'accuracy': Value(mean=0.8, sd=None, printed='0.80')}}}}
    """
    found = {}
    for table, content in tomllib.loads(text).items():
        metrics = content.pop("metrics", None)
        found[table] = {
            block: {
                row: _row(f"{table}.{block}: {row}", values, metrics)
                for row, values in rows.items()
            }
            for block, rows in content.items()
        }
    return found


def _row(where: str, values: Any, metrics: list[str] | None) -> dict[str, Value]:
    if isinstance(values, dict):
        return {metric: _value(where, text) for metric, text in values.items()}
    if metrics is None:
        raise ValueError(f"{where} has no metrics: name them above, or write {{ metric = value }}.")
    if not isinstance(values, list) or len(values) != len(metrics):
        raise ValueError(f"{where} must have {len(metrics)} values, {metrics}, got {values!r}.")
    return {m: _value(where, text) for m, text in zip(metrics, values, strict=True)}


def _value(where: str, text: Any) -> Value:
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{where} must have values such as '0.75 ± 0.01', got {text!r}.")
    return Value(float(match[1]), None if match[2] is None else float(match[2]), text)
