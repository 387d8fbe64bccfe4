"""MetricMLPClassifier: scikit-learn's contract, labels, thresholds, files."""

from __future__ import annotations

import copy
import os
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.metrics import f1_score, fbeta_score, make_scorer, matthews_corrcoef
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import softset as ss
from softset import MetricMLPClassifier, SavedFileError
from softset.classifiers.base import DecidingClassifier
from softset.decisions.decision import Decision
from softset.tables.rows import ordered_rows
from softset.tables.scaling import Scaler
from softset.tables.splits import salted_folds

FAST = {
    "n_networks": 2,
    "max_epochs": 15,
    "hidden_layer_sizes": (16,),
    "batch_size": 100,
    "learning_rate": 0.01,
    "random_state": 0,
}


# A row of weight two is in one fold and batch, a row given twice may be in two.
_FAILS = {"check_sample_weight_equivalence_on_dense_data": "folds and batches are of rows"}


@parametrize_with_checks([MetricMLPClassifier()], expected_failed_checks=lambda _: _FAILS)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_estimator_checks_of_the_defaults(estimator, check):
    if check.func.__name__ == "check_classifiers_train":
        estimator.set_params(threshold=None)
    check(estimator)


@pytest.fixture(scope="module")
def binary():
    return make_classification(600, 8, weights=[0.85], flip_y=0.05, random_state=1)


@pytest.fixture(scope="module")
def multiclass():
    return make_classification(
        600, 8, n_informative=6, n_classes=3, weights=[0.7, 0.2], random_state=1
    )


@pytest.fixture(scope="module")
def multilabel():
    return make_multilabel_classification(400, 8, n_classes=3, random_state=1)


# --- rows by content -----------------------------------------------------------------------------


def test_the_order_of_rows_does_not_matter(multiclass):
    X, y = multiclass
    order = np.random.default_rng(0).permutation(len(y))
    a = MetricMLPClassifier(**FAST).fit(X, y)
    b = MetricMLPClassifier(**FAST).fit(X[order], y[order])
    assert np.array_equal(a.predict_proba(X), b.predict_proba(X))


def test_scaling_is_robust():
    x = np.array([[0.0, 1e300, 5.0], [1.0, -1e300, 5.0], [2.0, 1e300, 5.0], [1e9, 0.0, 5.0]])
    scaled = Scaler.of(x, np.ones(4))(x)
    assert np.isfinite(scaled).all()
    assert (np.abs(scaled) < 3).all()
    assert (scaled[:, 2] == 0).all()


def test_same_seed_same_result_ten_of_ten(binary):
    X, y = binary
    fits = [MetricMLPClassifier(**FAST).fit(X, y).predict_proba(X) for _ in range(10)]
    assert all(np.array_equal(p, fits[0]) for p in fits)
    other = MetricMLPClassifier(**FAST | {"random_state": 1}).fit(X, y).predict_proba(X)
    assert not np.array_equal(other, fits[0])


# --- decisions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pos_label", [None, 0, 1])
def test_decision_function_is_positive_exactly_where_predicted(binary, pos_label):
    X, y = binary
    model = MetricMLPClassifier(pos_label=pos_label, **FAST).fit(X, y)
    assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == 1)
    model._decision = Decision("binary", np.asarray(model._scores(X)[3]))  # a row exactly on it
    assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == 1)
    assert model.predict(X)[3] == (0 if pos_label == 0 else 1)


def test_decision_function_of_several_classes_and_of_labels(multiclass, multilabel):
    X, y = multiclass
    model = MetricMLPClassifier(**FAST).fit(X, y)
    assert np.array_equal(model.decision_function(X).argmax(1), model.predict(X))
    X, y = multilabel
    model = MetricMLPClassifier(**FAST).fit(X, y)
    assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == 1)
    assert model.predict(X).shape == model.predict_proba(X).shape == y.shape


def test_a_given_threshold_is_respected(binary, multiclass, multilabel):
    X, y = binary
    model = MetricMLPClassifier(threshold=0.8, **FAST).fit(X, y)
    assert np.array_equal(model.predict(X), (model.predict_proba(X)[:, 1] >= 0.8).astype(int))
    flipped = MetricMLPClassifier(threshold=0.8, pos_label=0, **FAST).fit(X, y)
    assert np.array_equal(flipped.predict(X) == 0, flipped.predict_proba(X)[:, 0] >= 0.8)
    X, y = multiclass
    with pytest.warns(UserWarning, match="no better than a constant"):
        model = MetricMLPClassifier(threshold=[0.0, 0.0, 50.0], **FAST).fit(X, y)
    assert set(model.predict(X)) == {2}
    model = MetricMLPClassifier(threshold=None, **FAST).fit(X, y)
    assert np.array_equal(model.predict(X), model.predict_proba(X).argmax(1))
    X, y = multilabel
    model = MetricMLPClassifier(threshold=[0.1, 0.5, 0.9], **FAST).fit(X, y)
    assert np.array_equal(model.predict(X), model.predict_proba(X) >= [0.1, 0.5, 0.9])


def test_tuning_moves_the_threshold_of_cross_entropy_where_it_helps():
    X, y = make_classification(4000, 6, weights=[0.9], class_sep=0.7, random_state=0)
    settings = FAST | {"recipe": "cross-entropy", "max_epochs": 30}
    tuned = MetricMLPClassifier(**settings).fit(X[:3000], y[:3000])
    plain = MetricMLPClassifier(threshold=0.5, **settings).fit(X[:3000], y[:3000])
    assert tuned.threshold_ < 0.5
    assert np.array_equal(tuned.predict_proba(X), plain.predict_proba(X))
    assert tuned.score(X[3000:], y[3000:]) > plain.score(X[3000:], y[3000:]) + 0.05


@pytest.mark.parametrize(
    ("metric", "oracle"),
    [("f1", f1_score), ("f2", lambda a, b: fbeta_score(a, b, beta=2)), ("mcc", matthews_corrcoef)],
)
def test_score_is_the_metric_of_predict(binary, metric, oracle):
    X, y = binary
    model = MetricMLPClassifier(metric, **FAST).fit(X, y)
    assert model.score(X, y) == pytest.approx(oracle(y, model.predict(X)), rel=1e-12)


def test_score_of_several_classes_labels_and_areas(multiclass, multilabel, binary):
    X, y = multiclass
    model = MetricMLPClassifier(**FAST).fit(X, y)
    assert model.score(X, y) == pytest.approx(f1_score(y, model.predict(X), average="macro"))
    unseen = np.where(y == 2, 7, y)  # a class that training never saw can only be wrong
    oracle = f1_score(unseen, model.predict(X), average="macro")
    assert model.score(X, unseen) == pytest.approx(oracle)
    X, y = multilabel
    model = MetricMLPClassifier(**FAST).fit(X, y)
    assert model.score(X, y) == pytest.approx(f1_score(y, model.predict(X), average="macro"))
    X, y = binary
    model = MetricMLPClassifier("auroc", **FAST).fit(X, y)
    oracle = sklearn.metrics.roc_auc_score(y, model.predict_proba(X)[:, 1])
    assert model.score(X, y) == pytest.approx(oracle)
    assert model.threshold_ == 0.5


def test_pos_label_chooses_whose_f1(binary):
    X, y = binary
    model = MetricMLPClassifier(pos_label=0, **FAST).fit(X, y)
    assert model.classes_.tolist() == [0, 1]
    assert model.score(X, y) == pytest.approx(f1_score(y, model.predict(X), pos_label=0))
    p = model.predict_proba(X)
    assert p[y == 0, 0].mean() > p[y == 1, 0].mean()


@pytest.mark.parametrize("recipe", ["cross-entropy", "metric", "metric-grid", "anneal", "warm"])
def test_recipes(binary, recipe):
    X, y = binary
    model = MetricMLPClassifier(recipe=recipe, **FAST | {"max_epochs": 60}).fit(X, y)
    assert model.score(X, y) > 0.5
    assert len(model.history_) == 2


def test_a_custom_metric_and_a_loss_object(binary):
    X, y = binary

    def share_found(c):
        return ss.counting.ratio(c.tp, c.support) - ss.counting.ratio(c.fp, c.total)

    model = MetricMLPClassifier(share_found, **FAST).fit(X, y)
    assert model.score(X, y) > 0.3
    model = MetricMLPClassifier(recipe=ss.FocalLoss(), **FAST).fit(X, y)
    assert model.score(X, y) > 0.3


def test_without_early_stopping_all_rows_train(binary):
    X, y = binary
    settings = FAST | {"early_stopping": False, "max_epochs": 5, "threshold": 0.5}
    model = MetricMLPClassifier(recipe="metric", **settings).fit(X, y)
    assert [len(h["loss"]) for h in model.history_] == [5, 5]
    assert model.history_[0]["validation_loss"] == [None] * 5


@pytest.mark.parametrize("members", [2, 5, 10])
def test_rows_are_scored_for_the_cut_by_members_that_have_not_seen_them(
    binary, monkeypatch, members
):
    X, y = binary
    told = []
    monkeypatch.setattr(
        MetricMLPClassifier,
        "_decide_by",
        lambda self, *given: (told.extend(given), DecidingClassifier._decide_by(self, *given)),
    )
    model = MetricMLPClassifier(**FAST | {"n_networks": members}).fit(X, y)
    rows, place = ordered_rows(X, y, np.ones(len(y)))
    fold = salted_folds(rows, 5, int(np.random.RandomState(0).randint(2**31 - 1)))
    covered = fold < members
    assert covered.mean() == pytest.approx(min(members, 5) / 5, abs=0.02)
    scores, target, weight, own = told
    assert np.array_equal(own >= 0, covered[place])
    assert np.array_equal(model.oof_scores_[own >= 0], scores[own[own >= 0]])
    assert np.array_equal(target[own], np.where(own >= 0, y, target[-1]))
    assert np.array_equal(target, rows.y[covered])
    assert (weight == 1).all()
    for k in range(min(members, 5)):
        alone = copy.copy(model)
        alone._weights = model._weights[k::5]  # those that leave out fold k
        np.testing.assert_array_equal(scores[fold[covered] == k], alone._scores(rows.x[fold == k]))


def test_the_default_is_cross_entropy_with_a_tuned_cut(binary):
    assert MetricMLPClassifier().recipe == "cross-entropy"
    X, y = binary
    model = MetricMLPClassifier(max_epochs=3, hidden_layer_sizes=(4,), random_state=0).fit(X, y)
    assert {phase for h in model.history_ for phase in h["phase"]} == {0}
    assert len({len(h["loss"]) for h in model.history_}) == 1  # all stop together
    assert len(model.history_) == 10


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        (False, True),
        (-1, 1),
        ("no", "yes"),
        ("NA", "None"),
        ("", "x"),
        ("01", "1"),
        (0.0, 1.0),
        ("a", "b", "c"),
        (3, 5, 9),
    ],
)
def test_labels_round_trip_through_classes(names, binary, multiclass):
    X, codes = binary if len(names) == 2 else multiclass
    for dtype in (None, object):
        y = np.array(names, dtype=dtype)[codes]
        model = MetricMLPClassifier(**FAST).fit(X, y)
        assert model.classes_.tolist() == sorted(names)
        assert set(model.predict(X).tolist()) <= set(names)
        assert (model.predict(X) == y).mean() > 0.7
        assert model.score(X, y) > 0.3


def test_lists_and_frames_of_names(binary):
    X, codes = binary
    names = ["no", "yes"]
    model = MetricMLPClassifier(**FAST).fit(X.tolist(), [names[c] for c in codes])
    assert set(model.predict(X.tolist())) == {"no", "yes"}


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 20, "one class only: 'a'"),
        ([0] * 20, "one class only: 0"),
        ([0, None, 1, None] * 5, r"missing .* 10 row\(s\): 1, 3, 5, 7, 9, …"),
        ([0.0, float("nan")] * 10, r"missing .* 10 row\(s\): 1, 3"),
        (np.array([0, "a"] * 10, dtype=object), "mix text and numbers"),
        (np.linspace(0, 1, 20), "continuous"),
    ],
)
def test_bad_labels_are_refused(y, message):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match=message):
        MetricMLPClassifier(**FAST).fit(X, y)


def test_names_that_differ_by_blanks_warn(binary):
    X, codes = binary
    with pytest.warns(UserWarning, match="'A', 'A ' differ only by blanks"):
        MetricMLPClassifier(**FAST).fit(X, np.array(["A", "A "])[codes])


def test_a_column_of_labels_warns_and_is_ravelled(binary):
    X, y = binary
    with pytest.warns(sklearn.exceptions.DataConversionWarning, match="column-vector"):
        model = MetricMLPClassifier(**FAST).fit(X, y.reshape(-1, 1))
    assert model.predict(X).shape == y.shape


def test_a_class_too_small_to_hold_out_warns(multiclass):
    X, y = multiclass
    y = np.where(y == 2, 0, y)
    y[7] = 2
    with pytest.warns(UserWarning, match="class 2 has too few distinct rows"):
        MetricMLPClassifier(**FAST).fit(X, y)


def test_a_fit_that_predicts_one_class_says_so(binary):
    X, y = binary
    with pytest.warns(UserWarning, match="no better than a constant"):
        MetricMLPClassifier(threshold=1 - 1e-12, **FAST).fit(X, y)


def test_half_the_labels_flipped_stays_finite(binary):
    X, y = binary
    flip = np.random.default_rng(0).random(len(y)) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MetricMLPClassifier(**FAST).fit(X, np.where(flip, 1 - y, y))
    assert np.isfinite(model.predict_proba(X)).all()


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"metric": "f1_scor"}, "Did you mean 'f1"),
        ({"recipe": "warmer"}, "Did you mean 'warm'"),
        ({"threshold": 1.0}, r"threshold must be in \(0, 1\), got 1.0"),
        ({"threshold": "tune"}, "threshold must be one of 'tuned'"),
        ({"threshold": [0.1, 0.2]}, "threshold must be 'tuned' or a number"),
        ({"learning_rate": -1}, "learning_rate must be in"),
        ({"learning_rate": float("nan")}, "learning_rate must be in"),
        ({"n_networks": 0}, "n_networks must be in"),
        ({"batch_size": 0}, "batch_size must be in"),
        ({"validation_fraction": 1.0}, "validation_fraction must be in"),
        ({"pos_label": "yes"}, r"pos_label must be one of \[0, 1\], got 'yes'"),
        ({"class_weight": "balancd"}, "Did you mean 'balanced'"),
        ({"class_weight": {2: 1.0}}, r"class_weight names 2, y holds \[0, 1\]"),
        ({"class_weight": {1: -1.0}}, "class_weight must be in"),
    ],
)
def test_wrong_arguments_are_named(binary, wrong, message):
    with pytest.raises(ValueError, match=message):
        MetricMLPClassifier(**FAST | wrong).fit(*binary)


@pytest.mark.parametrize(("weight", "message"), [(-1.0, "must not be negative"), (0.0, "zero")])
def test_bad_sample_weights_are_refused(binary, weight, message):
    X, y = binary
    with pytest.raises(ValueError, match=message):
        MetricMLPClassifier(**FAST).fit(X, y, sample_weight=np.full(len(y), weight))


def test_a_batch_larger_than_the_data_warns(binary):
    with pytest.warns(UserWarning, match="batch_size=5000 is more than the"):
        MetricMLPClassifier(**FAST | {"batch_size": 5000}).fit(*binary)


@pytest.mark.parametrize("absent", [0, 2])
def test_a_class_without_weight_is_named(multiclass, absent):
    x, y = multiclass
    with pytest.raises(ValueError, match=f"class {absent} has no row of positive sample_weight"):
        MetricMLPClassifier(n_networks=1, max_epochs=1).fit(x, y, sample_weight=(y != absent) * 1.0)


def test_class_weight_is_sample_weight(binary):
    X, y = binary
    a = MetricMLPClassifier(class_weight={1: 3.0}, **FAST).fit(X, y)
    b = MetricMLPClassifier(**FAST).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    assert np.array_equal(a.predict_proba(X), b.predict_proba(X))
    balanced = MetricMLPClassifier(class_weight="balanced", **FAST).fit(X, y)
    share = np.bincount(y) / len(y)
    c = MetricMLPClassifier(**FAST).fit(X, y, sample_weight=0.5 / share[y])
    np.testing.assert_allclose(balanced.predict_proba(X), c.predict_proba(X), atol=1e-3)


# --- in company ----------------------------------------------------------------------------------


def test_clone_pipeline_search_and_calibration(binary):
    X, y = binary
    model = make_pipeline(StandardScaler(), MetricMLPClassifier(**FAST))
    search = GridSearchCV(model, {"metricmlpclassifier__metric": ["f1", "mcc"]}, cv=2)
    search.fit(X, y)
    assert search.best_score_ > 0.3
    calibrated = CalibratedClassifierCV(MetricMLPClassifier(**FAST), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(y), 2)
    tuned = TunedThresholdClassifierCV(MetricMLPClassifier(**FAST), scoring="f1", cv=2).fit(X, y)
    assert f1_score(y, tuned.predict(X)) > 0.4
    copy = clone(MetricMLPClassifier(ss.FBeta(2), **FAST))
    assert copy.metric == ss.FBeta(2)


def test_sample_weight_is_routed(binary):
    X, y = binary
    weight = np.where(y == 1, 5.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MetricMLPClassifier(**FAST).set_fit_request(sample_weight=True)
        scorer = make_scorer(f1_score).set_score_request(sample_weight=True)
        result = cross_validate(
            model, X, y, cv=2, scoring=scorer, params={"sample_weight": weight}, error_score="raise"
        )
    assert (result["test_score"] > 0.3).all()


def test_scikit_learn_callbacks_are_called_and_may_stop(binary):
    pytest.importorskip("sklearn.callback")

    class Count:
        def __init__(self):
            self.names = []

        def setup(self, estimator, context):
            self.names.append("setup")

        def teardown(self, estimator, context):
            self.names.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            self.names.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context):
            self.names.append(f"end {context.task_name}")
            return self.names.count("end epoch") == 3

    callback = Count()
    model = MetricMLPClassifier(recipe="metric", **FAST).set_callbacks(callback).fit(*binary)
    epoch = ["begin epoch", "end epoch"]
    assert callback.names == ["setup", "begin fit", *epoch * 3, "end fit", "teardown"]
    assert max(len(h["loss"]) for h in model.history_) == 3


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("metric", ["f1", ss.FBeta(2.0, "weighted")])
def test_saved_and_loaded_predicts_the_same_bits(tmp_path, request, task, metric):
    X, y = request.getfixturevalue(task)
    y = np.array(["a", "ü", "c"])[y] if task != "multilabel" else y
    model = MetricMLPClassifier(metric, **FAST).fit(X, y)
    model.save(tmp_path / "model")
    loaded = MetricMLPClassifier.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.score(X, y) == model.score(X, y)
    assert loaded.history_ == model.history_
    assert os.listdir(tmp_path) == ["model"]


def test_parameters_of_numpy_and_column_names_are_saved(tmp_path, binary):
    pandas = pytest.importorskip("pandas")
    X, y = binary
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    settings = FAST | {"n_networks": np.int64(2), "hidden_layer_sizes": [np.int64(8)]}
    model = MetricMLPClassifier(class_weight={np.int64(1): np.float64(2)}, **settings).fit(frame, y)
    model.save(tmp_path / "model")
    loaded = MetricMLPClassifier.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    assert np.array_equal(loaded.predict(frame), model.predict(frame))


def test_a_custom_metric_is_passed_again_at_load(tmp_path, binary):
    def found(c):
        return ss.counting.ratio(c.tp, c.support) - 0.5 * ss.counting.ratio(c.predicted, c.total)

    X, y = binary
    model = MetricMLPClassifier(found, **FAST).fit(X, y)
    model.save(tmp_path / "model")
    with pytest.raises(SavedFileError, match=r"Pass it: load\(path, metric=...\)"):
        MetricMLPClassifier.load(tmp_path / "model")
    assert MetricMLPClassifier.load(tmp_path / "model", metric=found).score(X, y) == model.score(
        X, y
    )


def test_damaged_models_are_refused(tmp_path, binary):
    path = tmp_path / "model"
    MetricMLPClassifier(**FAST).fit(*binary).save(path)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(SavedFileError, match="model is damaged"):
        MetricMLPClassifier.load(path)


def test_a_whole_file_with_strange_content_is_refused(tmp_path):
    from softset.storage.container import write_file  # noqa: PLC0415

    for content in ({}, {"metric": "f1", "params": {"x": 1}, "fitted": {}}, [1], None):
        write_file(tmp_path / "model", "MetricMLPClassifier", content)
        with pytest.raises(SavedFileError, match="does not hold a whole MetricMLPClassifier"):
            MetricMLPClassifier.load(tmp_path / "model")


def test_only_fitted_models_are_saved(tmp_path):
    with pytest.raises(sklearn.exceptions.NotFittedError):
        MetricMLPClassifier().save(tmp_path / "model")


@pytest.mark.filterwarnings("ignore:class .* has too few distinct rows")
@pytest.mark.parametrize("y", [np.arange(30) % 2, np.arange(30) % 3])
def test_rows_that_are_all_alike_are_learned_without_holding_any_out(y):
    model = MetricMLPClassifier(max_epochs=2, random_state=0).fit(np.full((30, 1), 7.0), y)
    assert np.isfinite(model.predict_proba([[7.0], [8.0]])).all()


def test_rows_that_no_network_leaves_out_have_no_score():
    """Two networks leave out two of five folds; each of these rows has its own score."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = (x[:, 0] > 0.3).astype(int)
    model = MetricMLPClassifier(n_networks=2, max_epochs=15, random_state=0).fit(x, y)
    scores = model.oof_scores_
    known = np.isfinite(scores)
    assert 0.3 < known.mean() < 0.5
    assert np.corrcoef(scores[known], x[known, 0])[0, 1] > 0.8
