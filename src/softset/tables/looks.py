"""Rows in the order of time, dealt into looks: days, weeks, months, or the numbers themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softset.checks import check_choice
from softset.typing import ArrayLike, Ints

if TYPE_CHECKING:
    import pandas as pd

# How a moment is written, by the length of a look.
_NAMES: dict[str, Callable[[pd.DatetimeIndex], list[str]]] = {
    "day": lambda t: list(t.strftime("%Y-%m-%d")),
    "week": lambda t: list(t.strftime("%G-W%V")),
    "month": lambda t: list(t.strftime("%Y-%m")),
    "year": lambda t: list(t.strftime("%Y")),
}
# Days and weeks for spans of so many days at most, by default.
_SPANS = {"day": 62.0, "week": 731.0, "month": 7310.0}


class Looks(NamedTuple):
    """The names of the looks in order, and the number of the look of each row."""

    names: list[str]
    number: Ints


def read_looks(time: ArrayLike, rows: int, every: str | None = None) -> Looks:
    """The look of each row; ``time`` holds dates, or numbers, each of which is a look.

    Raises ValueError unless all can be read and are in order.

    >>> read_looks(["2026-01-05", "2026-01-06", "2026-01-12"], 3, "week")
    Looks(names=['2026-W02', '2026-W03'], number=array([0, 0, 1]))
    """
    import pandas as pd

    if every is not None:
        check_choice("every", every, _NAMES)
    values = pd.Series(np.asarray(time))
    if len(values) != rows:
        raise ValueError(f"time must have one value for each of {rows} rows, got {len(values)}.")
    if values.isna().any():
        row = int(np.argmax(values.isna())) + 1
        raise ValueError(f"time must not be missing; row {row} has none. Leave such rows out.")
    numbers = pd.to_numeric(values, errors="coerce") if values.dtype.kind != "M" else None
    if numbers is not None and numbers.notna().all():
        if every is not None:
            raise ValueError(f"every={every!r} is for dates; time holds numbers, each a look.")
        ordered, names = numbers, [f"{v:.15g}" for v in numbers]
    else:
        ordered = dates = _dates(values)
        days = (dates.max() - dates.min()).total_seconds() / 86400
        every = every or next((e for e, span in _SPANS.items() if days <= span), "year")
        names = _NAMES[every](pd.DatetimeIndex(dates))
    earlier = np.flatnonzero(ordered[1:].to_numpy() < ordered[:-1].to_numpy())
    if len(earlier):
        row = int(earlier[0]) + 2
        raise ValueError(
            f"time is not in order: row {row} ({values[row - 1]}) is before row {row - 1} "
            f"({values[row - 2]}). Sort the rows by it."
        )
    kinds = list(dict.fromkeys(names))
    place = {name: i for i, name in enumerate(kinds)}
    return Looks(kinds, np.array([place[name] for name in names], dtype=np.int64))


def _dates(values: pd.Series) -> pd.Series:
    """Moments: local ones if all have one time zone or none, of several in UTC."""
    import pandas as pd

    dates = pd.to_datetime(values, errors="coerce", utc=True, format="ISO8601")
    if dates.isna().any():
        row = int(np.argmax(dates.isna())) + 1
        raise ValueError(
            f"time must be dates (2026-03-31) or numbers; row {row} has {values[row - 1]!r}."
        )
    try:
        return pd.to_datetime(values, format="ISO8601")
    except ValueError:  # several time zones, or one in some rows alone
        zoned = np.array([pd.Timestamp(v).tzinfo is not None for v in values])
        if not zoned.all():
            row = int(np.argmin(zoned)) + 1
            raise ValueError(
                f"time has a time zone in some rows and none in others; row {row} has "
                f"{values[row - 1]!r}. Write it in all of them."
            ) from None
        return dates
