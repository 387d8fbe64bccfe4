"""How a file is read: options, names of columns, and the most that is read."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from softset.checks import listed, nearest

# A table in memory takes several times the size of its text.
_TIMES = 8


@dataclass(frozen=True)
class Reading:
    """How to read: the options of ``read_table``, with the limit in bytes."""

    sep: str | None
    encoding: str | None
    decimal: str
    labels: Collection[str]
    text: Collection[str]
    limit: int


def bytes_allowed(limit: int | None) -> int:
    """``limit`` if given; else ``SOFTSET_LIMIT`` (megabytes), or an eighth of the free memory."""
    if limit is not None:
        return limit
    given = os.environ.get("SOFTSET_LIMIT")
    if given:
        try:
            return int(float(given) * 2**20)
        except (ValueError, OverflowError):
            raise ValueError(f"SOFTSET_LIMIT must be megabytes, got {given!r}.") from None
    try:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        with open("/proc/meminfo") as file:
            found = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
        free = int(found[1]) * 1024 if found else free
    except (OSError, ValueError, AttributeError):  # not on every system
        free = 8 * 2**30
    return free // _TIMES


def too_large(name: str, size: int | None, limit: int) -> ValueError:
    """The error for a file of ``size`` bytes, or of more than were read."""
    holds = "more data" if size is None else f"{size / 2**20:.0f} MB of data, more"
    return ValueError(
        f"{name} holds {holds} than the limit of {limit / 2**20:.0f} MB here (an eighth of the "
        "free memory). Take a sample of the rows, leave out columns, use a larger machine, or "
        "raise the limit with SOFTSET_LIMIT (megabytes). Parquet files beyond it can be trained on "
        "and predicted block by block (ParquetRows, `softset train`)."
    )


def refuse_text_options(name: str, sep: str | None, encoding: str | None, decimal: str) -> None:
    """Refuse options that say how text is read, of a file that is none."""
    given = {"sep": sep, "encoding": encoding, "decimal": None if decimal == "." else decimal}
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is no text: leave out {option} ({value!r}).")


def expanded(names: Collection[str], columns: Collection[str]) -> list[str]:
    """Names of columns, each once: "a,b" is two, unless a column has that name.

    >>> expanded(["a,b", "c, d"], ["a", "b", "c, d"])
    ['a', 'b', 'c, d']
    """
    known = set(columns)
    parts = [[n] if n in known else [p.strip() for p in n.split(",")] for n in names]
    return list(dict.fromkeys(name for part in parts for name in part if name))


def check_columns(name: str, columns: list[str], wanted: Iterable[str]) -> None:
    """Refuse names of columns that the table ``name`` has not."""
    known = set(columns)
    for column in wanted:
        if column not in known:
            hint = nearest(column, columns)
            raise ValueError(
                f"{name} has no column {column!r}.{hint} Its columns: {listed(columns, 30)}."
            )
