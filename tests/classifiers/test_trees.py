import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from softset import SavedFileError
from softset.boosting.trees import as_float32
from softset.classifiers.trees import Trees, with_constants


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    return x, np.digitize(x[:, 0] + x[:, 1] * x[:, 2], [-0.5, 0.5])


def grown(x, y):
    return RandomForestClassifier(7, min_samples_leaf=2, random_state=0).fit(as_float32(x), y)


@pytest.fixture(scope="module")
def trees(data):
    return Trees.of(grown(*data), None)


def test_probabilities_are_those_of_scikit_learn(data, trees):
    x, y = data
    new = np.random.default_rng(1).normal(size=(200, 4))
    new[0] = 1e300
    wanted = grown(x, y).predict_proba(as_float32(new))
    np.testing.assert_allclose(trees(new), wanted, atol=1e-12)
    trees.check(4)


def test_labels_that_do_not_vary_keep_their_value(data):
    x, y = data
    several = np.column_stack([y > 0, y > 1]).astype(int)
    found = Trees.of(grown(x, several), np.array([np.nan, 1.0, np.nan]))(x)
    wanted = grown(x, several).predict_proba(as_float32(x))
    np.testing.assert_allclose(found[:, 0], wanted[0][:, 1], atol=1e-12)
    np.testing.assert_allclose(found[:, 2], wanted[1][:, 1], atol=1e-12)
    assert (found[:, 1] == 1).all()
    filled = with_constants(np.array([[0.2], [0.3]]), np.array([0.0, np.nan]))
    assert filled.tolist() == [[0.0, 0.2], [0.0, 0.3]]


def test_one_leaf_is_a_constant():
    leaf = np.array([-1])
    values = np.array([[0.25, 0.75]])
    trees = Trees(np.array([0, 1]), leaf, np.array([-2.0]), leaf, leaf, values)
    trees.check(3)
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
        changed.check(4)
