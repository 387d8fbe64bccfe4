"""Every classifier, every task: what it says with weights, with the positive class first, with
thresholds of labels, from a file, from a stream, and as a part of another."""

from __future__ import annotations

import copy
import warnings
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.class_weight import compute_sample_weight

import softset as ss
from softset.classifiers.ensemble import KINDS
from softset.classifiers.network import PhasedClassifier
from tests.properties.test_weights import MODELS, STREAMED, _halves
from tests.reference import TASKS

pytestmark = pytest.mark.usefixtures("quick_parts")
N = 160
WITH_CLASS_WEIGHT = [name for name in MODELS if "class_weight" in MODELS[name]().get_params()]


def table(task, n=N, seed=0):
    """Inputs, labels and weights, some of which are 0; the first class of two is the rarer one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    z = x + 0.5 * rng.normal(size=x.shape)
    w = rng.uniform(0.5, 2, n) * (rng.random(n) < 0.85)
    if task == "multilabel":
        return x, (z[:, :2] > [0.4, 0.8]).astype(int), w
    names = np.array(["few", "many"] if task == "binary" else ["a", "b", "c"])
    return x, names[(z[:, 0] < 0.7) * 1 if task == "binary" else z.argmax(1)], w


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*data)


def make(name, task, **settings):
    first = {"pos_label": "few"} if task == "binary" else {}
    return MODELS[name]().set_params(**first, **settings)


@cache
def fitted(name, task):
    return quietly(make(name, task), *table(task))


def on(blocks, data):
    """Data for ``fit``: as they are, or two blocks of a stream."""
    halves = zip(*map(_halves, data), strict=True)
    return ([tuple(block) for block in halves],) if blocks else data


ALL = [(name, task) for name in MODELS for task in TASKS]
# Shares of trees are moved by half a tree, and probabilities of 0 and 1 by a little, to be ranked.
NEAR = {"forest": 0.03, "MetricEnsembleClassifier": 0.01, "MetricThresholdClassifier": 0.03}


# --- what is said of other rows -------------------------------------------------------------------


def numbers(y, task):
    return y if task == "multilabel" else np.unique(y, return_inverse=True)[1]


def f1(y, decided, task, w):
    if task == "binary":
        return f1_score(y, decided, pos_label="few", sample_weight=w)
    return f1_score(y, decided, average="macro", sample_weight=w)


@pytest.mark.parametrize(("name", "task"), ALL)
def test_scores_are_those_of_scikit_learn_with_weights(name, task):
    model = fitted(name, task)
    x, y, w = table(task, 120, seed=1)
    decided, p = model.predict(x), model.predict_proba(x)
    assert (decided == y).mean() > 0.6
    area = copy.copy(model)
    area.metric = "auroc"
    columns = {"binary": p[:, 0], "multiclass": p, "multilabel": p}[task]
    target = y == "few" if task == "binary" else y
    for weight in (None, w):
        assert model.score(x, y, weight) == pytest.approx(f1(y, decided, task, weight))
        wanted = roc_auc_score(target, columns, sample_weight=weight, multi_class="ovr")
        assert area.score(x, y, weight) == pytest.approx(wanted, abs=NEAR.get(name, 1e-9))


@pytest.mark.parametrize(("name", "task"), ALL)
def test_another_threshold_decides_by_it(name, task):
    model = fitted(name, task)
    x, _, _ = table(task, 120, seed=1)
    p = model.predict_proba(x)
    if task == "multiclass":
        cut = np.array([0.0, 1.5, -1.0])
        wanted = model.classes_[(np.log(p + 1e-12) + cut).argmax(1)]
    elif task == "binary":
        cut, wanted = 0.2, np.where(p[:, 0] >= 0.2, "few", "many")
    else:
        cut, wanted = [0.15, 0.6], (p >= [0.15, 0.6]).astype(int)
    moved = model.with_threshold(cut)
    assert (moved.predict(x) == wanted).mean() >= (0.85 if name in NEAR else 1.0)
    assert (model.predict(x) != wanted).any()
    margin = moved.decision_function(x)
    if task == "multiclass":
        np.testing.assert_array_equal(model.classes_[margin.argmax(1)], moved.predict(x))
    else:
        positive = moved.predict(x) == ("many" if task == "binary" else 1)
        np.testing.assert_array_equal(margin > 0, positive)


@pytest.mark.parametrize(("name", "task"), ALL)
def test_out_of_fold_scores_are_of_rows_that_weigh_something(name, task):
    model = fitted(name, task)
    found = model.oof_scores_
    x, y, w = table(task)
    if found is None:
        assert name == "MetricEnsembleClassifier"
        return
    known = np.isfinite(found.reshape(len(y), -1)).all(1)
    assert not known[w == 0].any()
    once = name in ("MetricBoostingClassifier", "xgboost")  # a quarter of the rows is held out
    assert known[w > 0].mean() > (0.2 if once else 0.95)
    for k in range(1 if task == "binary" else found.shape[1]):
        own = found if task == "binary" else found[:, k]
        is_it = y == "few" if task == "binary" else numbers(y, task) == k
        is_it = y[:, k] == 1 if task == "multilabel" else is_it
        if once:  # by the model itself, which is not fitted again
            column = model.classes_.tolist().index("few") if task == "binary" else k
            p = model.predict_proba(x)
            p = p[column][:, 1] if isinstance(p, list) else p[:, column]
            expected = np.log(p) if task == "multiclass" else logit(p)
            assert np.corrcoef(own[known], expected[known])[0, 1] > 0.9
        else:
            assert roc_auc_score(is_it[known], own[known]) > 0.7


@pytest.mark.parametrize(("name", "task"), [a for a in ALL if a[0] != "MetricThresholdClassifier"])
def test_a_file_says_the_same(name, task, tmp_path):
    model = fitted(name, task)
    x, y, w = table(task, 120, seed=1)
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    for method in ("predict_proba", "predict", "decision_function", "predict_log_proba"):
        np.testing.assert_array_equal(getattr(again, method)(x), getattr(model, method)(x), method)
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.task_ == task
    assert again.score(x, y, w) == model.score(x, y, w)


# --- class weights, and weights of labels ---------------------------------------------------------


CLASS_WEIGHTS = {
    "binary": {"few": 4.0, "many": 0.5},
    "multiclass": {"a": 3.0, "b": 0.3, "c": 1.0},
    "multilabel": [{0: 1.0, 1: 4.0}, {0: 0.4, 1: 2.0}],
}
# Every classifier of two classes; one, in memory and of a stream, of several and of labels.
WEIGHED = [(n, "binary", False) for n in WITH_CLASS_WEIGHT]
WEIGHED += [(n, "binary", True) for n in WITH_CLASS_WEIGHT if n in STREAMED]
WEIGHED += [("MetricLinearClassifier", t, False) for t in TASKS if t != "binary"]
WEIGHED += [("MetricMLPClassifier", t, True) for t in TASKS if t != "binary"]


@pytest.mark.parametrize(("name", "task", "blocks"), WEIGHED)
def test_class_weights_are_weights_of_rows(name, task, blocks):
    """Times those that are given, which ``"balanced"`` counts, too. Of a stream nearly so: inputs
    are scaled before the classes are known."""
    x, y, w = table(task)
    plain = {"n_metric_estimators": 0} if name in ("MetricBoostingClassifier", "xgboost") else {}

    def p(weight, given=None):
        model = make(name, task, class_weight=given, **plain)
        return quietly(model, *on(blocks, (x, y, weight))).predict_proba(x)

    kinds = ["balanced"] if task == "multiclass" and not blocks else []
    for given in [CLASS_WEIGHTS[task], *kinds]:
        factor = _balanced(y, w, task)
        if given != "balanced":
            factor = compute_sample_weight(given, y)
        found, wanted = p(w, given), p(factor * w)
        if not blocks:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        else:
            assert np.abs(found - wanted).mean() < 0.6 * np.abs(p(w) - wanted).mean()


def _balanced(y, w, task):
    """``n / (classes n_class)``, with the sum of the weights for the number of rows."""
    columns = y.T if task == "multilabel" else [y]
    factor = np.ones(len(w))
    for column in columns:
        for value in np.unique(column):
            own = column == value
            factor[own] *= w.sum() / (len(np.unique(column)) * w[own].sum())
    return factor


# At a threshold of 1/2 those that train for each label's metric differ all the same.
TRAINED = ("MetricBoostingClassifier", "xgboost")
PER_LABEL = [(name, False, "tuned") for name in MODELS]
PER_LABEL += [(name, True, "tuned") for name in STREAMED]
PER_LABEL += [(name, blocks, None) for name in TRAINED for blocks in (False, True)]


@pytest.mark.parametrize(("name", "blocks", "threshold"), PER_LABEL)
def test_each_label_has_its_own_beta(name, blocks, threshold):
    """The same label twice: found by all means, and only where it is sure."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y = (x[:, 0] + 1.5 * rng.normal(size=400) > 1).astype(int)
    data = x, np.column_stack([y, y]), np.ones(400)
    flagged = {}
    for betas in ((0.2, 5.0), (5.0, 0.2)):
        given = {"threshold": None} if threshold is None else {}
        model = make(name, "multilabel", metric=ss.FBeta(betas), **given)
        model = quietly(model, *on(blocks, data))
        flagged[betas] = model.predict(x).mean(0)
        if name == "MetricLinearClassifier":  # of each label, what it is judged by out of fold
            sure, all_means = (model.path_[betas.index(beta)][0].value for beta in (0.2, 5.0))
            assert all_means > sure + 0.05
    assert flagged[0.2, 5.0][1] > flagged[0.2, 5.0][0] + 0.15
    assert flagged[5.0, 0.2][0] > flagged[5.0, 0.2][1] + 0.15


# --- parts ----------------------------------------------------------------------------------------

PARTS = {
    "MetricBoostingClassifier": (lambda m: m.log_loss_part(), {"n_metric_estimators": 0}),
    "xgboost": (lambda m: m.log_loss_part(), {"n_metric_estimators": 0}),
    "MetricLinearClassifier": (lambda m: m.logistic_part(), {"path": ()}),
    "MetricMLPClassifier": (lambda m: m.first_phase(), {"recipe": "cross-entropy"}),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", PARTS)
def test_what_comes_before_the_metric_is_a_fit_of_its_own(name, task):
    part, settings = PARTS[name]
    x, y, w = table(task)
    w = np.where(x[:, 1] > 0.5, 6.0, 1.0) * w
    model = make(name, task)
    if name == "MetricMLPClassifier":
        model = PhasedClassifier(**{**model.get_params(deep=False), "recipe": "warm"})
    found, alone = part(quietly(model, x, y, w)), quietly(make(name, task, **settings), x, y, w)
    np.testing.assert_allclose(found.predict_proba(x), alone.predict_proba(x), rtol=1e-6)
    np.testing.assert_allclose(found.decision_.logit, alone.decision_.logit, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_an_ensemble_learns_from_rows_that_weigh(kind):
    """Most rows lie, and weigh a thousandth."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y, true = (x[:, 0] > 0.3).astype(int), rng.random(400) < 0.4
    w = np.where(true, 1.0, 1e-3)
    model = ss.MetricEnsembleClassifier(base_models=[kind], cv=2, random_state=0)
    lies = np.where(true, y, 1 - y)
    p = quietly(model, x, lies, w).predict_proba(x)[:, 1]
    assert np.abs(p - quietly(model, x, lies, None).predict_proba(x)[:, 1]).max() > 0.01
    if kind != "extra-trees":  # whose leaves are pure, whatever they weigh
        assert roc_auc_score(y, p) > 0.75


def test_what_a_part_adds_is_lost_without_it():
    """One part knows the label; the other guesses."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = (x[:, 0] * x[:, 1] > 0.3).astype(int)  # which no linear model can tell
    model = ss.MetricEnsembleClassifier(base_models=["linear", "forest"], cv=3, random_state=0)
    found = {part.name: part for part in quietly(model, x, y, None).base_models_}
    assert found["forest"].adds > 0.1
    assert max((part.adds for name, part in found.items() if name != "forest"), default=0) < 0.1


# --- splits of the user's own ---------------------------------------------------------------------

SPLIT = {
    "MetricThresholdClassifier": lambda cv: ss.MetricThresholdClassifier(
        LogisticRegression(), cv=cv, random_state=0
    ),
    "MetricLinearClassifier": lambda cv: ss.MetricLinearClassifier(cv=cv, path=(0.03,)),
    "MetricEnsembleClassifier": lambda cv: ss.MetricEnsembleClassifier(
        base_models=["linear"], cv=cv, random_state=0
    ),
}


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("name", SPLIT)
def test_rows_of_weight_0_are_in_no_split(name, task):
    x, y, w = table(task)
    some = w > 0
    place = np.cumsum(some) - 1
    splits = list(StratifiedKFold(3).split(x, y))
    fewer = [tuple(place[rows[some[rows]]] for rows in pair) for pair in splits]
    lies = np.where(some, y, np.roll(np.unique(y), 1)[numbers(y, task)])
    found = quietly(SPLIT[name](splits), np.where(some[:, None], x, -x), lies, w)
    without = quietly(SPLIT[name](fewer), x[some], y[some], w[some])
    np.testing.assert_allclose(found.predict_proba(x), without.predict_proba(x), rtol=1e-6)
    if name == "MetricLinearClassifier":  # nothing of it depends on the order of rows
        np.testing.assert_allclose(found.decision_.logit, without.decision_.logit, rtol=1e-6)


@pytest.mark.parametrize("name", ["MetricThresholdClassifier", "MetricLinearClassifier"])
def test_rows_that_no_split_tests_have_no_say(name):
    """Positives are rare, so that a threshold below 1/2 is best. Two thirds of the rows are far
    from all others, negative, and in no test part; whatever stands for their scores counts not."""
    rng = np.random.default_rng(0)
    z, tested = rng.normal(-2, 1.5, 900), np.arange(900) < 300
    y = ((rng.random(900) < expit(z)) & tested).astype(int)
    x = np.where(tested, z, -9.0)[:, None]
    part = [np.flatnonzero(tested & (np.arange(900) % 2 == k)) for k in (0, 1)]
    model = SPLIT[name]([(part[1], part[0]), (part[0], part[1])])
    if name == "MetricLinearClassifier":
        model.set_params(path=())
    model = quietly(model, x, y, None)
    assert 0.1 < model.threshold_ < 0.45
    if name == "MetricLinearClassifier":
        assert model.logistic_part().threshold_ == model.threshold_


def test_a_fitted_estimator_is_cut_by_rows_that_weigh():
    rng = np.random.default_rng(0)
    z, w = rng.normal(scale=2, size=600), (rng.random(600) < 0.4) * 1.0
    y = (z + 0.5 * rng.normal(size=600) > np.where(w > 0, 1.5, -1.5)).astype(int)
    known = LogisticRegression().fit([[-1.0], [1.0]], [0, 1])
    model = ss.MetricThresholdClassifier(known, cv="prefit", random_state=0)
    model = quietly(model, z[:, None], y, w)
    line = known.coef_[0, 0], known.intercept_[0]
    at = (logit(model.threshold_) - line[1]) / line[0]
    assert 0.8 < at < 2.2


def test_a_label_that_all_rows_of_some_weight_have():
    """For out-of-bag probabilities it is constant, whatever rows of weight 0 have."""
    x, y, w = table("multilabel")
    y[:, 1] = w > 0
    some = w > 0
    found, without = (
        quietly(make("forest", "multilabel"), *data)
        for data in ((x, y, w), (x[some], y[some], w[some]))
    )
    np.testing.assert_array_equal(found.predict_proba(x), without.predict_proba(x))
    assert found.predict(x)[:, 1].all()


@pytest.mark.parametrize("name", STREAMED[:3])
def test_a_stream_stops_early_where_it_may(name):
    """Without early stopping a network runs all of its epochs, and nothing is judged."""
    data = on(True, table("binary", 120))
    if name != "MetricMLPClassifier":
        model = make(name, "binary", n_estimators=60, n_metric_estimators=0, patience=1)
        assert quietly(model, *data).n_estimators_ < 60
        return
    for early in (True, False):
        model = make(name, "binary", early_stopping=early, max_epochs=40, patience=1)
        history = quietly(model, *data).history_[0]
        assert (len(history["loss"]) < 40) == early
        assert (history["validation_loss"][0] is not None) == early


@pytest.mark.parametrize("positive", ["few", "many"])
def test_signs_are_those_of_the_coefficients(positive):
    """Of the last class, whichever is the positive one."""
    x, y, _ = table("binary")
    model = ss.MetricLinearClassifier(monotonic_cst=[1, 1, 0], pos_label=positive, cv=2)
    free = ss.MetricLinearClassifier(pos_label=positive, cv=2).fit(x, y)
    assert free.coef_[0, 0] < -1  # "many" falls with the first column
    found = quietly(model, x, y, None)
    assert (found.coef_[0, :2] >= 0).all()
    assert found.coef_[0, 0] == 0
