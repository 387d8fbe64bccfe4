"""Rows that come block by block: what a stream is, its classes, its encoder."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from softset import ParquetRows
from softset.tables import TableEncoder, parquet_rows, streams
from softset.tables.encoder import UnseenWarning
from softset.tables.streams import ClassCounts, EncodedRows, blocks_of, is_stream


def test_what_is_a_stream():
    x = np.zeros((2, 3))
    assert is_stream([(x, [0, 1]), (x, [0, 1], [1.0, 2.0])])
    assert is_stream(iter([(x, [0, 1])]))  # refused when it is used
    for rows in (x, x.tolist(), [], pd.DataFrame(x), "text", 3, [(1, 2, 3, 4)], None):
        assert not is_stream(rows)


def test_what_is_no_block_is_refused():
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="gone through several times"):
        list(blocks_of(iter([(x, [0, 1])])))
    with pytest.raises(ValueError, match=r"blocks \(X, y\)"):
        list(blocks_of([x]))
    with pytest.raises(ValueError, match="2 rows of inputs and 1 labels"):
        list(blocks_of([(x, [0])]))


def test_classes_of_blocks_are_those_of_all_rows():
    counts = ClassCounts()
    counts.add(np.array(["b", "a"]), np.array([1.0, 2.0]))
    counts.add(np.array(["a", "c"]), np.array([4.0, 1.0]))
    assert counts.labels().classes.tolist() == ["a", "b", "c"]
    assert counts.factors(counts.labels(), {"b": 3}).tolist() == [1, 3, 1]
    balanced = counts.factors(counts.labels(), "balanced")
    assert balanced.tolist() == pytest.approx([8 / 18, 8 / 3, 8 / 3])
    of_labels = ClassCounts()
    y, w = np.array([[1, 0], [1, 1], [0, 0], [0, 0], [1, 0]]), np.arange(1.0, 6.0)
    of_labels.add(y[:2], w[:2])
    of_labels.add(y[2:], w[2:])
    labels = of_labels.labels()
    for given in ("balanced", [{1: 3.0}, {0: 2.0}], None):
        by_row = labels.row_factors(of_labels.factors(labels, given), y)
        assert by_row.tolist() == pytest.approx(labels.factors(given, y, w).tolist())
    with pytest.raises(ValueError, match="text or numbers, not both"):
        counts.add(np.array(["a", None], dtype=object), np.ones(2))


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_rows, "_ROWS", 50)
    g = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": g.normal(size=400), "city": g.choice(["Rome", "Oslo"], 400), "one": 1.0}
    )
    frame.loc[[120, 350], "x"] = None
    frame.loc[390, "city"] = "Bonn"
    frame["y"] = np.where(frame["x"] > 0, "a", "b")
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, row_group_size=100)
    return path, frame


def quiet(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def test_all_rows_in_the_sample_make_the_encoder_of_the_table(file):
    path, frame = file
    encoded = quiet(lambda: EncodedRows(ParquetRows(path, "y")))
    whole = quiet(lambda: TableEncoder().fit(frame.drop(columns="y")))
    assert encoded.encoder.state() == whole.state()
    x = np.concatenate([x for x, _ in encoded])
    assert (x == whole.transform(frame.drop(columns="y"))).all()


def test_a_sample_knows_of_missing_values_everywhere(file, monkeypatch):
    path, _ = file
    monkeypatch.setattr(streams, "SAMPLE", 60)
    with pytest.warns(UserWarning, match="is constant"):
        encoded = EncodedRows(ParquetRows(path, "y"), pos_label="a")
    assert "x (missing)" in encoded.encoder.names_
    assert encoded.encoder.columns_[0].missing == 2  # in two blocks, whatever the sample has
    assert encoded.labels.names == ["b", "a"]
    if "city=Bonn" not in encoded.encoder.names_:
        with pytest.warns(UnseenWarning, match="1 of 8 blocks"):
            blocks = list(encoded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(encoded)  # it has been told
    x, y = (np.concatenate(column) for column in zip(*blocks, strict=True))
    assert x[350, encoded.encoder.names_.index("x (missing)")] == 1
    present = ~np.isin(np.arange(400), [120, 350])
    assert (y == (x[:, 0] > 0))[present].all()  # the positive class has the number 1
