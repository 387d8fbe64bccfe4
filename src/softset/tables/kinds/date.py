"""Dates and times, also in text: days since 1970, and what a calendar says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from softset.storage.files import SavedFileError
from softset.tables.columns import (
    ENOUGH,
    MISSING_WORDS,
    Cells,
    Column,
    FittedColumn,
    Mask,
    is_constant,
    median,
    unreadable,
    unseen,
)
from softset.typing import Array, Floats, Settings

# How days are written. If two formats fit equally well, the first is taken, with a note. A time of
# day may follow in any cell, and a time zone; instants are in UTC.
_FORMATS = {
    "%Y-%m-%d": r"\d{4}-\d\d?-\d\d?",
    "%Y/%m/%d": r"\d{4}/\d\d?/\d\d?",
    "%d.%m.%Y": r"\d\d?\.\d\d?\.\d{4}",
    "%m/%d/%Y": r"\d\d?/\d\d?/\d{4}",
    "%d/%m/%Y": r"\d\d?/\d\d?/\d{4}",
}
_TIME = r"(?:[ T](?P<time>\d\d?:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
_PATTERNS = {
    form: re.compile(rf"(?P<day>{day}){_TIME}", re.ASCII) for form, day in _FORMATS.items()
}
_LIKELY = re.compile(r"\s*\d{1,4}[-/.]\d")
_SECOND = "second of day"
_DAY = 86400.0


@dataclass(frozen=True)
class Date(FittedColumn):
    """An output for each entry of ``fill``: the components of a date, and their medians in
    training."""

    fill: dict[str, float]
    kind: ClassVar[str] = "date"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """Dates, or text of which at least nine tenths are dates written alike."""
        column = Column(cells.name, "date")
        moments = cells.values
        if cells.stored != "date":
            form = _format(*cells.distinct[:2]) if cells.stored == "text" else None
            if form is None:
                return None
            moments, bad = _read(cells, form)
            notes, words = unreadable(cells, bad, f"dates as {form}")
            if "/" in form and not form.startswith("%Y"):
                order = "month/day/year" if form.startswith("%m") else "day/month/year"
                first = cells.series.iloc[int((~np.isnat(moments)).argmax())]
                choice = f"column {cells.name!r} is read as dates, {order}, e.g. {first!r}."
                notes = (*notes, choice)
            column = replace(column, notes=notes, words=words, format=form)
        missing = np.isnat(moments)
        column = replace(column, missing=int(missing.sum()))
        if not missing.any() and is_constant(moments):
            return column.drop("is constant")
        seconds = _components(moments[~missing])[_SECOND]
        return replace(column, time=bool((seconds != 0).any()))

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        """The components of this column, each with its median for missing dates."""
        components = _components(_moments(column, cells)[0])
        return cls(column, {k: median(components[k]) for k in _used(column)})

    @property
    def value_names(self) -> list[str]:
        """The column with each component, such as its year."""
        return [f"{self.column.name} {component}" for component in self.fill]

    def encode(self, cells: Cells, out: Array) -> tuple[Mask, list[str]]:
        """The components of each date, and the medians where it is missing."""
        moments, notes = _moments(self.column, cells)
        missing = np.isnat(moments)
        components = _components(moments)
        for i, (name, fill) in enumerate(self.fill.items()):
            out[:, i] = np.where(missing, fill, components[name])
        return missing, notes

    @classmethod
    def from_state(cls, state: Settings) -> Self:
        """The inverse of ``state``: components that ``fit`` uses, and a known format."""
        fitted = super().from_state(state)
        column, form = fitted.column, fitted.column.format
        if list(fitted.fill) != _used(column) or (form is not None and form not in _FORMATS):
            raise SavedFileError(f"column {column.name!r} has unknown parts or formats of dates.")
        return fitted


def _format(words: Sequence[str], counts: Array) -> str | None:
    """The format of days that most cells have, if nearly all cells have it."""
    there = np.array([word.strip() not in MISSING_WORDS for word in words], dtype=bool)
    best, most = None, max(1.0, ENOUGH * counts[there].sum())
    likely = np.array([bool(_LIKELY.match(word)) for word in words], dtype=bool)
    if counts[likely].sum() < most:
        return None
    for form in _FORMATS:
        count = counts[~np.isnat(_parsed(words, form))].sum()
        if count >= most:
            best, most = form, count + 1
    return best


def _parsed(words: Sequence[str], form: str) -> Array:
    """``datetime64[us]`` in UTC, NaT where a word is no date in the format ``form``."""
    import pandas as pd

    matches = [_PATTERNS[form].fullmatch(word.strip()) for word in words]
    days = pd.Series([None if m is None else m["day"] for m in matches], dtype=object)
    moments = pd.to_datetime(days, format=form, errors="coerce").to_numpy(dtype="datetime64[us]")
    dates: Array = np.array(moments)
    for i, match in enumerate(matches):
        if match is not None and match["time"] and not np.isnat(dates[i]):
            dates[i] += _time_of_day(match["time"], match["zone"] or "Z")
    return dates


def _time_of_day(time: str, zone: str) -> np.timedelta64:
    """The time since midnight in UTC; NaT unless there is such a time.

    >>> _time_of_day("01:30", "+02:00") == np.timedelta64(-30 * 60, "s")
    np.True_
    """
    hour, minute, second = (*(float(x) for x in time.split(":")), 0.0)[:3]
    if hour > 23 or minute > 59 or second >= 60:
        return np.timedelta64("NaT", "us")
    if zone != "Z":
        offset = 60 * int(zone[1:3]) + int(zone[-2:])
        minute -= offset if zone[0] == "+" else -offset
    seconds = 3600 * hour + 60 * minute + second
    return np.timedelta64(round(seconds * 1e6), "us")


def _read(cells: Cells, form: str) -> tuple[Array, Mask]:
    """Every cell of a text column as a moment, and the mask of cells that are none."""
    words, _, codes = cells.distinct
    moments = _parsed(words, form)
    absent = np.array([word.strip() in MISSING_WORDS for word in words], dtype=bool)
    bad = np.isnat(moments) & ~absent
    # A missing cell has the code -1: the last entry.
    return np.append(moments, np.datetime64("NaT"))[codes], np.append(bad, False)[codes]


def _moments(column: Column, cells: Cells) -> tuple[Array, list[str]]:
    """The cells of a column of dates, and notes on those that are none.

    Dates that were no text in training are written as ISO 8601 in a file.
    """
    nothing = np.full(len(cells.values), np.datetime64("NaT"), dtype="datetime64[us]")
    if cells.missing.all():
        return nothing, []
    if cells.stored == "number":
        return nothing, unseen(column, cells, ~cells.missing, "a date")
    if cells.stored == "date":
        return cells.values, []
    form = column.format or "%Y-%m-%d"
    moments, bad = _read(cells, form)
    return moments, unseen(column, cells, bad, f"a date as {form}")


def _used(column: Column) -> list[str]:
    """The components of a date that are outputs: the time of day only if there is one."""
    components = ["days", "year", "month", "day", "day of week"]
    return [*components, _SECOND] if column.time else components


def _components(moments: Array) -> dict[str, Floats]:
    """What a model can use of a date; NaN where missing."""
    missing = np.isnat(moments)
    safe = np.where(missing, np.datetime64(0, "us"), moments)
    seconds = (safe - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    days = np.floor(seconds / _DAY)
    months = safe.astype("datetime64[M]").astype(np.int64)
    components = {
        "days": seconds / _DAY,
        "year": months // 12 + 1970,
        "month": months % 12 + 1,
        "day": (safe.astype("datetime64[D]") - safe.astype("datetime64[M]")).astype(np.int64) + 1,
        "day of week": (days + 3) % 7,  # 1970-01-01 was a Thursday, day 3
        _SECOND: seconds - days * _DAY,
    }
    return {k: np.where(missing, np.nan, v.astype(np.float64)) for k, v in components.items()}
