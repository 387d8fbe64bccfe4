"""Parquet and Arrow: wide tables, types that are no cells, more rows than there is memory."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from softset.tables.encoder import TableEncoder, infer_schema
from softset.tables.files import read_table, write_table


@pytest.mark.parametrize("width", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_many_thousand_columns(tmp_path, width):  # 12
    values = np.random.default_rng(0).random((4, width))
    path = tmp_path / "wide.parquet"
    frame = pd.DataFrame(values, columns=[f"c{i}" for i in range(width)])
    parquet.write_table(pa.Table.from_pandas(frame), path)
    found = read_table(path)
    schema = infer_schema(found)
    assert np.array_equal(TableEncoder(schema).fit_transform(found), values)


TROUBLE = [
    (pa.array([[1]]), "is nested"),
    (pa.array([{"a": 1}]), "is nested"),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "is nested"),
    (pa.array([b"x"]), "raw bytes"),
    (pa.array([b"xy"], pa.binary(2)), "raw bytes"),
    (pa.array([b"x"], pa.large_binary()), "raw bytes"),
    (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "neither numbers, text nor dates"),
]


@pytest.mark.parametrize(("values", "words"), TROUBLE)
def test_types_that_are_no_cells_are_refused_by_name(tmp_path, values, words):
    path = tmp_path / "a.arrow"
    feather.write_feather(pa.table({"ok": [1], "bad": values}), path)
    with pytest.raises(ValueError, match=rf"a\.arrow: column 'bad' .*{words}"):
        read_table(path)


PLAIN = {
    "null": pa.nulls(2),
    "bool": pa.array([True, None]),
    "uint64": pa.array([2**64 - 1, 1], pa.uint64()),
    "half": pa.array(np.array([1.5, 2], dtype=np.float16)),
    "decimal": pa.array([decimal.Decimal("1.5"), None]),
    "text": pa.array(["é", None], pa.large_string()),
    "view": pa.array(["x", None], pa.string_view()),
    "words": pa.array(["x", None]).dictionary_encode(),
    "day": pa.array([datetime.date(9999, 12, 31), None]),
    "time": pa.array([datetime.time(1, 2), None]),
    "stamp": pa.array([datetime.datetime(1, 1, 1), None], pa.timestamp("us", "Europe/Rome")),
    "span": pa.array([datetime.timedelta(days=-1), None]),
}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.filterwarnings("ignore:column 'a':UserWarning")
def test_types_that_are_cells_are_read_and_described(tmp_path, kind):
    path = tmp_path / "a.arrow"
    feather.write_feather(pa.table({"a": PLAIN[kind]}), path)
    found = read_table(path)
    infer_schema(found)
    if kind not in ("null", "half", "uint64"):
        assert pd.isna(found["a"][1])
        assert str(found["a"][0])[:3] == str(PLAIN[kind][0].as_py())[:3]


def test_rows_that_are_stored_once_count_as_often_as_they_are_there(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": np.zeros(3_000_000, dtype=np.int8)}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match="holds 3 MB of data"):
        read_table(path, limit=2**20)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_what_these_files_cannot_hold_is_an_error_with_a_way_out(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    for bad in ([1, "x"], [1j, 2j], ["\ud800", "x"]):
        with pytest.raises(ValueError, match=r"cannot be written as \w+ .* Write it as .csv"):
            write_table(pd.DataFrame({"a": pd.Series(bad, dtype=object)}), path)
    assert not list(tmp_path.iterdir())
