"""Mixed columns -> numbers: the encoder that is saved with a model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from softset.checks import listed, nearest
from softset.tables.columns import (
    MISSING_WORDS,
    Schema,
    Values,
    _check_numbers,
    _kind_of,
    _moments,
    _parts,
    as_text,
    infer_schema,
    numbers_of_text,
)

if TYPE_CHECKING:
    import pandas


# A category gets at most so many outputs; rarer values share one.
MOST_VALUES = 50


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
        import pandas as pd

        form = column["format"] or "%Y-%m-%d"
        words = pd.Series(values, dtype=object)
        values = _moments(words, form)
        absent = missing | words.str.strip().isin(MISSING_WORDS).to_numpy(dtype=bool)
        _refuse(column, series, np.isnat(values) & ~absent, f"a date as {form}")
    return values


def _fit_category(column: dict[str, Any], series: Any) -> dict[str, Any]:
    import pandas as pd

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
