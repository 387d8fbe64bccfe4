"""``cv="oob"``: a forest is fitted once, and its threshold is tuned on rows out of bag."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import softset as ss
from softset import MetricThresholdClassifier, SavedFileError
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_goal
from softset.storage.container import read_file, write_file

TASKS = ["binary", "multiclass", "multilabel"]


def problem(task, n=400, seed=0):
    if task == "multilabel":
        return make_multilabel_classification(n, n_labels=1, random_state=seed)
    shares = [0.8, 0.2] if task == "binary" else [0.5, 0.2, 0.2, 0.1]
    return make_classification(
        n, 8, n_informative=5, n_classes=len(shares), weights=shares, flip_y=0.1, random_state=seed
    )


def forest(trees=20, metric="f1", **settings):
    inner = RandomForestClassifier(trees, random_state=0)
    return MetricThresholdClassifier(inner, metric, cv="oob", **settings)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["f1", "balanced_accuracy"])
@pytest.mark.parametrize("task", TASKS)
def test_the_threshold_is_that_of_the_out_of_bag_probabilities(task, metric, weighted):
    X, y = problem(task)
    w = np.random.RandomState(0).randint(0, 4, len(y)).astype(float) if weighted else None
    model = forest(60, metric, random_state=3).fit(X, y, w)
    used = np.arange(len(y)) if w is None else np.flatnonzero(w)
    weight = np.ones(len(y)) if w is None else w / w[used].mean()
    alone = RandomForestClassifier(60, oob_score=True, random_state=0)
    p = alone.fit(X[used], y[used], None if w is None else w[used]).oob_decision_function_
    p = p if task == "multiclass" else p[:, 1]
    scores = np.log(p * 60 + 0.5)
    if task != "multiclass":
        scores -= np.log((1 - p) * 60 + 0.5)
    order = np.random.RandomState(0).permutation(len(used))
    tuner = Tuner(get_goal(metric), task)
    expected = tuner.tune(scores[order], y[used][order], weight[used][order])
    np.testing.assert_allclose(model.decision_.logit, expected.logit, rtol=1e-12)
    np.testing.assert_allclose(model.oof_scores_[used], scores, rtol=1e-12)
    assert np.isnan(np.delete(model.oof_scores_, used, axis=0)).all()


def test_one_fit_is_enough(monkeypatch):
    fits, fit = [], RandomForestClassifier.fit

    def counted(self, *args, **given):
        fits.append(self.oob_score)
        return fit(self, *args, **given)

    monkeypatch.setattr(RandomForestClassifier, "fit", counted)
    model = forest().fit(*problem("binary"))
    assert fits == [True]
    assert model.estimator.oob_score is False  # that of the user is as it was
    forest(threshold=None).fit(*problem("binary"))
    forest(metric="auroc").fit(*problem("binary"))
    assert fits == [True, False, False]


@pytest.mark.parametrize("task", TASKS)
def test_probabilities_are_those_of_scikit_learn(task):
    X, y = problem(task)
    found = forest().fit(X, y).predict_proba(X)
    wanted = RandomForestClassifier(20, random_state=0).fit(X, y).predict_proba(X)
    wanted = np.column_stack([p[:, 1] for p in wanted]) if task == "multilabel" else wanted
    np.testing.assert_allclose(found, wanted, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(found[wanted == 0], 0)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc"])
def test_a_saved_forest_predicts_the_same(task, metric, tmp_path):
    X, y = problem(task)
    model = forest(10, metric).fit(X, y)
    model.save(tmp_path / "forest.softset")
    again = MetricThresholdClassifier.load(tmp_path / "forest.softset")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.score(X, y) == model.score(X, y)
    given = {**model.get_params(), "estimator": None}
    kept = {**again.get_params(), "estimator": None, "estimator__oob_score": False}
    assert kept == given
    again.save(tmp_path / "again.softset")
    twice = MetricThresholdClassifier.load(tmp_path / "again.softset")
    assert np.array_equal(twice.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.fit(X, y).predict(X), model.predict(X))


def test_threshold_is_tuned_out_of_bag():
    """On rows the trees have seen, labels without a pattern look easy; out of bag they do not."""
    random = np.random.RandomState(0)
    X, y = random.randn(300, 5), (random.rand(300) < 0.2).astype(int)
    # F1 of guessing is best if everything is positive: far below the 0.5 that fits seen rows.
    assert forest(100).fit(X, y).threshold_ < 0.25


def test_rows_that_every_tree_has_seen_are_left_out():
    """scikit-learn calls their probabilities 0."""
    X, y = problem("binary")
    model = forest(3).fit(X, y)
    known = np.isfinite(model.oof_scores_)
    assert 0.5 < known.mean() < 0.9
    p = model.estimator_.oob_decision_function_
    assert np.array_equal(known, p.sum(1) > 0)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [1, 2], [0]])
def test_a_label_that_does_not_vary_is_predicted_as_it_is(labels, tmp_path):
    X, y = problem("multilabel")
    for k in set(range(5)) - set(labels):
        y[:, k] = k % 2
    model = forest(30).fit(X, y)
    model.save(tmp_path / "m")
    for found in (model, MetricThresholdClassifier.load(tmp_path / "m")):
        decided = found.predict(X)
        for k in range(5):
            same = (decided[:, k] == y[:, k]).mean()
            assert same > 0.8 if k in labels else same == 1


@pytest.mark.parametrize("positives", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_one_or_two_positives_are_enough(positives, seed):
    """No tree may have left the only positive out of its bag, or all of them may."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(30, 3)), np.zeros(30, dtype=int)
    y[rng.choice(30, positives, replace=False)] = 1
    for trees in (1, 3, 50):
        model = forest(trees).fit(x, y)
        assert set(model.predict(x)) <= {0, 1}
        assert np.isfinite(model.predict_proba(x)).all()


def test_huge_numbers_do_no_harm(tmp_path):
    X, y = problem("binary")
    X[0, 0], X[1, 0] = 1e300, -1e300
    model = forest(5).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    model.save(tmp_path / "m")
    again = MetricThresholdClassifier.load(tmp_path / "m")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        forest(5).fit(X, y)


def test_others_with_out_of_bag_probabilities_are_tuned_on_them():
    X, y = problem("binary")
    for inner in (
        ExtraTreesClassifier(30, bootstrap=True, random_state=0),
        BaggingClassifier(LogisticRegression(), 30, random_state=0),
    ):
        model = MetricThresholdClassifier(inner, "f1", cv="oob").fit(X, y)
        assert model.threshold_ < 0.5
        assert model.interval_[0] < model.threshold_ < model.interval_[1]
        assert model.gain_.gain > 0


@pytest.mark.parametrize("inner", [LogisticRegression(), ExtraTreesClassifier(5)])
def test_what_has_none_is_refused(inner):
    X, y = problem("binary")
    with pytest.raises(ValueError, match=r"^cv='oob' needs .*bootstrap=True\), got [LE]"):
        MetricThresholdClassifier(inner, cv="oob").fit(X, y)
    with pytest.raises(ValueError, match=r"^cv='oob' needs"):
        MetricThresholdClassifier(LogisticRegression(), "auroc", cv="oob").fit(X, y)
    MetricThresholdClassifier(ExtraTreesClassifier(5), cv="oob", threshold=None).fit(X, y)


@pytest.mark.parametrize(
    ("name", "change"), [("left", 0), ("right", 10**6), ("feature", 99), ("first", 5)]
)
def test_a_file_whose_trees_do_not_fit_is_refused(name, change, tmp_path):
    path, kind = tmp_path / "bad.softset", "MetricThresholdClassifier"
    forest(3).fit(*problem("binary")).save(path)
    content = read_file(path, kind)
    content["fitted"]["parts"][0]["state"]["trees"][name][0] = change
    write_file(path, kind, content)
    with pytest.raises(SavedFileError, match=r"^bad\.softset"):
        MetricThresholdClassifier.load(path)


def test_a_file_of_the_class_that_forests_had_says_what_to_do(tmp_path):
    path = tmp_path / "model.softset"
    ss.classifiers.save_model(path, encoder=None, classifier=forest(3).fit(*problem("binary")))
    content = read_file(path, "model")
    write_file(path, "model", {**content, "classifier": "MetricForestClassifier"})
    with pytest.raises(SavedFileError, match=r"'MetricForestClassifier', .* Train it again\.$"):
        ss.load_model(path)
