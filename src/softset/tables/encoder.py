"""Mixed columns -> numbers: the encoder that is saved with a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from softset.checks import listed, nearest, repeated, warn_user
from softset.formats import grouped
from softset.storage.files import SavedFileError
from softset.storage.schema import decoded
from softset.tables.columns import (
    Cells,
    Column,
    Dropped,
    FittedColumn,
    UnseenWarning,
    column_notes,
)
from softset.tables.kinds.category import Category
from softset.tables.kinds.date import Date
from softset.tables.kinds.number import Number
from softset.typing import JSON, Floats, Frame, Settings

__all__ = ["KINDS", "Schema", "TableEncoder", "UnseenWarning", "infer_schema"]

Schema = list[Column]
# The kinds of columns, in the order in which a column is asked for its kind: the last takes what is
# left. To add one: its file in kinds/, and its entry here.
KINDS: tuple[type[FittedColumn], ...] = (Dropped, Number, Date, Category)
_KINDS = {kind.kind: kind for kind in KINDS}


def infer_schema(frame: Frame, *, warn: bool = True) -> Schema:
    """The description of each column, from the whole table. What looks wrong is a note of the
    column, and a warning for all columns with such a note.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31, None, 45], "city": ["Rome", "Oslo", "Rome"], "x": 1})
    >>> [column.kind for column in infer_schema(frame, warn=False)]
    ['number', 'category', 'dropped']
    """
    names = [str(name) for name in frame.columns]
    if twice := repeated(names):
        raise ValueError(f"column names must differ, got {listed(twice)} more than once.")
    if not len(frame):
        raise ValueError("the table has 0 rows.")
    schema = [_column(Cells.of(name, frame.iloc[:, i])) for i, name in enumerate(names)]
    if warn:
        for note in column_notes(schema):
            warn_user(note)
    return schema


def _column(cells: Cells) -> Column:
    return next(column for kind in KINDS if (column := kind.recognize(cells)) is not None)


@dataclass(frozen=True)
class SavedEncoder:
    """What a file holds of an encoder: the plain data of each column."""

    columns: list[Settings]


class TableEncoder:
    """Mixed columns -> float64 numbers, fitted on training rows only.

    Numbers: missing ones become the median, and a second output says where. Categories: one output
    for each value, one for all rare ones, one for missing; an unknown value is all zero. Dates:
    days since 1970, year, month, day, day of week, and the second of the day where there is one.
    Constant columns and text identifiers are dropped. ``columns_`` describes the columns,
    ``names_`` the outputs, ``notes_`` says what was done in sentences.

    Args:
        schema: of the whole table, from ``infer_schema``; ``fit`` infers it by default.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30, None, 40], "city": ["Rome", "Rome", "Oslo"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.names_
    ['age', 'age (missing)', 'city=Rome', 'city=Oslo']
    >>> encoder.transform(pd.DataFrame({"city": ["Rome", "Oslo"], "age": [None, 50]}))
    array([[35.,  1.,  1.,  0.],
           [50.,  0.,  0.,  1.]])
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema

    def fit(self, frame: Frame) -> Self:
        """Learn medians and categories from the rows of ``frame``."""
        schema = infer_schema(frame) if self.schema is None else self.schema
        pairs = _aligned(frame, schema)
        self._set([_KINDS[column.kind].fit(column, cells) for column, cells in pairs])
        return self

    def transform(self, frame: Frame) -> Floats:
        """Encode as ``[rows, outputs]``, all finite. Columns are matched by name. Other columns are
        ignored, with a warning; values unlike all of training count as missing, with a warning."""
        pairs = _aligned(frame, self.columns_)
        names = {column.name for column in self.columns_}
        extra = [str(c) for c in frame.columns if str(c) not in names]
        if extra:
            warn_user(
                f"column(s) {listed(extra)} were not there in training; they are ignored.",
            )
        out = np.zeros((len(frame), len(self.names_)))
        start = 0
        notes: list[str] = []
        for fitted, (column, cells) in zip(self._fitted, pairs, strict=True):
            values = out[:, start : start + column.outputs]
            notes += fitted.transform(cells, values)
            start += column.outputs
        for note in grouped(notes):
            warn_user(note, UnseenWarning)
        return out

    def fit_transform(self, frame: Frame) -> Floats:
        """``fit``, then ``transform`` of the same rows."""
        return self.fit(frame).transform(frame)

    def _set(self, fitted: list[FittedColumn]) -> None:
        self._fitted = fitted
        self.columns_ = [replace(f.column, outputs=len(f.names)) for f in fitted]
        self.names_ = [name for f in fitted for name in f.names]
        self.notes_ = column_notes(self.columns_)
        self.notes_ += grouped(note for f in fitted if (note := f.imputed()))
        if not self.names_:
            raise ValueError(
                "no column is left to learn from: all are constant, identifiers or free text. "
                + " ".join(self.notes_)
            )

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> Settings:
        """The fitted encoder as JSON can hold it."""
        return vars(SavedEncoder([fitted.state() for fitted in self._fitted]))

    @classmethod
    def from_state(cls, state: JSON) -> Self:
        """The inverse of ``state``; ``SavedFileError`` if it is anything else."""
        fitted = []
        for column in decoded(SavedEncoder, state, "encoder").columns:
            kind = column.get("kind")
            if not isinstance(kind, str) or kind not in _KINDS:
                raise SavedFileError(f"a saved column must be one of {listed(_KINDS)}.")
            fitted.append(_KINDS[kind].from_state(column))
        if twice := repeated([f.column.name for f in fitted]):
            raise SavedFileError(f"a saved encoder names column(s) {listed(twice)} twice.")
        encoder = cls([f.column for f in fitted])
        encoder._set(fitted)
        return encoder


def _aligned(frame: Frame, columns: Sequence[Column]) -> Iterator[tuple[Column, Cells]]:
    """Each column with its cells, which are found by name."""
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        raise ValueError(f"the table must be a pandas DataFrame, got {type(frame).__name__}.")
    position = {str(name): i for i, name in enumerate(frame.columns)}
    absent = [c.name for c in columns if c.kind != "dropped" and c.name not in position]
    if absent:
        raise ValueError(
            f"column(s) {listed(absent)} of the training data are missing; got "
            f"{listed(position)}.{nearest(absent[0], position)}"
        )

    def cells(column: Column) -> Cells:
        """The cells of a column as its kind reads them."""
        if column.kind == "dropped":
            return _NOTHING
        return _KINDS[column.kind].cells(column.name, frame.iloc[:, position[column.name]])

    return ((column, cells(column)) for column in columns)  # one column in memory at a time


# The cells of a column that is not used, which the table need not have.
_NOTHING = Cells(
    "",
    None,
    "text",
    np.empty(0, dtype=object),
    np.empty(0, dtype=bool),
)
