"""The hold-out by content, and stratified folds that keep groups together."""

import numpy as np
import pytest

from softset.tables.rows import Examples
from softset.tables.splits import (
    content_folds,
    content_split,
    join,
    repeated_folds,
    salted_folds,
    stratified_folds,
)


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


def test_join_is_transitive():
    assert join(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 3])).tolist() == [0, 0, 0, 0, 1]


# --- hold-out -------------------------------------------------------------------------------------


def held_rows(x, y, fraction=0.25, salt=0):
    rows = Examples(np.asarray(x, dtype=float).reshape(len(y), -1), np.asarray(y), np.ones(len(y)))
    train, held = content_split(rows, fraction, salt)
    assert sorted([*train, *held]) == list(range(len(y)))
    return rows, held


def test_a_share_of_each_class_is_held_out_and_other_salts_hold_out_others():
    random = np.random.default_rng(0)
    y = random.permutation(np.repeat([0, 1, 2], [800, 180, 20]))
    x = random.normal(size=(1000, 2))
    _, held = held_rows(x, y)
    assert np.bincount(y[held]).tolist() == [200, 45, 5]
    assert set(held) != set(held_rows(x, y, salt=1)[1])


def test_neither_order_nor_equal_inputs_matter():
    random = np.random.default_rng(0)
    x = random.integers(0, 40, (1000, 2)).astype(float)  # some duplicates, some of other classes
    x[random.random(1000) < 0.05] = np.nan
    x[:, 1] = np.where(np.isnan(x[:, 1]), random.integers(0, 40, 1000), x[:, 1])
    y = (random.random(1000) < 0.2).astype(int)
    rows, held = held_rows(x, y)
    order = random.permutation(1000)
    _, again = held_rows(x[order], y[order])
    assert set(order[again]) == set(held)
    inside = {str(r) for r in rows.x[held]}
    outside = {str(r) for r in np.delete(rows.x, held, axis=0)}
    assert not inside & outside
    assert abs(len(held) - 250) < 20


def test_one_rare_row_among_many_equal_ones_does_not_decide_how_many_are_held_out():
    x, y = np.r_[np.zeros(150), np.arange(1, 851)], np.zeros(1000, dtype=int)
    y[100:150:50] = y[500:549] = 1  # one of the equal rows, and 49 others
    _, held = held_rows(x, y)
    assert 10 <= y[held].sum() <= 13
    assert 0.2 < len(held) / 1000 < 0.3


@pytest.mark.parametrize("y", [[0, 0, 0, 1], [0, 1], [0, 1, 2], [0] * 5 + [1] * 2])
def test_small_classes_train_and_of_others_one_row_is_held_out(y):
    _, held = held_rows(np.arange(len(y)), y)
    counts, found = np.bincount(y), np.bincount(np.asarray(y)[held], minlength=max(y) + 1)
    assert (found < counts).all()  # no class is unknown to the training rows
    assert found.tolist() == np.where(counts == 1, 0, np.round(counts * 0.25).clip(1)).tolist()


def test_several_labels_are_held_out_by_the_rarest():
    random = np.random.default_rng(0)
    y = (random.random((2000, 3)) < [0.5, 0.2, 0.02]).astype(int)
    _, held = held_rows(random.normal(size=(2000, 2)), y)
    assert abs(y[held, 2].sum() - 0.25 * y[:, 2].sum()) < 1


# --- folds by content -----------------------------------------------------------------------------


def test_folds_by_content_have_their_share_whatever_the_order_and_equal_inputs_are_together():
    random = np.random.default_rng(0)
    y = random.permutation(np.repeat([0, 1, 2], [800, 180, 20]))
    x = random.normal(size=(1000, 2))
    x[1:200:2] = x[0:200:2]  # pairs of equal inputs, some of two classes
    rows = Examples(x, y, np.ones(1000))
    fold = salted_folds(rows, 5, salt=3)
    assert (fold[1:200:2] == fold[0:200:2]).all()
    assert (abs(np.bincount(fold) - 200) <= 12).all()
    assert (np.bincount(fold[y == 2]) >= 3).all()
    order = random.permutation(1000)
    again = salted_folds(rows.take(order), 5, salt=3)
    assert np.array_equal(again, fold[order])
    assert (salted_folds(rows, 5, salt=4) != fold).any()


def test_what_cannot_be_left_out_is_in_no_fold():
    x = np.arange(30.0)[:, None]
    one = Examples(x, (np.arange(30) == 7).astype(int), np.ones(30))
    fold = salted_folds(one, 5, salt=0)
    assert fold[7] == -1
    assert sorted(np.unique(np.delete(fold, 7))) == [0, 1, 2, 3, 4]
    few = salted_folds(Examples(x[:6], np.array([0, 0, 1, 1, 1, 2]), np.ones(6)), 50, salt=0)
    assert few[5] == -1
    assert sorted(few[:5]) == [0, 1, 2, 3, 4]  # numbers without holes
    none = salted_folds(Examples(x[:2], np.array([0, 1]), np.ones(2)), 5, salt=0)
    assert (none == -1).all()


# --- rows that repeat -----------------------------------------------------------------------------

WAYS = {
    "hold-out": lambda rows: np.isin(np.arange(len(rows.y)), content_split(rows, 0.2, 3)[1]) * 1,
    "salted": lambda rows: salted_folds(rows, 5, 3),
    "content": lambda rows: content_folds(rows, 5),
    "stratified": lambda rows: stratified_folds(rows.x, rows.y, 5, 3),
}


def _kinds_of_rows(case, random):
    if case == "four kinds":
        return random.integers(0, 4, 1000).astype(float)
    if case == "27 kinds":
        return random.integers(0, 27, 1000).astype(float)
    if case == "one in three is the same":
        return np.where(random.random(1000) < 0.33, 0.0, random.normal(size=1000))
    return random.integers(0, 474, 2000).astype(float)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ["four kinds", "27 kinds", "one in three is the same", "474"])
@pytest.mark.parametrize("labels", [1, 2])
def test_where_rows_repeat_each_kind_is_dealt_by_chance(way, case, labels):
    """As if no two rows were equal: shares of kinds vary between folds as those of other rows."""
    random = np.random.default_rng(0)
    x = _kinds_of_rows(case, random)[:, None]
    y = (random.random((len(x), labels)) < 0.3).astype(int)
    rows = Examples(x, y if labels > 1 else y[:, 0], np.ones(len(x)))
    fold = WAYS[way](rows)
    assert (fold >= 0).all()
    _, kind, sizes = np.unique(x, return_inverse=True, return_counts=True)
    kind, p = kind.ravel(), (fold == 1).mean()
    assert p == pytest.approx(0.2, abs=0.01)
    held = np.bincount(kind[fold == 1], minlength=len(sizes))
    often = sizes >= 20 if (sizes >= 20).any() else sizes >= 4
    off = (held - p * sizes)[often] / np.sqrt(p * (1 - p) * sizes[often])
    assert abs(off).max() < 4.5  # no kind is left out as a whole,
    if len(off) > 20:
        assert 0.7 < off.std() < 1.3  # and none is dealt more evenly than chance does it
    if way != "stratified":  # its seed is of places
        order = random.permutation(len(x))
        again = WAYS[way](rows.take(order))
        both = [
            np.sort(f * 1000 + kind[o] + 500 * 1000 * rows.y.reshape(len(x), -1)[o, 0])
            for f, o in ((fold, np.arange(len(x))), (again, order))
        ]
        assert np.array_equal(*both)


@pytest.mark.parametrize("way", WAYS)
def test_where_few_rows_have_a_copy_it_is_on_the_same_side(way):
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 2))
    x[300:] = x[:300]  # the whole table given twice
    y = np.tile((random.random(300) < 0.3).astype(int), 2)
    fold = WAYS[way](Examples(x, y, np.ones(600)))
    assert np.array_equal(fold[:300], fold[300:])
