"""The columns of a table: their cells, their description, and how they become numbers once
fitted."""

from __future__ import annotations

import datetime
import decimal
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from softset.checks import warn_user
from softset.storage.files import SavedFileError
from softset.storage.schema import decoded, encoded

Values = NDArray[Any]
Mask = NDArray[np.bool_]
# In a column of numbers or dates these words mean that the value is missing.
MISSING_WORDS = frozenset(
    ["?", "NA", "N/A", "n/a", "na", "NaN", "nan", "NAN", "null", "NULL", "Null", "None", "none"]
) | {"", "#N/A", "<NA>", "NaT"}
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
TRUTH = {"true": 1.0, "false": 0.0}
_NUMBER_TYPES = (bool, int, float, decimal.Decimal, np.number, np.bool_)
_NESTED_TYPES = (list, dict, tuple, set, np.ndarray)


@dataclass(frozen=True)
class Cells:
    """The cells of one column as they are stored.

    ``stored`` is ``"number"``, ``"date"``, ``"text"``, or ``"category"`` for text that is declared
    to be one (a pandas category); ``values`` are float64, datetime64[us] or text, with NaN, NaT or
    None where ``missing``.
    """

    name: str
    series: Any
    stored: str
    values: Values
    missing: Mask

    @classmethod
    def of(cls, name: str, series: Any) -> Cells:
        """Look at the dtype, and where it says nothing at every cell."""
        kind = series.dtype.kind if isinstance(series.dtype, np.dtype) else ""
        if kind and kind in "iufb":
            values = series.to_numpy(dtype=np.float64)
            return cls(name, series, "number", values, np.isnan(values))
        missing = series.isna().to_numpy(dtype=bool)
        stored, values = _stored(name, series, missing)
        return cls(name, series, stored, values, np.isnat(values) if stored == "date" else missing)

    @property
    def is_text(self) -> bool:
        """Whether ``values`` are text."""
        return self.stored in ("text", "category")

    @property
    def absent(self) -> Mask:
        """Where there is no cell, or a word that says so."""
        if not self.is_text:
            return self.missing
        words, _, codes = self.distinct
        return np.array([*(word.strip() in MISSING_WORDS for word in words), True])[codes]

    @cached_property
    def distinct(self) -> tuple[list[str], NDArray[np.intp], NDArray[np.intp]]:
        """Of text: the distinct words, how often each stands there, and which one each cell is.

        A missing cell has the number -1.
        """
        import pandas as pd

        codes, words = pd.factorize(self.values)
        return list(words), np.bincount(codes[codes >= 0], minlength=len(words)), codes

    def sample(self, bad: Mask, most: int = 3) -> str:
        """The first few cells that are ``bad``: ``'x' in row 3, 'y' in row 9 and 6 more``."""
        rows = np.flatnonzero(bad)
        shown = ", ".join(f"{_brief(self.series.iloc[r])} in row {r + 1}" for r in rows[:most])
        return f"{shown} and {len(rows) - most} more" if len(rows) > most else shown


def _brief(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 50 else f"{text[:47]}…{text[-1]}"


def _stored(name: str, series: Any, missing: Mask) -> tuple[str, Values]:
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category", as_text(series)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        if pd.api.types.is_complex_dtype(dtype):
            raise ValueError(f"column {name!r} holds complex numbers; split them into two columns.")
        return "number", _floats(name, series, missing)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date", series.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    if pd.api.types.is_timedelta64_dtype(dtype):
        return "number", series.dt.total_seconds().to_numpy(dtype=float)
    types = {type(v) for v in series.to_numpy(dtype=object)[~missing]}
    if all(issubclass(t, _NUMBER_TYPES) for t in types):
        return "number", _floats(name, series, missing)
    if all(issubclass(t, datetime.date | np.datetime64) for t in types):
        moments = pd.to_datetime(series, errors="coerce", utc=True)
        return "date", moments.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    nested = [t for t in types if issubclass(t, _NESTED_TYPES)]
    if nested:
        raise ValueError(
            f"column {name!r} holds a {nested[0].__name__} in each cell (nested data); every cell "
            "must hold one value. Unfold it into columns, or leave it out."
        )
    return "text", as_text(series)


def _floats(name: str, series: Any, missing: Mask) -> NDArray[np.float64]:
    values = np.full(len(series), np.nan)
    try:
        values[~missing] = series[~missing].to_numpy(dtype=object).astype(np.float64)
    except OverflowError:
        raise ValueError(f"column {name!r} has a number beyond 1e308. Correct it.") from None
    return values


def as_text(series: Any) -> Values:
    """Text with ``None`` where missing; whole numbers as ``"3"``, not ``"3.0"``.

    >>> import pandas as pd
    >>> as_text(pd.Series([1.0, None, 2.5])).tolist()
    ['1', None, '2.5']
    """
    missing = series.isna().to_numpy(dtype=bool)
    values = series.to_numpy(dtype=object).copy()
    values[missing] = None
    rest = values[~missing]
    if not all(type(v) is str for v in rest):
        values[~missing] = [_word(v) for v in rest]
    return values


def _word(value: Any) -> str:
    if isinstance(value, float | np.floating):
        value = float(value)
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def read_numbers(words: Sequence[str], truth: bool = False) -> tuple[NDArray[np.float64], Mask]:
    """Text as numbers, and where it is none; words for "missing" are NaN.

    With ``truth``, the words true and false are 1 and 0.

    >>> read_numbers(["1", " 2.5", "?", "1,000"])
    (array([1. , 2.5, nan, nan]), array([False, False, False,  True]))
    """
    numbers = np.full(len(words), np.nan)
    bad = np.zeros(len(words), dtype=bool)
    for i, word in enumerate(words):
        text = word.strip()
        if NUMBER.fullmatch(text):
            numbers[i] = float(text)
        elif truth and text.lower() in TRUTH:
            numbers[i] = TRUTH[text.lower()]
        else:
            bad[i] = text not in MISSING_WORDS
    return numbers, bad


def check_finite(name: str, values: Values, file: str = "") -> None:
    """Refuse infinite numbers in column ``name``, with the first row."""
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(
            f"{file}{': ' if file else ''}column {name!r} has {infinite.sum()} infinite value(s) "
            f"(inf, or beyond 1e308), the first in row {int(infinite.argmax()) + 1}. Correct them, "
            "or leave the cells empty: missing values are allowed."
        )


def is_constant(values: Values) -> bool:
    """Whether there is one value only, and nothing missing."""
    return bool((values == values[0]).all())


def median(values: Values) -> float:
    """Of the numbers that are there; 0 if there is none."""
    present = values[~np.isnan(values)]
    return float(np.median(present)) if len(present) else 0.0


# --- descriptions ---

# A column of text holds numbers, or dates, if at least this share of its cells does; the others
# then count as missing, which is said.
ENOUGH = 0.9
# Columns with at least so many rows may be found to be identifiers.
IDENTIFIER_ROWS = 20
# Of words that count as missing so many are kept, to know them again at prediction.
_MOST_WORDS = 1000


class UnseenWarning(UserWarning):
    """Cells that the encoder can't use, because training had nothing like them."""


@dataclass(frozen=True)
class Column:
    """What one column of a table is, judged by all of its cells.

    ``kind`` is ``"number"``, ``"category"``, ``"date"`` or ``"dropped"``; ``missing`` counts the
    cells without a value, ``values`` the distinct values of a category; ``note`` says what the user
    should know. ``identifier`` marks whole numbers that differ in every row, as a customer number
    does. ``words`` are cells that count as missing, such as "unknown" among numbers. ``format`` is
    how dates in text are written, and ``time`` whether dates have a time of day. ``outputs`` is the
    count of numbers that an encoder makes of it.
    """

    name: str
    kind: str
    missing: int = 0
    values: int | None = None
    note: str = ""
    identifier: bool = False
    words: tuple[str, ...] = ()
    format: str | None = None
    time: bool = False
    outputs: int = 0

    def drop(self, reason: str) -> Column:
        """The same column, left out."""
        note = f"{self.note} column {self.name!r} {reason}; it is left out.".strip()
        return replace(self, kind="dropped", identifier=False, note=note)


def unreadable(cells: Cells, bad: Mask, wanted: str) -> tuple[str, tuple[str, ...]]:
    """Words that count as missing in the whole table, and a note that says so."""
    if not bad.any():
        return "", ()
    note = (
        f"column {cells.name!r}: {bad.sum()} of {len(bad)} cells are no {wanted} and count as "
        f"missing: {cells.sample(bad)}."
    )
    words, counts, codes = cells.distinct
    order = np.unique(codes[bad])
    most = order[np.argsort(-counts[order], kind="stable")][:_MOST_WORDS]
    return note, tuple(words[i] for i in most)


def refuse_or_warn(column: Column, cells: Cells, bad: Mask, wanted: str) -> None:
    """Refuse cells that are not ``wanted``; a few among many count as missing, with a warning.

    Words that counted as missing in training do so again without one.
    """
    known = set(column.words)
    new = bad.copy()
    new[bad] = [value not in known for value in cells.values[bad]]
    if not new.any():
        return
    if new.sum() > (1 - ENOUGH) * (~cells.missing).sum():
        raise ValueError(
            f"column {column.name!r} must hold {wanted} in each row, as in training; {new.sum()} "
            f"value(s) do not: {cells.sample(new)}."
        )
    warn_user(
        f"column {column.name!r}: {new.sum()} value(s) were never seen in training and count as "
        f"missing, since {wanted} is expected: {cells.sample(new)}.",
        UnseenWarning,
    )


# --- columns as an encoder has learned them
# --------------------------------------------------------


@dataclass(frozen=True)
class Fitted(ABC):
    """A column that an encoder was fitted to: how its cells become numbers.

    A kind of column is one subclass in a file of its own and one entry of ``KINDS``.
    """

    column: Column
    kind: ClassVar[str]
    is_text: ClassVar[bool] = False  # cells stay text when a file is read for prediction

    @classmethod
    @abstractmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """The column, if its cells are of this kind."""

    @classmethod
    def cells(cls, name: str, series: Any) -> Cells:
        """The cells of a column that is known to be of this kind."""
        return Cells.of(name, series)

    @classmethod
    @abstractmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        """Learn from training rows."""

    @property
    @abstractmethod
    def parts(self) -> list[str]:
        """The names of the outputs without the one that marks missing values."""

    @abstractmethod
    def encode(self, cells: Cells, out: Values) -> Mask:
        """Fill ``out [rows, parts]``, zeros so far; where a value is missing."""

    @property
    def names(self) -> list[str]:
        """The names of the outputs."""
        mark = [f"{self.column.name} (missing)"] if self.column.missing else []
        return self.parts + mark

    def transform(self, cells: Cells, out: Values) -> None:
        """Fill ``out [rows, names]``; a missing value that cannot be marked is a warning."""
        missing = self.encode(cells, out[:, : len(self.parts)])
        if self.column.missing:
            out[:, -1] = missing
        elif (absent := missing & cells.absent).any():  # of other words the kind has warned
            warn_user(
                f"column {self.column.name!r} has {absent.sum()} missing value(s), and had none "
                f"in training; {self.instead}.",
                UnseenWarning,
            )

    instead: ClassVar[str] = "they are filled with the median"

    def imputed(self) -> str:
        """What is done about missing values, in a sentence, if there are any."""
        count, name = self.column.missing, self.column.name
        if not count:
            return ""
        return f"column {name!r}: {count} missing value(s) are filled with the median, and marked."

    # --- files

    def state(self) -> dict[str, Any]:
        """As plain data: the description of the column, what was learned, the outputs."""
        learned = encoded(self)
        return {**learned.pop("column"), **learned, "outputs": self.names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The inverse; every entry is checked, for the file may be anybody's."""
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
class Dropped(Fitted):
    """A column that is left out: no outputs."""

    kind: ClassVar[str] = "dropped"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        if cells.missing.all():
            return Column(cells.name, "number", len(cells.missing)).drop("has no values")
        return None

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        return cls(column)

    @property
    def parts(self) -> list[str]:
        return []

    @property
    def names(self) -> list[str]:
        """None."""
        return []

    def encode(self, cells: Cells, out: Values) -> Mask:
        return np.zeros(len(out), dtype=bool)

    def transform(self, cells: Cells, out: Values) -> None:
        """Nothing."""

    def imputed(self) -> str:
        return ""
