"""The verdict in words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from softset.comparison.statistics import adjusted, gains_by_stage, paired
from softset.comparison.verdict import advice, gain_in_words, headline, stage_names, verdict
from softset.tasks import get_task

LOW = np.array([0.50, 0.52, 0.49, 0.51, 0.50])
UNEVEN = np.array([0.9, 1.0, 1.1, 1.0, 0.9])
SELDOM = np.array([0.1, 0.0, 0.1, 0.0, 0.0])
STAGES = {"linear": "default", "tuned": "tuned", "soft": "metric"}
NAMES = {"linear": "logistic regression", "tuned": "boosting, tuned threshold", "soft": "soft F1"}


def words(scores, sizes=None, task="binary", by_scores=False, stages=STAGES):
    """The verdict and its sentences, with the numbers that the table would have."""
    texts = stage_names("F1", get_task(task), by_scores)
    gains = gains_by_stage(scores, stages, sizes or {}, folds=5, one_row=1e-6, names=texts)
    decision = verdict(gains, stages)
    names = {c: NAMES.get(c, c) for c in scores}
    means = {c: float(np.mean(v)) for c, v in scores.items()}
    pair = (scores[decision.winner], scores[decision.reference])
    same = decision.winner == decision.reference
    difference = None if same else adjusted({"": paired(*pair, 0.2, 1e-6)})[""]
    return SimpleNamespace(
        outcome=decision.outcome,
        winner=decision.winner,
        reference=decision.reference,
        headline=headline(decision, gains, names, "F1", means, difference),
        advice=advice(decision, gains, names, "F1"),
        total=gains.total,
    )


def test_a_significant_gain():
    found = words(
        {"linear": LOW, "tuned": LOW + 0.1, "soft": LOW + UNEVEN / 10},
        {"linear": 10, "tuned": 5000, "soft": 5000},
    )
    assert (found.outcome, found.winner, found.reference) == ("significant", "tuned", "linear")
    assert found.headline == (
        "Use boosting, tuned threshold: F1 0.604, +0.100 [+0.099, +0.101] over logistic "
        "regression, default threshold (0.5)."
    )
    gains = "gains +0.100 [+0.099, +0.101] of F1 over default threshold (0.5): significant (adj"
    assert gains in found.advice
    assert "Significant stages: tuned threshold (+0.1" in found.advice
    assert "not significant: trained for F1 (" in found.advice
    assert "Simpler: logistic regression is 0." in found.advice
    assert found.advice.endswith("behind (significant) and 500 times as small.")


def test_a_winner_trained_for_the_metric_is_measured_by_the_tuned_threshold():
    scores = {"linear": LOW, "tuned": LOW + 0.1, "soft": LOW + 0.1 + UNEVEN / 20}
    result = words(scores)
    assert (result.outcome, result.winner, result.reference) == ("significant", "soft", "tuned")
    assert result.headline.startswith("Use soft F1: F1 0.653, +0.049 [+0.0")
    assert result.headline.endswith("] over boosting, tuned threshold.")


def test_a_winner_that_is_level_with_the_tuned_threshold_says_so():
    scores = {"linear": LOW, "tuned": LOW + UNEVEN / 10, "soft": LOW + UNEVEN / 10 + SELDOM}
    result = words(scores)
    assert (result.outcome, result.winner, result.reference) == ("significant", "soft", "tuned")
    assert "+0.040 [-0." in result.headline
    assert "over boosting, tuned threshold (not significant; tuned threshold: +0.09" in (
        result.headline
    )


def test_a_gain_that_is_not_significant():
    found = words({"linear": LOW, "tuned": LOW + SELDOM})
    assert (found.outcome, found.winner) == ("not significant", "tuned")
    assert found.headline.startswith(
        "No significant gain over logistic regression, default threshold (0.5): the best guess is "
        "boosting, tuned threshold, F1 0.544, +0.040 [-"
    )
    assert found.advice.endswith("Not significant: tuned threshold (+0.040).")


def test_the_headline_has_the_numbers_of_the_winner():
    """Not those of choosing, in which other candidates take part; these follow, and say so."""
    random = np.random.default_rng(3)
    scores = {"linear": LOW, "tuned": LOW + 0.05 + random.normal(0, 0.03, 5)}
    scores["soft"] = LOW + 0.05 + random.normal(0, 0.03, 5)
    found = words(scores)
    over_tuned = float(np.mean(scores[found.winner] - scores["tuned"]))
    assert abs(over_tuned - found.total.mean) > 0.001
    assert f"F1 {np.mean(scores[found.winner]):.3f}, {over_tuned:+.3f} [" in found.headline
    assert f"{found.total.mean:+.3f}" not in found.headline
    assert f"gains {found.total.mean:+.3f} [" in found.advice


def test_a_large_model_that_gains_nothing_is_not_advised():
    """It has the best mean, but choosing among the small ones does as well."""
    best = LOW + 0.1 + np.array([0.05, -0.01, -0.01, -0.01, -0.01])
    sizes = {"linear": 10, "tuned": 10, "soft": 5000}
    found = words({"linear": LOW, "tuned": LOW + 0.1, "soft": best}, sizes)
    assert (found.outcome, found.winner) == ("significant", "tuned")
    assert found.advice.endswith("No gain for its size: soft F1, no better and 500 times as large.")


def test_an_interval_above_zero_that_is_not_significant_is_explained():
    gains = np.array([0.02, 0.08, 0.05, 0.03, 0.06])
    found = words({"linear": LOW, "tuned": LOW + gains, "soft": LOW - 0.1})
    assert found.outcome == "not significant"
    assert "not significant (adjusted p 0.1" in found.advice
    assert ", significant only before the Holm correction." in found.advice


@pytest.mark.parametrize("scores", [LOW - 0.1, LOW, [0.9, 0.4, 0.4, 0.4, 0.4]])
def test_no_gain_is_no_advice_to_change(scores):
    """The last has as good a mean, but not where it is chosen."""
    found = words({"linear": LOW, "tuned": scores})
    assert (found.outcome, found.winner, found.reference) == ("stay", "linear", "linear")
    assert found.headline.startswith(
        "Stay with logistic regression, default threshold (0.5): F1 0.504; choosing among 2"
    )


def test_the_user_model_is_the_reference():
    stages = STAGES | {"mine": "user", "mine-tuned": "tuned"}
    scores = {"mine": LOW, "linear": LOW - 0.1, "mine-tuned": LOW + 0.1}
    found = words(scores, stages=stages)
    assert (found.winner, found.reference) == ("mine-tuned", "mine")
    assert found.headline.endswith("over mine.")


@pytest.mark.parametrize(
    ("task", "by_scores", "ending"),
    [("multiclass", False, "over logistic regression."), ("binary", True, "logistic regression.")],
)
def test_without_a_threshold_none_is_named(task, by_scores, ending):
    found = words({"linear": LOW, "soft": LOW + 0.1}, task=task, by_scores=by_scores)
    assert found.headline.endswith(ending)


def test_candidates_of_one_kind():
    found = words({"linear": LOW, "b": LOW + 0.1}, stages={"linear": "default", "b": "default"})
    assert found.headline == "Use b: it has the best mean of 2 candidates of one kind."
    assert found.winner == found.reference == "b"


def test_a_single_split_cannot_tell_and_the_verdict_says_so():
    alone = paired([0.7], [0.6], test_fraction=0.2, one_row=0.01)
    assert gain_in_words(alone, "F1") == "+0.100 of F1 (on one split: too few to tell)"
