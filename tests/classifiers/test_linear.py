"""A linear model for the metric: the contract, the path, constraints, hard cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import softset as ss
from softset import MetricLinearClassifier
from softset.classifiers.path import choose
from softset.metrics.registry import get_goal
from softset.storage.container import write_file
from softset.training import linear


@pytest.fixture(scope="module")
def data():
    x, y = make_classification(
        1500, 12, n_informative=4, weights=[0.9], flip_y=0.03, class_sep=0.7, random_state=3
    )
    return x * np.arange(1, 13) + 5, y


# --- the start and the path -----------------------------------------------------------------------


def test_without_a_path_it_is_logistic_regression(data):
    x, y = data
    model = MetricLinearClassifier(path=()).fit(x, y)
    known = LogisticRegression(tol=1e-8, max_iter=1000).fit(StandardScaler().fit_transform(x), y)
    np.testing.assert_allclose(model.standardized_coef_, known.coef_, atol=2e-4)
    z = x @ model.coef_[0] + model.intercept_[0]
    cut = np.log(model.threshold_ / (1 - model.threshold_))
    np.testing.assert_allclose(model.decision_function(x), z - cut, atol=1e-9)


def test_several_classes_start_at_multinomial_regression():
    x, y = load_iris(return_X_y=True)
    model = MetricLinearClassifier(path=(), threshold=None).fit(x, y)
    rows, count = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    scaler = StandardScaler().fit(rows[:, :-1], sample_weight=count)
    known = LogisticRegression(tol=1e-8, max_iter=2000)
    known.fit(scaler.transform(rows[:, :-1]), rows[:, -1], count)
    p = known.predict_proba(scaler.transform(x))
    np.testing.assert_allclose(model.predict_proba(x), p, atol=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "metric", ["f1", "mcc", "jaccard", "balanced_accuracy", "f2", "quadratic_kappa"]
)
def test_the_gradient_of_the_soft_metric_is_right(metric, classes):
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(40, 3)), rng.integers(0, classes, 40), rng.random(40)
    problem = linear.LinearProblem(x, y, w, classes)
    m, start = get_goal(metric), rng.normal(size=problem.outputs * 4)
    at = start + 0.3 * rng.normal(size=start.shape)

    def value(flat):
        return linear.soft_loss(problem, m, flat, start, 0.1)[0]

    def slope(flat):
        return linear.soft_loss(problem, m, flat, start, 0.1)[1]

    assert check_grad(value, slope, at) < 1e-5


def test_the_loss_is_that_of_metric_loss_with_the_identity_step():
    rng = np.random.default_rng(1)
    x, y, w = rng.normal(size=(50, 2)), rng.integers(0, 2, 50), rng.random(50)
    flat = rng.normal(size=3)
    found = linear.soft_loss(linear.LinearProblem(x, y, w, 2), get_goal("f1"), flat, flat, 0.0)[0]
    z = x @ flat[:2] + flat[2]
    known = ss.metric_loss(z, y, "f1", step=ss.IdentityStep(), sample_weight=w)
    assert found == pytest.approx(float(known), abs=1e-12)


def test_the_objective_never_rises_from_step_to_step(data, monkeypatch):
    x, y = data
    seen = []
    minimize = linear.minimize

    def watched(function, start, **settings):
        track = [function(start)[0]]
        settings["callback"] = lambda flat: track.append(function(flat)[0])
        found = minimize(function, start, **settings)
        seen.append(track)
        return found

    monkeypatch.setattr(linear, "minimize", watched)
    MetricLinearClassifier().fit(x, y)
    assert len(seen) > 20
    for track in seen:
        assert (np.diff(track) <= 1e-9 * np.abs(track[0])).all()


def test_a_gain_moves_it_and_noise_does_not():
    rng = np.random.default_rng(0)
    # Positives in a corner, and far-off negatives that pull logistic regression aside.
    x = rng.normal(size=(4000, 2))
    x[:400] += [0, 8]
    y = ((x[:, 0] > 1.2) & (x[:, 1] < 4)).astype(int)
    y ^= rng.random(4000) < 0.02
    model = MetricLinearClassifier().fit(x, y)
    assert model.chosen_ > 0
    assert model.path_[model.chosen_].gain > 0.5 * model.path_[model.chosen_].error
    still = MetricLinearClassifier(path=()).fit(x, y)
    assert model.score(x, y) > still.score(x, y)


@pytest.mark.slow
def test_little_data_does_no_harm():
    """Where there is nothing but noise, it is not worse than logistic regression, tuned."""
    gains = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y = (rng.random(600) < 0.25).astype(int)
        x = rng.normal(size=(600, 25)) + 0.3 * y[:, None] * (np.arange(25) < 3)
        models = (MetricLinearClassifier(path=p).fit(x[:90], y[:90]) for p in (linear.PATH, ()))
        moved, still = (m.score(x[90:], y[90:]) for m in models)
        gains.append(moved - still)
    assert np.mean(gains) > -2 * np.std(gains) / np.sqrt(len(gains))


def test_with_few_positives_the_threshold_is_tuned():
    """Six positives of 300: at 1/2 nothing is found, and no gain of tuning can be clear."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1], [294, 6])
        x = rng.normal(size=(300, 3)) + 1.5 * y[:, None] * (np.arange(3) < 1)
        model = MetricLinearClassifier(path=()).fit(x, y)
        assert 6 / 300 / 3 < model.threshold_ < 0.2


def test_a_constant_column_changes_nothing():
    y = np.repeat([0, 1], [90, 30])  # three rows for each of ten features, and not of eleven
    chosen = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(120, 10)) + 0.5 * y[:, None] * (np.arange(10) < 3)
        plain = MetricLinearClassifier().fit(x, y)
        wide = np.insert(x, 4, 7.0 * seed, 1)
        more = MetricLinearClassifier().fit(wide, y)
        np.testing.assert_array_equal(np.delete(more.coef_, 4, 1), plain.coef_)
        assert more.coef_[0, 4] == 0
        assert (more.threshold_, more.path_) == (plain.threshold_, plain.path_)
        chosen.append(plain.chosen_)
        assert more.scorecard().score_ == plain.scorecard().score_
        parts = (m.logistic_part().decision_function(z) for m, z in ((plain, x), (more, wide)))
        np.testing.assert_allclose(*parts, rtol=1e-9, atol=1e-12)
    assert max(chosen) > 0


@pytest.mark.parametrize("classes", [2, 3])
def test_a_constant_column_of_a_sparse_or_constrained_model_changes_nothing(classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 4)) * (rng.random((150, 4)) < 0.7)
    y = np.digitize(x[:, 0] + 0.5 * rng.normal(size=150), [-0.5, 0.5][: classes - 1])
    wide = np.insert(x, 2, 0.0, 1)
    for make in (sparse.csr_matrix, np.asarray):
        settings = {"l1_ratio": 0.5, "cv": 2}
        plain = MetricLinearClassifier(monotonic_cst=[1, 0, -1, 0], **settings).fit(make(x), y)
        more = MetricLinearClassifier(monotonic_cst=[1, 0, 1, -1, 0], **settings).fit(make(wide), y)
        z = plain.decision_function(make(x))
        np.testing.assert_allclose(more.decision_function(make(wide)), z, rtol=1e-9, atol=1e-12)


def test_a_weight_of_zero_is_no_row(data):
    x, y = data
    w = (np.arange(len(y)) % 3 > 0).astype(float)
    fold = np.arange(len(y)) // 2 % 4
    for given in (5, fold):
        models = []
        for some in (w >= 0, w > 0):
            own = fold[some]
            cv = (
                given
                if given is not fold
                else [(own != k, np.flatnonzero(own == k)) for k in range(4)]
            )
            models.append(MetricLinearClassifier(cv=cv).fit(x[some], y[some], w[some]))
        np.testing.assert_array_equal(*(m.decision_function(x) for m in models))


# --- weights, monotonic_cst, sparsity
# ---------------------------------------------------------------------


def test_a_weight_of_two_is_a_row_given_twice(data):
    """The scale of weights means nothing, the number of rows does: more rows, less of a penalty."""
    x, y = data
    twice = np.arange(len(y)) % 3 == 0
    rows = np.r_[x, x[twice]], np.r_[y, y[twice]]
    a = MetricLinearClassifier(path=(), threshold=None).fit(x, y, 1.0 + twice)
    c = len(y) / len(rows[1])
    b = MetricLinearClassifier(path=(), threshold=None, C=c).fit(*rows)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-4)


def test_the_order_of_the_rows_does_not_matter(data):
    x, y = data
    order = np.random.default_rng(0).permutation(len(y))
    a, b = (MetricLinearClassifier().fit(x[i], y[i]) for i in (np.arange(len(y)), order))
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("path", [(), (0.003,)], ids=["start", "moved"])
def test_many_rows_are_fitted_whole_and_judged_on_a_sample(monkeypatch, path):
    x, y = make_classification(3000, 8, weights=[0.85], flip_y=0.1, random_state=5)
    monkeypatch.setattr("softset.classifiers.linear_path.choose", _last)
    whole = MetricLinearClassifier("f1", path=path).fit(x, y)
    monkeypatch.setattr("softset.classifiers.path.MOST_ROWS", 1000)
    some = MetricLinearClassifier("f1", path=path).fit(x, y)
    assert len(some._training.sample) == len(some._training.fold) == 1000
    start, known = some.logistic_part(), whole.logistic_part()
    np.testing.assert_allclose(start.coef_, known.coef_, atol=1e-4)  # of all rows
    if path:  # the same minimum, from near it; the tuned intercept it starts at is the sample's
        assert np.abs(some.coef_ - start.coef_).max() > 0.01
        np.testing.assert_allclose(some.coef_, whole.coef_, atol=0.1 * np.abs(whole.coef_).max())
    mixed = np.random.RandomState(0).permutation(len(y))
    again = MetricLinearClassifier("f1", path=path).fit(x[mixed], y[mixed])
    np.testing.assert_array_equal(again.coef_, some.coef_)
    assert again.threshold_ == some.threshold_
    splits = [(mixed[k::3], mixed[(k + 1) % 3 :: 3]) for k in range(3)]
    given = MetricLinearClassifier("f1", path=path, cv=splits).fit(x, y)
    assert set(given._training.fold) == {0, 1, 2}
    for model in (some, given):
        assert model.scorecard().score(x, y) > 0.5


def _last(decided, y, w, tuner, penalties, needed):
    """Whatever it gains: the end of the path."""
    return choose(decided, y, w, tuner, penalties, needed)[0], len(decided) - 1


def test_signs_hold_exactly(data):
    x, y = data
    free = MetricLinearClassifier().fit(x, y)
    monotonic_cst = -np.sign(free.coef_[0])
    monotonic_cst[:3] = 0
    model = MetricLinearClassifier(monotonic_cst=monotonic_cst).fit(x, y)
    assert (model.coef_[0] * monotonic_cst >= 0).all()
    assert (model.coef_[0, :3] != 0).any()


def test_absolute_penalties_make_zeros_that_stay(data):
    x, y = data
    model = MetricLinearClassifier(C=0.01, l1_ratio=1.0).fit(x, y)
    start = MetricLinearClassifier(C=0.01, l1_ratio=1.0, path=()).fit(x, y)
    assert 0 < (model.coef_ != 0).sum() < x.shape[1]
    np.testing.assert_array_equal(model.coef_ == 0, start.coef_ == 0)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("monotonic_cst", [None, [1, -1, 0, 0, 1, 0]])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_move_keeps_the_zeros_and_signs_of_each_class(classes, monotonic_cst, make):
    rng = np.random.default_rng(classes)
    x, outputs = rng.normal(size=(200, 6)), 1 if classes == 2 else classes
    y = (x[:, :classes] + rng.normal(size=(200, classes))).argmax(1)
    given = None if monotonic_cst is None else np.array(monotonic_cst, dtype=float)
    problem = linear.LinearProblem(make(x), y, rng.uniform(0.5, 2, 200), classes, given)
    start = rng.uniform(0.1, 0.5, (outputs, 6))
    start *= (
        rng.choice([-1, 1], start.shape) if monotonic_cst is None else np.where(given < 0, -1, 1)
    )
    start[rng.random(start.shape) < 0.4] = 0
    flat = np.concatenate([start.ravel(), np.zeros(outputs)])
    moved = linear.move(problem, get_goal("f1_macro"), flat, 1e-3, flat)
    coef = moved[:-outputs].reshape(outputs, 6)
    np.testing.assert_array_equal(coef[start == 0], 0)
    assert (coef != start)[start != 0].all()  # all others are free
    if monotonic_cst is not None:
        assert (coef * given >= 0).all()


def test_sparse_inputs_are_the_dense_ones_without_centring(data):
    rng = np.random.default_rng(0)
    dense = rng.random((400, 30)) * (rng.random((400, 30)) < 0.1)
    y = (dense[:, 0] + dense[:, 1] > 0.2).astype(int)
    model = MetricLinearClassifier().fit(sparse.csr_matrix(dense), y)
    np.testing.assert_allclose(
        model.decision_function(sparse.csc_matrix(dense)), model.decision_function(dense)
    )
    assert model.score(dense, y) > 0.8


def test_labels_and_the_positive_class(data):
    x, y = data
    both = MetricLinearClassifier().fit(x, np.column_stack([y, 1 - y]))
    assert both.coef_.shape == (2, x.shape[1])
    assert both.predict(x).shape == (len(y), 2)
    first = MetricLinearClassifier(pos_label=0).fit(x, 1 - y)
    last = MetricLinearClassifier().fit(x, y)
    np.testing.assert_array_equal(first.predict(x), 1 - last.predict(x))
    np.testing.assert_allclose(first.coef_, -last.coef_)


def test_a_split_trains_on_its_training_rows_alone(data):
    """Copies with flipped labels, in no split, change no out-of-fold score."""
    x, y = (array[:200] for array in data)
    third = np.arange(len(y)) % 3
    splits = [(np.flatnonzero(third == 0), np.flatnonzero(third == k)) for k in (1, 2)]
    alone = MetricLinearClassifier("f1", path=(0.1,), cv=splits).fit(x, y)
    beside = clone(alone).fit(np.tile(x, (2, 1)), np.concatenate([y, 1 - y]))
    tested = third > 0
    found = [model._training.origins[0].scores[: len(y)][tested] for model in (alone, beside)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-4)


def test_given_splits_are_used(data):
    x, y = data
    half = np.arange(len(y)) % 2
    splits = [(np.flatnonzero(half != k), np.flatnonzero(half == k)) for k in (0, 1)]
    assert MetricLinearClassifier(cv=splits).fit(x, y).score(x, y) > 0.4
    for wrong in (1, [], "five", [(1, 2, 3)], [([0], [10**9])]):
        with pytest.raises(ValueError, match="cv"):
            MetricLinearClassifier(cv=wrong).fit(x, y)


# --- hard cases -----------------------------------------------------------------------------------


def hard_cases():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    y = (x[:, 0] > 0).astype(int)
    one = np.zeros(60, dtype=int)
    one[0] = 1
    wide = sparse.random(80, 10_000, 0.01, random_state=0, format="csr")
    return {
        "separable": (x, y),
        "one positive": (x, one),
        "constant columns": (np.c_[x, np.ones((60, 2))], y),
        "collinear columns": (np.c_[x, x, x[:, :1] * 3], y),
        "huge scales": (x * np.array([1e150, 1e-150, 1e8, 1.0]), y),
        "all rows alike": (np.ones((60, 3)), y),
        "10,000 sparse columns": (wide, np.arange(80) % 2),
        "heavy weights": (x, y, np.where(y, 1e8, 1e-8)),
    }


@pytest.mark.parametrize("name", hard_cases())
def test_hard_cases_converge(name):
    rows = hard_cases()[name]
    model = MetricLinearClassifier().fit(*rows)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(rows[0])).all()
    if name == "separable":
        assert model.score(*rows) > 0.95


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"C": 0}, "C must be"),
        ({"l1_ratio": 2}, "l1_ratio"),
        ({"monotonic_cst": [1, 2]}, "monotonic_cst must hold"),
        ({"path": [-1.0]}, "path"),
        ({"metric": ss.F1(average=None)}, "average=None"),
    ],
)
def test_wrong_settings_are_named(settings, words, data):
    with pytest.raises(ValueError, match=words):
        MetricLinearClassifier(**settings).fit(*data)


def test_a_loaded_model_decides_as_the_saved_one(data, tmp_path):
    x, y = data
    model = MetricLinearClassifier(ss.FBeta(2)).fit(x, y)
    model.save(tmp_path / "m")
    loaded = MetricLinearClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.decision_function(x), model.decision_function(x))
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.path_ == model.path_
    assert "threshold" in loaded.summary()


def test_the_summary_says_which_coefficient_is_standardized(data):
    x, y = data
    x = x * np.array([1000.0, *[1.0] * (x.shape[1] - 1)])
    model = MetricLinearClassifier("f1").fit(x, y)
    lines = model.summary().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("coefficient"))
    assert lines[head].split(maxsplit=2) == ["coefficient", "standardized", "in its units"]
    rows = {name: (float(a), float(b)) for name, a, b in map(str.split, lines[head + 1 :])}
    assert rows["x0"][0] == pytest.approx(model.standardized_coef_[0, 0], abs=1e-3)
    assert rows["x0"][1] == pytest.approx(model.coef_[0, 0], rel=1e-3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("center", math.nan),
        ("center", math.inf),
        ("scale", 0.0),
        ("scale", -1.0),
        ("scale", math.nan),
        ("flat", math.nan),
        ("flat", math.inf),
        ("flat", 1e300),  # finite, but its scores are not
        ("center", torch.float32),
        ("scale", torch.int64),
        ("flat", torch.float16),
        ("scale", 5),
        ("flat", 5),
        ("chosen", 99),
        ("chosen", -1),
        ("chosen", 1.5),
        ("path", [[1.0]]),
        ("path", [["a", 0.0, 0.0, 0.0]]),
    ],
)
def test_a_tampered_file_is_refused(name, value, data, tmp_path):
    model = MetricLinearClassifier(path=()).fit(*data)
    state = model.state()
    fitted = state["fitted"] | {"targets": [dict(t) for t in state["fitted"]["targets"]]}
    part = fitted if name in fitted else fitted["targets"][0]
    if isinstance(value, torch.dtype):
        part[name] = part[name].to(value)
    elif isinstance(value, float) and name != "chosen":
        part[name] = part[name].clone()
        part[name][0] = value
    else:
        part[name] = part[name][:value] if name in ("scale", "flat") else value
    write_file(tmp_path / "m", "MetricLinearClassifier", state | {"fitted": fitted})
    with pytest.raises(ss.SavedFileError):
        MetricLinearClassifier.load(tmp_path / "m")


def test_every_label_of_a_file_is_checked(data, tmp_path):
    x, y = data
    model = MetricLinearClassifier(path=()).fit(x, np.column_stack([y, 1 - y, y]))
    state = model.state()
    targets = [dict(t) for t in state["fitted"]["targets"]]
    targets[1]["flat"] = torch.full_like(targets[1]["flat"], torch.nan)
    fitted = state["fitted"] | {"targets": targets}
    write_file(tmp_path / "m", "MetricLinearClassifier", state | {"fitted": fitted})
    with pytest.raises(ss.SavedFileError):
        MetricLinearClassifier.load(tmp_path / "m")


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_values_far_from_those_of_training_have_finite_scores(kind, data):
    x, y = data
    model = MetricLinearClassifier(path=()).fit(kind(x), y)
    far = np.full((1, 12), 1e308) * np.sign(model.coef_)
    d = model.decision_function(kind(far))
    assert d.shape == (1,)
    assert 1e90 < d[0] < np.inf


@pytest.mark.parametrize("first", [0, 1])
def test_standardised_coefficients_are_those_of_columns_of_unit_variance(data, first):
    x, y = data
    model = MetricLinearClassifier(pos_label=first).fit(x, y)
    wanted = model.coef_ * x.std(0)
    np.testing.assert_allclose(model.standardized_coef_, wanted, rtol=1e-6, atol=1e-9)
