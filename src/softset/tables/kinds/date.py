"""Dates and times, also in text: days since 1970, and what a calendar says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from softset.storage.files import SavedFileError
from softset.tables.columns import (
    ENOUGH,
    MISSING_WORDS,
    Cells,
    Column,
    Fitted,
    Mask,
    Values,
    is_constant,
    median,
    refuse_or_warn,
    unreadable,
)

# How dates are written. Of two that fit as well, the first is taken; that it was a choice is said.
_DAYS = {
    "%Y-%m-%d": r"\d{4}-\d\d?-\d\d?",
    "%Y/%m/%d": r"\d{4}/\d\d?/\d\d?",
    "%d.%m.%Y": r"\d\d?\.\d\d?\.\d{4}",
    "%m/%d/%Y": r"\d\d?/\d\d?/\d{4}",
    "%d/%m/%Y": r"\d\d?/\d\d?/\d{4}",
}
_TIMES = {
    "": "",
    " %H:%M": r" \d\d?:\d\d",
    " %H:%M:%S": r" \d\d?:\d\d:\d\d",
    " %H:%M:%S.%f": r" \d\d?:\d\d:\d\d\.\d{1,6}",
}
_FORMATS = {
    day + time: re.compile(_DAYS[day] + _TIMES[time], re.ASCII) for day in _DAYS for time in _TIMES
}
_LIKELY = re.compile(r"\s*\d{1,4}[-/.]\d")
_SECOND = "second of day"
_DAY = 86400.0


@dataclass(frozen=True)
class Date(Fitted):
    """An output for each of ``fill``: the parts of a date, and their medians in training."""

    fill: dict[str, float]
    kind: ClassVar[str] = "date"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """Dates, or text of which at least nine tenths are dates written alike."""
        if cells.stored == "date":
            column = Column(cells.name, "date", int(cells.missing.sum()))
            if not cells.missing.any() and is_constant(cells.values):
                return column.drop("is constant")
            seconds = _parts(cells.values[~cells.missing])[_SECOND]
            return replace(column, time=bool((seconds != 0).any()))
        form = _format(*cells.distinct[:2]) if cells.stored == "text" else None
        if form is None:
            return None
        moments, bad = _read(cells, form)
        note, words = unreadable(cells, bad, f"dates as {form}")
        if "/" in form and not form.startswith("%Y"):
            order = "month/day/year" if form.startswith("%m") else "day/month/year"
            first = cells.series.iloc[int((~np.isnat(moments)).argmax())]
            choice = f"column {cells.name!r} is read as dates, {order}, e.g. {first!r}."
            note = f"{note} {choice}".strip()
        missing = np.isnat(moments)
        column = Column(cells.name, "date", int(missing.sum()), note=note, words=words, format=form)
        if not missing.any() and is_constant(moments):
            return column.drop("is constant")
        return replace(column, time="%H" in form)

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        parts = _parts(_moments(column, cells))
        return cls(column, {k: median(parts[k]) for k in _used(column)})

    @property
    def parts(self) -> list[str]:
        return [f"{self.column.name} {part}" for part in self.fill]

    def encode(self, cells: Cells, out: Values) -> Mask:
        moments = _moments(self.column, cells)
        missing = np.isnat(moments)
        parts = _parts(moments)
        for i, (name, fill) in enumerate(self.fill.items()):
            out[:, i] = np.where(missing, fill, parts[name])
        return missing

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The inverse of ``state``: parts of dates that ``fit`` uses, and a known format."""
        fitted = super().from_state(state)
        column, form = fitted.column, fitted.column.format
        if list(fitted.fill) != _used(column) or (form is not None and form not in _FORMATS):
            raise SavedFileError(f"column {column.name!r} has unknown parts or formats of dates.")
        return fitted


def _format(words: Sequence[str], counts: Values, forms: Sequence[str] = ()) -> str | None:
    """The format that most cells have, if it is nearly all of them."""
    there = np.array([word.strip() not in MISSING_WORDS for word in words], dtype=bool)
    best, most = None, max(1.0, ENOUGH * counts[there].sum())
    likely = np.array([bool(_LIKELY.match(word)) for word in words], dtype=bool)
    if counts[likely].sum() < most:
        return None
    texts = [_spaced(word) for word in words]
    for form in forms or _FORMATS:
        pattern = _FORMATS[form]
        fits = np.array([bool(pattern.fullmatch(text)) for text in texts], dtype=bool)
        if counts[fits].sum() < most:
            continue
        fits[fits] = ~np.isnat(_parsed([texts[i] for i in np.flatnonzero(fits)], form))
        count = counts[fits].sum()
        if count >= most:
            best, most = form, count + 1
    return best


def _spaced(text: str) -> str:
    """ISO's ``T`` and ``Z`` as a blank and nothing."""
    text = text.strip()
    return re.sub(r"(\d)T(\d)", r"\1 \2", text).removesuffix("Z")


def _parsed(texts: Sequence[str], form: str) -> Values:
    """``datetime64[us]``, NaT where a text is no date as ``form``."""
    import pandas as pd

    found = pd.to_datetime(pd.Series(texts, dtype=object), format=form, errors="coerce")
    return found.to_numpy(dtype="datetime64[us]")


def _read(cells: Cells, form: str) -> tuple[Values, Mask]:
    """Every cell of a column of text as a moment, and where it is none."""
    words, _, codes = cells.distinct
    texts = [_spaced(word) for word in words]
    moments = _parsed(texts, form)
    bad = np.isnat(moments) & np.array([text not in MISSING_WORDS for text in texts], dtype=bool)
    # A missing cell has the code -1: the last entry.
    return np.append(moments, np.datetime64("NaT"))[codes], np.append(bad, False)[codes]


def _moments(column: Column, cells: Cells) -> Values:
    """The cells of a column that is known to hold dates."""
    nothing = np.full(len(cells.values), np.datetime64("NaT"), dtype="datetime64[us]")
    if cells.missing.all():
        return nothing
    if cells.stored == "number":
        refuse_or_warn(column, cells, ~cells.missing, "a date")
    if cells.stored == "date":
        return cells.values
    form = column.format or _format(*cells.distinct[:2], list(_TIMED)) or "%Y-%m-%d"
    moments, bad = _read(cells, form)
    refuse_or_warn(column, cells, bad, f"a date as {form}")
    return moments


# How dates are written to a file that were no text in training.
_TIMED = [f"%Y-%m-%d{time}" for time in _TIMES]


def _used(column: Column) -> list[str]:
    """The parts of a date that are outputs: the time of day only if there is one."""
    parts = ["days", "year", "month", "day", "day of week"]
    return [*parts, _SECOND] if column.time else parts


def _parts(moments: Values) -> dict[str, Values]:
    """What a model can use of a date; NaN where missing."""
    missing = np.isnat(moments)
    safe = np.where(missing, np.datetime64(0, "us"), moments)
    seconds = (safe - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    days = np.floor(seconds / _DAY)
    months = safe.astype("datetime64[M]").astype(np.int64)
    parts = {
        "days": seconds / _DAY,
        "year": months // 12 + 1970,
        "month": months % 12 + 1,
        "day": (safe.astype("datetime64[D]") - safe.astype("datetime64[M]")).astype(np.int64) + 1,
        "day of week": (days + 3) % 7,  # 1970-01-01 was a Thursday, day 3
        _SECOND: seconds - days * _DAY,
    }
    return {k: np.where(missing, np.nan, v.astype(np.float64)) for k, v in parts.items()}
