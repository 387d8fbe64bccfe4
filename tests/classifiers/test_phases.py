"""The first phase of a fit is what that phase alone gives."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from softset.classifiers import boosting, network
from softset.classifiers.network import MetricMLPClassifier, PhasedClassifier

SMALL = {"max_epochs": 4, "patience": 4, "n_networks": 2, "random_state": 0}


@pytest.mark.parametrize("threshold", [None, "tuned", 0.3])
@pytest.mark.parametrize("recipe", ["warm", "cross-entropy"])
def test_the_first_phase_is_that_of_a_fit_alone(recipe, threshold):
    X, y = make_classification(300, weights=[0.8], flip_y=0.1, random_state=0)
    both = PhasedClassifier("f1", recipe=recipe, **SMALL).fit(X, y)
    whole = MetricMLPClassifier("f1", recipe=recipe, **SMALL).fit(X, y)
    assert np.array_equal(both.predict_proba(X), whole.predict_proba(X))
    first = both.first_phase(recipe="cross-entropy", threshold=threshold)
    alone = MetricMLPClassifier("f1", recipe="cross-entropy", threshold=threshold, **SMALL).fit(
        X, y
    )
    assert np.array_equal(first.predict_proba(X), alone.predict_proba(X))
    assert np.array_equal(first.predict(X), alone.predict(X))
    assert first.threshold_ == alone.threshold_
    assert first.history_ == alone.history_
    assert both.first_phase_share == pytest.approx(0.5, abs=0.2) if recipe == "warm" else 1


@pytest.mark.parametrize("better", [False, True])
def test_training_for_a_constraint_is_taken_only_where_it_is_better_out_of_fold(
    better, monkeypatch
):
    X, y = make_classification(400, weights=[0.7], flip_y=0.1, random_state=2)
    goal, seen = "precision@recall>=0.8", []

    def judge(start, moved, *rest):
        seen.append((start, moved))
        return better

    for module in (network, boosting):
        monkeypatch.setattr(module, "is_better", judge)
    both = PhasedClassifier(goal, recipe="warm", **SMALL).fit(X, y)
    first = both.first_phase(recipe="cross-entropy")
    assert np.array_equal(both.predict_proba(X), first.predict_proba(X)) != better
    assert not np.array_equal(*seen[0])
    trees = boosting.MetricBoostingClassifier(
        goal, n_estimators=2, n_metric_estimators=20, random_state=0
    ).fit(X, y)
    assert len(seen) == 2
    assert (trees.n_metric_estimators_ > 0) == better
    # Other metrics are trained for as they are asked for.
    MetricMLPClassifier("f1", recipe="warm", **SMALL).fit(X, y)
    assert len(seen) == 2


@pytest.mark.parametrize("better", [True, False])
@pytest.mark.parametrize("name", ["network", "boosting"])
def test_what_is_trained_for_a_constraint_is_taken_where_it_is_better(name, better, monkeypatch):
    """Scores of the start are compared with those of the end, and those in use are what it says."""
    asked = []

    def answer(start, moved, y, w, tuner):
        asked.append((start, moved))
        return better

    monkeypatch.setattr({"network": network, "boosting": boosting}[name], "is_better", answer)
    x, y = make_classification(300, 5, weights=[0.7], flip_y=0.1, random_state=0)
    goal = "precision@recall>=0.7"
    if name == "network":
        model = MetricMLPClassifier(goal, recipe="warm", **SMALL)
    else:
        rounds = {"n_estimators": 2, "n_metric_estimators": 20, "patience": 20}
        model = boosting.MetricBoostingClassifier(goal, **rounds, random_state=0)
    model.fit(x, y)
    (start, moved), scores = asked[-1], model.oof_scores_
    used = np.sort(scores[np.isfinite(scores)])
    assert np.abs(np.sort(start) - np.sort(moved)).max() > 1e-3
    np.testing.assert_allclose(used, np.sort(moved if better else start), rtol=1e-9)
