import numpy as np
import pytest

from softset import SavedFileError
from softset.boosting import trees as module
from softset.boosting.trees import (
    AS_ZERO,
    NAN_LEFT,
    NAN_RIGHT,
    ZERO_LEFT,
    ZERO_RIGHT,
    BoostedTrees,
    Tree,
    as_float32,
    check_links,
)


def stump(cut=0.0, absent=AS_ZERO, feature=0, values=(10.0, 20.0), sets=None):
    """One comparison: left is the first value, right the second."""
    return Tree(
        np.array([feature, 0, 0]),
        np.array([cut, 0.0, 0.0]),
        np.array([1, -1, -1]),
        np.array([2, -1, -1]),
        np.array([absent, AS_ZERO, AS_ZERO]),
        np.array([0.0, *values]),
        sets or {},
    )


def together(*trees, output=None, start=(0.0,), features=2, **settings):
    output = [0] * len(trees) if output is None else output
    return BoostedTrees.of(trees, output, np.array(start), features=features, text="", **settings)


VALUES = np.array([-1.0, 0.0, 1.0, 2.0, np.nan])


@pytest.mark.parametrize(
    ("absent", "cut", "left"),
    [
        (AS_ZERO, 1.0, [1, 1, 1, 0, 1]),
        (AS_ZERO, -1.0, [1, 0, 0, 0, 0]),
        (NAN_LEFT, 0.0, [1, 1, 0, 0, 1]),
        (NAN_RIGHT, 0.0, [1, 1, 0, 0, 0]),
        (ZERO_LEFT, -1.0, [1, 1, 0, 0, 1]),
        (ZERO_RIGHT, 1.0, [1, 0, 1, 0, 0]),
    ],
)
def test_where_values_go(absent, cut, left):
    x = np.column_stack([VALUES, VALUES[::-1]])
    wanted = np.where(left, 10.0, 20.0)
    np.testing.assert_array_equal(together(stump(cut, absent))(x), wanted)
    second = together(stump(cut, absent, feature=1))(x)
    np.testing.assert_array_equal(second, wanted[::-1])


def test_a_strict_comparison_sends_equal_values_right():
    x = VALUES[:, None]
    for absent, last in ((NAN_LEFT, 1), (NAN_RIGHT, 0)):
        found = together(stump(1.0, absent), features=1, strict=True)(x)
        np.testing.assert_array_equal(found, np.where([1, 1, 0, 0, last], 10.0, 20.0))


@pytest.mark.parametrize("members", [[0, 3], [2], [0, 70], [5, 1_000_000], []], ids=str)
@pytest.mark.parametrize("absent", [NAN_LEFT, NAN_RIGHT])
def test_categories_of_a_set_go_left(members, absent):
    x = np.array([0, 1, 2, 3, 5, 70, 71, 1e6, 1e9, -1, np.nan])
    found = together(stump(absent=absent, sets={0: np.array(members, dtype=int)}), features=1)(
        x[:, None]
    )
    left = np.isin(x, members) | (np.isnan(x) & (absent == NAN_LEFT))
    np.testing.assert_array_equal(found, np.where(left, 10.0, 20.0))


def test_scores_are_start_plus_the_trees_of_each_output(monkeypatch):
    x = np.random.default_rng(0).normal(size=(1000, 2))
    parts = [stump(c, feature=i % 2, values=(c, -c)) for i, c in enumerate(np.linspace(-1, 1, 9))]
    one = together(*parts, start=(0.5,))(x)
    alone = [together(p)(x) for p in parts]
    np.testing.assert_allclose(one, 0.5 + np.sum(alone, axis=0), atol=1e-12)
    three = together(*parts, output=[0, 1, 2] * 3, start=(1.0, 2.0, 3.0))
    wanted = np.column_stack([k + 1 + np.sum(alone[k::3], axis=0) for k in range(3)])
    np.testing.assert_allclose(three(x), wanted, atol=1e-12)
    monkeypatch.setattr(module, "_BLOCK", 37)
    np.testing.assert_allclose(three(x), wanted, atol=1e-12)
    assert three(x[:0]).shape == (0, 3)
    with pytest.raises(ValueError, match=r"x must be \[rows, 2\]"):
        three(x[:, :1])


def test_trees_of_another_model_are_refused():
    trees = together(stump())
    trees.check(2, 1)
    for features, outputs in ((3, 1), (2, 2)):
        with pytest.raises(SavedFileError, match="2 features and 1 outputs"):
            trees.check(features, outputs)


def test_trees_that_do_not_fit_are_refused():
    with pytest.raises(SavedFileError, match="no trees"):
        together()
    for values in ((np.nan, 1.0), (np.inf, 1.0)):
        with pytest.raises(SavedFileError, match="not finite"):
            together(stump(values=values))
    with pytest.raises(SavedFileError, match="not finite"):
        together(stump(), start=(np.nan,))
    with pytest.raises(SavedFileError, match="NaN"):
        together(stump(cut=np.nan))
    for output in ([1], [-1], [0, 0]):
        with pytest.raises(SavedFileError, match="one of 1 outputs"):
            together(stump(), output=output)
    with pytest.raises(SavedFileError, match="feature"):
        together(stump(feature=2))


# Two trees: 0 -> (1, 2), 1 -> (3, 4); and 0 -> (1, 2).
FIRST, FEATURE = [0, 5, 8], [1, 0, 0, 0, 0, 1, 0, 0]
LEFT, RIGHT = [1, 3, -1, -1, -1, 1, -1, -1], [2, 4, -1, -1, -1, 2, -1, -1]


@pytest.mark.parametrize(
    ("first", "feature", "left", "right", "words"),
    [
        ([0, 5], FEATURE, LEFT, RIGHT, "length"),
        ([0, 8, 8], FEATURE, LEFT, RIGHT, "length"),
        ([0, 9, 8], FEATURE, LEFT, RIGHT, "length"),
        ([0, 3 * 2**61, -3 * 2**61, 8], FEATURE, LEFT, RIGHT, "length"),
        ([1, 5, 8], FEATURE, LEFT, RIGHT, "length"),
        ([8], FEATURE, LEFT, RIGHT, "length"),
        ([0.0, 5.0, 8.0], FEATURE, LEFT, RIGHT, "length"),
        (FIRST, FEATURE[:-1], LEFT, RIGHT, "length"),
        (FIRST, FEATURE, LEFT, RIGHT[:-1], "length"),
        (FIRST, FEATURE, [LEFT], [RIGHT], "length"),
        (FIRST, FEATURE, [0, *LEFT[1:]], RIGHT, "child"),  # its own
        (FIRST, FEATURE, LEFT, [2, 0, *RIGHT[2:]], "child"),  # a circle
        (FIRST, FEATURE, [5, *LEFT[1:]], RIGHT, "child"),  # the next tree's
        (FIRST, FEATURE, [100, *LEFT[1:]], RIGHT, "child"),
        (FIRST, FEATURE, [2, *LEFT[1:]], RIGHT, "child"),  # twice the same
        (FIRST, FEATURE, [1, 2, *LEFT[2:]], RIGHT, "child"),  # of two parents
        (FIRST, FEATURE, [-1, *LEFT[1:]], RIGHT, "child"),  # one child only
        (FIRST, FEATURE, LEFT, [-1, *RIGHT[1:]], "child"),
        (FIRST, [2, *FEATURE[1:]], LEFT, RIGHT, "feature"),
        (FIRST, [-1, *FEATURE[1:]], LEFT, RIGHT, "feature"),
    ],
)
def test_broken_links_are_refused(first, feature, left, right, words):
    check_links(*map(np.array, (FIRST, FEATURE, LEFT, RIGHT)), 2)
    with pytest.raises(SavedFileError, match=words):
        check_links(*map(np.array, (first, feature, left, right)), 2)


def test_numbers_too_large_for_float32_stay_finite():
    x = np.array([1e300, -1e300, 1.5, np.nan])
    found = as_float32(x)
    assert found.dtype == np.float32
    assert np.isfinite(found[:3]).all()
    assert found[2] == 1.5
    assert np.isnan(found[3])
