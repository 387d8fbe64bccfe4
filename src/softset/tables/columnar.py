"""Parquet and Arrow files: read whole, within a limit, refused where a cell is not one value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from softset.checks import listed, repeated
from softset.tables.reading import Reading, too_large

# An Arrow stream begins with a continuation mark.
STREAM = b"\xff\xff\xff\xff"


def read_parquet(path: Path, reading: Reading) -> Any:
    """The table in a Parquet file as a data frame."""
    return _frame(path, reading.limit, "Parquet", _parquet)


def read_arrow(path: Path, reading: Reading) -> Any:
    """The table in an Arrow (Feather) file or stream as a data frame."""
    return _frame(path, reading.limit, "Arrow", _arrow)


def write_parquet(frames: Iterable[Any], path: Path) -> None:
    """Write data frames of the same columns as the row groups of one Parquet file."""
    from pyarrow import parquet

    _write(frames, "Parquet", lambda schema: parquet.ParquetWriter(path, schema))


def write_arrow(frames: Iterable[Any], path: Path) -> None:
    """Write data frames of the same columns as one Arrow (Feather) file."""
    from pyarrow import ipc

    options = ipc.IpcWriteOptions(compression="lz4")
    _write(frames, "Arrow", lambda schema: ipc.new_file(path, schema, options=options))


def _write(frames: Iterable[Any], kind: str, start: Callable[[Any], Any]) -> None:
    import pyarrow as pa

    schema = writer = None
    try:
        for frame in frames:
            table = pa.Table.from_pandas(frame, schema, preserve_index=False)
            if writer is None:
                schema, writer = table.schema, start(table.schema)
            writer.write_table(table)
    except (pa.ArrowException, UnicodeError) as error:
        raise ValueError(
            f"the table cannot be written as {kind} ({_first_line(error)}). Write it as .csv, or "
            "make every column one type."
        ) from error
    finally:
        if writer is not None:
            writer.close()


def damaged(path: Path, kind: str, error: Exception) -> ValueError:
    """The error for a file that Arrow cannot read."""
    return ValueError(
        f"{path.name} is damaged or not whole: it cannot be read as {kind} ({_first_line(error)}). "
        "Write or copy it again."
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:120]


def _frame(path: Path, limit: int, kind: str, read: Any) -> Any:
    import pyarrow as pa

    try:
        table = read(path, limit)
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise damaged(path, kind, error) from None
    check_schema(path.name, table.schema)
    if table.num_rows == 0:
        raise ValueError(f"{path.name} has 0 rows.")
    index = row_numbers(table.schema) & set(names)
    try:
        return table.drop_columns(sorted(index)).to_pandas(ignore_metadata=True)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ValueError(
            f"{path.name} has values that cannot be used ({_first_line(error)}). Write it again."
        ) from None


def row_numbers(schema: Any) -> set[str]:
    """Columns that are only the row numbers of the data frame that was written."""
    try:
        found = json.loads(schema.metadata[b"pandas"])["index_columns"]
        return {n for n in found if isinstance(n, str) and re.fullmatch(r"__index_level_\d+__", n)}
    except (KeyError, TypeError, ValueError):  # no pandas, or damaged: then there is none
        return set()


def _parquet(path: Path, limit: int) -> Any:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        size = unpacked_size(file.metadata)
        if size > limit:
            raise too_large(path.name, size, limit)
        return file.read()


def unpacked_size(info: Any) -> int:
    """About how many bytes the rows of a Parquet file take in memory, by its metadata."""
    size = sum(info.row_group(i).total_byte_size for i in range(info.num_row_groups))
    # What repeats itself is stored once; in memory, every cell is there.
    return max(size, int(info.num_rows * info.num_columns))


def _arrow(path: Path, limit: int) -> Any:
    from pyarrow import ipc

    size = path.stat().st_size
    if size > limit:
        raise too_large(path.name, size, limit)
    with open(path, "rb") as file:
        stream = file.read(4) == STREAM
    with (ipc.open_stream if stream else ipc.open_file)(path) as file:
        return file.read_all()


def check_schema(name: str, schema: Any) -> None:
    """Refuse columns of one name, and cells that are not one number, text or date."""
    if twice := repeated(schema.names):
        raise ValueError(f"{name} has the column name(s) {listed(twice)} more than once.")
    for field in schema:
        what = _trouble(field.type)
        if what:
            raise ValueError(f"{name}: column {field.name!r} {what}")


def _trouble(kind: Any) -> str:
    """Why cells of this type cannot be used, if they cannot."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_nested(kind):
        return (
            f"is nested ({kind}); every cell must hold one value. Unfold it into columns, or leave "
            "it out of the file."
        )
    plain = (
        types.is_null,
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_date,
        types.is_time,
        types.is_timestamp,
        types.is_duration,
    )
    if any(fits(kind) for fits in plain):
        return ""
    raw = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    if any(fits(kind) for fits in raw):
        return "holds raw bytes; save it as text or numbers."
    return f"holds {kind}, which is neither numbers, text nor dates; leave it out of the file."
