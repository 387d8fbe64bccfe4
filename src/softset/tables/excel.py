"""Excel sheets: the first one of a workbook; its first row holds the names of the columns."""

from __future__ import annotations

import datetime
import warnings
import zipfile
from pathlib import Path

import numpy as np

from softset.checks import listed, repeated, require, warn_user
from softset.tables.columns import as_text
from softset.tables.reading import Reading, too_large
from softset.typing import Frame, Series

# A cell takes about so many bytes in memory for each byte that the limit is meant for.
_CELL = 8
Row = tuple[object, ...]


def read_excel(path: Path, reading: Reading) -> Frame:
    """The first sheet as a data frame."""
    import pandas as pd

    limit, text = reading.limit, reading.text
    sheets, rows = _rows(path, limit, stored=True)
    if len(sheets) > 1:
        warn_user(
            f"{path.name} has {len(sheets)} sheets; the first, {sheets[0]!r}, is read.",
        )
    names, body = _table(path.name, rows)
    if len(body) + 1 < len(rows) or any(len(r) < len(names) or None in r for _, r in body):
        _refuse_formulas(path, limit, rows)
    columns = {
        name: _series([row[j] if j < len(row) else None for _, row in body])
        for j, name in enumerate(names)
    }
    return pd.DataFrame({n: as_text(s) if n in text else s for n, s in columns.items()})


def _rows(path: Path, limit: int, *, stored: bool) -> tuple[list[str], list[Row]]:
    """The names of the sheets, and the rows of the first one: values, or formulas as text."""
    openpyxl = require("openpyxl", "excel", "reading an Excel file")
    rows: list[Row] = []
    size = cells = 0
    try:
        with zipfile.ZipFile(path) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a sheet may hold besides cells
            size = sum(entry.file_size for entry in archive.infolist())
            if size <= limit:
                book = openpyxl.load_workbook(
                    path, read_only=True, data_only=stored, keep_links=False
                )
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # what a file says about itself may be wrong
                names = [s.title for s in book.worksheets]
                for row in sheet.iter_rows(values_only=True):
                    rows.append(_trimmed(row))
                    cells += len(rows[-1]) + 1
                    if cells * _CELL > limit:
                        break
                book.close()
    except Exception as error:  # whatever a reader of XML meets
        raise ValueError(
            f"{path.name} is damaged or no Excel sheet (.xlsx): {type(error).__name__}. Save it "
            "again, or as CSV."
        ) from None
    if max(size, cells * _CELL) > limit:
        raise too_large(path.name, max(size, cells * _CELL), limit)
    return names, rows


def _trimmed(row: Row) -> Row:
    """Without the empty cells at its end."""
    width = len(row)
    while width and row[width - 1] in (None, ""):
        width -= 1
    return row[:width]


def _table(name: str, rows: list[Row]) -> tuple[list[str], list[tuple[int, Row]]]:
    """The names of the columns, and the other rows with their numbers; empty ones are skipped."""
    full = [(i, row) for i, row in enumerate(rows, 1) if row]
    if not full:
        raise ValueError(f"{name} is empty. A row of column names and rows are expected.")
    names = [str(v).strip() if v is not None else "" for v in full[0][1]]
    names = [n or f"column {i}" for i, n in enumerate(names, 1)]
    if twice := repeated(names):
        raise ValueError(
            f"{name} has column name(s) {listed(twice)} more than once; names must differ."
        )
    body = full[1:]
    if not body:
        raise ValueError(f"{name} has 0 rows: there is nothing after the row of column names.")
    for i, row in body:
        if len(row) > len(names):
            raise ValueError(
                f"{name}, row {i}: the row is too long, {len(row)} cells; the first has "
                f"{len(names)} column names. The table must be alone on its sheet, and each column "
                "must have a name."
            )
    return names, body


def _refuse_formulas(path: Path, limit: int, rows: list[Row]) -> None:
    """A formula whose value was never stored reads as an empty cell: that would be a lie."""
    written = _rows(path, limit, stored=False)[1]
    for i, row in enumerate(written):
        stored = rows[i] if i < len(rows) else ()
        for j, value in enumerate(row):
            if value is not None and (j >= len(stored) or stored[j] is None):
                raise ValueError(
                    f"{path.name}: row {i + 1}, column {j + 1} holds a formula without a stored "
                    "value. Open it in a spreadsheet program and save it, or save it as CSV."
                )


def _series(values: list[object]) -> Series:
    import pandas as pd

    types = {type(v) for v in values if v is not None}
    integers = types == {int} and None not in values
    if types and types <= {int, float}:
        numbers = np.array([np.nan if v is None else float(v) for v in values])  # type: ignore[arg-type]
        return pd.Series([*values] if integers and np.abs(numbers).max() < 2**63 else numbers)
    if types and all(issubclass(t, datetime.datetime | datetime.date) for t in types):
        return pd.Series(pd.to_datetime(values))
    return pd.Series(values, dtype=bool if types == {bool} and None not in values else object)
