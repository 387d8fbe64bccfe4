import numpy as np
import pytest

from softset import MetricBoostingClassifier, SavedFileError
from softset.boosting.lightgbm import LightGBM
from tests.boosting.examples import CATEGORIES, grown_by_lightgbm, new_rows

SETTINGS = {
    "default": {},
    "zero is missing": {"zero_as_missing": True},
    "nothing is missing": {"use_missing": False},
    "random forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "dart": {"boosting": "dart"},
    "large trees": {"num_leaves": 200, "min_data_in_leaf": 2},
    "single categories": {"max_cat_to_onehot": 50},
    "stumps": {"num_leaves": 2},
}


@pytest.mark.parametrize("categories", [CATEGORIES, []], ids=["categories", "numbers"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", SETTINGS)
def test_scores_are_the_librarys_to_the_bit(name, classes, categories):
    booster = grown_by_lightgbm(classes, categories=categories, **SETTINGS[name])
    trees = LightGBM.parse(booster.model_to_string())
    for seed in range(2):
        x = new_rows(2000, seed + 1)
        wanted = booster.predict(x, raw_score=True, num_threads=1)
        np.testing.assert_array_equal(LightGBM.margins(trees, x), wanted)
    if name != "stumps":
        assert bool(trees.nodes.sets) == bool(categories)


def test_trees_without_a_split_are_constants():
    booster = grown_by_lightgbm(rounds=3, min_data_in_leaf=10_000)
    text = booster.model_to_string()
    assert "num_leaves=1\n" in text
    x = new_rows(5, 1)
    np.testing.assert_array_equal(
        LightGBM.margins(LightGBM.parse(text), x), booster.predict(x, raw_score=True)
    )


def test_the_text_is_kept():
    text = grown_by_lightgbm().model_to_string()
    assert LightGBM.dump(LightGBM.parse(text)) == text


@pytest.fixture(scope="module")
def text():
    found = grown_by_lightgbm(rounds=2, n=1500, num_leaves=5).model_to_string()
    assert "num_cat=1\n" in found
    return found


def line(text, name):
    """The first line of a field."""
    return next(found for found in text.split("\n") if found.startswith(f"{name}="))


EDITS = [
    ("num_leaves=5", "num_leaves=6"),
    ("num_leaves=5", "num_leaves=0"),
    ("num_leaves=5", "num_leaves=-3"),
    ("num_leaves=5", "num_leaves=100000000"),
    ("num_leaves=5", "num_leaves=five"),
    ("num_leaves=5\n", ""),
    ("num_tree_per_iteration=1", "num_tree_per_iteration=0"),
    ("num_tree_per_iteration=1", "num_tree_per_iteration=3"),
    ("num_tree_per_iteration=1", "num_tree_per_iteration=100000000"),
    ("max_feature_idx=5", "max_feature_idx=1"),
    ("max_feature_idx=5", "max_feature_idx=-1"),
    ("max_feature_idx=5", "max_feature_idx="),
    ("is_linear=0", "is_linear=1"),
    ("Tree=1", "Tree=7"),
    ("end of trees", "end of forest"),
    ("num_cat=1", "num_cat=100000000"),
    ("num_cat=1", "num_cat=-1"),
]
COLUMNS = [
    ("left_child", "0 1 2 3"),
    ("left_child", "1 2 -1 99"),
    ("left_child", "1 2 -1 -99"),
    ("left_child", "1 2 -1 -9223372036854775808"),
    ("left_child", "1 2 -1 99999999999999999999999"),
    ("right_child", "0 0 0 0"),
    ("right_child", "-1 -1 -1 -1"),
    ("right_child", "1 2 3"),
    ("split_feature", "6 0 0 0"),
    ("split_feature", "-1 0 0 0"),
    ("split_feature", "0 0 0"),
    ("decision_type", "12 2 2 2"),
    ("decision_type", "-1 2 2 2"),
    ("decision_type", "1 1 1 1"),
    ("threshold", "nan 0 0 0"),
    ("threshold", "1 2 3 4 5"),
    ("leaf_value", "nan 0 0 0 0"),
    ("leaf_value", "inf 0 0 0 0"),
    ("leaf_value", "1e999 0 0 0 0"),
    ("leaf_value", "a b c d e"),
    ("cat_boundaries", "0 100000000"),
    ("cat_boundaries", "1 1"),
    ("cat_boundaries", "0 -1"),
    ("cat_threshold", "-1"),
    ("cat_threshold", "99999999999"),
]


@pytest.mark.parametrize(("old", "new"), EDITS, ids=lambda words: words.strip())
def test_a_text_that_does_not_fit_together_is_refused(text, old, new):
    assert old in text
    with pytest.raises(SavedFileError, match="its text"):
        LightGBM.parse(text.replace(old, new))


@pytest.mark.parametrize(("name", "values"), COLUMNS, ids=str)
def test_a_tree_that_does_not_fit_together_is_refused(text, name, values):
    with pytest.raises(SavedFileError, match="its text"):
        LightGBM.parse(text.replace(line(text, name), f"{name}={values}"))
    with pytest.raises(SavedFileError, match="its text"):
        LightGBM.parse(text.replace(line(text, name) + "\n", ""))


def test_every_part_of_a_text_is_needed(text):
    for end in range(0, text.index("end of trees"), 37):
        with pytest.raises(SavedFileError):
            LightGBM.parse(text[:end])


def fitted(classes=2, **parameters):
    return LightGBM({"learning_rate": 0.1, "seed": 0}, 1, 100, classes, [], parameters)


def test_linear_leaves_are_refused_before_training():
    with pytest.raises(ValueError, match="linear_tree"):
        fitted(linear_tree=True)


@pytest.mark.parametrize("n_estimators", [0, 5])
@pytest.mark.parametrize("classes", [2, 3])
def test_columns_of_zeros_are_learnt_from_as_other_constants(classes, n_estimators, capfd):
    x, y = np.zeros((200, 2)), np.arange(200) % classes
    model = MetricBoostingClassifier(library="lightgbm", random_state=0, n_estimators=n_estimators)
    p = model.fit(x, y).predict_proba(x)
    assert p.shape == (200, classes)
    assert np.isfinite(p).all()
    assert (p == p[0]).all()
    assert "Fatal" not in "".join(capfd.readouterr())
