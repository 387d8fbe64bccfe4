"""What the classifiers share: labels, thresholds, decisions."""

from __future__ import annotations

import pickle
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

import softset as ss
from softset import (
    Confusion,
    MetricBoostingClassifier,
    MetricEnsembleClassifier,
    MetricLinearClassifier,
    MetricMLPClassifier,
    MetricThresholdClassifier,
    get_metric,
)
from softset.classifiers.base import DecidingClassifier
from softset.decisions.constants import ConstantWarning
from softset.tables.labels import read_labels


class Told(DecidingClassifier):
    """The probability of a row is what stands in its first column, or all of its columns."""

    def __init__(self, metric="f1", threshold=None, class_weight=None, pos_label=None):
        self.metric, self.threshold = metric, threshold
        self.class_weight, self.pos_label = class_weight, pos_label

    def fit(self, x, y):
        self.n_features_in_ = x.shape[1]
        _, codes, w = self._start(x, y, None)
        self._decide_by(self._scores(x), codes, w)
        return self

    def _scores(self, x):
        return self._task.scores(x[:, 0] if self._task.single else x)


def forest(trees, metric="f1", **settings):
    inner = RandomForestClassifier(trees, random_state=0)
    return MetricThresholdClassifier(inner, metric, cv="oob", **settings)


def first_and_last_apart(c):
    """A metric of one's own that reads the matrix, as docs/core.md promises it."""
    return 1 - (c.matrix[0, -1] + c.matrix[-1, 0] + c.matrix[0, 1] / 2) / c.total[0]


@pytest.mark.parametrize(
    ("make", "metric"),
    [
        (MetricLinearClassifier, first_and_last_apart),
        (lambda m: MetricLinearClassifier(m, cv=2, path=(0.03,)), "quadratic_kappa"),
        (
            lambda m: MetricEnsembleClassifier(m, base_models=("linear", "forest")),
            first_and_last_apart,
        ),
        (lambda m: MetricThresholdClassifier(LogisticRegression(), m), first_and_last_apart),
        (lambda m: MetricMLPClassifier(m, max_epochs=3, n_networks=2), first_and_last_apart),
        (
            lambda m: MetricBoostingClassifier(m, n_estimators=5, n_metric_estimators=5),
            first_and_last_apart,
        ),
        (lambda m: forest(20, m), first_and_last_apart),
    ],
)
def test_metrics_that_read_the_matrix_train_and_tune_every_classifier(make, metric):
    x = np.random.default_rng(0).normal(size=(90, 3))
    y = np.digitize(x[:, 0] + x[:, 1] / 2, [-0.4, 0.4])
    model = make(metric).fit(x, y)
    true = Confusion.from_matrix(confusion_matrix(y, model.predict(x)))
    assert model.score(x, y) == pytest.approx(float(get_metric(metric)(true)))
    assert model.score(x, y) > 0.5


@pytest.mark.parametrize(("threshold", "cut"), [(None, 0.5), (0.25, 0.25)])
def test_a_probability_at_the_threshold_is_positive(threshold, cut):
    x = np.array([[cut], [np.nextafter(cut, 0)], [0.9]])
    model = Told(threshold=threshold).fit(x, ["no", "no", "yes"])
    assert model.predict(x).tolist() == ["yes", "no", "yes"]
    assert (model.decision_function(x) > 0).tolist() == [True, False, True]
    assert model.score(x, ["yes", "no", "yes"]) == 1.0


@pytest.mark.parametrize("classes", [2, 3])
def test_areas_of_a_fitted_model_rank_its_logits(classes):
    """Where their probabilities are all 0 or 1."""

    class Logits(Told):
        def _scores(self, x):
            return x[:, 0] if self._task == "binary" else x

    random = np.random.default_rng(0)
    y = np.arange(60) % classes
    x = random.normal(size=(60, classes)) + 60 * np.eye(classes)[0]
    model = Logits(metric="auroc").fit(x, y)
    odds = x[:, 0] if classes == 2 else x - np.log(np.exp(x) @ (1 - np.eye(classes)))
    each = [y == 1] if classes == 2 else [y == k for k in range(classes)]
    wanted = [roc_auc_score(t, odds if classes == 2 else odds[:, k]) for k, t in enumerate(each)]
    assert model.score(x, y) == pytest.approx(np.mean(wanted), abs=1e-12)


def test_the_positive_class_may_be_the_first():
    x = np.array([[0.9], [0.1]])
    model = Told(pos_label="a").fit(x, ["a", "b"])
    assert model.predict(x).tolist() == ["a", "b"]
    np.testing.assert_allclose(model.predict_proba(x)[:, 0], [0.9, 0.1], rtol=1e-12)


def test_offsets_move_the_choice_among_several_classes():
    x = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.3, 0.4, 0.3]])
    y = ["a", "c", "b"]
    assert Told().fit(x, y).predict(x).tolist() == ["a", "c", "b"]
    moved = Told(threshold=[0.0, 1.0, 0.0]).fit(x, y)
    assert moved.predict(x).tolist() == ["b", "b", "b"]


WEIGHTED = [
    MetricMLPClassifier(n_networks=2, max_epochs=3, random_state=0),
    MetricLinearClassifier(path=(0.003,), C=0.01),
    MetricBoostingClassifier(n_estimators=5, n_metric_estimators=5, random_state=0),
    MetricBoostingClassifier(
        n_estimators=5, n_metric_estimators=5, random_state=0, library="xgboost"
    ),
]
AROUND = [
    MetricThresholdClassifier(DecisionTreeClassifier(max_depth=3), cv=3, random_state=0),
    MetricEnsembleClassifier(base_models=("linear", "forest"), cv=2, random_state=0),
]


def _named(value):
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(
    ("model", "task"),
    [*product(WEIGHTED, ["binary", "multiclass", "multilabel"]), *product(AROUND, ["binary"])],
    ids=_named,
)
def test_the_scale_of_the_weights_does_not_matter(model, task):
    """Sums of them may be infinite, or all of them 0 in float32."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(200, 3)), rng.integers(0, 5, 200).astype(float)
    y = (x + rng.normal(size=(200, 3)) > 0.8).astype(int)
    y = {"binary": y[:, 0], "multiclass": y[:, 0] + y[:, 1], "multilabel": y}[task]
    expected = clone(model).fit(x, y, sample_weight=weight)
    for scale in (2.0**-10, 1e305) if task == "binary" else (1000.0,):
        found = clone(model).fit(x, y, sample_weight=weight * scale)
        close = {"rtol": 0, "atol": 0 if 1e-9 < scale < 1e9 else 1e-4}
        for name in ("predict_proba", "decision_function"):
            np.testing.assert_allclose(getattr(found, name)(x), getattr(expected, name)(x), **close)


@pytest.mark.parametrize("model", WEIGHTED, ids=_named)
def test_the_scale_of_class_weights_does_not_matter(model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = (x[:, 0] + rng.normal(size=200) > 1).astype(int)
    found = [
        clone(model).set_params(class_weight={0: scale, 1: 3 * scale}).fit(x, y)
        for scale in (1.0, 1024.0)
    ]
    np.testing.assert_array_equal(*(m.decision_function(x) for m in found))


def test_weights_that_are_all_equal_are_none():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = (x[:, 0] + rng.normal(size=200) > 1).astype(int)
    rows = Told()._start(x, y, np.full(200, 0.1))
    assert (rows.w == 1).all()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: MetricMLPClassifier(n_networks=1, max_epochs=3, random_state=0, pos_label=None),
        lambda: forest(100),
        MetricLinearClassifier,
        lambda: MetricThresholdClassifier(LogisticRegression()),
    ],
)
def test_both_predictions_at_once_are_those_of_each(make, classes):
    g = np.random.default_rng(0)
    x = g.normal(size=(120, 3))
    y = np.array(["a", "b", "c"])[:classes][
        (x + 0.3 * g.normal(size=x.shape))[:, :classes].argmax(1)
    ]
    model = make()
    if classes == 2:
        model.set_params(pos_label="a")
    model.fit(x, y)
    p, decided = model.predict_both(x)
    assert (p == model.predict_proba(x)).all()
    assert (decided == model.predict(x)).all()


# --- the contract, of all classifiers -------------------------------------------------------------

ALL = {
    "network": MetricMLPClassifier(n_networks=2, max_epochs=3, random_state=0),
    "linear": MetricLinearClassifier(cv=2),
    "forest": forest(7),
    "boosting": MetricBoostingClassifier(n_estimators=5, n_metric_estimators=5, random_state=0),
    "threshold": MetricThresholdClassifier(
        ExtraTreesClassifier(5, random_state=0), cv=2, random_state=0
    ),
    "ensemble": MetricEnsembleClassifier(base_models=("linear", "forest"), cv=2, random_state=0),
}
WEIGHED = [name for name in ALL if "class_weight" in ALL[name].get_params()]


def of_task(task, n=120):
    """Inputs and targets; the positive class of two is the first."""
    g = np.random.default_rng(0)
    x = g.normal(size=(n, 4))
    z = x[:, :3] + 0.7 * g.normal(size=(n, 3))
    if task == "multilabel":
        return x, (z > [0.3, 0.8, 1.2]).astype(int)
    return x, np.array(["a", "b", "c"])[z[:, : 2 if task == "binary" else 3].argmax(1)]


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.filterwarnings("error", "ignore:no better than a constant")
def test_log_probabilities_are_logarithms(kind, task):
    x, y = of_task(task)
    model = clone(ALL[kind])
    if task == "binary":
        model.set_params(pos_label="a")
    model.fit(x, y)
    p, logs = model.predict_proba(x), model.predict_log_proba(x)
    assert p.shape == (120, {"binary": 2}.get(task, 3))
    np.testing.assert_allclose(np.exp(logs), p, rtol=1e-9, atol=1e-300)
    if kind == "linear":  # and do not end where probabilities do
        far = model.predict_log_proba(1e4 * x)
        assert np.isfinite(far).all()
        assert far.min() < -1000


@pytest.mark.parametrize("given", ["balanced", [{1: 3.0}, {0: 2.0, 1: 5.0}, {}]], ids=str)
@pytest.mark.parametrize("kind", WEIGHED)
def test_class_weights_of_labels_are_those_of_scikit_learn(kind, given):
    x, y = of_task("multilabel")
    whole = given if given == "balanced" else [{0: 1.0, 1: 1.0, **one} for one in given]
    rows = compute_sample_weight(whole, y)
    expected = clone(ALL[kind]).fit(x, y, sample_weight=rows)
    found = clone(ALL[kind]).set_params(class_weight=given).fit(x, y)
    np.testing.assert_allclose(found.predict_proba(x), expected.predict_proba(x), rtol=1e-6)
    np.testing.assert_allclose(found.threshold_, expected.threshold_, rtol=1e-6)
    weighed = np.random.default_rng(1).integers(0, 3, 120)  # balanced are weights, not rows
    twice = np.repeat(np.arange(120), weighed)
    labels, codes = read_labels(y)
    by_weight, by_row = (
        labels.factors(given, codes, weighed),
        labels.factors(given, codes[twice], np.ones(len(twice))),
    )
    np.testing.assert_allclose(by_weight[twice], by_row)


@pytest.mark.parametrize("given", [{0: 1, 1: 2}, [{1: 2}], [{2: 1}] * 3, "balancd"], ids=str)
def test_class_weights_of_labels_that_cannot_be_meant_are_refused(given):
    with pytest.raises(ValueError, match="class_weight"):
        clone(ALL["linear"]).set_params(class_weight=given).fit(*of_task("multilabel"))


# --- scores of rows that were not seen ------------------------------------------------------------


def noise_with_twins():
    """Nothing to learn, and 40 rows given twice: who has seen a row knows it."""
    random = np.random.RandomState(0)
    X, y = random.randn(300, 30), random.randint(0, 2, 300)
    return np.concatenate([X, X[:40]]), np.concatenate([y, y[:40]])


MODELS = {
    "linear": MetricLinearClassifier("f1", path=()),  # on noise F1 would flag every row
    "network": MetricMLPClassifier("f1", n_networks=5, patience=30, random_state=0),
    "forest": forest(60),
}


@pytest.mark.parametrize("kind", MODELS)
def test_unseen_scores_are_by_models_that_have_not_seen_the_row(kind):
    X, y = noise_with_twins()
    X, y = (X, y) if kind != "forest" else (X[:300], y[:300])  # its bags may part twins
    model = clone(MODELS[kind]).fit(X, y)
    found = model.oof_scores_
    assert found.shape == y.shape
    known = np.isfinite(found)
    assert known.mean() > 0.95
    assert roc_auc_score(y[known], found[known]) < 0.6
    assert roc_auc_score(y, model.predict_proba(X)[:, 1]) > 0.65


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_unseen_scores_stand_in_the_order_of_the_rows(kind):
    X, y = noise_with_twins()
    order = np.random.RandomState(1).permutation(len(y))
    found = clone(MODELS[kind]).fit(X, y).oof_scores_
    again = clone(MODELS[kind]).fit(X[order], y[order]).oof_scores_
    np.testing.assert_allclose(again, found[order], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[:40], found[300:], rtol=1e-9)


def test_unseen_scores_are_not_kept_in_pickles_and_are_none_without_a_cut():
    X, y = noise_with_twins()
    model = clone(MODELS["linear"]).fit(X, y)
    assert pickle.loads(pickle.dumps(model)).oof_scores_ is None
    for kind, plain in MODELS.items():
        assert clone(plain).set_params(metric="auroc").fit(X, y).oof_scores_ is None, kind


# --- rows that repeat -----------------------------------------------------------------------------

SMALL = {
    "linear": MetricLinearClassifier("f1"),
    "network": MetricMLPClassifier(
        "f1", n_networks=5, max_epochs=40, hidden_layer_sizes=(16,), random_state=0
    ),
    "lightgbm": MetricBoostingClassifier(
        "f1", n_estimators=40, n_metric_estimators=20, random_state=0
    ),
    "xgboost": MetricBoostingClassifier(
        "f1", n_estimators=40, n_metric_estimators=20, random_state=0, library="xgboost"
    ),
    "threshold": MetricThresholdClassifier(DecisionTreeClassifier(), "f1", random_state=0),
    "ensemble": MetricEnsembleClassifier(
        "f1", base_models=("linear", "forest"), cv=2, random_state=0
    ),
}


def few_kinds(n, task, seed):
    """Three columns of three values, as dummies: 27 kinds of rows, effects and interactions."""
    cells = np.random.default_rng(seed).integers(0, 3, (n, 3))
    random = np.random.default_rng(5)
    effects = random.normal(size=(3, 3, 4))
    logit = sum(effects[j][cells[:, j]] for j in range(3))
    logit += random.normal(size=(3, 3, 4))[cells[:, 0], cells[:, 1]]
    drawn = np.random.default_rng(seed + 100)
    x = np.hstack([np.eye(3)[c] for c in cells.T])
    if task == "multiclass":
        return x, (1.5 * logit[:, :3] + drawn.gumbel(size=(n, 3))).argmax(1)
    y = (drawn.random(logit.shape) < 1 / (1 + np.exp(1.0 - logit))).astype(int)
    return x, y[:, 0] if task == "binary" else y[:, :3]


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        *((kind, "binary") for kind in SMALL),
        ("lightgbm", "multiclass"),
        pytest.param("network", "multiclass", marks=pytest.mark.slow),
        pytest.param("linear", "multilabel", marks=pytest.mark.slow),
    ],
)
def test_columns_of_few_categories_are_learnt_as_well_as_where_no_two_rows_are_equal(kind, task):
    x, y = few_kinds(900, task, 0)
    new, target = few_kinds(3000, task, 1)
    model = clone(SMALL[kind]).set_params(metric="f1" if task == "binary" else "f1_macro")
    noise = 1e-9 * np.random.default_rng(0).normal(size=(3000, 1))
    other = clone(model).fit(np.hstack([x, noise[:900]]), y).score(np.hstack([new, noise]), target)
    found = model.fit(x, y)
    assert found.score(new, target) > other - 0.02
    order = np.random.default_rng(0).permutation(900)
    if kind not in ("threshold", "ensemble"):  # their folds are of places
        again = clone(model).fit(x[order], y[order])
        np.testing.assert_allclose(again.predict_proba(x), found.predict_proba(x), atol=1e-4)


def test_one_kind_of_row_may_be_a_third_of_the_table():
    """As in mammography, where one row is there 3,329 times of 11,183."""
    random = np.random.default_rng(0)
    x = random.normal(size=(3000, 4))
    y = (random.random(3000) < 1 / (1 + np.exp(7 - 4 * x[:, 0] - x[:, 1]))).astype(int)
    x[(random.random(3000) < 0.35) & (y == 0)] = -1.0
    x[np.flatnonzero(y[:2000])[0]] = -1.0  # one of them is positive
    for kind in ("lightgbm", "xgboost", "linear"):
        model = clone(SMALL[kind]).fit(x[:2000], y[:2000])
        assert model.score(x[2000:], y[2000:]) > 0.5, kind
        assert roc_auc_score(y[2000:], model.predict_proba(x[2000:])[:, 1]) > 0.85, kind


# --- no better than a constant --------------------------------------------------------------------


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("kind", SMALL)
def test_a_model_that_is_no_better_than_a_constant_says_so(kind, task):
    """Nothing to learn, and a metric for which a constant is as good as can be."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    drawn = random.choice(3, (200, 3), p=[0.86, 0.07, 0.07])
    y = {"binary": drawn[:, 0] > 0, "multiclass": drawn[:, 0], "multilabel": drawn > 0}[task]
    model = clone(SMALL[kind]).set_params(metric="accuracy")
    with pytest.warns(ConstantWarning, match=r"no better than a constant: accuracy is 0\.\d+ on"):
        model.fit(x, y.astype(int))


def test_a_useless_model_of_a_table_names_the_class_of_the_table():
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=200)})
    y = np.repeat(["ja", "nein"], [30, 170])  # the positive one is the first in order
    with pytest.warns(ConstantWarning, match="if every row were predicted as 'ja'"):
        ss.train_model(frame, y, "recall", recipe="linear-tuned")


@pytest.mark.parametrize("metric", ["f1", "f1_macro", "mcc", "kappa", "auroc", "average_precision"])
def test_scores_that_say_the_reverse_are_worse_than_a_constant(metric):
    y = np.arange(60) % 3 == 0
    x = np.where(y, 0.1, 0.8)[:, None] + 0.1 * np.random.default_rng(0).random((60, 1))
    with pytest.warns(ConstantWarning, match="held-out rows"):
        Told(metric).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Told(metric).fit(1 - x, y)


@pytest.mark.parametrize(
    "model",
    [
        ss.MetricLinearClassifier(verbose=1),
        ss.MetricThresholdClassifier(LogisticRegression(), verbose=1),
        ss.MetricBoostingClassifier(n_estimators=5, n_metric_estimators=5, verbose=1),
        ss.MetricEnsembleClassifier(base_models=["linear"], cv=2, verbose=1),
        ss.MetricMLPClassifier(n_networks=2, max_epochs=2, verbose=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_classifier_shows_progress_where_it_is_asked_to(model, capfd):
    x = np.random.default_rng(0).normal(size=(120, 3))
    y = x[:, 0] > 0.8
    model.fit(x, y)
    shown = capfd.readouterr().err
    assert " 1 of " in shown or "Done" in shown
    model.set_params(verbose=0).fit(x, y)
    assert capfd.readouterr().err == ""
