"""Users' files: every case of "Data" that can be told when the file is read."""

import gzip
import io
import os
import sys
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from softset.tables import files
from softset.tables.files import FORMATS, read_table, write_table

GOOD = "age,city,label\n31,Rome,yes\n45,Oslo,no\n28,Rome,no\n"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# (number, file name, content, words of the error)
REFUSED = [
    (1, "a.csv", b"", ["a.csv", "empty"]),
    (1, "a.csv", b"\n  \n\n", ["a.csv", "empty"]),
    (1, "a.parquet", b"", ["a.parquet", "empty"]),
    (2, "a.csv", "age,city\n", ["a.csv", "0 rows"]),
    (2, "a.csv", "age,city", ["a.csv", "0 rows"]),
    (3, "a.csv", "a,b\n1,2\n3,4,5\n6,7\n", ["a.csv", "line 3", "too long", "3 field", "has 2"]),
    (3, "a.csv", 'a,b\n1,"x\ny"\n3,4,5\n6,7\n', ["line 4", "too long"]),
    (3, "a.csv", "a,b\r\n1,2\r\n\r\n3,4,5\r\n6,7\r\n", ["line 4", "too long"]),
    (4, "a.csv", "a,b\n1,2\n3\n6,7\n", ["a.csv", "line 3", "too short", "1 field", "has 2"]),
    (4, "a.csv", "a,b;y\n1;2\n6;7\n", ["a.csv", "line 2", "too short", "Try --sep ';'"]),
    (5, "a.csv", "a,b\n1,2,3\n4,5,6\n", ["a.csv", "every row has 3", "names 2"]),
    (6, "a.csv", "a;b\n1;2\n", ["a.csv", "one column", "--sep ';'"]),
    (6, "a.csv", "a\tb\n1\t2\n", ["a.csv", "one column", "--sep tab"]),
    (7, "a.csv", "a,b\n1,é\n".encode("latin-1"), ["not UTF-8", "line 2", "0xe9", "--encoding"]),
    (7, "a.csv", "a,b\n1,é\n".encode("utf-16"), ["a.csv", "not UTF-8", "--encoding"]),
    (7, "a.csv", "a,b\n1,é\n".encode("utf-16-le"), ["a.csv", "not UTF-8", "--encoding"]),
    (9, "a.csv", "a,b,a\n1,2,3\n", ["a.csv", "'a'", "more than once"]),
    (9, "a.csv", "1,2,1\n1,2,3\n", ["more than once", "line of column names missing"]),
    (10, "a.csv", 'a,b\n1,2\n3,"4\n5,6\n', ["a.csv", "line 3", "quote", "never closed"]),
    (10, "a.csv", 'a,b\n1,"2\n3,"4\n5,6\n', ["a.csv", "line 2", "quote"]),
    (11, "a.csv", "a,b\n1,2\n3,\0\n", ["a.csv", "NUL", "line 3"]),
    (12, "a.csv", "a,b\n1,inf\n3,2\n4,-inf\n", ["a.csv", "'b'", "2 infinite", "row 1"]),
    (12, "a.csv", "a,b\n1,1\n3,1e400\n", ["a.csv", "'b'", "1 infinite", "row 2"]),
    (19, "a.parquet", GOOD, ["a.parquet", "no Parquet", "CSV"]),
    (19, "a.arrow", GOOD, ["a.arrow", "no Arrow", "CSV"]),
    (19, "a.csv.gz", GOOD, ["a.csv.gz", "gzip"]),
    (19, "a.csv", gzip.compress(GOOD.encode()), ["a.csv", "gzip", "ending"]),
    (19, "a.xlsx", b"PK\x03\x04", ["a.xlsx", "damaged or no Excel", "CSV"]),
    (19, "a.xlsx", GOOD, ["a.xlsx", "no Excel", "CSV"]),
    (19, "a.ods", GOOD, ["a.ods", "'.ods'", ".csv"]),
]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [pytest.param(*row[1:], id=f"{row[0]}-{i}") for i, row in enumerate(REFUSED)],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path, name, content, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_table(write(tmp_path / name, content))
    missing = [w for w in words if w not in str(error.value)]
    assert not missing, str(error.value)


# (number, file name, content, options, column, values)
ACCEPTED = [
    (8, "a.csv", b"\xef\xbb\xbfa,b\n1,x\n", {}, "a", [1]),
    (8, "a.csv", "a,b\n1,é\n".encode("utf-16"), {"encoding": "utf-16"}, "b", ["é"]),
    (7, "a.csv", "a,b\n1,é\n".encode("latin-1"), {"encoding": "latin-1"}, "b", ["é"]),
    (6, "a.csv", "a;b\n1;2\n", {"sep": ";"}, "b", [2]),
    (6, "a.tsv", "a\tb\n1\t2,5\n", {}, "b", ["2,5"]),
    (14, "a.csv", "a;b\n1;2,5\n", {"sep": ";", "decimal": ","}, "b", [2.5]),
    (13, "a.csv", "a,b\n1,2\n?,3\nNA,4\n,5\n", {}, "a", [1.0, np.nan, np.nan, np.nan]),
    (13, "a.csv", "a,b\nx,2\nNA,3\n,4\n", {}, "a", ["x", "NA", None]),
    (22, "a.csv", "a\n" + "1\n" * 300_000 + "x\n", {}, "a", ["1"] * 300_000 + ["x"]),
    (22, "a.csv", "a\n" + "1\n" * 300_000 + "2.5\n", {}, "a", [1.0] * 300_000 + [2.5]),
    (
        24,
        "a.csv",
        'l,b\nNA,1\nNone,2\n"",3\nx,4\n',
        {"labels": ["l"]},
        "l",
        ["NA", "None", "", "x"],
    ),
    (25, "a.csv", "l,b\n01,1\n1,2\n", {"labels": ["l"]}, "l", ["01", "1"]),
    (25, "a.csv", "zip,b\n01234,1\n91234,2\n", {}, "zip", ["01234", "91234"]),
    (30, "a.csv", "l,b\nx,1\n,2\n", {"labels": ["l"]}, "l", ["x", None]),
    (32, "a.csv", "l,b\n-1,1\n1,2\n", {"labels": ["l"]}, "l", [-1, 1]),
    (32, "a.csv", "l,b\n0.5,1\n1.0,2\n", {"labels": ["l"]}, "l", [0.5, 1.0]),
    (32, "a.csv", "l,b\n1.50,1\n1.5,2\n", {"labels": ["l"]}, "l", ["1.50", "1.5"]),
    (0, "a.csv", '"a, b",c\n"x, ""y""",2\n', {}, "a, b", ['x, "y"']),
    (0, "a.csv", "a,b\r1,x\r2,y\r", {}, "a", [1, 2]),
    (0, "a.csv", ",b\n1,x\n2,y\n", {}, "column 1", [1, 2]),
    (0, "a.csv", "a,b\n0x10,1\n", {}, "a", ["0x10"]),
    (0, "a.csv", "a,b\n9007199254740993,1\n", {}, "a", [9007199254740993]),
    (0, "a.csv", "a,b\n1,2\n", {"text": ["a"], "drop": ["b"]}, "a", ["1"]),
    (0, "a", "a,b\n1,2\n", {}, "a", [1]),
]


@pytest.mark.parametrize(
    ("name", "content", "options", "column", "values"),
    [pytest.param(*row[1:], id=f"{row[0]}-{i}") for i, row in enumerate(ACCEPTED)],
)
def test_a_readable_file_is_read_as_it_is(tmp_path, name, content, options, column, values):
    found = read_table(write(tmp_path / name, content), **options)[column].tolist()
    assert len(found) == len(values)
    same = [a == b or (a != a and b != b) for a, b in zip(found, values, strict=True)]  # noqa: PLR0124
    assert all(same)
    assert type(found[0]) is type(values[0])


TABLE = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.5, None, 2.5]})


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather", "stream", "csv", "tsv", "csv.gz"])
def test_all_formats_give_the_same_table(tmp_path, kind):
    path = tmp_path / f"a.{'arrow' if kind == 'stream' else kind}"
    frame = TABLE.to_pandas()
    if kind == "parquet":
        parquet.write_table(TABLE, path)
    elif kind == "stream":
        with ipc.new_stream(path, TABLE.schema) as stream:
            stream.write_table(TABLE)
    elif kind in ("arrow", "feather"):
        feather.write_feather(TABLE, path)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    found = read_table(path)
    assert found["a"].tolist() == [1, 2, 3]
    assert [None if pd.isna(v) else v for v in found["b"]] == ["x", None, "z"]
    np.testing.assert_array_equal(found["c"], [0.5, np.nan, 2.5])


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_truncated_or_nested_columns_are_refused(tmp_path, kind):  # 17, 18, 2, 12
    path = tmp_path / f"a.{kind}"
    save = parquet.write_table if kind == "parquet" else feather.write_feather
    save(TABLE, path)
    data = path.read_bytes()
    for part in (len(data) // 2, len(data) - 1):
        write(path, data[:part])
        with pytest.raises(ValueError, match=rf"a\.{kind} is damaged or not whole"):
            read_table(path)
    save(pa.table({"ok": [1], "deep": [[1, 2]]}), path)
    with pytest.raises(ValueError, match=r"'deep' is nested \(list<"):
        read_table(path)
    save(TABLE.slice(0, 0), path)
    with pytest.raises(ValueError, match="0 rows"):
        read_table(path)
    save(pa.table({"a": [1.0, float("inf")]}), path)
    with pytest.raises(ValueError, match="'a' has 1 infinite"):
        read_table(path)
    save(pa.table({"raw": [b"x"]}), path)
    with pytest.raises(ValueError, match="'raw' holds raw bytes"):
        read_table(path)


def test_a_pandas_index_is_not_a_column(tmp_path):
    TABLE.to_pandas().iloc[[2, 0]].to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").columns.tolist() == ["a", "b", "c"]


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):  # 20
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 500_000))
    with pytest.raises(ValueError, match=r"bomb\.csv\.gz holds more data than .* 1 MB"):
        read_table(path, limit=2**20)
    monkeypatch.setattr("softset.tables.files._BOMB_BYTES", 2**20)
    with pytest.raises(ValueError, match="unpacks to more than 200 times its size"):
        read_table(path)
    path.write_bytes(path.read_bytes()[:-20])
    monkeypatch.undo()
    with pytest.raises(ValueError, match="damaged or no gzip"):
        read_table(path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_more_than_fits_into_memory_is_refused(tmp_path, monkeypatch, kind):  # 23
    path = tmp_path / f"big.{kind}"
    write_table(pd.DataFrame({"a": np.random.default_rng(0).random(200_000)}), path)
    monkeypatch.setenv("SOFTSET_LIMIT", "1")
    with pytest.raises(ValueError, match=r"big\.\w+ holds \d+ MB .* sample of the rows"):
        read_table(path)
    monkeypatch.setenv("SOFTSET_LIMIT", "x")
    with pytest.raises(ValueError, match="SOFTSET_LIMIT must be megabytes"):
        read_table(path)


def test_columns_and_files_that_do_not_exist_are_named(tmp_path):
    path = write(tmp_path / "a.csv", GOOD)
    with pytest.raises(ValueError, match=r"'lable'. Did you mean 'label'\? Its columns: 'a"):
        read_table(path, labels=["lable"])
    with pytest.raises(FileNotFoundError, match="no file"):
        read_table(tmp_path / "b.csv")
    with pytest.raises(ValueError, match="is a directory"):
        read_table(tmp_path)
    with pytest.raises(ValueError, match="encoding 'klingon'"):
        read_table(path, encoding="klingon")
    with pytest.raises(ValueError, match="sep must be one character"):
        read_table(path, sep="::")


CELLS = ["=1+1", "+x", "-x", "@x", "\tx", "a=b", ""]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow"])
def test_what_is_written_is_safe_and_read_again(tmp_path, kind):  # 74
    frame = pd.DataFrame({"=name": CELLS, "n": [-1, 2, 3, 4, 5, 6, 7], "p": [-0.5] * 7})
    path = tmp_path / f"a.{kind}"
    write_table(frame, path)
    pd.testing.assert_frame_equal(read_table(path).astype({"=name": str}), frame)
    if kind in ("csv", "tsv"):
        assert "'=name" in path.read_text()
        assert "'=1+1" in path.read_text()
        assert "-0.5" in path.read_text()
    with pytest.raises(ValueError, match="exists already"):
        write_table(frame, path)
    write_table(frame[:1], path, force=True)
    assert len(read_table(path)) == 1
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_format_is_one_row_of_the_table():  # 23
    assert [form.name for form in FORMATS] == ["CSV", "TSV", "Parquet", "Arrow", "Excel"]
    endings = [ending for form in FORMATS for ending in form.endings]
    assert len(endings) == len(set(endings))


def test_standard_input_and_streams_are_csv(monkeypatch):  # 23
    data = b"a,b\n1,x\n2,y\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read_table("-")["a"].tolist() == [1, 2]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(ValueError, match="standard input is empty"):
        read_table("-")
    assert read_table(io.BytesIO(data.replace(b",", b";")), sep=";")["b"].tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="the stream has no column 'c'"):
        read_table(io.BytesIO(data), drop=["c"])
    with pytest.raises(ValueError, match="must give bytes"):
        read_table(io.StringIO("a,b\n1,2\n"))
    with pytest.raises(ValueError, match="the stream is not text but a Parquet file"):
        read_table(io.BytesIO(b"PAR1...."))
    with pytest.raises(ValueError, match="the stream holds more data than the limit"):
        read_table(io.BytesIO(data), limit=5)


def test_a_pipe_is_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(b"a,b\n1,2\n" * 1 + b"3,4\n" * 9999))
    writer.start()
    assert len(read_table(path)) == 10_000
    writer.join()
    for name in ("pipe.parquet", "pipe.csv.gz"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(ValueError, match="is a device or pipe; only text"):
            read_table(tmp_path / name)
    with pytest.raises(ValueError, match="zero holds more data than the limit"):
        read_table("/dev/zero", limit=2**20)


def test_text_that_a_file_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv cannot be written: text holds '\\ud800'"):
        write_table(pd.DataFrame({"a": ["\ud800"]}, dtype=object), tmp_path / "a.csv")
    with pytest.raises(ValueError, match="column 'a' holds text with a NUL"):
        write_table(pd.DataFrame({"a": ["x\0"]}), tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(tmp_path):  # 57
    path = tmp_path / "a.parquet"
    write_table(pd.DataFrame({"a": [1]}), path)
    with pytest.raises(Exception, match=r"complex|int|mixed|convert"):
        write_table(pd.DataFrame({"a": [1j]}), path, force=True)
    assert read_table(path)["a"].tolist() == [1]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_new_format_may_begin_with_anything(monkeypatch, tmp_path):
    """One that exists nowhere: lines of JSON, which begin with anything."""
    lines = files.Format(
        "JSON lines", (".jsonl",), (), lambda path, _: pd.read_json(path, lines=True)
    )
    monkeypatch.setitem(files._BY_ENDING, ".jsonl", lines)
    path = write(tmp_path / "a.jsonl", '{"x": 1, "y": "a"}\n{"x": 2, "y": "b"}\n')
    assert read_table(path).to_dict("list") == {"x": [1, 2], "y": ["a", "b"]}
