import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from softset import SavedFileError
from softset.boosting.trees import as_float32
from softset.classifiers.trees import SavedForest, Trees


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    return x, np.digitize(x[:, 0] + x[:, 1] * x[:, 2], [-0.5, 0.5])


def grown(x, y):
    return RandomForestClassifier(7, min_samples_leaf=2, random_state=0).fit(as_float32(x), y)


@pytest.fixture(scope="module")
def trees(data):
    return Trees.of(grown(*data))


def test_probabilities_are_those_of_scikit_learn(data, trees):
    x, y = data
    new = np.random.default_rng(1).normal(size=(200, 4))
    new[0] = 1e300
    wanted = grown(x, y).predict_proba(as_float32(new))
    np.testing.assert_allclose(trees(new), wanted, atol=1e-12)
    trees.check(4, [3])


def through_a_file(forest):
    return SavedForest.from_state(type(forest).__name__, SavedForest.of(forest).state())


def test_a_forest_of_labels_gives_a_list_as_it_does_in_scikit_learn(data):
    x, y = data
    forest = grown(x, np.column_stack([y > 0, np.ones(300), y > 1]).astype(int))
    found, wanted = through_a_file(forest).predict_proba(x), forest.predict_proba(x)
    assert [p.shape for p in found] == [(300, 2), (300, 1), (300, 2)]
    for p, own in zip(found, wanted, strict=True):
        assert np.array_equal(p, own)


def test_missing_values_go_where_they_went(data):
    x, y = data
    gaps = np.where(np.random.default_rng(0).random(x.shape) < 0.2, np.nan, x)
    forest = RandomForestClassifier(9, random_state=0).fit(gaps, y)
    assert np.array_equal(through_a_file(forest).predict_proba(gaps), forest.predict_proba(gaps))


def test_one_leaf_is_a_constant():
    leaf = np.array([-1])
    values = np.array([[0.25, 0.75]])
    trees = Trees(np.array([0, 1]), leaf, np.array([-2.0]), leaf, leaf, np.array([0]), values)
    trees.check(3, [2])
    assert trees(np.zeros((2, 3))).tolist() == [[0.25, 0.75]] * 2


def with_item(array, index, value):
    found = array.copy()
    found[index] = value
    return found


@pytest.mark.parametrize(
    ("field", "change", "words"),
    [
        ("left", lambda a: with_item(a, 0, 0), "child"),
        ("left", lambda a: with_item(a, 0, 10**6), "child"),
        ("right", lambda a: with_item(a, 0, -1), "child"),
        ("right", lambda a: a[:-1], "length"),
        ("right", lambda a: a.astype(float), "length"),
        ("left", lambda a: a[None], "length"),
        ("feature", lambda a: with_item(a, 0, 4), "feature"),
        ("feature", lambda a: with_item(a, 0, -2), "feature"),
        ("first", lambda a: with_item(a, 1, 2**60), "length"),
        ("first", lambda a: a[:-1], "length"),
        ("first", lambda a: a[:0], "length"),
        ("missing", lambda a: a[:-1], "cut"),
        ("cut", lambda a: a[:-1], "cut"),
        ("cut", lambda a: a.astype(int), "cut"),
        ("cut", lambda a: with_item(a, 0, np.nan), "NaN"),
        ("value", lambda a: a[:-1], "cut"),
        ("value", lambda a: a[:, 0], "cut"),
        ("value", lambda a: a.astype(int), "cut"),
        ("value", lambda a: with_item(a, 0, np.nan), "probabilities"),
        ("value", lambda a: with_item(a, 0, -0.1), "probabilities"),
        ("value", lambda a: with_item(a, 0, 1e300), "probabilities"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(trees, field, change, words):
    changed = trees._replace(**{field: change(getattr(trees, field))})
    with pytest.raises(SavedFileError, match=words):
        changed.check(4, [3])
