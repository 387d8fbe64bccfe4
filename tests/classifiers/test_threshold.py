"""Any classifier cut for a metric: scikit-learn's contract, folds, weights, intervals, files."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupKFold, StratifiedKFold, TunedThresholdClassifierCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import softset as ss
from softset.classifiers.threshold import MetricThresholdClassifier


def problem(task, n=600):
    if task == "multilabel":
        return make_multilabel_classification(n, n_labels=1, random_state=0)
    shares = [0.9, 0.1] if task == "binary" else [0.6, 0.25, 0.15]
    return make_classification(
        n, 8, n_informative=5, n_classes=len(shares), weights=shares, flip_y=0.1, random_state=0
    )


def cut(estimator=None, metric="f1", **settings):
    estimator = LogisticRegression() if estimator is None else estimator
    return MetricThresholdClassifier(estimator, metric, random_state=0, **settings)


class Told(ClassifierMixin, BaseEstimator):
    """The probability of a row is what stands in its first column; it remembers what it saw."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        Told.seen.append((np.asarray(X), np.asarray(y), sample_weight))
        return self

    def predict_proba(self, X):
        p = np.asarray(X, dtype=float)[:, 0]
        return np.column_stack([1 - p, p])


# --- the cut --------------------------------------------------------------------------------------


def test_the_threshold_is_the_best_of_out_of_fold_scores():
    random = np.random.RandomState(0)
    p = random.beta(1, 8, 4000)
    y = (random.rand(4000) < p).astype(int)
    model = cut(Told(), "f1").fit(p[:, None], y)
    exact = ss.best_threshold(p, y, "f1", from_logits=False)
    best, found = (f1_score(y, p >= t) for t in (exact, model.threshold_))
    assert found > best - 0.01
    assert f1_score(y, p >= 0.5) < best - 0.05
    assert np.array_equal(model.predict(p[:, None]), (p >= model.threshold_).astype(int))
    assert model.score(p[:, None], y) == pytest.approx(found)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("metric", ["f1", "mcc"])
def test_every_task_gains(task, metric):
    X, y = problem(task, 1200)
    inner = ExtraTreesClassifier(30, min_samples_leaf=5, random_state=0)
    model = cut(inner, metric).fit(X[:800], y[:800])
    plain = inner.fit(X[:800], y[:800])
    own = ss.evaluate(_one_hot(plain.predict(X[800:]), task), y[800:], metric, **_told(task))
    assert model.score(X[800:], y[800:]) > own
    assert model.gain_.value == pytest.approx(model.gain_.plain + model.gain_.gain)
    assert re.fullmatch(
        r"Gain\(value=0\.\d{4}, plain=0\.\d{4}(, \w+=[+-]0\.\d{4}){3}\)", repr(model.gain_)
    )
    assert model.gain_.low < model.gain_.gain < model.gain_.high
    expected = {"binary": (2,), "multiclass": (3, 2), "multilabel": (5, 2)}[task]
    assert model.interval_.shape == expected
    assert (model.interval_[..., 0] <= model.interval_[..., 1]).all()


def _one_hot(decided, task):
    return np.eye(3)[decided] if task == "multiclass" else decided.astype(float)


def _told(task):
    return {"task": task, "from_logits": False}


def test_offsets_and_thresholds_are_named_by_the_task():
    X, y = problem("multiclass")
    model = cut().fit(X, y)
    assert model.offsets_.shape == (3,)
    assert not hasattr(model, "threshold_")
    model.fit(*problem("binary"))
    assert 0 < model.threshold_ < 1
    assert not hasattr(model, "offsets_")


def test_scores_without_probabilities_are_cut_on_their_own_scale():
    X, y = problem("binary", 1500)
    model = cut(LinearSVC(C=0.01)).fit(X, y)
    assert not hasattr(model, "predict_proba")
    inner = model.estimators_[0]
    expected = (inner.decision_function(X) >= model.threshold_).astype(int)
    assert np.array_equal(model.predict(X), expected)
    assert model.interval_[0] <= model.threshold_ <= model.interval_[1] < 0


@pytest.mark.parametrize("refit", [True, False])
def test_the_positive_class_may_be_the_first(refit):
    X, codes = problem("binary", 1000)
    y = np.array(["rare", "usual"])[1 - codes]
    first = cut(pos_label="rare", refit=refit).fit(X, y)
    last = cut(refit=refit).fit(X, codes)
    assert first.classes_.tolist() == ["rare", "usual"]
    assert first.threshold_ == pytest.approx(last.threshold_)
    assert np.array_equal(first.predict(X) == "rare", last.predict(X) == 1)
    assert np.array_equal(first.decision_function(X) > 0, first.predict(X) == "usual")
    np.testing.assert_allclose(first.predict_proba(X), last.predict_proba(X)[:, ::-1], rtol=1e-6)
    svm = cut(LinearSVC(), pos_label="rare").fit(X, y)
    assert svm.score(X, y) == pytest.approx(f1_score(y, svm.predict(X), pos_label="rare"))


def test_refit_or_the_mean_of_the_fold_models():
    X, y = problem("binary")
    whole, mean = (cut(refit=refit, cv=4).fit(X, y) for refit in (True, False))
    assert len(whole.estimators_) == 1
    assert len(mean.estimators_) == 4
    expected = LogisticRegression().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(whole.predict_proba(X), expected)
    each = [m.predict_proba(X) for m in mean.estimators_]
    np.testing.assert_allclose(mean.predict_proba(X), np.mean(each, axis=0))
    assert whole.threshold_ == mean.threshold_


def test_probabilities_of_0_and_1_leave_a_cut_next_to_those_between():
    """A forest says exactly 0 of most rows; the logit of that is no place to measure gaps from."""
    y = np.repeat([0, 1], [900, 100])
    p = np.where(y == 1, np.random.RandomState(0).choice([0.02, 0.05, 0.3, 1.0], 1000), 0.0)
    model = cut(Told(), "f1").fit(p[:, None], y)
    assert 0.01 < model.threshold_ < 0.02


# --- folds ----------------------------------------------------------------------------------------


def test_equal_rows_are_in_one_fold_and_every_fold_has_its_share_of_a_class():
    random = np.random.RandomState(0)
    X = np.repeat(random.randn(150, 3), 2, axis=0)
    X[:, 0] = random.rand(300)
    X[1::2] = X[::2]
    y = (np.arange(300) // 2 % 5 == 0).astype(int)
    Told.seen.clear()
    cut(Told(), cv=5).fit(X, y)
    assert len(Told.seen) == 6
    for x, target, _ in Told.seen[:5]:
        kinds, count = np.unique(x, axis=0, return_counts=True)
        assert (count == 2).all()
        assert len(kinds) == 120
        assert target.sum() == 48


def test_the_same_seed_gives_the_same_model_in_one_process_or_two():
    X, y = problem("binary")
    one, again, two = (cut(n_jobs=jobs).fit(X, y) for jobs in (None, None, 2))
    for other in (again, two):
        assert one.threshold_ == other.threshold_
        assert one.gain_ == other.gain_
        assert np.array_equal(one.interval_, other.interval_)


# --- weights --------------------------------------------------------------------------------------


def test_weights_go_to_the_estimator_and_to_the_metric():
    X, y = problem("binary")
    w = np.where(y == 1, 5.0, 1.0)
    for inner in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        model = cut(inner).fit(X, y, sample_weight=w)
        scaled = (
            StandardScaler().fit_transform(X)
            if inner is not model and hasattr(inner, "steps")
            else X
        )
        expected = LogisticRegression().fit(scaled, y, w).predict_proba(scaled)
        np.testing.assert_allclose(model.predict_proba(X), expected)


def test_weights_that_an_estimator_does_not_take_weigh_the_metric():
    X, y = problem("binary")
    w = np.where(y == 1, 50.0, 1.0)
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier.fit takes no sample_weight"):
        heavy = cut(KNeighborsClassifier(25)).fit(X, y, sample_weight=w)
    light = cut(KNeighborsClassifier(25)).fit(X, y)
    assert heavy.threshold_ < light.threshold_


def test_rows_of_weight_zero_are_not_there():
    X, y = problem("binary")
    w = (np.arange(600) < 400).astype(float)
    y_wrong = np.where(w == 0, 1 - y, y)
    folds = StratifiedKFold(3)
    splits = [(a, b) for a, b in folds.split(X[:400], y[:400])]
    some = cut(cv=splits).fit(X[:400], y[:400])
    zero = cut(cv=splits).fit(X, y_wrong, sample_weight=w)
    assert zero.threshold_ == some.threshold_


# --- beside TunedThresholdClassifierCV ------------------------------------------------------------


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("inner", [LogisticRegression(), LinearSVC()])
def test_a_fitted_estimator_is_only_cut(task, inner):
    X, y = problem(task, 400)
    inner = MultiOutputClassifier(inner) if task == "multilabel" else inner
    if task == "multilabel" and not hasattr(inner, "predict_proba"):
        inner = RandomForestClassifier(10, random_state=0)
    fitted = inner.fit(X[:150], y[:150])
    model = cut(fitted, cv="prefit").fit(X[150:], y[150:])
    assert model.estimator_ is fitted
    assert model.classes_.tolist() == ([0, 1, 2, 3, 4] if task == "multilabel" else [*set(y)])
    if task == "binary":
        response = "predict_proba" if hasattr(inner, "predict_proba") else "decision_function"
        scores = getattr(fitted, response)(X)
        expected = (scores[:, 1] if scores.ndim == 2 else scores) >= model.threshold_
        assert np.array_equal(model.predict(X), expected)
    plain = model.with_threshold(None)
    assert model.score(X[150:], y[150:]) >= plain.score(X[150:], y[150:])


def test_a_fitted_estimator_as_scikit_learn_tunes_it():
    X, y = problem("binary", 3000)
    fitted = LogisticRegression().fit(X[:500], y[:500])
    ours = cut(fitted, cv="prefit", refit=False).fit(X[500:], y[500:])
    theirs = TunedThresholdClassifierCV(fitted, scoring="f1", cv="prefit", refit=False)
    theirs.fit(X[500:], y[500:])
    assert f1_score(y, ours.predict(X)) > f1_score(y, theirs.predict(X)) - 0.01
    assert np.array_equal(ours.predict_proba(X), theirs.predict_proba(X))


def test_classes_are_those_of_the_fitted_estimator(tmp_path):
    X, y = problem("multiclass")
    fitted = RandomForestClassifier(9, random_state=0).fit(X, y)
    some = y != 2
    model = cut(fitted, cv="prefit", metric="accuracy").fit(X[some], y[some])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.offsets_.shape == (3,)
    model.save(tmp_path / "cut.softset")
    again = MetricThresholdClassifier.load(tmp_path / "cut.softset")
    assert np.array_equal(again.fit(X[some], y[some]).predict(X), model.predict(X))
    with pytest.raises(ValueError, match="unknown to the model"):
        cut(fitted, cv="prefit").fit(X, y + 1)
    with pytest.raises(ValueError, match="cv='prefit' fits nothing, got 'mark' for fit"):
        cut(fitted, cv="prefit").fit(X, y, mark=y)


def test_the_fitted_estimator_has_its_usual_name():
    X, y = problem("binary")
    assert cut().fit(X, y).estimator_.coef_.shape == (1, 8)
    assert not hasattr(cut(refit=False).fit(X, y), "estimator_")
    assert not hasattr(cut(), "estimator_")


class Marked(Told):
    """Each row's mark is the row's own first number, wherever it comes."""

    fits: list = []

    def fit(self, X, y, sample_weight=None, marks=None, color=None):
        super().fit(X, y)
        Marked.fits.append((color, None if sample_weight is None else sample_weight.sum()))
        assert marks is None or np.array_equal(marks, X[:, 0])
        assert sample_weight is None or np.array_equal(sample_weight, 1 + X[:, 0])
        return self


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("refit", [False, True])
def test_parameters_of_fit_go_to_the_estimator_by_rows(routing, refit):
    p = np.random.RandomState(0).rand(100, 1)
    y = (p[:, 0] + 0.3 * np.random.RandomState(1).randn(100) > 0.6).astype(int)
    given = {"marks": p[:, 0], "color": "red", "sample_weight": 1 + p[:, 0]}
    Marked.fits.clear()
    inner = Marked()
    with sklearn.config_context(enable_metadata_routing=routing):
        if routing:
            inner.set_fit_request(marks=True, color=True, sample_weight=True)
        cut(inner, cv=4, refit=refit).fit(p, y, **given)
        assert [color for color, _ in Marked.fits] == ["red"] * (4 + refit)
        assert all(weight is not None for _, weight in Marked.fits)
        if routing:  # as scikit-learn has it: what is declined does not come, and still weighs
            Marked.fits.clear()
            inner.set_fit_request(marks=False, color=True, sample_weight=False)
            heavy = cut(inner, cv=4).fit(p, y, sample_weight=1 + 50 * y)
            assert all(weight is None for _, weight in Marked.fits)
            assert heavy.threshold_ < cut(inner, cv=4).fit(p, y).threshold_
            with pytest.raises(UnsetMetadataPassedError):
                cut(Marked(), cv=4).fit(p, y, color="red")
            groups = np.arange(100) // 5
            grouped = cut(Told(), cv=GroupKFold(4).set_split_request(groups=True))
            Told.seen.clear()
            grouped.fit(p, y, groups=groups)
            for x, _, _ in Told.seen[:4]:
                sizes = np.bincount(groups[np.isin(p[:, 0], x[:, 0])])
                assert set(sizes) <= {0, 5}


# --- inputs ---------------------------------------------------------------------------------------


def test_a_data_frame_reaches_the_estimator_as_it_is():
    X, y = problem("binary")
    frame = pd.DataFrame({"town": np.where(X[:, 0] > 0, "Bonn", "Ulm"), "size": X[:, 1]})
    inner = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough"),
        LogisticRegression(),
    )
    model = cut(inner).fit(frame, pd.Series(y).map({0: "no", 1: "yes"}))
    assert model.feature_names_in_.tolist() == ["town", "size"]
    assert set(model.predict(frame)) <= {"no", "yes"}


def test_sparse_rows_and_texts():
    X, y = problem("binary")
    dense = cut().fit(X, y)
    thin = cut().fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(
        thin.decision_function(sparse.csr_matrix(X)).mean(),
        dense.decision_function(X).mean(),
        atol=0.3,
    )
    texts = ["good fine" if c else "bad poor" for c in y]
    model = cut(make_pipeline(CountVectorizer(), MultinomialNB())).fit(texts, y)
    assert model.predict(["good", "bad"]).tolist() == [1, 0]


@pytest.mark.parametrize(
    "inner",
    [RandomForestClassifier(20, random_state=0), MultiOutputClassifier(LogisticRegression())],
)
def test_several_labels_have_a_threshold_each(inner):
    X, y = problem("multilabel")
    model = cut(inner).fit(X, y)
    assert model.threshold_.shape == (5,)
    assert model.predict(X).shape == y.shape
    p = inner.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), np.column_stack([q[:, 1] for q in p]))


def test_a_label_that_training_rows_lack_is_never_predicted():
    X, y = problem("multilabel")
    y[:, 2] = 0
    model = cut(RandomForestClassifier(10, random_state=0)).fit(X, y)
    assert not model.predict(X)[:, 2].any()


# --- nothing to tune ------------------------------------------------------------------------------


def test_areas_under_curves_have_no_threshold_and_need_no_folds():
    X, y = problem("binary")
    Told.seen.clear()
    model = cut(Told(), "auroc").fit(1 / (1 + np.exp(-X)), y)
    assert len(Told.seen) == 1
    assert model.threshold_ == 0.5
    assert model.gain_ is None
    assert model.interval_ is None


def test_noise_keeps_the_cut_of_the_model():
    random = np.random.RandomState(1)
    X, y = random.randn(200, 3), random.randint(0, 2, 200)
    assert cut(metric="accuracy").fit(X, y).threshold_ == 0.5


# --- errors ---------------------------------------------------------------------------------------


class Mute(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[0], len(X))


class Wrong(Told):
    def predict_proba(self, X):
        return np.full((len(X), 3), np.nan)


BAD = [
    ({"estimator": LinearRegression()}, "estimator must be a classifier with predict_proba"),
    ({"estimator": Mute()}, r"predict_proba or decision_function, got Mute\(\)"),
    ({"estimator": Wrong()}, r"predict_proba of estimator .* got shape \(\d+, 3\)"),
    ({"metric": "f11x"}, "metric 'f11x' is not known"),
    ({"pos_label": "maybe"}, r"pos_label must be one of \[0, 1\], got 'maybe'"),
    ({"cv": "prefit"}, "not fitted yet"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments_are_named(arguments, message):
    X, y = make_classification(200, weights=[0.9], flip_y=0.05, random_state=0)
    order = np.argsort(y, kind="stable")
    given = {"estimator": LogisticRegression(), **arguments}
    with pytest.raises(ValueError, match=message):
        MetricThresholdClassifier(**given).fit(X[order], y[order])


# --- files ----------------------------------------------------------------------------------------

FOREST = RandomForestClassifier(8, max_features=None, random_state=0)
EXTRA_TREES = ExtraTreesClassifier(8, min_samples_leaf=2, random_state=0)
LINEAR = ss.MetricLinearClassifier("mcc", cv=2, path=())


@pytest.mark.parametrize(
    ("task", "refit"),
    [("binary", True), ("binary", False), ("multiclass", True), ("multilabel", False)],
)
@pytest.mark.parametrize("inner", [LINEAR, FOREST, EXTRA_TREES])
def test_forests_and_classifiers_of_ours_are_saved_within_it(inner, task, refit, tmp_path):
    X, y = problem(task, 300)
    model = cut(inner, "f2", cv=3, refit=refit).fit(X, y)
    model.save(tmp_path / "cut.softset")
    again = MetricThresholdClassifier.load(tmp_path / "cut.softset")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.gain_ == model.gain_
    assert np.array_equal(again.interval_, model.interval_)
    assert again.estimator.get_params() == inner.get_params()
    assert again.cv == 3
    assert again.refit is refit
    ss.classifiers.save_model(tmp_path / "model.softset", encoder=None, classifier=model)
    assert np.array_equal(ss.load_model(tmp_path / "model.softset").predict(X), model.predict(X))


def test_a_metric_of_ones_own_is_passed_at_loading(tmp_path):
    X, y = problem("binary", 300)

    def own(c):
        return c.tp / (c.tp + c.fp + c.fn)

    inner = ss.MetricLinearClassifier(own, cv=2, path=())
    model = cut(inner, own, cv=3).fit(X, y)
    model.save(tmp_path / "cut.softset")
    with pytest.raises(ss.SavedFileError, match="metric of your own"):
        MetricThresholdClassifier.load(tmp_path / "cut.softset")
    again = MetricThresholdClassifier.load(tmp_path / "cut.softset", own)
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "inner", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())]
)
def test_others_are_refused_by_name_and_nothing_is_written(inner, tmp_path):
    model = cut(inner).fit(*problem("binary"))
    with pytest.raises(ValueError, match=f"saved without pickle, got {type(inner).__name__}"):
        model.save(tmp_path / "cut.softset")
    assert not list(tmp_path.iterdir())
