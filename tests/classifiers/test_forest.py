"""A random forest with a tuned threshold: scikit-learn's trees, our decisions, plain files."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import f1_score

from softset import SavedFileError
from softset.classifiers.forest import MetricForestClassifier
from softset.storage.container import read_file, write_file


def problem(task, n=400):
    if task == "multilabel":
        return make_multilabel_classification(n, n_labels=1, random_state=0)
    shares = [0.8, 0.2] if task == "binary" else [0.5, 0.2, 0.2, 0.1]
    return make_classification(
        n, 8, n_informative=5, n_classes=len(shares), weights=shares, flip_y=0.1, random_state=0
    )


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_probabilities_are_those_of_scikit_learn(task):
    X, y = problem(task)
    ours = MetricForestClassifier(n_trees=20, random_state=0).fit(X[:300], y[:300])
    seed = np.random.RandomState(0).randint(2**31 - 1)
    theirs = RandomForestClassifier(20, random_state=seed).fit(X[:300], y[:300])
    expected = theirs.predict_proba(X[300:])
    if task == "multilabel":
        expected = np.clip(np.column_stack([p[:, 1] for p in expected]), 1e-6, 1 - 1e-6)
    np.testing.assert_allclose(ours.predict_proba(X[300:]), expected, atol=1e-12)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("threshold", ["tuned", None])
def test_extra_trees_are_those_of_scikit_learn_and_are_saved(task, threshold, tmp_path):
    """They see all rows, unless some are needed out of bag."""
    X, y = problem(task)
    ours = MetricForestClassifier(n_trees=20, extra=True, threshold=threshold, random_state=0)
    ours.fit(X[:300], y[:300])
    seed = np.random.RandomState(0).randint(2**31 - 1)
    theirs = ExtraTreesClassifier(20, bootstrap=threshold == "tuned", random_state=seed)
    expected = theirs.fit(X[:300], y[:300]).predict_proba(X[300:])
    if task == "multilabel":
        expected = np.clip(np.column_stack([p[:, 1] for p in expected]), 1e-6, 1 - 1e-6)
    np.testing.assert_allclose(ours.predict_proba(X[300:]), expected, atol=1e-12)
    ours.save(tmp_path / "extra.softset")
    again = MetricForestClassifier.load(tmp_path / "extra.softset")
    assert again.extra
    assert np.array_equal(again.predict(X), ours.predict(X))


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc"])
def test_a_saved_forest_predicts_the_same(task, metric, tmp_path):
    X, y = problem(task)
    model = MetricForestClassifier(metric, n_trees=10, random_state=0).fit(X, y)
    model.save(tmp_path / "forest.softset")
    again = MetricForestClassifier.load(tmp_path / "forest.softset")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.score(X, y) == model.score(X, y)
    assert again.get_params() == model.get_params()


def test_a_tuned_threshold_beats_one_half_on_rare_positives():
    random = np.random.RandomState(0)
    X = random.randn(3000, 4)
    y = (random.rand(3000) < 1 / (1 + np.exp(4 - 2 * X[:, 0]))).astype(int)
    tuned = MetricForestClassifier(n_trees=50, random_state=0).fit(X[:1500], y[:1500])
    half = MetricForestClassifier(n_trees=50, threshold=0.5, random_state=0).fit(X[:1500], y[:1500])
    assert tuned.threshold_ < 0.5 == half.threshold_
    score = tuned.score(X[1500:], y[1500:])
    assert score > half.score(X[1500:], y[1500:])
    assert score == pytest.approx(f1_score(y[1500:], tuned.predict(X[1500:])))


def test_threshold_is_tuned_out_of_bag():
    """On rows the trees have seen, labels without a pattern look easy; out of bag they do not."""
    random = np.random.RandomState(0)
    X, y = random.randn(300, 5), (random.rand(300) < 0.2).astype(int)
    model = MetricForestClassifier(n_trees=100, random_state=0).fit(X, y)
    # F1 of guessing is best if everything is positive: far below the 0.5 that fits seen rows.
    assert model.threshold_ < 0.25


def test_a_label_that_never_occurs_is_never_predicted():
    X, y = problem("multilabel")
    y[:, 1], y[:, 2] = 0, 1
    model = MetricForestClassifier(n_trees=10, random_state=0).fit(X, y)
    assert not model.predict(X)[:, 1].any()
    assert model.predict(X)[:, 2].all()
    y[:, [0, 3]] = 0
    assert MetricForestClassifier(n_trees=10).fit(X, y).predict(X).any(0).tolist()[0] is False


@pytest.mark.parametrize("positives", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_one_or_two_positives_are_enough(positives, seed):
    """No tree may have left the only positive out of its bag, or all of them may."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(30, 3)), np.zeros(30, dtype=int)
    y[rng.choice(30, positives, replace=False)] = 1
    for trees in (1, 3, 50):
        model = MetricForestClassifier("f1", n_trees=trees, random_state=seed).fit(x, y)
        assert set(model.predict(x)) <= {0, 1}
        assert np.isfinite(model.predict_proba(x)).all()


def test_huge_numbers_do_no_harm():
    X, y = problem("binary")
    X[0, 0], X[1, 0] = 1e300, -1e300
    model = MetricForestClassifier(n_trees=5, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


BAD = [
    ({"pos_label": "maybe"}, r"pos_label must be one of \[0, 1\], got 'maybe'"),
    ({"threshold": 1.5}, "threshold must be in"),
    ({"threshold": "best"}, "threshold"),
    ({"n_trees": 0}, "n_trees"),
    ({"metric": "f11x"}, "metric 'f11x' is not known"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments_are_named(arguments, message):
    X, y = problem("binary", 60)
    with pytest.raises(ValueError, match=message):
        MetricForestClassifier(**arguments).fit(X, y)


def test_a_file_whose_trees_do_not_fit_is_refused(tmp_path):
    X, y = problem("binary")
    path = tmp_path / "forest.softset"
    MetricForestClassifier(n_trees=3, random_state=0).fit(X, y).save(path)
    kind = "MetricForestClassifier"
    for name, change in [("left", 0), ("right", 10**6), ("feature", 99), ("first", 5)]:
        content = read_file(path, kind)
        content["fitted"]["trees"][name][0] = change
        write_file(tmp_path / "bad.softset", kind, content)
        with pytest.raises(SavedFileError, match=r"^bad\.softset"):
            MetricForestClassifier.load(tmp_path / "bad.softset")
