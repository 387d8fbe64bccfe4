"""Mixed columns -> numbers: what kind a column is, and the encoder that is saved with a model.

The kind of a column comes from the whole file (``infer_schema``), so that all splits agree on it;
what is learnt from values (medians, categories) comes from the training rows alone.
"""

from __future__ import annotations

import datetime
import decimal
import re
import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from softset._tools import listed, nearest

if TYPE_CHECKING:
    import pandas

Schema = list[dict[str, Any]]
Values = NDArray[Any]

# A category gets at most so many outputs; rarer values share one.
MOST_VALUES = 50
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


# --- what kind a column is ------------------------------------------------------------------------


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
    import pandas as pd  # noqa: PLC0415

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
    import pandas as pd  # noqa: PLC0415

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
    import pandas as pd  # noqa: PLC0415

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


# --- columns as values ----------------------------------------------------------------------------


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
    import pandas as pd  # noqa: PLC0415

    texts = pd.Series(values, dtype=object).str.strip()
    missing = texts.isna() | texts.isin(MISSING_WORDS)
    truth = texts.str.lower().map({"true": "1", "false": "0"})  # as numbers, booleans are these
    found = pd.to_numeric(truth.fillna(texts.mask(missing)), errors="coerce")
    numbers = np.asarray(found.to_numpy(dtype=np.float64, na_value=np.nan))
    return numbers, np.isnan(numbers) & ~missing.to_numpy(dtype=bool)


def _moments(series: Any, form: str | None) -> Values:
    """``datetime64[us]`` with NaT where missing (or unreadable, which the caller checks)."""
    import pandas as pd  # noqa: PLC0415

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


# --- the encoder ----------------------------------------------------------------------------------


class TableEncoder:
    """Mixed columns -> float64 numbers, fitted on training rows only.

    Numbers: missing ones become the median, and a second output says where. Categories: one output
    for each value, one for all rare ones, one for missing; an unknown value is all zero. Dates:
    days since 1970, year, month, day, day of week, and the second of the day where there is one.
    Constant columns and identifiers are dropped. ``columns_`` describes the columns, ``names_`` the
    outputs, ``notes_`` says what was done in sentences.

    Args:
        schema: of the whole table, from ``infer_schema``; ``fit`` infers it if left out.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30, None, 40], "city": ["Rome", "Rome", "Oslo"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.names_
    ['age', 'age (missing)', 'city=Rome', 'city=Oslo']
    >>> encoder.transform(pd.DataFrame({"city": ["Rome", "Bonn"], "age": [None, 50]}))
    array([[35.,  1.,  1.,  0.],
           [50.,  0.,  0.,  0.]])
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema

    def fit(self, frame: pandas.DataFrame) -> Self:
        """Learn medians and categories from the rows of ``frame``."""
        schema = infer_schema(frame) if self.schema is None else self.schema
        self._columns: list[dict[str, Any]] = []
        for column in self._aligned(frame, schema):
            self._columns.append(_FIT[column[0]["kind"]](*column))
        self._describe(len(frame))
        return self

    def transform(self, frame: pandas.DataFrame) -> NDArray[np.float64]:
        """``[rows, outputs]``, finite. Columns are found by name; further ones are ignored, with a
        warning."""
        pairs = self._aligned(frame, self._columns)
        known = {c["name"] for c in self._columns}
        extra = [str(c) for c in frame.columns if str(c) not in known]
        if extra:
            warnings.warn(
                f"column(s) {listed(extra)} were not there in training; they are ignored.",
                UserWarning,
                stacklevel=2,
            )
        out = np.zeros((len(frame), len(self.names_)))
        at = 0
        for column, series in pairs:
            width = len(column["outputs"])
            _ENCODE[column["kind"]](column, series, out[:, at : at + width])
            at += width
        return out

    def fit_transform(self, frame: pandas.DataFrame) -> NDArray[np.float64]:
        """``fit``, then ``transform`` of the same rows."""
        return self.fit(frame).transform(frame)

    def _aligned(self, frame: Any, columns: Schema) -> list[tuple[dict[str, Any], Any]]:
        """Each column that is used, with its values."""
        if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
            raise ValueError(f"the table must be a pandas DataFrame, got {type(frame).__name__}.")
        place = {str(name): i for i, name in enumerate(frame.columns)}
        used = [c for c in columns if c["kind"] != "dropped"]
        absent = [c["name"] for c in used if c["name"] not in place]
        if absent:
            hint = nearest(absent[0], place)
            raise ValueError(
                f"column(s) {listed(absent)} of the training data are missing; got "
                f"{listed(place)}.{hint}"
            )
        dropped = [(c, None) for c in columns if c["kind"] == "dropped"]
        pairs = [(c, frame.iloc[:, place[c["name"]]]) for c in used]
        order = {c["name"]: i for i, c in enumerate(columns)}
        return sorted(pairs + dropped, key=lambda pair: order[pair[0]["name"]])

    def _describe(self, rows: int) -> None:
        self.names_ = [name for c in self._columns for name in c["outputs"]]
        self.columns_ = [
            {
                "name": c["name"],
                "kind": c["kind"],
                "missing": c["missing"],
                "values": c["values"],
                "outputs": len(c["outputs"]),
                "note": c["note"],
            }
            for c in self._columns
        ]
        self.notes_ = [c["note"] for c in self._columns if c["note"]]
        self.notes_ += [n for c in self._columns if (n := _imputed(c))]
        if not self.names_:
            raise ValueError("no column is left to learn from: all are constant or identifiers.")

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The fitted encoder as JSON can hold it."""
        return {"columns": self._columns}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The inverse of ``state``."""
        columns = state["columns"]
        encoder = cls(columns)
        encoder._columns = columns
        encoder._describe(0)
        return encoder


def _imputed(column: dict[str, Any]) -> str:
    if not column["missing"] or column["kind"] == "dropped":
        return ""
    count, name = column["missing"], column["name"]
    if column["kind"] == "category":
        return f"column {name!r}: {count} missing value(s) are a category of their own."
    return f"column {name!r}: {count} missing value(s) are filled with the median, and marked."


# --- one column -----------------------------------------------------------------------------------


def _fit_dropped(column: dict[str, Any], series: Any) -> dict[str, Any]:
    return {**column, "outputs": []}


def _median(values: Values) -> float:
    present = values[~np.isnan(values)]
    return float(np.median(present)) if len(present) else 0.0


def _marker(column: dict[str, Any]) -> list[str]:
    return [f"{column['name']} (missing)"] if column["missing"] else []


def _fit_number(column: dict[str, Any], series: Any) -> dict[str, Any]:
    fill = _median(_as_numbers(column, series))
    return {**column, "fill": fill, "outputs": [column["name"], *_marker(column)]}


def _encode_number(column: dict[str, Any], series: Any, out: Values) -> None:
    values = _as_numbers(column, series)
    missing = np.isnan(values)
    out[:, 0] = np.where(missing, column["fill"], values)
    _mark(column, missing, out)


def _mark(column: dict[str, Any], missing: Values, out: Values) -> None:
    if column["missing"]:
        out[:, -1] = missing
    elif missing.any():
        warnings.warn(
            f"column {column['name']!r} has {missing.sum()} missing value(s), and had none in "
            "training; they are filled with the median.",
            UserWarning,
            stacklevel=4,
        )


def _as_numbers(column: dict[str, Any], series: Any) -> Values:
    kind, values = _kind_of(column["name"], series, series.isna().to_numpy(dtype=bool))
    if kind == "text":
        values, bad = numbers_of_text(values)
        _refuse(column, series, bad, "a number")
    elif kind == "date":
        _refuse(column, series, ~np.isnat(values), "a number")
        values = np.full(len(values), np.nan)
    _check_numbers(dict(column), values)
    return values


def _refuse(column: dict[str, Any], series: Any, bad: Values, wanted: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"column {column['name']!r} must hold {wanted} in each row, as in training; "
            f"{bad.sum()} value(s) do not, the first is {series.iloc[row]!r} in row {row + 1}."
        )


def _fit_date(column: dict[str, Any], series: Any) -> dict[str, Any]:
    parts = _parts(_as_moments(column, series))
    used = [k for k in parts if k != "second of day" or column["time"]]
    fill = {k: _median(parts[k]) for k in used}
    outputs = [f"{column['name']} {k}" for k in used] + _marker(column)
    return {**column, "fill": fill, "outputs": outputs}


def _encode_date(column: dict[str, Any], series: Any, out: Values) -> None:
    moments = _as_moments(column, series)
    missing = np.isnat(moments)
    parts = _parts(moments)
    for i, (name, fill) in enumerate(column["fill"].items()):
        out[:, i] = np.where(missing, fill, parts[name])
    _mark(column, missing, out)


def _as_moments(column: dict[str, Any], series: Any) -> Values:
    missing = series.isna().to_numpy(dtype=bool)
    if missing.all():
        return np.full(len(series), np.datetime64("NaT"), dtype="datetime64[us]")
    kind, values = _kind_of(column["name"], series, missing)
    if kind == "number":
        _refuse(column, series, ~missing, "a date")
    if kind == "text":
        import pandas as pd  # noqa: PLC0415

        form = column["format"] or "%Y-%m-%d"
        words = pd.Series(values, dtype=object)
        values = _moments(words, form)
        absent = missing | words.str.strip().isin(MISSING_WORDS).to_numpy(dtype=bool)
        _refuse(column, series, np.isnat(values) & ~absent, f"a date as {form}")
    return values


def _fit_category(column: dict[str, Any], series: Any) -> dict[str, Any]:
    import pandas as pd  # noqa: PLC0415

    words = as_text(series)
    counts = pd.Series(words, dtype=object).value_counts()
    # Most frequent first, by name among equals: the same whatever the order of the rows.
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    fewest = max(2, min(20, len(words) // 500))
    kept = [word for word, count in ranked[:MOST_VALUES] if count >= fewest]
    rare = [word for word, _ in ranked if word not in set(kept)]
    if len(rare) == 1 and len(kept) < MOST_VALUES and len(ranked) == 2:
        kept, rare = [word for word, _ in ranked], []
    name = column["name"]
    outputs = [f"{name}={word}" for word in kept]
    outputs += [f"{name} (other)"] if rare else []
    return {**column, "kept": kept, "rare": rare, "outputs": outputs + _marker(column)}


def _encode_category(column: dict[str, Any], series: Any, out: Values) -> None:
    words = as_text(series)
    kept, rare = column["kept"], column["rare"]
    place = {word: i for i, word in enumerate(kept)}
    place.update(dict.fromkeys(rare, len(kept)))
    codes = np.array([place.get(word, -1) for word in words], dtype=np.int64)
    known = np.flatnonzero(codes >= 0)
    out[known, codes[known]] = 1.0
    if column["missing"]:
        out[:, -1] = np.array([word is None for word in words])


_FIT: dict[str, Any] = {
    "number": _fit_number,
    "date": _fit_date,
    "category": _fit_category,
    "dropped": _fit_dropped,
}
_ENCODE: dict[str, Any] = {
    "number": _encode_number,
    "date": _encode_date,
    "category": _encode_category,
    "dropped": lambda column, series, out: None,
}
