import copy
import json
from pathlib import Path

import numpy as np
import pytest

from softset import SavedFileError
from softset.boosting.xgboost import XGBoost
from tests.boosting.examples import CATEGORIES, grown_by_xgboost, new_rows, xgboost_data

SETTINGS = {
    "default": {},
    "dart": {"booster": "dart", "rate_drop": 0.3},
    "parallel trees": {"num_parallel_tree": 3},
    "deep": {"max_depth": 9},
    "by leaf": {"grow_policy": "lossguide", "max_leaves": 20},
    "approx": {"tree_method": "approx"},
    "single categories": {"max_cat_to_onehot": 50},
    "stumps": {"max_depth": 1},
    "pruned": {"tree_method": "exact", "gamma": 5.0},
    "base score": {"base_score": 0.3},
}


def written(booster):
    return booster.save_raw("json").decode()


CASES = [(name, columns) for name in SETTINGS for columns in (CATEGORIES, [])]
CASES.remove(("pruned", CATEGORIES))  # XGBoost's exact method knows none


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("name", "categories"), CASES, ids=str)
def test_scores_are_the_librarys_to_the_bit(name, classes, categories):
    booster = grown_by_xgboost(classes, categories=categories, **SETTINGS[name])
    trees = XGBoost.parse(written(booster))
    for seed in range(2):
        x = new_rows(2000, seed + 1)
        wanted = booster.predict(xgboost_data(x, categories=categories), output_margin=True)
        np.testing.assert_array_equal(XGBoost.margins(trees, x), wanted)
    if name != "stumps":
        assert bool(trees.nodes.sets) == bool(categories)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_part_of_the_rounds_is_scored_alike(classes):
    booster = grown_by_xgboost(classes, rounds=9)[:4]
    x = new_rows(500, 1)
    np.testing.assert_array_equal(
        XGBoost.margins(XGBoost.parse(written(booster)), x),
        booster.predict(xgboost_data(x), output_margin=True),
    )


def test_models_of_version_2_are_read():
    """It writes one base score for all classes, and NaN where a category is compared."""
    saved = json.loads((Path(__file__).parents[1] / "data" / "xgboost-2.1.json").read_text())
    for model in saved["models"]:
        x = np.array(saved["x"], dtype=float)
        margins = XGBoost.margins(XGBoost.parse(json.dumps(model["text"])), x)
        np.testing.assert_array_equal(margins, model["margins"])


def test_the_text_is_kept():
    text = written(grown_by_xgboost())
    assert XGBoost.dump(XGBoost.parse(text)) == text


@pytest.fixture(scope="module")
def model():
    return json.loads(written(grown_by_xgboost(rounds=2, n=1500, max_depth=3)))


def changed(model, place, value):
    """A copy with another value at a place, given as keys with dots; ``...`` deletes it."""
    found = node = copy.deepcopy(model["learner"])
    *path, last = (int(key) if key.isdigit() else key for key in place.split("."))
    for key in path:
        node = node[key]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return json.dumps({"learner": found})


TREE = "gradient_booster.model.trees.0."
NODES = 13
EDITS = [
    ("gradient_booster.name", "gblinear"),
    ("gradient_booster.name", "dart"),
    ("gradient_booster.name", 3),
    ("gradient_booster.model.trees", []),
    ("gradient_booster.model.trees", {}),
    ("gradient_booster.model.tree_info", [0]),
    ("gradient_booster.model.tree_info", [0, 1]),
    ("gradient_booster.model.tree_info", [0, -1]),
    ("gradient_booster.model.tree_info", [0, 2**70]),
    ("gradient_booster.model.tree_info", "00"),
    ("learner_model_param.num_class", "100000000"),
    ("learner_model_param.num_class", "3"),
    ("learner_model_param.num_feature", "1"),
    ("learner_model_param.num_target", "2"),
    ("learner_model_param.base_score", "nan"),
    ("learner_model_param.base_score", "[1E0]"),
    ("learner_model_param.base_score", "[5E-1,5E-1]"),
    ("learner_model_param.base_score", "[]"),
    ("learner_model_param.base_score", {"a": 1}),
    ("objective.name", "count:poisson"),
    ("objective.name", ["binary:logistic"]),
    ("objective", ...),
    (TREE + "tree_param.num_nodes", "100000000"),
    (TREE + "tree_param.size_leaf_vector", "3"),
    (TREE + "left_children", [0] * NODES),
    (TREE + "left_children", [-1] * NODES),
    (TREE + "left_children", [1, 3] + [-1] * (NODES - 2)),
    (TREE + "left_children", [1.0] * NODES),
    (TREE + "left_children", []),
    (TREE + "left_children", ...),
    (TREE + "right_children.0", 10**9),
    (TREE + "right_children.0", 2**80),
    (TREE + "right_children.0", None),
    (TREE + "split_indices.0", 6),
    (TREE + "split_indices.0", -1),
    (TREE + "split_indices.0", "0" * 10000),
    (TREE + "split_conditions.0", float("nan")),
    (TREE + "split_conditions.0", "0.5"),
    (TREE + "split_conditions.0", [0.5]),
    (TREE + "split_conditions", [float("inf")] * NODES),
    (TREE + "split_conditions", [1e300] * NODES),
    (TREE + "default_left", [0]),
    (TREE + "split_type", [1] * NODES),
    (TREE + "categories", [-1]),
    (TREE + "categories", [2**24] * 9),
    (TREE + "categories_nodes", []),
    (TREE + "categories_sizes", [10**9]),
    (TREE + "categories_sizes", [-1]),
    (TREE + "categories_segments", [1]),
]


@pytest.mark.parametrize(("place", "value"), EDITS, ids=lambda v: str(v)[-40:])
def test_a_model_that_does_not_fit_together_is_refused(model, place, value):
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    assert len(tree["left_children"]) == NODES
    assert tree["categories_nodes"]
    XGBoost.parse(json.dumps(model))
    with pytest.raises(SavedFileError, match="its text"):
        XGBoost.parse(changed(model, place, value))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"learner":', "[" * 100_000, "1" * 5000])
def test_what_is_no_model_is_refused(text):
    with pytest.raises(SavedFileError, match="its text"):
        XGBoost.parse(text)


def test_an_objective_without_a_known_base_score_is_refused_before_training():
    settings = {"learning_rate": 0.1, "seed": 0}
    with pytest.raises(ValueError, match=r"params\['objective'\] must be one of"):
        XGBoost(settings, 1, 100, 2, [], {"objective": "count:poisson"})
