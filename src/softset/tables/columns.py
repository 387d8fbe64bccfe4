"""What kind a column is: a number, a date, a category, or left out.

The kind of a column comes from the whole file, so that all splits agree on it; what is learnt from
values (medians, categories) comes from the training rows alone, in the encoder."""

from __future__ import annotations

import datetime
import decimal
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softset.checks import listed

if TYPE_CHECKING:
    import pandas


Schema = list[dict[str, Any]]
Values = NDArray[Any]
# Text that is nearly all different in at least so many rows is an identifier.
_IDENTIFIER_ROWS, _IDENTIFIER_SHARE = 20, 0.9
# Doubles hold every integer up to here.
_EXACT = 2**53
# In a column of numbers or dates these words mean that the value is missing.
MISSING_WORDS = frozenset(
    ["?", "NA", "N/A", "n/a", "na", "NaN", "nan", "NAN", "null", "NULL", "Null", "None", "none"]
) | {"", "#N/A", "<NA>", "NaT"}
# How dates are written. Of two that fit, the first is taken; that it was a choice is said.
_DATE_FORMATS = (
    ("%Y-%m-%d", r"\d{4}-\d\d?-\d\d?"),
    ("%Y/%m/%d", r"\d{4}/\d\d?/\d\d?"),
    ("%d.%m.%Y", r"\d\d?\.\d\d?\.\d{4}"),
    ("%m/%d/%Y", r"\d\d?/\d\d?/\d{4}"),
    ("%d/%m/%Y", r"\d\d?/\d\d?/\d{4}"),
)
_TIME_FORMATS = (
    ("", ""),
    (" %H:%M", r" \d\d?:\d\d"),
    (" %H:%M:%S", r" \d\d?:\d\d:\d\d"),
    (" %H:%M:%S.%f", r" \d\d?:\d\d:\d\d\.\d{1,6}"),
)
_COMMA_NUMBER = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*")
_DAY = 86400.0
_NUMBER_TYPES = (bool, int, float, decimal.Decimal, np.number, np.bool_)


def infer_schema(frame: pandas.DataFrame, *, warn: bool = True) -> Schema:
    """What each column of the whole table is: a dictionary each, which JSON can hold.

    ``kind`` is ``"number"``, ``"category"``, ``"date"`` or ``"dropped"``; ``missing`` and
    ``values`` count missing and distinct values; ``note`` says what the user should know. Notes on
    what looks wrong (and dropped columns) are warnings too.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31, None, 45], "city": ["Rome", "Oslo", "Rome"], "x": 1})
    >>> [c["kind"] for c in infer_schema(frame, warn=False)]
    ['number', 'category', 'dropped']
    """
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"column names must differ, got {listed(twice)} more than once.")
    if not len(frame):
        raise ValueError("the table has 0 rows.")
    schema = [_column(name, frame.iloc[:, i]) for i, name in enumerate(names)]
    if warn:
        for column in schema:
            if column["note"]:
                warnings.warn(column["note"], UserWarning, stacklevel=2)
    return schema


def _column(name: str, series: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "kind": "number", "missing": 0, "values": None}
    found["note"] = ""
    missing = series.isna().to_numpy(dtype=bool)
    found["missing"] = int(missing.sum())
    if found["missing"] == len(series):
        return _dropped(found, f"column {name!r} has no values; it is left out.")
    kind, values = _kind_of(name, series, missing)
    if kind == "text":
        return _text_column(found, values, missing)
    found["kind"] = kind
    if kind == "date":
        found["format"] = None
        found["time"] = bool((_parts(values[~missing])["second of day"] != 0).any())
    else:
        _check_numbers(found, values)
    present = values[~missing]
    if found["missing"] == 0 and (present == present[0]).all():
        return _dropped(found, f"column {name!r} is constant; it is left out.")
    if kind == "number" and found["missing"] == 0 and _counts_rows(present):
        return _dropped(found, f"column {name!r} only counts the rows; it is left out.")
    return found


def _dropped(found: dict[str, Any], note: str) -> dict[str, Any]:
    return {**found, "kind": "dropped", "note": note}


def _kind_of(name: str, series: Any, missing: Values) -> tuple[str, Values]:
    """``number``, ``date`` or ``text``, and the values: floats, datetime64 or text."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "text", as_text(series)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        if pd.api.types.is_complex_dtype(dtype):
            raise ValueError(f"column {name!r} holds complex numbers; split them into two columns.")
        return "number", _numbers(series)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date", _moments(series, None)
    if pd.api.types.is_timedelta64_dtype(dtype):
        return "number", series.dt.total_seconds().to_numpy(dtype=float)
    present = series.to_numpy(dtype=object)[~missing]
    kinds = {type(v) for v in present}
    if all(issubclass(k, str) for k in kinds):
        return "text", as_text(series)
    if all(
        issubclass(k, bool | int | float | decimal.Decimal | np.number | np.bool_) for k in kinds
    ):
        return "number", _numbers(series)
    if all(issubclass(k, datetime.date | np.datetime64) for k in kinds):
        return "date", _moments(series, None)
    nested = [k for k in kinds if issubclass(k, list | dict | tuple | set | np.ndarray)]
    if nested:
        raise ValueError(
            f"column {name!r} holds a {nested[0].__name__} in each cell (nested data); every cell "
            "must hold one value. Unfold it into columns, or leave it out."
        )
    return "text", as_text(series)


def _check_numbers(found: dict[str, Any], values: Values) -> None:
    name = found["name"]
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(
            f"column {name!r} has {infinite.sum()} infinite value(s), the first in row "
            f"{int(infinite.argmax()) + 1}; numbers must be finite. Correct them, or leave the "
            "cells empty: missing values are allowed."
        )
    if (np.abs(np.where(np.isnan(values), 0, values)) > _EXACT).any() and (
        np.mod(values[~np.isnan(values)], 1) == 0
    ).all():
        found["note"] = (
            f"column {name!r} holds integers above 2^53, which lose their last digits as numbers; "
            "if it is an identifier, leave it out."
        )


def _counts_rows(values: Values) -> bool:
    return len(values) >= _IDENTIFIER_ROWS and bool((np.diff(values) == 1).all())


def _text_column(found: dict[str, Any], values: Values, missing: Values) -> dict[str, Any]:
    import pandas as pd

    name = found["name"]
    present = pd.unique(values[~missing])
    rows = int((~missing).sum())
    found["values"] = len(present)
    found["kind"] = "category"
    if len(present) == 1 and not missing.any():
        return _dropped(found, f"column {name!r} is constant; it is left out.")
    form = _date_format([v for v in present if v.strip() not in MISSING_WORDS])
    if form:
        moments = _moments(pd.Series(values, dtype=object), form)
        missing = np.isnat(moments)
        found["missing"] = int(missing.sum())
        found.update(kind="date", format=form, values=None, time="%H" in form)
        if "/" in form and not form.startswith("%Y"):
            order = "month/day/year" if form.startswith("%m") else "day/month/year"
            found["note"] = f"column {name!r} is read as dates, {order}, e.g. {present[0]!r}."
        return found
    commas = sum(bool(_COMMA_NUMBER.fullmatch(v)) for v in present[:1000])
    if commas and commas >= 0.9 * len(present[:1000]):
        sample = next(v for v in present if _COMMA_NUMBER.fullmatch(v))
        found["note"] = (
            f"column {name!r} is text that looks like decimal commas, e.g. {sample!r}; write "
            "decimal points, or read it with decimal=',' (--decimal ,)."
        )
    if rows >= _IDENTIFIER_ROWS and len(present) > _IDENTIFIER_SHARE * rows:
        note = f"column {name!r} has a different text in nearly every row; it is left out."
        return _dropped(found, f"{found['note']} {note}".strip())
    return found


def _date_format(present: list[str]) -> str | None:
    """The format that every value has, or none. All values are looked at, distinct ones once."""
    if not present or not re.match(r"\d{1,4}[-/.]\d", present[0]):
        return None
    import pandas as pd

    texts = pd.Series(present, dtype=object).map(_spaced)
    for day, day_pattern in _DATE_FORMATS:
        for time, time_pattern in _TIME_FORMATS:
            if not texts.str.fullmatch(day_pattern + time_pattern).all():
                continue
            parsed = pd.to_datetime(texts, format=day + time, errors="coerce")
            if not parsed.isna().any():
                return day + time
    return None


def _spaced(text: str) -> str:
    """ISO's ``T`` and ``Z`` as a blank and nothing."""
    text = text.strip()
    return re.sub(r"(\d)T(\d)", r"\1 \2", text).removesuffix("Z")


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
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _numbers(series: Any) -> Values:
    """Float64 with NaN where missing."""
    if getattr(series.dtype, "kind", "O") in "iufb" and isinstance(series.dtype, np.dtype):
        return series.to_numpy(dtype=np.float64)
    missing = series.isna().to_numpy(dtype=bool)
    values = np.full(len(series), np.nan)
    values[~missing] = series[~missing].to_numpy(dtype=object).astype(np.float64)
    return values


def numbers_of_text(values: Values) -> tuple[Values, Values]:
    """Text as numbers, and where it is none: blanks and words for "missing" become NaN.

    >>> numbers_of_text(np.array(["1", " 2.5", "?", "x", None], dtype=object))[1].tolist()
    [False, False, False, True, False]
    """
    import pandas as pd

    texts = pd.Series(values, dtype=object).str.strip()
    missing = texts.isna() | texts.isin(MISSING_WORDS)
    truth = texts.str.lower().map({"true": "1", "false": "0"})  # as numbers, booleans are these
    found = pd.to_numeric(truth.fillna(texts.mask(missing)), errors="coerce")
    numbers = np.asarray(found.to_numpy(dtype=np.float64, na_value=np.nan))
    return numbers, np.isnan(numbers) & ~missing.to_numpy(dtype=bool)


def _moments(series: Any, form: str | None) -> Values:
    """``datetime64[us]`` with NaT where missing (or unreadable, which the caller checks)."""
    import pandas as pd

    if form is not None:
        texts = series.astype(object).map(_spaced, na_action="ignore")
        parsed = pd.to_datetime(texts, format=form, errors="coerce")
    else:
        local = pd.api.types.is_datetime64_any_dtype(series.dtype)  # one time zone: its clock
        parsed = series if local else pd.to_datetime(series, errors="coerce", utc=True)
        parsed = parsed.dt.tz_localize(None)
    return parsed.to_numpy(dtype="datetime64[us]")


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
        "second of day": seconds - days * _DAY,
    }
    return {k: np.where(missing, np.nan, v.astype(np.float64)) for k, v in parts.items()}
