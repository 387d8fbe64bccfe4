"""Rows of Parquet files, block by block."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from softset import ParquetRows
from softset.tables import parquet_rows
from softset.tables.files import read_table
from softset.tables.parquet_rows import is_beyond_memory


@pytest.fixture
def frame():
    g = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": np.arange(100) // 2 / 10,  # every row twice, but for the weight
            "city": np.repeat(g.choice(["Rome", "Oslo"], 50), 2),
            "y": np.repeat(g.choice(["no", "yes"], 50), 2),
            "w": np.arange(1.0, 101.0),
        }
    )


@pytest.fixture
def folder(frame, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_rows, "_ROWS", 16)
    frame[:60].to_parquet(tmp_path / "1.parquet", row_group_size=25)
    frame[60:].to_parquet(tmp_path / "2.pq")
    (tmp_path / "notes.txt").write_text("not a table")
    return tmp_path


def test_blocks_are_the_rows_in_order_again_and_again(folder, frame):
    rows = ParquetRows(folder, "y", sample_weight="w")
    assert (rows.rows, rows.columns, rows.target) == (100, ["a", "city"], ["y"])
    for _ in range(2):
        blocks = list(rows)
        assert [len(w) for _, _, w in blocks] == [16, 9, 16, 9, 10, 16, 16, 8]
        found = pd.concat([X.assign(y=y, w=w) for X, y, w in blocks], ignore_index=True)
        pd.testing.assert_frame_equal(found, frame)


def test_a_row_of_weight_zero_is_no_row(folder, frame):
    """Even without a label."""
    used = frame["w"] % 3 > 0
    frame.assign(w=frame["w"].where(used, 0), y=frame["y"].where(used, None)).to_parquet(
        folder / "1.parquet"
    )
    X, y, w = ParquetRows(folder / "1.parquet", "y", sample_weight="w").table()
    expected = frame[used].reset_index(drop=True)
    pd.testing.assert_frame_equal(X.assign(y=y, w=w), expected)


def test_another_order_of_row_groups_for_each_seed(folder):
    rows = ParquetRows(folder, "y", drop=["city"])
    orders = {tuple(np.concatenate([X["w"] for X, _ in rows.shuffled(s)])) for s in range(20)}
    assert len(orders) > 10
    assert all(sorted(order) == list(range(1, 101)) for order in orders)
    again = [np.concatenate([X["w"] for X, _ in rows.shuffled(7)]) for _ in range(2)]
    assert (again[0] == again[1]).all()


def test_a_split_keeps_equal_rows_together(folder):
    rows = ParquetRows(folder, "y", sample_weight="w")
    train, test = rows.split(0.3)
    a, b = train.table()[0], test.table()[0]
    assert len(a) + len(b) == 100
    assert 10 <= len(b) <= 50
    assert not set(a["a"]) & set(b["a"])
    assert train.fingerprint() != test.fingerprint() != rows.fingerprint()
    assert train.rows == 70
    other = rows.split(0.3, random_state=1)[1]
    assert set(other.table()[0]["a"]) != set(b["a"])
    assert other.fingerprint() != test.fingerprint()


def test_a_split_of_rows_that_repeat_is_of_rows(tmp_path):
    kind = np.random.default_rng(0).integers(0, 4, 1000)
    frame = pd.DataFrame({"a": kind, "b": np.where(kind > 1, "x", "y"), "y": np.arange(1000)})
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=150)
    train, test = ParquetRows(tmp_path, "y").split(0.2)
    (_, left), (b, right) = train.table(), test.table()
    assert set(right) != set(ParquetRows(tmp_path, "y").split(0.2, 1)[1].table()[1])
    assert sorted([*left, *right]) == list(range(1000))
    assert 150 < len(b) < 250
    assert all(20 < n < 80 for n in np.bincount(b["a"], minlength=4))
    assert sorted(np.concatenate([y for _, y in train.shuffled(3)])) == sorted(left)


def test_a_split_of_rows_that_repeat_does_not_count_rows_of_weight_zero(tmp_path, monkeypatch):
    """Nor does what tells that they repeat; blocks and sample are smaller than a row group."""
    monkeypatch.setattr(parquet_rows, "_ROWS", 16)
    monkeypatch.setattr(parquet_rows, "_SAMPLE", 50)
    g = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": g.integers(0, 4, 300), "y": np.arange(300), "w": g.integers(0, 3, 300)}
    )
    found = []
    for table in (frame, frame[frame["w"] > 0]):
        with parquet.ParquetWriter(tmp_path / "rows.parquet", pa.Schema.from_pandas(frame)) as file:
            for part in (table[table["y"] < 120], table[table["y"] >= 120]):  # a row group each
                file.write_table(pa.Table.from_pandas(part, preserve_index=False))
        rows = ParquetRows(tmp_path, "y", sample_weight="w")
        found.append([rows._sampled_codes(), *(side.table()[1] for side in rows.split(0.3))])
    for whole, without in zip(*found, strict=True):
        assert whole.tolist() == without.tolist()


def test_several_targets_and_none(folder, frame):
    frame.assign(y=0, z=frame["a"] > 2).to_parquet(folder / "labels.parquet")
    X, y = ParquetRows(folder / "labels.parquet", ["y", "z"]).table()
    assert X.columns.tolist() == ["a", "city", "w"]
    assert y[:, 1].tolist() == (frame["a"] > 2).astype(int).tolist()
    _, y = next(iter(ParquetRows(folder / "1.parquet")))
    assert y.shape == (16, 0)


def test_what_it_is_known_by(folder, frame):
    before = ParquetRows(folder, "y").fingerprint()
    assert before == ParquetRows(folder, "y").fingerprint()
    assert before != ParquetRows(folder, "city").fingerprint()
    frame[60:].assign(a=0.5).to_parquet(folder / "2.pq")
    assert before != ParquetRows(folder, "y").fingerprint()


def test_what_cannot_be_read_is_refused(folder, frame, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        ParquetRows(folder / "absent.parquet", "y")
    with pytest.raises(ValueError, match=r"ends in .parquet"):
        ParquetRows(folder / "notes.txt", "y")
    with pytest.raises(ValueError, match=r"no column 'yy'. Did you mean 'y'"):
        ParquetRows(folder, "yy")
    with pytest.raises(ValueError, match="no column but 'y', 'w'"):
        ParquetRows(folder, "y", sample_weight="w", drop=["a", "city"])
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no file"):
        ParquetRows(folder / "empty", "y")
    (folder / "3.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"3.parquet is damaged"):
        ParquetRows(folder, "y")
    frame.drop(columns="city").to_parquet(folder / "3.parquet")
    with pytest.raises(ValueError, match=r"3.parquet has no column 'city', which 1.parquet has"):
        ParquetRows(folder, "y")
    frame.astype({"a": str}).to_parquet(folder / "3.parquet")
    with pytest.raises(ValueError, match=r"column 'a' is double in 1.parquet and"):
        ParquetRows(folder, "y")
    parquet.write_table(pa.table({"y": [[1], [2]]}), folder / "3.parquet")
    with pytest.raises(ValueError, match="nested"):
        ParquetRows(folder / "3.parquet", "y")


def test_a_missing_label_is_refused_with_its_row(folder, frame):
    frame.loc[29, "y"] = None
    frame.to_parquet(folder / "1.parquet", row_group_size=25)
    with pytest.raises(ValueError, match="column 'y' is missing in row 30"):
        list(ParquetRows(folder / "1.parquet", "y"))


def test_what_is_beyond_memory(folder, monkeypatch):
    assert is_beyond_memory(folder)
    assert not is_beyond_memory(folder / "1.parquet")
    assert not is_beyond_memory(folder / "notes.txt")
    monkeypatch.setenv("SOFTSET_LIMIT", "0.0001")
    assert is_beyond_memory(folder / "1.parquet")


def test_files_of_rows_that_repeat_are_split_each_in_its_own_way(tmp_path):
    """By where a row stands: the rows of two files, equal in all they hold, are not in step."""
    for k in range(2):
        frame = pd.DataFrame({"a": np.arange(200) % 4, "number": np.arange(200) + 200 * k})
        frame.to_parquet(tmp_path / f"{k}.parquet", row_group_size=100)
    train, held = ParquetRows(tmp_path, "number").split(0.3)
    numbers = held.table()[1]
    assert sorted([*numbers, *train.table()[1]]) == list(range(400))
    assert 90 < len(numbers) < 150
    first, second = (set(numbers[numbers // 200 == k] % 200) for k in range(2))
    assert 40 < len(first) < 80
    assert 5 < len(first & second) < 35


def test_a_file_that_is_swapped_while_it_is_read_is_refused(folder, frame):  # D25
    rows = ParquetRows(folder / "1.parquet", "y")
    blocks = iter(rows)
    next(blocks)
    frame.sample(frac=1, random_state=0).to_parquet(folder / "new", row_group_size=25)
    (folder / "new").replace(folder / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet was changed or replaced while it was read"):
        list(blocks)
    with pytest.raises(ValueError, match="was changed or replaced"):
        list(rows)


def test_a_dictionary_is_counted_by_its_unpacked_size(tmp_path, monkeypatch):  # D23
    file = tmp_path / "packed.parquet"
    pd.DataFrame({"x": ["a long text that repeats " * 40] * 20_000}).to_parquet(file)
    assert file.stat().st_size < 20_000
    assert ParquetRows(file).size > 20_000 * 1000
    monkeypatch.setenv("SOFTSET_LIMIT", "10")
    with pytest.raises(ValueError, match="19 MB of data, more than the limit of 10 MB"):
        read_table(file)


def test_rows_are_numbered_as_in_the_file(folder, frame):  # D20
    blocks = [X for X, _ in ParquetRows(folder / "1.parquet", "y")]
    assert [i for X in blocks for i in X.index] == list(range(60))


def test_folders_of_partitions_are_columns(tmp_path):
    """As Hive and Spark write them: integers if all are, text otherwise, escaped, or missing."""
    for day, city in ((10, "Rome"), (9, "New%20York"), (9, "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / f"day={day}" / f"city={city}"
        folder.mkdir(parents=True)
        pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}).to_parquet(folder / "part.parquet")
    (tmp_path / "_delta_log").mkdir()
    rows = ParquetRows(tmp_path, "y", drop=["x"])
    assert (rows.rows, rows.columns) == (6, ["day", "city"])
    X, _ = rows.table()
    assert X["day"].tolist() == [10, 10, 9, 9, 9, 9]
    assert X["city"].tolist()[::2] == ["Rome", "New York", None]
    assert ParquetRows(tmp_path, "y", drop=["day", "city"]).table()[0].columns.tolist() == ["x"]
    inner = ParquetRows(tmp_path / "day=9", "y")
    assert (inner.rows, inner.columns) == (4, ["x", "city"])


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("old", "xy", "has a folder 'old'"),
        ("x=1", "xy", "'x' is a column of"),
        ("day=1", "xy", "of no key, and part.parquet of 'day'"),
    ],
)
def test_folders_that_cannot_be_read_are_named(tmp_path, name, columns, message):
    (tmp_path / name).mkdir()
    frame = pd.DataFrame({c: [0, 1] for c in columns})
    frame.to_parquet(tmp_path / name / "part.parquet")
    if "no key" in message:
        frame.to_parquet(tmp_path / "z.parquet")
    with pytest.raises(ValueError, match=message):
        ParquetRows(tmp_path, "y")


def test_shards_are_all_rows_once(folder, frame):
    rows = ParquetRows(folder, "y", sample_weight="w")
    shards = [rows.shard(3, i) for i in range(3)]
    weights = np.concatenate([shard.table()[2] for shard in shards])
    assert sorted(weights) == frame["w"].tolist()
    assert [shard.rows for shard in shards] == [65, 25, 10]
    assert len(ParquetRows(folder, "y").shard(9, 8).table()[0]) == 0
    with pytest.raises(ValueError, match="index"):
        rows.shard(3, 3)
