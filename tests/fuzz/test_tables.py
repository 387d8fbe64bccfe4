"""Hostile tables: an error of ours that names the place, or the right answer. Never anything else.

Each case is made from its number alone; a failure names it, and ``case(number, folder)`` runs it
again. An oracle of its own (Python's reader of CSV, plain arithmetic) says what is right.
"""

import codecs
import collections
import contextlib
import csv
import datetime
import decimal
import io
import json
import math
import random
import re
import string
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from softset.tables.encoder import TableEncoder, infer_schema
from softset.tables.files import read_table, write_table

COUNT, SLOW = 400, 10_000
FORMULAS = ["=1+1", "+x", "-x", "@x", "\t=1", "\n=1", " =1", "＝1", "'", "''=1", "'=1"]
WORDS = [
    "",
    "NA",
    "None",
    "?",
    "null",
    "unknown",
    "Rome",
    "Oslo",
    "é",
    "日本",
    "\U0001f600",
    " x ",
    "x ",
]
QUOTES = ['"', '""', 'a"b', '"a"', "a,b", "a;b", "a\tb", "a\nb", "a\r\nb", "a\rb", "\n", " ", "\\"]
NUMBERS = ["0", "-0", "1", "007", "+5", "1.5", ".5", "5.", "1e5", "1E-5", "1e400", "-1e400", "inf"]
NUMBERS += [
    "nan",
    "0x1F",
    "1,000",
    "1_000",
    "\u22125",
    "9" * 30,
    "12345678901234567890",
    "1.0000001",
]
DATES = [
    "2024-01-31",
    "2024-02-31",
    "31.1.2024",
    "1/31/2024",
    "2024-01-31T10:00:00Z",
    "1-2",
    "24:00",
]
ODD = [
    "\ufeff",
    "\u200b",
    "\x1c",
    "\x7f",
    "\u2028",
    "true",
    "FALSE",
    "a" * 300,
    "<script>",
    "{{x}}",
]
MISSING = {
    "?",
    "NA",
    "N/A",
    "n/a",
    "na",
    "NaN",
    "nan",
    "NAN",
    "null",
    "NULL",
    "Null",
    "None",
    "none",
}
MISSING |= {"", "#N/A", "<NA>", "NaT"}
NAMED = re.compile(r"column|table|\bX\b|names|encoding|sep ")


# --- making ---------------------------------------------------------------------------------------


def some_cells(chance, rows):
    """A column of text of one style, or of all."""
    styles = [FORMULAS, WORDS, QUOTES, NUMBERS, DATES, ODD]
    kind = chance.randrange(9)
    if kind < 6:
        return [chance.choice(styles[kind]) for _ in range(rows)]
    if kind == 6:
        return [chance.choice(chance.choice(styles)) for _ in range(rows)]
    bad = chance.choice([0, 0.05, 0.15])
    if kind == 7:  # numbers with some words
        cells = [repr(round(chance.gauss(0, 100), chance.randrange(4))) for _ in range(rows)]
    else:
        days = (datetime.date(2020, 1, 1) + datetime.timedelta(chance.randrange(2000)),)
        cells = [str(days[0] + datetime.timedelta(chance.randrange(999))) for _ in range(rows)]
    return [chance.choice(chance.choice(styles)) if chance.random() < bad else c for c in cells]


def some_names(chance, columns):
    words = [
        *FORMULAS,
        *WORDS,
        *QUOTES,
        *ODD,
        "a",
        "b",
        "c",
        "label",
        "x (missing)",
        "__index_level_0__",
    ]
    names = [chance.choice(words) if chance.random() < 0.3 else f"c{i}" for i in range(columns)]
    return names if chance.random() < 0.1 else [f"{n}{i}" for i, n in enumerate(names)]


def some_table(chance):
    rows, columns = chance.choice([0, 1, 2, 3, 25, 60]), chance.choice([1, 2, 3, 6])
    return some_names(chance, columns), [some_cells(chance, rows) for _ in range(columns)]


def rendered(chance, names, columns, sep):
    """CSV with quotes where they are needed, and sometimes where they are not."""
    end = chance.choice(["\n", "\r\n", "\r"])

    def field(text):
        needed = any(c in text for c in f'{sep}"\r\n') or text == ""
        if needed or chance.random() < 0.2:
            return '"' + text.replace('"', '""') + '"'
        return text

    rows = [names, *zip(*columns, strict=True)]
    content = end.join(sep.join(field(text) for text in row) for row in rows)
    return content + (end if chance.random() < 0.8 else "")


BREAKS = [
    b'"',
    b'""',
    b",",
    b";",
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"\n\r\n",
]
BREAKS += [b"'", b"\n\n", b" ", b"\xff\xfe", b"PAR1", b"\x1f\x8b", b",,,,", b'"\n', b"\xed\xa0\x80"]


def mutated(chance, data):
    """Some bytes taken out, put in or cut off."""
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            data = data[:at] + chance.choice(BREAKS) + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + chance.randrange(1, 5) :]
        elif kind == 2:
            data = data[: at or len(data)]
        else:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    return data


# --- the oracle -----------------------------------------------------------------------------------


def oracle(data, sep):
    """Names and rows as Python's strict reader has them, or None where the file must be refused."""
    try:
        content = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    if not content.strip() or "\0" in content:
        return None
    try:
        reader = csv.reader(io.StringIO(content, newline=""), delimiter=sep, strict=True)
        rows = list(reader)
    except csv.Error:
        return None
    while rows and len(rows[0]) < 2 and not "".join(rows[0]).strip():
        rows.pop(0)
    # An empty line is no row, but where there is one column: there it is an empty cell.
    rows = [r or [""] for r in rows if r or len(rows[0]) == 1]
    if len(rows) < 2 or not any(rows[0]) or any(len(r) != len(rows[0]) for r in rows):
        return None
    names = [unguarded(n.strip()) or f"column {i}" for i, n in enumerate(rows.pop(0), 1)]
    rows = [[unguarded(c) for c in row] for row in rows]
    if len(names) == 1 and any(s in names[0] for s in ",;\t|" if s != sep):
        return None
    return None if len(set(names)) < len(names) else (names, rows)


def unguarded(text):
    """Without the ``'`` that keeps a spreadsheet from running it."""
    rest = text.lstrip("'")
    blanks = "\u200b\u2060\ufeff" + string.whitespace
    formula = rest.lstrip(blanks).startswith(tuple("=+-@＝＋－＠"))
    begins = rest.startswith(("\t", "\r", "\n", "\ufeff"))
    return text[1:] if text.startswith("'") and (formula or begins) else text


def number(text):
    """A cell as a number: NaN where it says that nothing is there, None where it is no number."""
    text = text.strip()
    if text in MISSING or re.fullmatch(r"[+-]?nan", text, re.IGNORECASE):
        return math.nan
    if re.fullmatch(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)", text, re.I | re.A):
        return float(text)
    return None


def check_cells(found, names, rows, text):
    """Whether the frame holds these cells: as text, or as the numbers they are."""
    assert found.columns.tolist() == names
    assert len(found) == len(rows)
    for i, name in enumerate(names):
        cells, series = [row[i] for row in rows], found[name]
        if series.dtype.kind in "iuf" and not text:
            for cell, value in zip(cells, series, strict=True):
                right = number(cell)
                assert right is not None, (name, cell, value)
                assert value == right or (math.isnan(value) and math.isnan(right)), (cell, value)
        else:
            assert [v or "" for v in series] == cells, name


def tried(call, *arguments, **options):
    """What a call gives, and the text of its ``ValueError``: one of them is None."""
    try:
        return call(*arguments, **options), None
    except ValueError as error:
        return None, str(error)


def check_encoder(chance, frame, tally):
    """Fit, encode, save and load: finite, the same for each row alone, or an error with a name."""
    encoder, error = tried(lambda: TableEncoder(infer_schema(frame)).fit(frame))
    if encoder is None:
        assert NAMED.search(error), error
        tally["no model"] += 1
        return
    x = encoder.transform(frame)
    assert x.shape == (len(frame), len(encoder.names_))
    assert np.isfinite(x).all()
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert np.array_equal(again.transform(frame), x)
    for i in range(0, len(frame), max(1, len(frame) // 4)):
        assert np.array_equal(encoder.transform(frame.iloc[[i]]), x[[i]]), i
    order = np.random.RandomState(0).permutation(len(frame))
    assert np.array_equal(encoder.transform(frame.iloc[order]), x[order])
    name = chance.choice(encoder.columns_).name
    new, error = tried(encoder.transform, frame.assign(**{name: some_values(chance, len(frame))}))
    assert np.isfinite(new).all() if error is None else f"column {name!r}" in error, error
    for column in encoder.columns_:
        values = frame[column.name]
        if column.kind == "number" and values.dtype.kind not in "iufbm":
            at = encoder.names_.index(column.name)
            for i, cell in enumerate(values):
                right = number(cell) if isinstance(cell, str) else None
                if right is not None and not math.isnan(right):
                    assert x[i, at] == right
    tally["encoded"] += 1


# --- one case -------------------------------------------------------------------------------------


def text_case(chance, folder, tally):
    names, columns = some_table(chance)
    kind = chance.choice([".csv", ".tsv", ".txt"])
    sep = "\t" if kind == ".tsv" else ","
    data = rendered(chance, names, columns, sep).encode()
    options = {}
    if chance.random() < 0.1:
        sep = options["sep"] = chance.choice([";", "|", ":"])
        data = rendered(chance, names, columns, sep).encode()
    if chance.random() < 0.1:
        data = codecs.BOM_UTF8 + data
    broken = chance.random() < 0.6
    if broken:
        data = mutated(chance, data)
    expected = oracle(data, sep)
    if chance.random() < 0.1:
        encoding = chance.choice(
            ["utf-16", "utf-32", "utf-16-le", "utf-8-sig", "cp1252", "latin-1"]
        )
        try:
            data = data.decode().encode(encoding)
        except UnicodeError:
            pass
        else:
            options["encoding"] = encoding
    path = folder / f"fuzz{kind}"
    path.write_bytes(data)
    text = list(expected[0]) if expected and chance.random() < 0.5 else []
    found, error = tried(read_table, path, text=text, **options)
    if found is None:
        assert path.name in error, error
        infinite = expected and any(
            number(c) in (math.inf, -math.inf) for r in expected[1] for c in r
        )
        begins = data.startswith((b"PAR1", b"ARROW1", b"PK\3\4", b"\x1f\x8b", b"%PDF"))
        assert expected is None or infinite or begins, error
        tally["refused"] += 1
        return
    assert expected is not None, found
    check_cells(found, *expected, bool(text))
    tally["read"] += 1
    check_encoder(chance, found, tally)
    round_trip(chance, folder, found, tally)


def round_trip(chance, folder, frame, tally):
    """Written and read again, a table is the same."""
    if len(frame.columns) == 1 and set(frame.columns[0]) & set(",;\t|"):
        return  # in text, its only name is a sign of another separator
    path = folder / f"again{chance.choice(['.csv', '.tsv', '.parquet', '.feather'])}"
    path.unlink(missing_ok=True)
    write_table(frame, path)
    kept = [c for c in frame if frame[c].dtype.kind == "O"]
    found = read_table(path, text=kept)
    assert found.columns.tolist() == frame.columns.tolist()
    for name in frame:
        a, b = frame[name].tolist(), found[name].tolist()
        assert [None if pd.isna(v) else v for v in a] == [None if pd.isna(v) else v for v in b], (
            name
        )
    tally["written"] += 1


def typed_values(chance, rows):
    """A column of Python values for an Arrow file, and its type (None: Arrow may choose)."""

    def pick(make):
        return [None if chance.random() < 0.1 else make() for _ in range(rows)]

    day = datetime.datetime(2020, 1, 1)
    makers = [
        (lambda: chance.randrange(-(2**63), 2**63), pa.int64()),
        (lambda: chance.randrange(2**64), pa.uint64()),
        (lambda: chance.randrange(4), pa.int8()),
        (lambda: chance.gauss(0, 1), pa.float64()),
        (lambda: chance.choice([math.nan, 1.5, -0.0, 1e308, 5e-324]), pa.float64()),
        (lambda: chance.choice([math.inf, 1.0]), pa.float32()),
        (lambda: chance.random() < 0.5, pa.bool_()),
        (lambda: chance.choice([*WORDS, *FORMULAS, *QUOTES, *ODD]), pa.string()),
        (lambda: chance.choice([*NUMBERS, "5", "6", "7"]), pa.large_string()),
        (lambda: chance.choice(["a", "b", "50", "50.0"]), pa.dictionary(pa.int32(), pa.string())),
        (lambda: decimal.Decimal(chance.randrange(10**6)).scaleb(-2), pa.decimal128(12, 2)),
        (lambda: datetime.date(2020, 1, 1 + chance.randrange(30)), pa.date32()),
        (lambda: day + datetime.timedelta(seconds=chance.randrange(10**9)), pa.timestamp("us")),
        (lambda: day + datetime.timedelta(chance.randrange(999)), pa.timestamp("ms", "Asia/Tokyo")),
        (lambda: datetime.date(chance.choice([1, 1600, 9999]), 1, 1), pa.date64()),
        (lambda: datetime.time(chance.randrange(24)), pa.time32("s")),
        (lambda: datetime.timedelta(chance.randrange(-9, 9)), pa.duration("s")),
        (lambda: b"x", pa.binary()),
        (lambda: [1, 2], pa.list_(pa.int64())),
        (lambda: {"a": 1}, pa.struct([("a", pa.int64())])),
        (lambda: None, pa.null()),
    ]
    make, kind = chance.choice(makers)
    return pa.array(pick(make), kind)


def columnar_case(chance, folder, tally):
    rows = chance.choice([0, 1, 3, 40])
    names = some_names(chance, chance.choice([1, 2, 4]))
    table = pa.Table.from_arrays([typed_values(chance, rows) for _ in names], names=names)
    path = folder / f"fuzz{chance.choice(['.parquet', '.arrow'])}"
    path.unlink(missing_ok=True)
    (parquet.write_table if path.suffix == ".parquet" else feather.write_feather)(table, path)
    broken = chance.random() < 0.4
    if broken:
        path.write_bytes(mutated(chance, path.read_bytes()))
    found, error = tried(read_table, path, limit=2**27)
    if found is None:
        assert path.name in error, error
        tally["refused"] += 1
        return
    tally["read"] += 1
    if not broken:
        assert found.columns.tolist() == names
        for name in names:
            for a, b in zip(found[name], table[name].to_pylist(), strict=True):
                assert (b is None or b != b) == bool(pd.isna(a))  # noqa: PLR0124
                if isinstance(b, str | bool) or (isinstance(b, float) and b == b):  # noqa: PLR0124
                    assert a == b
    check_encoder(chance, found, tally)


def some_values(chance, rows):
    """A column of a data frame that holds anything."""
    values = [None, math.nan, 1, -1.5, True, "x", "5", "", 2**70, 10**400, 1j, b"x", [1], {"a": 1}]
    values += [
        decimal.Decimal("1.5"),
        decimal.Decimal("NaN"),
        decimal.Decimal("1e999"),
        pd.NA,
        pd.NaT,
    ]
    values += [
        datetime.date(2024, 1, 1),
        datetime.datetime(2024, 1, 1),
        np.float32(0.1),
        np.int8(3),
    ]
    values += [
        datetime.timedelta(1),
        pd.Timestamp("2024-01-01", tz="UTC"),
        np.datetime64("2024-01-01"),
    ]
    some = chance.sample(values, chance.choice([1, 1, 2, 3]))
    series = pd.Series([chance.choice(some) for _ in range(rows)], dtype=object)
    if chance.random() < 0.3:
        with contextlib.suppress(OverflowError):  # of pandas 2.2, for huge numbers
            series = series.infer_objects()
    if chance.random() < 0.1 and not any(isinstance(v, list | dict) for v in some):
        series = series.astype(str).astype("category")
    return series


def frame_case(chance, folder, tally):
    """Objects of any kind in a data frame: nothing but errors that name the column."""
    rows = chance.choice([1, 2, 30, 60])
    columns = {}
    for i in range(chance.choice([1, 2, 4])):
        columns[chance.choice([i, f"c{i}", f"=c{i}"])] = some_values(chance, rows)
    frame = pd.DataFrame(columns)
    frame.columns = frame.columns.astype(str)
    tally["read"] += 1
    check_encoder(chance, frame, tally)


def case(at, folder, tally):
    chance = random.Random(at)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        [text_case, text_case, text_case, columnar_case, frame_case][at % 5](chance, folder, tally)


def run(numbers, folder, capsys):
    tally = collections.Counter()
    for at in numbers:
        try:
            case(at, folder, tally)
        except Exception as error:
            raise AssertionError(f"case({at}): {type(error).__name__}: {error}") from error
    with capsys.disabled():
        print(f"\n{len(numbers)} hostile tables: {dict(tally)}", end=" ")
    for outcome, share in (("refused", 0.1), ("read", 0.3), ("encoded", 0.1), ("written", 0.1)):
        assert tally[outcome] > share * len(numbers)  # all of it was tried


def test_hostile_tables(tmp_path, capsys):
    run(range(COUNT), tmp_path, capsys)


@pytest.mark.slow
def test_ten_thousand_hostile_tables(tmp_path, capsys):
    run(range(COUNT, COUNT + SLOW), tmp_path, capsys)
