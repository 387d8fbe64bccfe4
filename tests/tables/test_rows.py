"""Rows by what they hold."""

import numpy as np
import pandas as pd
import pytest

from softset.tables.rows import distinct_rows, equal_rows, row_codes, strata_of


def test_equal_rows_of_arrays_and_frames():
    frame = pd.DataFrame({"a": [1, 2, 1, 1], "b": ["x", "y", "x", None]})
    assert equal_rows(frame).tolist() == [0, 1, 0, 2]
    assert equal_rows(np.array([[0.0, 1], [-0.0, 1], [1, 1]])).tolist() == [0, 0, 1]


def test_missing_values_are_equal_whatever_their_bits():
    odd = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    codes = row_codes(np.array([[np.nan, 1.0], [odd, 1.0], [-np.nan, 1.0], [0.0, 1.0]]))
    assert codes[0] == codes[1] == codes[2] != codes[3]


def test_a_customer_number_does_not_hide_duplicate_rows():  # 18
    x = np.repeat(np.random.default_rng(0).normal(size=(50, 2)), 2, axis=0)
    numbered = np.column_stack([x, np.delete(np.arange(101), 7)])
    with pytest.warns(UserWarning, match=r"column\(s\) 2 hold a different whole number"):
        found = equal_rows(numbered)
    assert np.array_equal(found, equal_rows(x))
    assert found.max() == 49
    alone = np.arange(100.0)[:, None] * 3
    assert equal_rows(alone).tolist() == list(range(100))  # nothing else to go by


def test_distinct_rows_sum_their_weights_whatever_the_order():
    random = np.random.default_rng(0)
    x = random.integers(0, 3, (500, 2)).astype(float)
    x[random.random((500, 2)) < 0.1] = np.nan
    y, w = random.integers(0, 2, 500), random.random(500) * (random.random(500) < 0.9)
    rows, place = distinct_rows(x, y, w)
    assert np.array_equal(place >= 0, w > 0)
    assert np.array_equal(rows.x[place[w > 0]], x[w > 0], equal_nan=True)
    order = random.permutation(500)
    again, _ = distinct_rows(x[order], y[order], w[order])
    for a, b in zip(rows, again, strict=True):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    assert rows.w.sum() == pytest.approx(w.sum())
    assert len(rows.x) == len({(*map(str, r), k) for r, k in zip(x[w > 0], y[w > 0], strict=True)})


def test_the_stratum_of_several_labels_is_the_rarest():
    y = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 0], [0, 0, 0]])
    assert strata_of(y).tolist() == [2, 0, 0, -1]
    assert strata_of(np.array([2, 0])).tolist() == [2, 0]
