"""What each column of a table is: a number, a date, a category, or left out.

The kind of a column comes from the whole table, so that all splits agree on it; what is learned
from
values (medians, categories) comes from the training rows alone, in the encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softset.checks import listed, repeated, warn_user
from softset.tables.kinds import KINDS
from softset.tables.kinds.base import Column
from softset.tables.kinds.cells import Cells, as_text

if TYPE_CHECKING:
    import pandas

__all__ = ["Column", "Schema", "as_text", "infer_schema"]

Schema = list[Column]


def infer_schema(frame: pandas.DataFrame, *, warn: bool = True) -> Schema:
    """What each column of the whole table is. What looks wrong is a note, and a warning too.

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
        for column in schema:
            if column.note:
                warn_user(column.note)
    return schema


def _column(cells: Cells) -> Column:
    return next(column for kind in KINDS if (column := kind.recognize(cells)) is not None)
