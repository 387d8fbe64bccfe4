"""A user's table from a file, and predictions to one. A file format is one row of ``FORMATS``.

What cannot be read exactly is refused with the place and a way out; nothing is guessed silently.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from softset.checks import check_choice
from softset.storage.files import check_writable, write_safely
from softset.tables.columnar import (
    STREAM,
    Kinds,
    read_arrow,
    read_parquet,
    write_arrow,
    write_parquet,
)
from softset.tables.columns import check_finite
from softset.tables.delimited import parse_delimited
from softset.tables.excel import read_excel
from softset.tables.guards import guard, guarded
from softset.tables.reading import (
    Reading,
    bytes_allowed,
    check_columns,
    expanded,
    refuse_text_options,
    too_large,
)
from softset.typing import ArrowColumn, Frame, Series

# Beyond this size, a file that unpacks to more than so many times its own is no honest table.
_BOMB_BYTES, _BOMB_TIMES = 100 * 2**20, 200


@dataclass(frozen=True)
class Format:
    """A kind of file: the endings of its names, what it begins with (nothing: it may begin with
    anything), how it is read, how data frames are written one after the other, if they can be, and
    whether it is text, which may also come packed (``.gz``) or through a pipe."""

    name: str
    endings: tuple[str, ...]
    begins: tuple[bytes, ...]
    read: Callable[[Path, Reading], Frame]
    write: Callable[[Iterable[Frame], Path, Kinds], None] | None = None
    is_text: bool = False


def read_table(
    path: str | os.PathLike[str] | IO[bytes],
    *,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    labels: Collection[str] = (),
    text: Collection[str] = (),
    thousands: Collection[str] | None = None,
    drop: Collection[str] = (),
    limit: int | None = None,
) -> Frame:
    """The table in ``path``: CSV, TSV (also ``.gz``), Parquet, Arrow or Excel, by the ending.

    ``"-"`` is standard input, which is CSV as any other stream of bytes.

    In CSV, a column is numbers if every cell is one, or a word for "missing" such as NA; else text.
    Whole files are looked at, not the first rows. A cell without anything in it is missing; ``""``
    in quotes is an empty text.

    Args:
        sep: the separator of fields; by default a comma, or a tab in ``.tsv``.
        encoding: of the text; UTF-8 by default.
        decimal: ``"."`` or ``","``.
        labels: columns with class names; "a,b" is two, unless a column has that name. They stay as
            they are written: "NA", "None" and "01" are text; only a column that holds nothing but
            plainly written numbers becomes numbers.
        text: columns that stay text, exactly as in the file.
        thousands: columns where ``decimal=","`` comes with points between thousands; by default
            those in which every number is written so, with a warning.
        drop: columns to leave out.
        limit: the most bytes of text (or of unpacked columns) to read; by default an eighth of the
            free memory. ``SOFTSET_LIMIT`` in the environment sets it in megabytes.

    Errors are ``ValueError`` with the file, the line or column, and what to do.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "small.csv")
    >>> _ = file.write_text("age,city,label\\n31,Rome,01\\nNA,Oslo,02\\n")
    >>> frame = read_table(file, labels=["label"])
    >>> frame["age"].tolist(), frame["label"].tolist()
    ([31.0, nan], ['01', '02'])
    """
    check_choice("decimal", decimal, (".", ","))
    reading = Reading(sep, encoding, decimal, labels, text, thousands, bytes_allowed(limit))
    if isinstance(path, str | os.PathLike) and str(path) != "-":
        name, frame = Path(path).name, _read_path(Path(path), reading)
    else:
        stream = sys.stdin.buffer if isinstance(path, str | os.PathLike) else path
        name = "standard input" if stream is sys.stdin.buffer else "the stream"
        frame = _parsed(_all_of(stream, name, reading.limit), name, ",", reading)
    columns = [str(c) for c in frame.columns]
    labels, drop = expanded(labels, columns), expanded(drop, columns)
    check_columns(name, columns, [*labels, *drop])
    frame = frame.drop(columns=drop)
    for column, series in frame.items():
        if series.dtype.kind == "f" and column not in labels:
            check_finite(str(column), series.to_numpy(dtype=np.float64, na_value=np.nan), name)
    return frame


def _read_path(path: Path, reading: Reading) -> Frame:
    name = path.name
    if path.is_dir():
        raise ValueError(f"{path} is a directory; a file is expected.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    packed = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    form = _BY_ENDING.get(ending)
    if form is None or (packed and not form.is_text):
        endings = ", ".join(e for e in _BY_ENDING if e)
        raise ValueError(
            f"{name}: the ending {path.suffix!r} is not known. It may be {endings}; text also .gz."
        )
    if not form.is_text:
        refuse_text_options(name, reading.sep, reading.encoding, reading.decimal)
    if not path.is_file():  # a pipe, as <(command) makes it, can be read once
        if not form.is_text or packed:
            raise ValueError(f"{path} is a device or pipe; only text can be read from one.")
        return form.read(path, reading)
    with open(path, "rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{name} is empty. A table with column names and rows is expected.")
    if form.begins and not head.startswith(form.begins):
        other = _looks_like(head) or ("" if b"\0" in head else "text; a CSV file is named .csv")
        raise ValueError(f"{name} is no {form.name} file{f', it is {other}' if other else ''}.")
    return form.read(path, reading)


# --- text -----------------------------------------------------------------------------------------


def _read_text(sep: str) -> Callable[[Path, Reading], Frame]:
    def read(path: Path, reading: Reading) -> Frame:
        """The rows of a file, after a look at its size."""
        packed = path.stat().st_size if path.suffix.lower() == ".gz" else None
        if packed is None and path.is_file() and path.stat().st_size > reading.limit:
            raise too_large(path.name, path.stat().st_size, reading.limit)
        try:
            with open(path, "rb") if packed is None else gzip.open(path, "rb") as file:
                data = _all_of(file, path.name, reading.limit, packed)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(
                f"{path.name} is damaged or no gzip file ({error}). Pack it again."
            ) from None
        return _parsed(data, path.name, sep, reading)

    return read


def _parsed(data: bytes, name: str, sep: str, reading: Reading) -> Frame:
    if what := _looks_like(data[:16]):
        raise ValueError(f"{name} is not text but {what}. Give a file with the right ending.")
    if not data:
        raise ValueError(f"{name} is empty. A table with column names and rows is expected.")
    sep = sep if reading.sep is None else _separator(reading.sep)
    return parse_delimited(data, name, sep, reading)


def _separator(sep: str) -> str:
    sep = {"tab": "\t", "\\t": "\t", "space": " "}.get(sep, sep)
    if len(sep) != 1 or sep in '"\r\n' or not sep.isascii():
        raise ValueError(f"sep must be one character (ASCII, or 'tab'), got {sep!r}.")
    return sep


def _all_of(
    stream: IO[bytes] | gzip.GzipFile, name: str, limit: int, packed: int | None = None
) -> bytes:
    """Everything that a stream holds, as long as it stays within the limit; and, of a packed file
    of so many bytes, as long as it is no bomb."""
    most = None if packed is None else max(_BOMB_BYTES, _BOMB_TIMES * packed)
    blocks, size = [], 0
    while part := stream.read(1 << 22):
        if not isinstance(part, bytes):
            raise ValueError(f"{name} must give bytes (open it with 'rb'), got text.")
        size += len(part)
        if size > limit:
            raise too_large(name, None, limit)
        if most is not None and size > most:
            raise ValueError(
                f"{name} unpacks to more than {_BOMB_TIMES} times its size. If that is right, "
                "unpack it first."
            )
        blocks.append(part)
    return b"".join(blocks)


def _write_text(sep: str) -> Callable[[Iterable[Frame], Path, Kinds], None]:
    def write(frames: Iterable[Frame], path: Path, kinds: Kinds) -> None:
        """Frame after frame, the names of the columns once."""
        with open(path, "wb") as file:
            for number, frame in enumerate(frames):
                if number == 0:
                    names = _arrow_text([str(guard(str(name))) for name in frame.columns])
                    file.write(sep.join(_quoted(names, sep).to_pylist()).encode() + b"\n")
                if len(frame):
                    file.write("\n".join(_lines(frame, sep)).encode() + b"\n")

    return write


def _lines(frame: Frame, sep: str) -> list[str]:
    """The rows of a data frame as CSV: a missing cell is empty, an empty text is ``""``."""
    from pyarrow import compute as pc

    # Columns that are passed on as another file had them.
    exact = frame.attrs.get("exact", ())
    columns = []
    for name, series in frame.items():
        cells = _strings(series)
        if series.dtype.kind not in "biuf":
            if pc.any(pc.match_substring(cells, "\0")).as_py():
                raise ValueError(
                    f"column {name!r} holds text with a NUL character, which CSV cannot hold. "
                    "Remove it, or write Parquet."
                )
            cells = _quoted(guarded(cells, numbers=name not in exact), sep)
        columns.append(pc.fill_null(cells, ""))
    lines: list[str] = pc.binary_join_element_wise(*columns, sep).to_pylist()
    return lines


def _strings(series: Series) -> ArrowColumn:
    """The cells of a column as text, null where missing."""
    if series.dtype == np.float64:
        values = series.to_numpy()
        return _arrow_text([repr(v) if v == v else None for v in values.tolist()])  # noqa: PLR0124
    missing = series.isna().tolist()
    return _arrow_text([None if gone else str(v) for v, gone in zip(series, missing, strict=True)])


def _arrow_text(words: list[str | None] | list[str]) -> ArrowColumn:
    """An Arrow column of text."""
    import pyarrow as pa

    return pa.array(words, pa.string())


def _quoted(cells: ArrowColumn, sep: str) -> ArrowColumn:
    """Text in quotes where CSV needs them."""
    from pyarrow import compute as pc

    doubled = pc.replace_substring(cells, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(pc.match_substring_regex(cells, f'["\r\n{sep}]|^$'), quoted, cells)


# --- formats --------------------------------------------------------------------------------------

FORMATS = (
    Format("CSV", (".csv", ".txt", ".data", ""), (), _read_text(","), _write_text(","), True),
    Format("TSV", (".tsv", ".tab"), (), _read_text("\t"), _write_text("\t"), True),
    Format("Parquet", (".parquet", ".pq"), (b"PAR1",), read_parquet, write_parquet),
    Format("Arrow", (".arrow", ".feather", ".ipc"), (b"ARROW1", STREAM), read_arrow, write_arrow),
    Format("Excel", (".xlsx", ".xlsm"), (b"PK\x03\x04",), read_excel),
)
_BY_ENDING = {ending: form for form in FORMATS for ending in form.endings}
# What else files begin with that are named as tables.
_OTHERS = {
    b"\x1f\x8b": "a gzip file (.csv.gz)",
    b"\xd0\xcf\x11\xe0": "an old Excel file: save it as .xlsx or CSV",
    b"\x89HDF": "an HDF5 file: save it as CSV or Parquet",
    b"%PDF": "a PDF",
}


def _looks_like(head: bytes) -> str:
    """What a file is by its first bytes, if it is no text."""
    for form in FORMATS:
        if form.begins and head.startswith(form.begins):
            return f"{'an' if form.name[0] in 'AE' else 'a'} {form.name} file ({form.endings[0]})"
    return next((what for begins, what in _OTHERS.items() if head.startswith(begins)), "")


def write_table(frame: Frame, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write ``frame`` as CSV, TSV, Parquet or Arrow, whole or not at all.

    An existing file is replaced only with ``force``. In CSV, text that a spreadsheet would run as a
    formula (it begins with ``=``, ``+``, ``-`` or ``@``) gets a ``'`` in front, which
    ``read_table`` takes away again (see ``softset.tables.guards``).
    """
    write_blocks([frame], path, force=force)


def write_blocks(
    frames: Iterable[Frame],
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    kinds: Kinds | None = None,
) -> None:
    """Write data frames of the same columns one after the other, as ``write_table``; only one is in
    memory at a time. ``kinds`` are Arrow types of columns that the first frame may not show, since
    all of its cells are missing."""
    path = Path(path)
    writers = {e: form.write for e, form in _BY_ENDING.items() if form.write is not None and e}
    check_choice("the ending of the output", path.suffix.lower(), writers)
    check_writable(path, force)
    try:
        write_safely(
            path, lambda temporary: writers[path.suffix.lower()](frames, temporary, kinds or {})
        )
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path.name} cannot be written: text holds {error.object[error.start]!r}, which UTF-8 "
            "has not."
        ) from None
