"""The columns of a table: their cells, their description, and how a fitted column becomes
numbers."""

from __future__ import annotations

import datetime
import decimal
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from softset.formats import grouped
from softset.storage.files import SavedFileError
from softset.storage.schema import decoded, encoded
from softset.typing import Array, Floats, Settings

if TYPE_CHECKING:
    import pandas as pd

Mask = NDArray[np.bool_]
# In a column of numbers or dates these words mean that the value is missing.
MISSING_WORDS = frozenset(
    ["?", "NA", "N/A", "n/a", "na", "NaN", "nan", "NAN", "null", "NULL", "Null", "None", "none"]
) | {"", "#N/A", "<NA>", "NaT"}
# The fraction of cells of a text column that must be numbers, or dates, for the column to be one;
# the other cells then count as missing, with a note.
ENOUGH = 0.9
# Columns with fewer rows are never taken for identifiers.
IDENTIFIER_ROWS = 20
_NUMBER_TYPES = (bool, int, float, decimal.Decimal, np.number, np.bool_)
_NESTED_TYPES = (list, dict, tuple, set, np.ndarray)
# The most words for "missing" that a column remembers, to recognize them at prediction.
_MOST_WORDS = 1000


class UnseenWarning(UserWarning):
    """Cells that the encoder cannot use, because training had nothing like them."""


# --- cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """The cells of one column as they are stored.

    ``stored`` is ``"number"``, ``"date"``, ``"text"``, or ``"category"`` for text that is declared
    to be one (a pandas category); ``values`` are float64, datetime64[us] in UTC, or text, with NaN,
    NaT or None where ``missing``. ``decimal`` is the decimal mark of numbers in text.
    """

    name: str
    series: pd.Series
    stored: str
    values: Array
    missing: Mask
    decimal: str = "."

    @classmethod
    def of(cls, name: str, series: pd.Series) -> Cells:
        """The cells of ``series``, by its dtype, or by the type of every cell if it is object."""
        kind = series.dtype.kind if isinstance(series.dtype, np.dtype) else ""
        if kind and kind in "iufb":
            values = series.to_numpy(dtype=np.float64)
            return cls(name, series, "number", values, np.isnan(values))
        missing = series.isna().to_numpy(dtype=bool)
        stored, values = _stored(name, series, missing)
        missing = np.isnat(values) if stored == "date" else missing
        return cls(name, series, stored, values, missing, series.attrs.get("decimal", "."))

    @property
    def is_text(self) -> bool:
        """Whether ``values`` are text."""
        return self.stored in ("text", "category")

    @property
    def absent(self) -> Mask:
        """The mask of cells that are empty, or hold a word for "missing"."""
        if not self.is_text:
            return self.missing
        words, _, codes = self.distinct
        return np.array([*(word.strip() in MISSING_WORDS for word in words), True])[codes]

    @cached_property
    def distinct(self) -> tuple[list[str], NDArray[np.intp], NDArray[np.intp]]:
        """The distinct words of a text column, the count of each, and the word index of each cell,
        which is -1 for a missing one."""
        import pandas as pd

        codes, words = pd.factorize(self.values)
        return list(words), np.bincount(codes[codes >= 0], minlength=len(words)), codes

    def sample(self, mask: Mask, most: int = 3) -> str:
        """The first few cells of ``mask``: ``'x' in row 3, 'y' in row 9 and 6 more``.

        Rows are numbered as in the file: an index that counts rows says which they are.
        """
        rows = np.flatnonzero(mask)
        index = self.series.index
        counts = index.dtype.kind == "i" and index.is_monotonic_increasing
        shown = ", ".join(
            f"{_brief(self.series.iloc[r])} in row {(index[r] if counts else r) + 1}"
            for r in rows[:most]
        )
        return f"{shown} and {len(rows) - most} more" if len(rows) > most else shown


def _brief(value: object) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 50 else f"{text[:47]}…{text[-1]}"


def _stored(name: str, series: pd.Series, missing: Mask) -> tuple[str, Array]:
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category", as_text(series)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        if pd.api.types.is_complex_dtype(dtype):
            raise ValueError(f"column {name!r} holds complex numbers; split them into two columns.")
        return "number", _floats(name, series, missing)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date", _in_utc(series)
    if pd.api.types.is_timedelta64_dtype(dtype):
        return "number", series.dt.total_seconds().to_numpy(dtype=float)
    types = {type(v) for v in series.to_numpy(dtype=object)[~missing]}
    if all(issubclass(t, _NUMBER_TYPES) for t in types):
        return "number", _floats(name, series, missing)
    if all(issubclass(t, datetime.date | np.datetime64) for t in types):
        return "date", _in_utc(pd.to_datetime(series, errors="coerce", utc=True))
    nested = [t for t in types if issubclass(t, _NESTED_TYPES)]
    if nested:
        raise ValueError(
            f"column {name!r} holds a {nested[0].__name__} in each cell (nested data); every cell "
            "must hold one value. Unfold it into columns, or leave it out."
        )
    return "text", as_text(series)


def _in_utc(moments: pd.Series) -> Array:
    """``datetime64[us]`` in UTC: the same instant is the same value in every time zone."""
    if getattr(moments.dtype, "tz", None) is not None:
        moments = moments.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(moments.to_numpy(dtype="datetime64[us]"))


def _floats(name: str, series: pd.Series, missing: Mask) -> Floats:
    values = np.full(len(series), np.nan)
    try:
        values[~missing] = series[~missing].to_numpy(dtype=object).astype(np.float64)
    except OverflowError:
        raise ValueError(f"column {name!r} has a number beyond 1e308. Correct it.") from None
    return values


def as_text(series: pd.Series) -> Array:
    """Text with ``None`` where missing; integers as ``"3"``, not ``"3.0"``.

    >>> import pandas as pd
    >>> as_text(pd.Series([1.0, None, 2.5])).tolist()
    ['1', None, '2.5']
    """
    missing = series.isna().to_numpy(dtype=bool)
    values: Array = series.to_numpy(dtype=object).copy()
    values[missing] = None
    present = values[~missing]
    if not all(type(v) is str for v in present):
        values[~missing] = [_word(v) for v in present]
    return values


def _word(value: object) -> str:
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def check_finite(name: str, values: Floats, file: str = "") -> None:
    """Refuse infinite numbers in column ``name``, naming the first row."""
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(
            f"{file}{': ' if file else ''}column {name!r} has {infinite.sum()} infinite value(s) "
            f"(inf, or beyond 1e308), the first in row {int(infinite.argmax()) + 1}. Correct them, "
            "or leave the cells empty: missing values are allowed."
        )


def is_constant(values: Array) -> bool:
    """Whether there is one value only, and nothing missing."""
    return bool((values == values[0]).all())


def median(values: Floats) -> float:
    """The median of the numbers that are not NaN; 0 if there is none."""
    present = values[~np.isnan(values)]
    return float(np.median(present)) if len(present) else 0.0


# --- descriptions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """What one column of a table is, judged by all of its cells.

    ``kind`` is ``"number"``, ``"category"``, ``"date"`` or ``"dropped"``; ``missing`` counts the
    cells without a value, ``values`` the distinct values of a category; ``notes`` are sentences
    for the user. ``identifier`` marks integers that differ in every row, as a customer number does.
    ``words`` are cells that count as missing, such as "unknown" among numbers. Of numbers in text,
    ``unit`` is the unit or currency beside each of them, and ``thousands`` whether thousands are
    separated. ``format`` is how days in text are written, and ``time`` whether dates have a time of
    day. ``outputs`` is the count of numbers that an encoder makes of a row.
    """

    name: str
    kind: str
    missing: int = 0
    values: int | None = None
    notes: tuple[str, ...] = ()
    identifier: bool = False
    words: tuple[str, ...] = ()
    unit: str = ""
    thousands: bool = False
    format: str | None = None
    time: bool = False
    outputs: int = 0

    @property
    def note(self) -> str:
        """The notes in one text."""
        return " ".join(self.notes)

    def drop(self, reason: str) -> Column:
        """The same column, left out."""
        note = f"column {self.name!r} {reason}; it is left out."
        return replace(self, kind="dropped", identifier=False, notes=(*self.notes, note))


def column_notes(columns: Iterable[Column]) -> list[str]:
    """The notes of all columns, grouped."""
    return grouped(column.note for column in columns if column.notes)


def unreadable(cells: Cells, bad: Mask, expected: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The note on cells that are not ``expected`` and count as missing, and their words."""
    if not bad.any():
        return (), ()
    note = (
        f"column {cells.name!r}: {bad.sum()} of {len(bad)} cells are no {expected} and count as "
        f"missing: {cells.sample(bad)}."
    )
    words, counts, codes = cells.distinct
    order = np.unique(codes[bad])
    most = order[np.argsort(-counts[order], kind="stable")][:_MOST_WORDS]
    return (note,), tuple(words[i] for i in most)


def unseen(column: Column, cells: Cells, bad: Mask, expected: str) -> list[str]:
    """The note on cells that are not ``expected`` at prediction; they count as missing.

    Each cell is judged alone, so that the answer for a row does not depend on the other rows. Words
    that counted as missing in training need no note.
    """
    words = set(column.words)
    new = bad.copy()
    new[bad] = [value not in words for value in cells.values[bad]]
    if not new.any():
        return []
    return [
        f"column {column.name!r}: {new.sum()} value(s) were never seen in training and count as "
        f"missing, since {expected} is expected: {cells.sample(new)}."
    ]


# --- fitted columns -------------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedColumn(ABC):
    """A column that an encoder was fitted to: how its cells become numbers.

    A kind of column is one subclass in a file of its own and one entry of ``KINDS``.
    """

    column: Column
    kind: ClassVar[str]
    is_text: ClassVar[bool] = False  # cells stay text when a file is read for prediction
    filled: ClassVar[str] = "they are filled with the median"

    @classmethod
    @abstractmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """The description of the column, if its cells are of this kind."""

    @classmethod
    def cells(cls, name: str, series: pd.Series) -> Cells:
        """The cells of a column whose kind is already decided."""
        return Cells.of(name, series)

    @classmethod
    @abstractmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        """Learn from training rows."""

    @property
    @abstractmethod
    def value_names(self) -> list[str]:
        """The names of the outputs without the one that marks missing values."""

    @abstractmethod
    def encode(self, cells: Cells, out: Array) -> tuple[Mask, list[str]]:
        """Fill ``out [rows, value_names]``, zeros so far; return the mask of missing values, and
        notes on cells that training had nothing like."""

    @property
    def names(self) -> list[str]:
        """The names of the outputs."""
        mark = [f"{self.column.name} (missing)"] if self.column.missing else []
        return self.value_names + mark

    def transform(self, cells: Cells, out: Array) -> list[str]:
        """Fill ``out [rows, names]``; return notes on cells that training had nothing like."""
        missing, notes = self.encode(cells, out[:, : len(self.value_names)])
        if self.column.missing:
            out[:, -1] = missing
        elif (absent := missing & cells.absent).any():  # the other words have a note already
            notes.append(
                f"column {self.column.name!r} has {absent.sum()} missing value(s), and had none "
                f"in training; {self.filled}."
            )
        return notes

    def imputed(self) -> str:
        """The note on how missing values are filled, if there are any."""
        count, name = self.column.missing, self.column.name
        if not count:
            return ""
        return f"column {name!r}: {count} missing value(s) are filled with the median, and marked."

    # --- files

    def state(self) -> Settings:
        """Plain data: the description of the column, what was learned, the outputs."""
        learned = encoded(self)
        return {**learned.pop("column"), **learned, "outputs": self.names}

    @classmethod
    def from_state(cls, state: Settings) -> Self:
        """The inverse of ``state``; every entry is checked, since the file may be anybody's."""
        column, learned = {}, dict(state)
        outputs = learned.pop("outputs", None)
        for f in fields(Column):
            if f.name in learned:
                column[f.name] = learned.pop(f.name)
        fitted: Self = decoded(cls, {"column": column, **learned})
        if fitted.names != outputs:
            raise SavedFileError(f"column {fitted.column.name!r} has other outputs than it says.")
        return fitted


@dataclass(frozen=True)
class Dropped(FittedColumn):
    """A column that is left out: no outputs."""

    kind: ClassVar[str] = "dropped"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """A column without any value."""
        if cells.missing.all():
            return Column(cells.name, "number", len(cells.missing)).drop("has no values")
        return None

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        """Nothing is learned."""
        return cls(column)

    @property
    def value_names(self) -> list[str]:
        """An empty list."""
        return []

    @property
    def names(self) -> list[str]:
        """An empty list."""
        return []

    def encode(self, cells: Cells, out: Array) -> tuple[Mask, list[str]]:
        """No output, and nothing is missing."""
        return np.zeros(len(out), dtype=bool), []

    def transform(self, cells: Cells, out: Array) -> list[str]:
        """Do nothing."""
        return []

    def imputed(self) -> str:
        """Nothing is filled."""
        return ""
