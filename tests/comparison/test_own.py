"""Candidates of the user's own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from softset import MetricThresholdClassifier, compare
from softset.comparison.candidates import BY_ID, choose
from softset.comparison.fits import Order, Sizes, fit_candidates
from softset.metrics.registry import get_metric
from softset.report import render
from softset.tasks import get_task

# Small tables are warned of, and these are small.
pytestmark = pytest.mark.filterwarnings("ignore:.*scores of so few say little", "ignore:too good")
X, Y = make_classification(300, 5, weights=[0.85], flip_y=0.1, random_state=0)
MINE = LogisticRegression(C=0.5)


def chosen(wanted, metric="f1", task="binary"):
    return choose(get_metric(metric), "F1", get_task(task), wanted)[0]


def test_both_are_one_fit_and_the_first_is_the_estimator_itself():
    rows = chosen([("mine", MINE)])
    assert [(c.id, c.rung, c.family) for c in rows] == [
        ("mine", "own", "plain"),
        ("mine-tuned", "tuned", "plain"),
    ]
    assert len({c.fit for c in rows}) == 1
    order = Order("f1", Y, Sizes(), seed=3)
    found = {f.candidate: f.classifier for f in fit_candidates(rows, X, order)}
    plain = LogisticRegression(C=0.5).fit(X, Y)
    np.testing.assert_array_equal(found["mine"].predict(X), plain.predict(X))
    for c in rows:
        alone = c.make(order).fit(X, Y)
        np.testing.assert_array_equal(found[c.id].predict(X), alone.predict(X))
    tuned = MetricThresholdClassifier(MINE, "f1", random_state=3).fit(X, Y)
    assert found["mine-tuned"].threshold_ == tuned.threshold_ < 0.5


def test_dots_stand_for_all_the_others():
    assert [c.id for c in chosen([..., ("mine", MINE)])] == ["mine", "mine-tuned", *BY_ID]
    assert [c.id for c in chosen(["warm", ("mine", MINE)], "auroc")] == ["mine", "warm"]


OWN = [make_pipeline(StandardScaler(), MINE), RidgeClassifier(), DecisionTreeClassifier()]


@pytest.mark.parametrize("estimator", OWN, ids=lambda e: type(e).__name__)
def test_a_comparison_with_ones_own(estimator):
    given = {"quick": True, "n_jobs": 1, "cv": 3}
    found = compare(X, Y, candidates=["linear", ("Mine", estimator)], **given)
    assert {c.id for c in found.candidates} == {"linear", "Mine", "Mine-tuned"}
    assert not any(c.error for c in found.candidates)
    assert found.reference == "Mine"
    assert [r.id for r in found.ladder.rungs] == ["own", "default", "tuned"]
    assert "Mine" in found.verdict
    assert all(c.size > 0 for c in found.candidates)
    assert set(found.model.predict(X)) <= {0, 1}
    # What gives no probabilities has none in the report.
    assert ("Mine" in found.predictions) == hasattr(estimator, "predict_proba")
    assert "Mine" in render(found)


def test_own_runs_are_resumed_with_the_same_estimator_only(tmp_path):
    given = {"quick": True, "n_jobs": 1, "cv": 2, "directory": tmp_path}
    first = compare(X, Y, candidates=[("mine", MINE)], **given)
    again = compare(X, Y, candidates=[("mine", MINE)], resume=True, **given)
    assert [c.scores for c in first.candidates] == [c.scores for c in again.candidates]
    with pytest.raises(ValueError, match="other data or settings"):
        compare(X, Y, candidates=[("mine", LogisticRegression(C=9))], resume=True, **given)


BAD = [
    ([("mine", DecisionTreeRegressor())], "must be pairs of a name and a scikit-learn classifier"),
    ([("mine", LogisticRegression)], "must be pairs of a name and"),
    ([("", MINE)], "must be pairs of a name and"),
    ([(MINE, "mine")], "must be pairs of a name and"),
    ([("mine", MINE, 1)], "must be pairs of a name and"),
    ([("boosting", MINE)], "got 'boosting', which is taken"),
    ([("mine", MINE), ("mine", MINE)], "got 'mine', which is taken"),
    ([("mine", MINE), ("mine-tuned", MINE)], "got 'mine-tuned', which is taken"),
    ([("mine", MINE), 3], "candidates must be from .* got 3"),
]


@pytest.mark.parametrize(("wanted", "message"), BAD)
def test_bad_candidates_are_named(wanted, message):
    with pytest.raises(ValueError, match=message):
        chosen(wanted)
