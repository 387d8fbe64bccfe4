"""CSV and TSV, read strictly: every row has as many fields as the header, or the line is named.

All cells are read as text first. What a column holds is decided by all of its cells, so that a
value late in the file cannot change what the first rows meant.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from itertools import chain

from softset.checks import listed, repeated, warn_user
from softset.tables.columns import MISSING_WORDS
from softset.tables.guards import unguard, unguarded
from softset.tables.numerals import has_thousands
from softset.tables.reading import Reading, expanded
from softset.typing import ArrowColumn, ArrowTable, Frame, Series

_SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
# A code such as 007 is a name, not a number.
_CODE = r"^[+-]?0\d+$"
# A label is a number only if it is written as Python writes it: 01 and 1.50 are names.
_PLAIN_INTEGER = r"^(0|-?[1-9]\d*)$"
_PLAIN_NUMBER = r"^-?(0|[1-9]\d*)(\.\d*[1-9]|\.0)?(e-?\d+)?$"
# Arrow reads so many bytes at a time; a row must fit into one block.
_BLOCK = 1 << 24
# A line with its end, which may be any of three.
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)?")


def parse_delimited(data: bytes, name: str, sep: str, reading: Reading) -> Frame:
    """The bytes of file ``name`` as a data frame; ``ValueError`` says what is wrong, and where."""
    import pandas as pd

    header, body, line = _header(_decoded(data, name, reading.encoding), name, sep)
    table = _parsed(body, len(header), name, sep, line)
    if table.num_rows == 0:
        raise ValueError(f"{name} has 0 rows: there is nothing after the line of column names.")
    columns: dict[str, Series] = {}
    thousands: list[str] = []
    labels, text = expanded(reading.labels, header), expanded(reading.text, header)
    for column, values in zip(header, table.columns, strict=True):
        if "'" in body:
            values = unguarded(values)
        if column in labels:
            columns[column] = _labels(values)
        elif column in text:
            columns[column] = _texts(values)
        else:
            allowed = reading.thousands is None or column in reading.thousands
            columns[column], separated = _typed(values, reading.decimal, allowed)
            thousands += [column] if separated else []
    frame = pd.DataFrame(columns)
    # What the descriptions of columns need: how numbers are written in columns that stay text.
    frame.attrs.update(decimal=reading.decimal, thousands=thousands)
    if thousands and reading.thousands is None:
        warn_user(
            f"{name}: in column(s) {listed(thousands)} '.' separates thousands, for each number is "
            "written so: 1.234 is 1234."
        )
    return frame


# --- bytes -> text --------------------------------------------------------------------------------


def _decoded(data: bytes, name: str, encoding: str | None) -> str:
    try:
        content = data.decode(encoding or "utf-8")
        if encoding is not None:
            content.encode()  # some encodings can spell what no text is
    except (LookupError, ValueError) as error:
        if not isinstance(error, UnicodeError):
            raise ValueError(
                f"encoding {encoding!r} is not known. Examples: utf-8, latin-1, cp1252, utf-16."
            ) from None
        place = ""
        if isinstance(error, UnicodeDecodeError):
            line = data.count(b"\n", 0, error.start) + 1
            place = f" (line {line}, byte {data[error.start]:#04x})"
        hint = "" if encoding else " Give its encoding: --encoding latin-1, cp1252 or utf-16, say."
        raise ValueError(f"{name} is not {encoding or 'UTF-8'}{place}.{hint}") from None
    content = content.removeprefix("\ufeff")
    if not content or content.isspace():
        raise ValueError(f"{name} is empty. A line of column names and rows are expected.")
    if "\0" in content:
        line = content.count("\n", 0, content.index("\0")) + 1
        raise ValueError(
            f"{name} has a NUL byte in line {line}: it is damaged, not a text file, or not UTF-8. "
            "Write it again, or give its encoding: --encoding utf-16-le, say."
        )
    return content


# --- text -> fields -------------------------------------------------------------------------------


@contextlib.contextmanager
def _long_fields(length: int) -> Iterator[None]:
    """Let Python's reader take fields up to ``length``; its own limit is 128 kB."""
    before = csv.field_size_limit(max(csv.field_size_limit(), length + 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _header(content: str, name: str, sep: str) -> tuple[list[str], str, int]:
    """Column names, the text after them, and the number of the line where that begins."""
    used = 0

    def lines() -> Iterator[str]:
        nonlocal used
        while used < len(content) and (line := _LINE.match(content, used)):
            used = line.end()
            yield line[0]

    reader = csv.reader(lines(), delimiter=sep, strict=True)
    try:
        with _long_fields(len(content)):
            cells = next(row for row in reader if any(row) and (len(row) > 1 or row[0].strip()))
    except (csv.Error, StopIteration) as error:
        what = str(error) or "there is nothing but separators"
        raise ValueError(f"{name}: the line of column names cannot be read ({what}).") from None
    names = [unguard(cell.strip()) or f"column {i}" for i, cell in enumerate(cells, 1)]
    if len(names) == 1 and (hint := _other_separator(names[0], sep)):
        raise ValueError(
            f"{name} has one column only, {names[0][:60]!r}: the separator is wrong.{hint}"
        )
    if twice := repeated(names):
        hint = ""
        if all(re.fullmatch(_NUMBER, n) for n in twice):
            hint = " Is the line of column names missing?"
        raise ValueError(
            f"{name} has column name(s) {listed(twice)} more than once; names must differ.{hint}"
        )
    return names, content[used:], reader.line_num + 1


def _parsed(body: str, width: int, name: str, sep: str, line: int) -> ArrowTable:
    """A table of text, ``None`` where a cell is empty and not quoted."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if '"' in body:  # Arrow takes an unclosed quote for the rest of the file
        _check_rows(body, width, name, sep, line)
    columns = [f"c{i}" for i in range(width)]
    if not body or (width > 1 and not body.strip("\r\n")):
        return pa.table({c: pa.array([], pa.string()) for c in columns})
    # Arrow would take U+FEFF at the beginning for a byte-order mark, and so it gets one.
    data = (f"\ufeff{body}" if body.startswith("\ufeff") else body).encode()

    def read(block: int) -> ArrowTable:
        return arrow_csv.read_csv(
            io.BytesIO(data),
            read_options=arrow_csv.ReadOptions(column_names=columns, block_size=block),
            parse_options=arrow_csv.ParseOptions(
                delimiter=sep,
                newlines_in_values='"' in body,
                ignore_empty_lines=width > 1,  # of one column, an empty line is an empty cell
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,  # "" is an empty text, nothing is missing
            ),
        )

    try:
        return read(_BLOCK)
    except pa.ArrowInvalid:
        _check_rows(body, width, name, sep, line)
    try:  # the rows are right: one may be longer than a block
        return read(min(len(data) + 1, 2**31 - 1))
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name} cannot be read: {str(error)[:200]}") from error


def _check_rows(body: str, width: int, name: str, sep: str, line: int) -> None:
    """Refuse the first row that is not whole, with the number of its line."""
    ended: list[bool] = []  # something, once the reader has asked for more than there is
    lines = chain(io.StringIO(body, newline=""), iter(lambda: ended.append(True), None))
    reader = csv.reader(lines, delimiter=sep, strict=True)
    begins, longer, rows = line, 0, 0
    first: tuple[int, list[str]] | None = None  # a row of another length: its line, its fields
    with _long_fields(len(body)):
        while True:
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error:
                what = "a quote stands inside a quoted field (it is written twice there)"
                if ended:
                    what = "a quote is never closed"
                raise ValueError(
                    f"{name}, the row that begins in line {begins}: {what}. Correct the quotes."
                ) from None
            if row:
                rows += 1
                longer += len(row) == width + 1
                if len(row) != width and first is None:
                    first = begins, row
            begins = line + reader.line_num
    if first is None:
        return
    if longer == rows:
        raise ValueError(
            f"{name}: every row has {width + 1} fields, the line of column names {width}. Add the "
            "missing name (often that of the first column), or remove a trailing separator."
        )
    at, row = first
    kind = "long" if len(row) > width else "short"
    hint = _other_separator(row[0], sep) if len(row) == 1 else ""
    raise ValueError(
        f"{name}, line {at}: the row is too {kind}, {len(row)} field(s); the header has {width}. "
        f"Correct it; a field that holds the separator must stand in quotes.{hint}"
    )


def _other_separator(text: str, sep: str) -> str:
    """A hint at the separator that a line seems to have."""
    others = [shown for s, shown in _SEPARATORS.items() if s != sep and s in text]
    return f" Try --sep {others[0]}." if others else ""


# --- fields -> columns ----------------------------------------------------------------------------


def _texts(values: ArrowColumn) -> Series:
    """Text as it is in the file, ``None`` where missing."""
    import pandas as pd

    return pd.Series(values.to_numpy(), dtype=object)


def _labels(values: ArrowColumn) -> Series:
    """Text as it is, unless every value is a number written plainly: "01", "NA" and "" stay."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow import compute as pc

    if pc.all(pc.match_substring_regex(values, _PLAIN_INTEGER), min_count=1).as_py():
        try:
            return pd.Series(pc.cast(values, pa.int64()).to_pandas())
        except pa.ArrowInvalid:  # too large: a name
            return _texts(values)
    if pc.all(pc.match_substring_regex(values, _PLAIN_NUMBER), min_count=1).as_py():
        return pd.Series(pc.cast(values, pa.float64()).to_pandas())
    return _texts(values)


def _typed(values: ArrowColumn, decimal: str, thousands: bool) -> tuple[Series, bool]:
    """Numbers if all cells are numbers (or words for "missing"), else the text of the file.

    The second result is whether thousands are separated, which they are only if ``thousands``
    allows it and every cell is written so. Whether text is numbers but for a few cells, or has
    units, is decided by ``infer_schema``.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import compute as pc

    separated = False
    trimmed = pc.utf8_trim_whitespace(values)
    absent = pc.is_in(trimmed, pa.array(sorted(MISSING_WORDS)))
    numbers = pc.if_else(absent, None, trimmed)
    if numbers.null_count == len(numbers):  # nothing but words for "missing": they stay words
        return _texts(values), False
    if decimal == ",":
        separated = bool(pc.any(pc.match_substring(numbers, ".")).as_py())
        if separated:  # a point is no decimal mark here
            words = pc.unique(numbers).drop_null().to_pylist()
            if not thousands or not has_thousands(words, decimal):
                return _texts(values), False
            numbers = pc.replace_substring(numbers, ".", "")
        numbers = pc.replace_substring(numbers, ",", ".")
    if pc.any(pc.match_substring_regex(numbers, _CODE)).as_py():
        return _texts(values), False
    numbers = pc.replace_substring_regex(numbers, r"^\+([\d.])", r"\1")  # Arrow knows no plus
    if pc.all(pc.match_substring_regex(numbers, r"^-?\d+$")).as_py():
        try:
            integers = pc.cast(numbers, pa.int64())
            if not integers.null_count or pc.max(pc.abs(integers)).as_py() <= 2**53:
                return pd.Series(integers.to_numpy()), separated
        except pa.ArrowInvalid:  # more digits than fit
            pass
        return _texts(values), False  # as floats, identifiers would lose their last digits
    try:
        return pd.Series(pc.cast(numbers, pa.float64()).to_numpy()), separated
    except pa.ArrowInvalid:
        return _texts(values), False
