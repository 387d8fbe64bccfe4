"""Rows by what they hold."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from softset.tables import rows
from softset.tables.rows import (
    equal_rows,
    kept_together,
    ordered_rows,
    own_codes,
    row_codes,
    strata_of,
)
from softset.tables.splits import stratified_folds


def test_equal_rows_of_arrays_and_frames():
    frame = pd.DataFrame({"a": [1, 2, 1, 1], "b": ["x", "y", "x", None]})
    assert equal_rows(frame).tolist() == [0, 1, 0, 2]
    assert equal_rows(np.array([[0.0, 1], [-0.0, 1], [1, 1]])).tolist() == [0, 0, 1]


def test_missing_values_are_equal_whatever_their_bits():
    odd = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    codes = row_codes(np.array([[np.nan, 1.0], [odd, 1.0], [-np.nan, 1.0], [0.0, 1.0]]))
    assert codes[0] == codes[1] == codes[2] != codes[3]


def test_rows_that_cannot_be_compared_have_no_numbers():
    assert equal_rows(["some", "texts"]) is None
    assert equal_rows(pd.DataFrame({"a": [[1], [2]]})) is None


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_rows_have_an_order_of_their_own_whatever_the_given_one(layout):
    random = np.random.default_rng(0)
    x = random.integers(0, 3, (500, 2)).astype(float)  # 9 kinds
    y, w = random.integers(0, 2, 500), random.random(500) * (random.random(500) < 0.9)
    rows, place = ordered_rows(layout(x), y, w)
    order = random.permutation(500)
    again, _ = ordered_rows(layout(x[order]), y[order], w[order])
    plain, other = (
        r._replace(x=np.asarray(r.x.todense() if sparse.issparse(r.x) else r.x))
        for r in (rows, again)
    )
    for a, b in zip(plain, other, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(place >= 0, w > 0)
    assert np.array_equal(plain.x[place[w > 0]], x[w > 0])
    assert np.array_equal(plain.w[place[w > 0]], w[w > 0])
    # Equal rows are apart, as in a random order: next to each other one time in about 18.
    kind = plain.x @ [3, 1] + 9 * plain.y
    assert (kind[1:] == kind[:-1]).mean() < 0.12
    assert len(np.unique(own_codes(rows))) == len(rows.y)


def test_missing_values_have_a_place_too():
    x = np.array([[np.nan], [1.0], [np.nan]])
    rows, place = ordered_rows(x, np.zeros(3, dtype=int), np.ones(3))
    assert np.array_equal(rows.x[place], x, equal_nan=True)


@pytest.mark.parametrize(
    ("sizes", "share", "together"),
    [
        ([1] * 100, 0.2, True),
        ([2] * 50, 0.2, True),  # a table given twice
        ([3] * 33, 0.2, False),  # more than one copy in the mean: a few categories
        ([20] * 5 + [1] * 400, 0.2, True),  # five positives, oversampled
        ([120] + [1] * 400, 0.2, False),  # more than a fold
        ([120] + [1] * 400, 0.25, True),
        ([25] * 4, 0.5, False),
        ([2] + [1] * 4, 0.2, True),  # two rows are never too many for a fold
        ([1], 0.2, True),
    ],
)
def test_equal_rows_stay_together_only_where_copies_are_rare_and_small(sizes, share, together):
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    found = kept_together(codes, share)
    assert (found is not None) == together
    if together:
        assert np.array_equal(found, codes)


def test_the_stratum_of_several_labels_is_the_rarest():
    y = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 0], [0, 0, 0]])
    assert strata_of(y).tolist() == [2, 0, 0, -1]
    assert strata_of(np.array([2, 0])).tolist() == [2, 0]


def test_a_data_frame_and_an_array_of_the_same_rows_have_the_same_folds():
    random = np.random.RandomState(0)
    x, y = random.randn(60, 2), random.randint(0, 2, 60)
    x[:8] = x[8:16]
    expected = stratified_folds(x, y, 3, 0)
    for same in (x.tolist(), pd.DataFrame(x)):
        assert np.array_equal(stratified_folds(same, y, 3, 0), expected)


def test_copies_are_counted_over_blocks():
    codes = np.random.default_rng(0).integers(0, 200, 3000).astype(np.uint64)
    counter = rows.CopyCounter()
    number = np.concatenate([counter(block) for block in np.split(codes, [0, 700, 701, 701, 1500])])
    assert (number == rows.copy_numbers(codes)).all()


def test_copies_beyond_the_limit_count_as_new(monkeypatch):
    monkeypatch.setattr(rows, "MOST_KINDS", 2)
    counter = rows.CopyCounter()
    blocks = ([1, 2], [1, 3, 3], [3, 2])
    found = [counter(np.array(block, dtype=np.uint64)).tolist() for block in blocks]
    assert found == [[0, 0], [1, 0, 1], [0, 1]]
