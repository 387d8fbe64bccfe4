"""A user's table from a file, and predictions to one: CSV, TSV, Parquet, Arrow.

What cannot be read exactly is refused with the place and a way out; nothing is guessed silently.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softset.checks import check_choice, listed, nearest
from softset.storage.files import write_safely
from softset.tables.delimited import parse_delimited

if TYPE_CHECKING:
    import pandas

TEXT = (".csv", ".tsv", ".tab", ".txt", ".data")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
# What files begin with that are something else than their name says.
_MAGIC = {
    b"PAR1": "a Parquet file (.parquet)",
    b"ARROW1": "an Arrow file (.arrow)",
    b"\x1f\x8b": "a gzip file (.csv.gz)",
    b"PK\x03\x04": "a zip archive or an Excel sheet: save it as CSV",
    b"\x89HDF": "an HDF5 file: save it as CSV or Parquet",
    b"%PDF": "a PDF",
}
# Cells that a spreadsheet would run as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# A table in memory takes several times the size of its text.
_TIMES = 8
# Beyond this size, a file that unpacks to more than so many times its own is no honest table.
_BOMB_BYTES, _BOMB_TIMES = 100 * 2**20, 200


def read_table(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    labels: Collection[str] = (),
    text: Collection[str] = (),
    drop: Collection[str] = (),
    limit: int | None = None,
) -> pandas.DataFrame:
    """The table in ``path``: CSV, TSV (also ``.gz``), Parquet or Arrow, by the name's ending.

    In CSV, a column is numbers if every cell is one, or a word for "missing" such as NA; else text.
    Whole files are looked at, not the first rows. A cell without anything in it is missing; ``""``
    in quotes is an empty text.

    Args:
        sep: what separates fields; a comma, or a tab in ``.tsv``, if left out.
        encoding: of the text; UTF-8 if left out.
        decimal: ``"."`` or ``","``.
        labels: columns with class names; "a,b" is two, unless a column has that name. They stay as
            they are written: "NA", "None" and "01" are text; only a column that holds nothing but
            plainly written numbers becomes numbers.
        text: columns that stay text.
        drop: columns to leave out.
        limit: the most bytes of text (or of unpacked columns) to read; an eighth of the free
            memory if left out. ``SOFTSET_LIMIT`` in the environment sets it in megabytes.

    Errors are ``ValueError`` with the file, the line or column, and what to do.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "small.csv")
    >>> _ = file.write_text("age,city,label\\n31,Rome,01\\nNA,Oslo,02\\n")
    >>> frame = read_table(file, labels=["label"])
    >>> frame["age"].tolist(), frame["label"].tolist()
    ([31.0, nan], ['01', '02'])
    """
    path = Path(path)
    name = path.name
    check_choice("decimal", decimal, (".", ","))
    if path.is_dir():
        raise ValueError(f"{name} is a directory; a file is expected.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    most = _limit(limit)
    suffix = path.with_suffix("").suffix.lower() if path.suffix.lower() == ".gz" else None
    kind = suffix if suffix is not None else path.suffix.lower()
    with open(path, "rb") as file:
        head = file.read(512)
    if not head:
        raise ValueError(f"{name} is empty. A table with column names and rows is expected.")
    if kind in PARQUET or kind in ARROW:
        frame = _read_columns(path, head, kind, most)
    elif kind in TEXT or (kind == "" and not _looks_like(head)):
        data = _unpacked(path, most) if suffix is not None else _whole(path, most)
        _refuse_other_kinds(name, data[:8], sep)
        frame = parse_delimited(
            data,
            name,
            sep=_separator(sep, kind),
            encoding=encoding,
            decimal=decimal,
            labels=labels,
            text=text,
        )
    else:
        raise ValueError(
            f"{name}: the ending {path.suffix!r} is not known. Use .csv, .tsv, .csv.gz, .parquet, "
            ".arrow or .feather."
        )
    columns = [str(c) for c in frame.columns]
    labels, drop = expanded(labels, columns), expanded(drop, columns)
    _check_names(name, columns, labels, drop)
    frame = frame.drop(columns=drop)
    _refuse_infinite(name, frame, labels)
    return frame


def expanded(names: Collection[str], columns: Collection[str]) -> list[str]:
    """Names of columns, each once: "a,b" is two, unless a column has that name.

    >>> expanded(["a,b", "c, d"], ["a", "b", "c, d"])
    ['a', 'b', 'c, d']
    """
    parts = [[n] if n in columns else [p.strip() for p in n.split(",")] for n in names]
    return list(dict.fromkeys(name for part in parts for name in part if name))


def _check_names(name: str, columns: list[str], *wanted: Collection[str]) -> None:
    for column in (c for group in wanted for c in group):
        if column not in columns:
            hint = nearest(column, columns)
            raise ValueError(
                f"{name} has no column {column!r}.{hint} Its columns: {listed(columns, 30)}."
            )


def _refuse_infinite(name: str, frame: Any, labels: Collection[str]) -> None:
    for column in frame.columns:
        values = frame[column].to_numpy() if column not in labels else np.zeros(0)
        if values.dtype.kind == "f" and np.isinf(values).any():
            found = np.flatnonzero(np.isinf(values))
            raise ValueError(
                f"{name}: column {column!r} has {len(found)} infinite value(s) (inf, or beyond "
                f"1e308), the first in row {found[0] + 1}. Correct them, or leave the cells empty: "
                "missing values are allowed."
            )


# --- text -----------------------------------------------------------------------------------------


def _separator(sep: str | None, kind: str) -> str:
    if sep is None:
        return "\t" if kind in (".tsv", ".tab") else ","
    sep = {"tab": "\t", "\\t": "\t", "space": " "}.get(sep, sep)
    if len(sep) != 1 or sep in '"\r\n':
        raise ValueError(f"sep must be one character (or 'tab'), got {sep!r}.")
    return sep


def _limit(limit: int | None) -> int:
    if limit is not None:
        return limit
    given = os.environ.get("SOFTSET_LIMIT")
    if given:
        try:
            return int(float(given) * 2**20)
        except (ValueError, OverflowError):
            raise ValueError(f"SOFTSET_LIMIT must be megabytes, got {given!r}.") from None
    try:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        with open("/proc/meminfo") as file:
            found = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
        free = int(found[1]) * 1024 if found else free
    except (OSError, ValueError, AttributeError):  # not on every system
        free = 8 * 2**30
    return free // _TIMES


def _too_large(name: str, size: int | None, most: int) -> ValueError:
    holds = "more data" if size is None else f"{size / 2**20:.0f} MB of data, more"
    return ValueError(
        f"{name} holds {holds} than the limit of {most / 2**20:.0f} MB here (an eighth of the free "
        "memory). Take a sample of the rows, leave out columns, use a larger machine, or "
        "raise the limit with SOFTSET_LIMIT (megabytes)."
    )


def _whole(path: Path, most: int) -> bytes:
    size = path.stat().st_size
    if size > most:
        raise _too_large(path.name, size, most)
    return path.read_bytes()


def _unpacked(path: Path, most: int) -> bytes:
    """The content of a gzip file, as long as it stays within the limit."""
    bomb = max(_BOMB_BYTES, _BOMB_TIMES * path.stat().st_size)
    parts, size = [], 0
    try:
        with gzip.open(path) as file:
            while part := file.read(1 << 22):
                size += len(part)
                if size > most:
                    raise _too_large(path.name, None, most)
                if size > bomb:
                    raise ValueError(
                        f"{path.name} unpacks to more than {_BOMB_TIMES} times its size. If that "
                        "is right, unpack it first."
                    )
                parts.append(part)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(
            f"{path.name} is damaged or no gzip file ({error}). Pack it again."
        ) from None
    return b"".join(parts)


def _looks_like(head: bytes) -> str:
    return next((what for magic, what in _MAGIC.items() if head.startswith(magic)), "")


def _refuse_other_kinds(name: str, head: bytes, sep: str | None) -> None:
    if what := _looks_like(head):
        raise ValueError(f"{name} is not text but {what}. Give it the right ending.")


# --- Parquet and Arrow ----------------------------------------------------------------------------


def _read_columns(path: Path, head: bytes, kind: str, most: int) -> Any:
    import pyarrow as pa

    name = path.name
    wanted = "Parquet" if kind in PARQUET else "Arrow"
    magic = b"PAR1" if kind in PARQUET else b"ARROW1"
    if not head.startswith(magic) and not (wanted == "Arrow" and head[:4] in _STREAM):
        other = _looks_like(head)
        if not other and b"\0" not in head:
            other = "text; a CSV file should be named .csv"
        raise ValueError(f"{name} is no {wanted} file{f', it is {other}' if other else ''}.")
    try:
        table = _parquet(path, most) if wanted == "Parquet" else _arrow(path, head, most)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"{name} is damaged or not whole: it cannot be read as {wanted} "
            f"({str(error).splitlines()[0][:120]}). Write or copy it again."
        ) from None
    inner = [n for n in table.column_names if re.fullmatch(r"__index_level_\d+__", n)]
    table = table.drop_columns(inner)
    _check_columns(name, table)
    if table.num_rows == 0:
        raise ValueError(f"{name} has 0 rows.")
    return table.to_pandas(ignore_metadata=True)


# An Arrow stream begins with a continuation mark.
_STREAM = (b"\xff\xff\xff\xff",)


def _parquet(path: Path, most: int) -> Any:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        info = file.metadata
        size = sum(info.row_group(i).total_byte_size for i in range(info.num_row_groups))
        if size > most:
            raise _too_large(path.name, size, most)
        return file.read()


def _arrow(path: Path, head: bytes, most: int) -> Any:
    from pyarrow import ipc

    size = path.stat().st_size
    if size > most:
        raise _too_large(path.name, size, most)
    if head[:4] in _STREAM:
        with ipc.open_stream(path) as stream:
            return stream.read_all()
    with ipc.open_file(path) as file:
        return file.read_all()


def _check_columns(name: str, table: Any) -> None:
    import pyarrow as pa

    twice = sorted({n for n in table.column_names if table.column_names.count(n) > 1})
    if twice:
        raise ValueError(f"{name} has the column name(s) {listed(twice)} more than once.")
    for field in table.schema:
        if pa.types.is_nested(field.type):
            raise ValueError(
                f"{name}: column {field.name!r} is nested ({field.type}); every cell must hold one "
                "value. Unfold it into columns, or leave it out of the file."
            )
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise ValueError(
                f"{name}: column {field.name!r} holds raw bytes; save it as text or numbers."
            )


# --- output ---------------------------------------------------------------------------------------


def write_table(
    frame: pandas.DataFrame, path: str | os.PathLike[str], *, force: bool = False
) -> None:
    """Write ``frame`` as CSV, TSV, Parquet or Arrow, whole or not at all.

    An existing file is replaced only with ``force``. In CSV, text that a spreadsheet would run as a
    formula (it begins with ``=``, ``+``, ``-`` or ``@``) gets a ``'`` in front.
    """
    path = Path(path)
    refuse_existing(path, force)
    suffix = path.suffix.lower()
    check_choice("the ending of the output", suffix, (".csv", ".tsv", *PARQUET, *ARROW))
    if suffix in PARQUET:
        write_safely(path, lambda temporary: frame.to_parquet(temporary, index=False))
    elif suffix in ARROW:
        write_safely(path, frame.to_feather)
    else:
        sep = "\t" if suffix == ".tsv" else ","
        safe = guarded(frame)
        write_safely(path, lambda temporary: safe.to_csv(temporary, index=False, sep=sep))


def refuse_existing(path: Path, force: bool) -> None:
    """An error if something would be overwritten that must not be."""
    if path.exists() and not force:
        raise ValueError(f"{path} exists already. Say --force to replace it, or name another.")


def guard(cell: Any) -> Any:
    """A text cell as a spreadsheet may show it.

    >>> guard("=1+1"), guard("a"), guard(-1)
    ("'=1+1", 'a', -1)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def guarded(frame: Any) -> Any:
    """A copy of ``frame`` with text cells and column names as a spreadsheet may show them."""
    safe = frame.copy()
    for column in safe.columns:
        if getattr(safe[column].dtype, "kind", "O") in "OUT" or safe[column].dtype.name == "str":
            safe[column] = [guard(cell) for cell in safe[column]]
    return safe.rename(columns=guard)


def guarded_rows(rows: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """The same for plain rows."""
    return [[guard(cell) for cell in row] for row in rows]
