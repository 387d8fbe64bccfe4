"""The cells of a column: numbers, dates or text, whatever the data frame stores them as."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Mask = NDArray[np.bool_]
# In a column of numbers or dates these words mean that the value is missing.
MISSING_WORDS = frozenset(
    ["?", "NA", "N/A", "n/a", "na", "NaN", "nan", "NAN", "null", "NULL", "Null", "None", "none"]
) | {"", "#N/A", "<NA>", "NaT"}
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
