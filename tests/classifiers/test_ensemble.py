"""The ensemble: which parts it has, what it says of them, its limits, its files."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification

import softset as ss
from softset.classifiers import ensemble
from softset.classifiers.ensemble import KINDS, MetricEnsembleClassifier
from softset.storage.container import read_file, write_file


def problem(task="binary", n=500):
    if task == "multilabel":
        return make_multilabel_classification(n, n_classes=3, n_labels=1, random_state=0)
    shares = [0.85, 0.15] if task == "binary" else [0.6, 0.25, 0.15]
    return make_classification(
        n, 8, n_informative=5, n_classes=len(shares), weights=shares, flip_y=0.05, random_state=0
    )


def blend(metric="f1", base_models=("linear", "extra-trees", "forest"), **settings):
    settings = {"cv": 3, "time_limit": None, "random_state": 0, **settings}
    return MetricEnsembleClassifier(metric, base_models=base_models, **settings)


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_every_kind_of_part_takes_part_in_every_task(task, monkeypatch, tmp_path):
    monkeypatch.setattr(ensemble, "LEAST_SHARE", 0.0)  # none is dropped
    pytest.importorskip("lightgbm")
    X, y = problem(task, 240)
    model = blend(base_models=None, cv=2).fit(X, y)
    names = [part.name for part in model.base_models_]
    assert names == [
        "linear",
        "linear-metric",
        "extra-trees",
        "forest",
        "boosting",
        "boosting-metric",
        "network",
    ]
    assert sum(part.weight for part in model.base_models_) == pytest.approx(1)
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) > 0.6
    model.save(tmp_path / "blend.softset")
    again = MetricEnsembleClassifier.load(tmp_path / "blend.softset")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.summary() == model.summary()
    assert again.get_params() == model.get_params()


def test_the_blend_is_the_weighted_mean_of_the_fold_models(monkeypatch):
    monkeypatch.setattr(ensemble, "TREES", 100)
    X, y = problem()
    model = blend().fit(X, y)
    expected = sum(
        part.weight * np.mean([m.predict_proba(X) for m in part.models], axis=0)
        for part in model.base_models_
    )
    # Shares of trees are moved by half a tree, so that none is 0.
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=0.01)


@pytest.mark.slow
def test_it_is_about_as_good_as_its_best_part_where_parts_differ(monkeypatch):
    """Classes that depend on a product: no linear model can tell them, trees can."""
    monkeypatch.setattr(ensemble, "TREES", 100)  # as many as users have
    random = np.random.RandomState(0)
    X = random.randn(1200, 4)
    y = (X[:, 0] * X[:, 1] > 0.7).astype(int)
    model = blend(cv=5).fit(X[:600], y[:600])
    alone = {
        kind: blend(base_models=[kind], cv=5).fit(X[:600], y[:600]).score(X[600:], y[600:])
        for kind in ("linear", "extra-trees", "forest")
    }
    assert alone["linear"] < max(alone.values()) - 0.1
    # Weights are held near equal ones, so that a part which knows nothing costs a little.
    assert model.score(X[600:], y[600:]) > max(alone.values()) - 0.05
    weights = {part.name: part.weight for part in model.base_models_}
    assert weights.get("linear", 0) < min(weights["forest"], weights["extra-trees"])


def test_what_a_part_adds_is_what_is_lost_without_it():
    X, y = problem(n=800)
    model = blend().fit(X, y)
    assert 0 < model.score_ <= 1
    for part in model.base_models_:
        assert abs(part.adds) < 0.2
        assert part.cost > 0
    said = model.summary()
    assert "MetricEnsembleClassifier for F1" in said
    assert f"out of fold {model.score_:.3f}" in said
    for part in model.base_models_:
        assert re.search(rf"{part.name} .*{part.weight:.2f} +\{part.adds:+.3f}", said)


def test_parts_of_no_weight_are_dropped_and_named(monkeypatch):
    def told(scores, y, w, tuner):
        return np.eye(len(scores))[-1]

    monkeypatch.setattr(ensemble, "blend_weights", told)
    model = blend().fit(*problem())
    assert [(part.name, part.weight) for part in model.base_models_] == [("forest", 1.0)]
    assert set(model.left_out_) == {"linear", "linear-metric", "extra-trees"}
    assert "left out: linear, its weight was close to 0" in model.summary()


def test_a_missing_library_leaves_its_part_out(monkeypatch):
    monkeypatch.setattr(ensemble, "find_spec", lambda name: None)
    X, y = problem(n=200)
    model = blend(base_models=("linear", "boosting")).fit(X, y)
    assert "pip install 'softset[boosting]'" in model.left_out_["boosting"]
    with pytest.raises(ValueError, match="base_models boosting need lightgbm: pip install"):
        blend(base_models=("boosting",)).fit(X, y)


# --- time -----------------------------------------------------------------------------------------


class Clock:
    """Time stands still, but for looking at it."""

    def __init__(self):
        self.now, self.pace = 0.0, 1.0

    def monotonic(self):
        self.now += 0.01
        return self.now

    def perf_counter(self):
        return self.monotonic()


def test_a_part_that_would_take_too_long_is_left_out(monkeypatch):
    clock, seconds = Clock(), {"linear": 30.0, "extra-trees": 5.0, "forest": 20.0}
    monkeypatch.setattr(ensemble, "time", clock)
    fitted = []

    def slow(name, kind):
        def fit(rows, order):
            fitted.append(name)
            clock.now += seconds[name]
            return kind.fit(rows, order)

        return ensemble.Kind(fit)

    kinds = {name: slow(name, KINDS[name]) for name in seconds}
    monkeypatch.setattr(ensemble, "KINDS", kinds)
    X, y = problem(n=200)
    model = blend(base_models=None, time_limit=110).fit(X, y)
    # 3 x 30, 3 x 5, and then no 3 x 20, which is known after the first of them.
    assert fitted == ["linear"] * 3 + ["extra-trees"] * 3 + ["forest"]
    assert model.left_out_["forest"] == "would have taken longer than time_limit allows"
    fitted.clear()
    clock.now = 0
    model = blend(base_models=None, time_limit=1).fit(X, y)
    assert fitted == ["linear"] * 3  # the first in any case


@pytest.mark.parametrize(
    ("limit", "names"),
    [(60, ["extra-trees", "linear", "forest"]), (26, ["extra-trees", "linear"])],
)
def test_with_a_limit_the_cheapest_kinds_are_fitted_first_and_trying_them_counts(
    limit, names, monkeypatch
):
    clock, fitted = timed_by_rows(monkeypatch)
    X, y = problem(n=400)
    model = blend(base_models=None, time_limit=limit).fit(X, y)
    assert [name for name, _ in fitted[:3]] == ["extra-trees", "linear", "forest"]  # tried
    assert max(rows for _, rows in fitted[:3]) < 80
    assert [name for name, _ in fitted[3:]] == [name for name in names for _ in range(3)]
    assert clock.now <= limit
    assert set(model.left_out_) >= {"forest"} - set(names)


def test_with_no_time_at_all_the_cheapest_kind_is_fitted_on_fewer_rows(monkeypatch):
    clock, fitted = timed_by_rows(monkeypatch)
    X, y = problem(n=400)
    model = blend(base_models=None, time_limit=0.9).fit(X, y)
    assert {name for name, _ in fitted} == {"extra-trees"}  # nothing else was tried
    assert max(rows for _, rows in fitted) < 80
    assert clock.now < 1.5
    assert "would have taken longer" in model.left_out_["linear"]
    assert model.predict(X).shape == (400,)


def test_a_kind_that_takes_longer_than_it_was_thought_to_goes_on_with_fewer_rows(monkeypatch):
    clock, fitted = timed_by_rows(monkeypatch)
    X, y = problem(n=400)
    take = ensemble.MetricEnsembleClassifier._fit_kind

    def busy(self, *args):
        clock.pace = 100  # others want the machine
        return take(self, *args)

    monkeypatch.setattr(ensemble.MetricEnsembleClassifier, "_fit_kind", busy)
    blend(base_models=["extra-trees"], time_limit=60).fit(X, y)
    assert max(rows for _, rows in fitted[-2:]) < 80
    assert fitted[-3][1] > 200


def timed_by_rows(monkeypatch):
    """A clock that goes on by the rows of each fit, and the fits with their rows."""
    clock, fitted = Clock(), []
    seconds = {"linear": 0.02, "extra-trees": 0.005, "forest": 0.04}

    def slow(name, kind):
        def fit(rows, order):
            fitted.append((name, len(rows.y)))
            clock.now += clock.pace * seconds[name] * len(rows.y)
            return kind.fit(rows, order)

        return ensemble.Kind(fit)

    monkeypatch.setattr(ensemble, "time", clock)
    monkeypatch.setattr(ensemble, "PROBE", 50)
    monkeypatch.setattr(ensemble, "KINDS", {name: slow(name, KINDS[name]) for name in seconds})
    return clock, fitted


def test_which_kinds_are_fitted_depends_on_rows_and_columns_and_not_on_the_clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(ensemble, "time", clock)

    def slow(rows, order):
        clock.now += 10**6
        return KINDS["linear"].fit(rows, order)

    kinds = {"few": ensemble.Kind(slow, most=1600), "fewer": ensemble.Kind(slow, most=1599)}
    monkeypatch.setattr(ensemble, "KINDS", {**kinds, "linear": KINDS["linear"]})
    X, y = problem(n=201)  # of 8 columns
    model = MetricEnsembleClassifier(cv=2).fit(X, y, np.arange(201) > 0)  # of 200 rows
    assert model.left_out_ == {
        "fewer": "takes long on more than 1,599 rows times columns: name it in base_models to use "
        "it"
    }
    assert not MetricEnsembleClassifier(base_models=("fewer",), cv=2).fit(X, y).left_out_


# --- folds ----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model():
    X, y = problem(n=300)
    one, two = (blend().fit(X, y) for _ in range(2))
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.threshold_ == two.threshold_


def test_areas_under_curves_have_equal_weights():
    X, y = problem(n=300)
    model = blend("auroc", base_models=("extra-trees", "forest")).fit(X, y)
    assert [part.weight for part in model.base_models_] == [0.5, 0.5]
    assert model.threshold_ == 0.5


# --- errors and files -----------------------------------------------------------------------------

BAD = [
    (
        {"base_models": ["trees"]},
        r"base_models must be one of .*got 'trees'.* Did you mean 'extra-trees'",
    ),
    ({"base_models": "linear"}, "base_models must be a list of linear"),
    ({"base_models": []}, "base_models must be a list of linear"),
    ({"time_limit": 0}, "time_limit must be in"),
    ({"cv": 1}, "cv must be an integer from 2"),
    ({"metric": "f11x"}, "metric 'f11x' is not known"),
    ({"pos_label": "maybe"}, "pos_label must be one of"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MetricEnsembleClassifier(**arguments).fit(*problem(n=60))


@pytest.mark.parametrize("change", ["weight", "classifier", "features", "empty"])
def test_a_file_whose_parts_do_not_fit_is_refused(change, tmp_path):
    path, kind = tmp_path / "blend.softset", "MetricEnsembleClassifier"
    X, y = problem(n=200)
    blend(base_models=("linear",), cv=2).fit(X, y).save(path)
    content = read_file(path, kind)
    parts = content["fitted"]["base_models"]
    if change == "weight":
        parts[0]["numbers"][0] = 0.3
    elif change == "classifier":
        parts[0]["models"][0]["classifier"] = "MetricEnsembleClassifier"
    elif change == "features":
        content["fitted"]["features"] = 3
    else:
        parts.clear()
    write_file(path, kind, content)
    with pytest.raises(ss.SavedFileError, match=r"^blend\.softset"):
        MetricEnsembleClassifier.load(path)


def test_it_is_what_train_model_makes_and_is_saved_with_its_table(tmp_path):
    pytest.importorskip("lightgbm")
    X, y = problem(n=200)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["town"] = np.where(X[:, 3] > 0, "Bonn", "Ulm")
    model = ss.train_model(frame, np.array(["no", "yes"])[y], cv=2)
    model.save(tmp_path / "best.softset")
    again = ss.load_model(tmp_path / "best.softset")
    assert type(again.classifier) is MetricEnsembleClassifier
    assert np.array_equal(again.predict(frame), model.predict(frame))


def test_a_metric_of_ones_own_is_passed_at_loading(tmp_path):
    X, y = problem(n=200)

    def own(c):
        return c.tp / (c.tp + c.fp + c.fn)

    model = blend(own, base_models=("linear", "forest"), cv=2).fit(X, y)
    model.save(tmp_path / "blend.softset")
    again = MetricEnsembleClassifier.load(tmp_path / "blend.softset", own)
    assert np.array_equal(again.predict(X), model.predict(X))
