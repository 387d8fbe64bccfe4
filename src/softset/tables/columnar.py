"""Parquet and Arrow files, read within a limit; cells that are not one value are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from softset.checks import listed, repeated
from softset.tables.reading import Reading, too_large
from softset.typing import ArrowSchema, ArrowTable, Frame

if TYPE_CHECKING:
    from pyarrow import DataType
    from pyarrow.parquet import ParquetFile

# The Arrow type of each of some columns.
Kinds: TypeAlias = "Mapping[str, DataType]"
# An Arrow stream begins with a continuation mark.
STREAM = b"\xff\xff\xff\xff"
# Rows of a row group that are read to see how large rows are in memory.
_SAMPLE = 256


def read_parquet(path: Path, reading: Reading) -> Frame:
    """The table in a Parquet file as a data frame."""
    return _frame(path, reading.limit, "Parquet", _parquet)


def read_arrow(path: Path, reading: Reading) -> Frame:
    """The table in an Arrow (Feather) file or stream as a data frame."""
    return _frame(path, reading.limit, "Arrow", _arrow)


def write_parquet(frames: Iterable[Frame], path: Path, kinds: Kinds) -> None:
    """Write data frames of the same columns as the row groups of one Parquet file."""
    from pyarrow import parquet

    _write(frames, kinds, "Parquet", lambda schema: parquet.ParquetWriter(path, schema))


def write_arrow(frames: Iterable[Frame], path: Path, kinds: Kinds) -> None:
    """Write data frames of the same columns as one Arrow (Feather) file."""
    from pyarrow import ipc

    options = ipc.IpcWriteOptions(compression="lz4")
    _write(frames, kinds, "Arrow", lambda schema: ipc.new_file(path, schema, options=options))


def _write(
    frames: Iterable[Frame],
    kinds: Kinds,
    kind: str,
    start: Callable[[ArrowSchema], ArrowWriter],
) -> None:
    import pyarrow as pa

    schema = writer = None
    try:
        for frame in frames:
            table = pa.Table.from_pandas(frame, schema, preserve_index=False)
            if writer is None:
                schema = table.schema.remove_metadata()
                for name, of_source in kinds.items():
                    plain = getattr(of_source, "value_type", of_source)  # of a dictionary
                    schema = schema.set(schema.get_field_index(name), pa.field(name, plain))
                table, writer = table.cast(schema), start(schema)
            writer.write_table(table)
    except (pa.ArrowException, UnicodeError) as error:
        raise ValueError(
            f"the table cannot be written as {kind} ({_first_line(error)}). Write it as .csv, or "
            "make every column one type."
        ) from error
    finally:
        if writer is not None:
            writer.close()


class ArrowWriter(Protocol):
    """What writes one table after the other to a file."""

    def write_table(self, table: ArrowTable) -> None: ...
    def close(self) -> None: ...


def damaged(path: Path, kind: str, error: Exception) -> ValueError:
    """The error for a file that Arrow cannot read."""
    return ValueError(
        f"{path.name} is damaged or not whole: it cannot be read as {kind} ({_first_line(error)}). "
        "Write or copy it again."
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:120]


def _frame(path: Path, limit: int, kind: str, read: Callable[[Path, int], ArrowTable]) -> Frame:
    import pyarrow as pa

    try:
        table = read(path, limit)
        names = table.column_names
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise damaged(path, kind, error) from None
    check_schema(path.name, table.schema)
    if table.num_rows == 0:
        raise ValueError(f"{path.name} has 0 rows.")
    index = row_numbers(table.schema) & set(names)
    try:
        return to_frame(table.drop_columns(sorted(index)))
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ValueError(
            f"{path.name} has values that cannot be used ({_first_line(error)}). Write it again."
        ) from None


def to_frame(table: ArrowTable) -> Frame:
    """A data frame with the values of an Arrow table; integers stay integers where some are
    missing."""
    import pandas as pd
    import pyarrow as pa

    missing = {
        field.name
        for field, column in zip(table.schema, table.columns, strict=True)
        if pa.types.is_integer(field.type) and column.null_count
    }
    frame = table.drop_columns(sorted(missing)).to_pandas(ignore_metadata=True)
    for name in missing:  # pandas would make floats of them, which lose digits
        kind = str(table.schema.field(name).type).replace("int", "Int").replace("u", "U")
        frame[name] = pd.array(table.column(name).to_pylist(), dtype=kind)
    return frame[table.column_names]


def row_numbers(schema: ArrowSchema) -> set[str]:
    """Columns that are only the row numbers of the data frame that was written."""
    try:
        names = json.loads(schema.metadata[b"pandas"])["index_columns"]
        return {n for n in names if isinstance(n, str) and re.fullmatch(r"__index_level_\d+__", n)}
    except (KeyError, TypeError, ValueError):  # no pandas, or damaged: then there is none
        return set()


def _parquet(path: Path, limit: int) -> ArrowTable:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        size = unpacked_size(file)
        if size > limit:
            raise too_large(path.name, size, limit)
        return file.read()


def unpacked_size(file: ParquetFile) -> int:
    """The bytes that the rows of a Parquet file take in memory, about.

    The metadata says how large columns are as they are encoded, where a text that repeats is stored
    once; in memory it is there in every row. So a few rows of some row groups are read, as well.
    """
    info = file.metadata
    encoded = sum(info.row_group(i).total_byte_size for i in range(info.num_row_groups))
    last = info.num_row_groups - 1
    rows = size = 0
    for group in sorted({0, last // 2, last} if last >= 0 else ()):
        batch = next(file.iter_batches(_SAMPLE, row_groups=[group], use_threads=False), None)
        if batch is not None and batch.num_rows:
            rows, size = rows + batch.num_rows, size + _decoded_size(batch)
    return max(encoded, round(size / rows * info.num_rows) if rows else 0)


def _decoded_size(batch: ArrowTable) -> int:
    """The bytes of a batch without dictionaries."""
    from pyarrow import types

    return sum(
        (column.dictionary_decode() if types.is_dictionary(column.type) else column).nbytes
        for column in batch.columns
    )


def _arrow(path: Path, limit: int) -> ArrowTable:
    from pyarrow import ipc

    size = path.stat().st_size
    if size > limit:
        raise too_large(path.name, size, limit)
    with open(path, "rb") as file:
        stream = file.read(4) == STREAM
    with (ipc.open_stream if stream else ipc.open_file)(path) as file:
        return file.read_all()


def check_schema(name: str, schema: ArrowSchema) -> None:
    """Refuse columns of one name, and cells that are not one number, text or date."""
    if twice := repeated(schema.names):
        raise ValueError(f"{name} has the column name(s) {listed(twice)} more than once.")
    for field in schema:
        if problem := _problem(field.type):
            raise ValueError(f"{name}: column {field.name!r} {problem}")


def _problem(kind: DataType) -> str:
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
