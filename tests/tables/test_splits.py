"""Stratified folds that keep groups and equal rows together."""

import numpy as np
import pandas as pd
import pytest

from softset.tables.rows import equal_rows
from softset.tables.splits import join, repeated_folds


def shares(folds, strata, k):
    return [np.bincount(strata[folds == f], minlength=k).tolist() for f in range(folds.max() + 1)]


@pytest.mark.parametrize("seed", range(3))
def test_every_fold_has_its_share_of_every_class(seed):
    strata = np.random.RandomState(seed).choice(3, 503, p=[0.9, 0.08, 0.02])
    counts = np.bincount(strata)
    for folds in repeated_folds(strata, None, 5, 3, seed):
        found = np.array(shares(folds, strata, 3))
        assert (abs(found - counts / 5) < 1).all()


def test_groups_stay_together_and_classes_are_still_spread():
    random = np.random.RandomState(0)
    groups = random.randint(0, 120, 1000)
    strata = (random.rand(1000) < 0.1).astype(int)
    for folds in repeated_folds(strata, groups, 5, 2, 0):
        assert all(len(set(folds[groups == g])) == 1 for g in np.unique(groups))
        found = np.array(shares(folds, strata, 2))
        np.testing.assert_allclose(found / np.bincount(strata), 0.2, atol=0.06)


def test_single_rows_even_out_what_groups_left_uneven():
    groups = np.r_[np.zeros(30), np.arange(1, 71)].astype(int)
    folds = repeated_folds(np.zeros(100, dtype=int), groups, 5, 1, 0)[0]
    assert sorted(np.bincount(folds).tolist()) == [17, 17, 18, 18, 30]


def test_repeats_differ_and_seeds_repeat():
    strata = np.arange(60) % 2
    first = repeated_folds(strata, None, 5, 2, 7)
    assert (first[0] != first[1]).any()
    assert np.array_equal(first, repeated_folds(strata, None, 5, 2, 7))
    assert np.array_equal(first[:1], repeated_folds(strata, None, 5, 1, 7))
    assert (first != repeated_folds(strata, None, 5, 2, 8)).any()


def test_equal_rows_of_arrays_and_frames():
    frame = pd.DataFrame({"a": [1, 2, 1, 1], "b": ["x", "y", "x", None]})
    assert equal_rows(frame).tolist() == [0, 1, 0, 2]
    assert equal_rows(np.array([[0.0, 1], [-0.0, 1], [1, 1]])).tolist() == [0, 0, 1]


def test_join_is_transitive():
    assert join(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 3])).tolist() == [0, 0, 0, 0, 1]
