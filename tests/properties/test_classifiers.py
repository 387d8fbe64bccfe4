"""Classifiers against the truth: names of the classes, which of them is positive, weights.

Nothing is compared with another answer of the same model alone: a sign that is wrong everywhere
would agree with itself.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.svm import LinearSVC

import softset as ss
from softset.comparison.data import check_dataset
from softset.tables.rows import Examples
from softset.tables.splits import (
    content_folds,
    content_split,
    repeated_folds,
    salted_folds,
    stratified_folds,
)
from tests.properties.covering import covering_array
from tests.properties.test_weights import MODELS

NAMES = {
    "numbers": np.array([0, 1]),
    "text": np.array(["ill", "well"]),
    "truth": np.array([False, True]),
    "monotonic_cst": np.array([-1, 1]),
}
ROWS = covering_array(
    {
        "model": list(MODELS),
        "names": list(NAMES),
        "positive": ("first", "last", "left out"),
        "class_weight": (None, "balanced", "dictionary"),
        "weights": (False, True),
    }
)


def table(n=240, seed=0, names=NAMES["numbers"], second=1):
    """The class ``names[second]`` is rarer, where the first column is high and the second low."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    high = x[:, 0] - x[:, 1] + 0.4 * rng.normal(size=n) > 0.8
    return x, np.where(high, names[second], names[1 - second])


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*data)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, row.values())))
def test_two_classes(row):
    names = NAMES[row["names"]]
    at = 0 if row["positive"] == "first" else 1
    positive = names[at]
    x, y = table(names=names, second=at)
    model = MODELS[row["model"]]()
    settings = {"pos_label": None if row["positive"] == "left out" else positive}
    if "class_weight" in model.get_params():
        given = {names[0]: 1.0, names[1]: 1.0, positive: 3.0}
        settings["class_weight"] = (
            given if row["class_weight"] == "dictionary" else row["class_weight"]
        )
    w = np.random.default_rng(1).uniform(0.5, 1.5, len(x)) if row["weights"] else None
    model = quietly(model.set_params(**settings), x, y, w)
    clean, truth = table(400, seed=2, names=names, second=at)
    decided, p, margin = (
        model.predict(clean),
        model.predict_proba(clean),
        model.decision_function(clean),
    )
    assert model.classes_.tolist() == names.tolist()
    assert (decided == truth).mean() > 0.8
    for column, name in enumerate(names):
        assert roc_auc_score(truth == name, p[:, column]) > 0.85
    assert roc_auc_score(truth == names[1], margin) > 0.85
    assert ((margin > 0) == (truth == names[1])).mean() > 0.8
    assert model.score(clean, truth) == pytest.approx(f1_score(truth, decided, pos_label=positive))
    own = np.arange(len(truth)) % 3
    weighed = f1_score(truth, decided, pos_label=positive, sample_weight=own)
    assert model.score(clean, truth, own) == pytest.approx(weighed)
    if row["model"] == "MetricLinearClassifier":
        sign = 1 if at == 1 else -1
        by_feature = [name for name, value in vars(model).items() if np.shape(value) == (1, 3)]
        assert {"coef_", "standardized_coef_"} <= set(by_feature)
        for name in by_feature:  # each of them is about the last class
            assert sign * getattr(model, name)[0, 0] > 0.5, name
            assert sign * getattr(model, name)[0, 1] < -0.5, name
        np.testing.assert_allclose(
            clean @ model.coef_[0] + model.intercept_[0] - margin,
            np.log(p[0, 1] / p[0, 0]) - margin[0],
            atol=1e-6,
        )


@pytest.mark.parametrize("name", ["MetricMLPClassifier", "MetricLinearClassifier"])
def test_heavier_classes_are_predicted_more_often(name):
    """At a threshold of 1/2, which nothing moves."""
    x, y = table()
    clean = table(400, seed=2)[0]
    counts = []
    for weight in (0.1, 1.0, 10.0):
        model = MODELS[name]().set_params(class_weight={1: weight}, threshold=None)
        counts.append((quietly(model, x, y).predict(clean) == 1).sum())
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("name", ["MetricMLPClassifier", "MetricLinearClassifier", "forest"])
def test_thresholds_of_labels(name):
    x, first = table()
    y = np.column_stack([first, x[:, 2] > 0])
    model = quietly(MODELS[name]().set_params(threshold=[0.02, 0.98]), x, y)
    found = model.predict(x)
    assert found[y[:, 0] == 1, 0].mean() > 0.95  # nearly all that have it, and many that have not
    assert found[:, 0].mean() > y[:, 0].mean() + 0.05
    assert found[:, 1].mean() < y[:, 1].mean() - 0.05
    assert model.score(x, y) == pytest.approx(f1_score(y, found, average="macro"))


@pytest.mark.parametrize("at", [0, 1])
def test_a_classifier_without_probabilities(at):
    """Its threshold is one of ``decision_function``, which is about the last class."""
    names = NAMES["text"]
    x, y = table(names=names, second=at)
    model = ss.MetricThresholdClassifier(LinearSVC(), pos_label=names[at], random_state=0).fit(x, y)
    clean, truth = table(400, seed=2, names=names, second=at)
    margin = model.decision_function(clean)
    assert (model.predict(clean) == truth).mean() > 0.85
    assert ((margin > 0) == (truth == names[1])).mean() > 0.85
    found = f1_score(truth, model.predict(clean), pos_label=names[at])
    assert model.score(clean, truth) == pytest.approx(found)
    assert model.interval_[0] < model.threshold_ < model.interval_[1]


# --- splits ---------------------------------------------------------------------------------------


def repeated_table(n=200):
    """One row in ten has an equal one elsewhere, of another group."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    x[n - n // 20 :] = x[: n // 20]
    return x, np.arange(n) % 2, np.arange(n) // 4


def sides(x, fold):
    """Whether equal rows are in one fold."""
    _, kind = np.unique(x, axis=0, return_inverse=True)
    return all(len(set(fold[kind.ravel() == k])) == 1 for k in set(kind.ravel()))


def test_equal_rows_and_groups_stay_on_one_side():
    x, y, groups = repeated_table()
    rows = Examples(x, y, np.random.default_rng(1).uniform(0.1, 9, len(y)))
    _, held = content_split(rows, 0.3, salt=3)
    assert sides(x, np.isin(np.arange(len(y)), held).astype(int))
    for fold in (salted_folds(rows, 4, 3), content_folds(rows, 4), stratified_folds(x, y, 4, 3)):
        assert sides(x, fold)
        assert np.bincount(fold[fold >= 0]).min() > 30
    known = check_dataset(x, y, groups, None, None, 4, "together")
    for fold in repeated_folds(known.strata, known.groups, 4, 3, seed=0):
        assert sides(x, fold)
        assert all(len(set(fold[groups == g])) == 1 for g in set(groups))
        assert np.bincount(fold).min() > 20
