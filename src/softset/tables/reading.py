"""How a file is read: options, names of columns, and the most that is read."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

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
    thousands: Collection[str] | None
    limit: int


def bytes_allowed(limit: int | None) -> int:
    """``limit`` if given; else ``SOFTSET_LIMIT`` (megabytes), or an eighth of the free memory."""
    if limit is not None:
        return limit
    megabytes = os.environ.get("SOFTSET_LIMIT")
    if megabytes:
        try:
            return int(float(megabytes) * 2**20)
        except (ValueError, OverflowError):
            raise ValueError(f"SOFTSET_LIMIT must be megabytes, got {megabytes!r}.") from None
    return free_memory() // _TIMES


def free_memory() -> int:
    """The bytes that this process may still take: of the machine, of its control group, and of the
    limits that the shell has set (``ulimit``)."""
    limits = [_available(), *_group_limits(), *_process_limits()]
    return max(0, min([limit for limit in limits if limit is not None], default=8 * 2**30))


def _available() -> int | None:
    try:
        with open("/proc/meminfo") as file:
            match = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
        if match:
            return int(match[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError, AttributeError):  # not on every system
        return None


def _group_limits(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> Iterator[int]:
    """What the control groups of this process have left, in version 2 and 1 of Linux."""
    try:
        groups = membership.read_text().splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = root / "memory" if controllers else root
        limit, used = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if controllers
            else ("memory.max", "memory.current")
        )
        group = top / path.lstrip("/")
        # Inside a container, the group of the process may be the root of what it sees.
        for directory in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):  # no such group, or "max": no limit
                yield int((directory / limit).read_text()) - int((directory / used).read_text())
            if directory == top:
                break


def _process_limits() -> Iterator[int]:
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):  # not on every system
        return
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - used


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
    options = {"sep": sep, "encoding": encoding, "decimal": None if decimal == "." else decimal}
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is no text: leave out {option} ({value!r}).")


def expanded(names: Collection[str], columns: Collection[str]) -> list[str]:
    """Names of columns, each once: "a,b" is two, unless a column has that name.

    >>> expanded(["a,b", "c, d"], ["a", "b", "c, d"])
    ['a', 'b', 'c, d']
    """
    existing = set(columns)
    split = [[n] if n in existing else [p.strip() for p in n.split(",")] for n in names]
    return list(dict.fromkeys(name for each in split for name in each if name))


def check_columns(name: str, columns: list[str], names: Iterable[str]) -> None:
    """Refuse ``names`` that are no columns of the table ``name``."""
    existing = set(columns)
    for column in names:
        if column not in existing:
            hint = nearest(column, columns)
            raise ValueError(
                f"{name} has no column {column!r}.{hint} Its columns: {listed(columns, 30)}."
            )
