"""The verdict in words."""

from __future__ import annotations

import numpy as np
import pytest

from softset.comparison.ladder import climb
from softset.comparison.statistics import paired
from softset.comparison.verdict import in_words, rung_names, verdict
from softset.tasks import get_task

LOW = np.array([0.50, 0.52, 0.49, 0.51, 0.50])
UNEVEN = np.array([0.9, 1.0, 1.1, 1.0, 0.9])
SELDOM = np.array([0.1, 0.0, 0.1, 0.0, 0.0])
RUNGS = {"linear": "default", "cut": "tuned", "soft": "metric"}
NAMES = {"linear": "logistic regression", "cut": "boosting, tuned threshold", "soft": "soft F1"}


def said(scores, sizes=None, task="binary", curve=False, rungs=RUNGS):
    names = rung_names("F1", get_task(task), curve)
    ladder = climb(scores, rungs, sizes or {}, folds=5, one_row=1e-6, names=names)
    return verdict(ladder, {c: NAMES.get(c, c) for c in scores}, "F1")


def test_a_clear_gain():
    found = said(
        {"linear": LOW, "cut": LOW + 0.1, "soft": LOW + UNEVEN / 10},
        {"linear": 10, "cut": 5000, "soft": 5000},
    )
    assert (found.outcome, found.winner, found.reference) == ("clear", "cut", "linear")
    assert found.headline == (
        "Use boosting, tuned threshold: worth +0.100 [+0.099, +0.101] of F1 over logistic "
        "regression cut at 0.5."
    )
    assert found.advice.startswith("Clear steps: tuned threshold (+0.1")
    assert "not clear: trained on F1 (" in found.advice
    assert "Simpler: logistic regression is 0." in found.advice
    assert found.advice.endswith("behind (clear) and 500 times as small.")


def test_a_gain_that_is_not_clear():
    found = said({"linear": LOW, "cut": LOW + SELDOM})
    assert (found.outcome, found.winner) == ("unclear", "cut")
    assert found.headline.startswith(
        "No clear gain over logistic regression cut at 0.5: the best guess is boosting, tuned "
        "threshold, worth +0.040 [-"
    )
    assert found.advice == "Not clear: tuned threshold (+0.040)."


def test_a_large_model_that_gains_nothing_is_not_advised():
    """It has the best mean, but choosing among the small ones does as well."""
    best = LOW + 0.1 + np.array([0.05, -0.01, -0.01, -0.01, -0.01])
    sizes = {"linear": 10, "cut": 10, "soft": 5000}
    found = said({"linear": LOW, "cut": LOW + 0.1, "soft": best}, sizes)
    assert (found.outcome, found.winner) == ("clear", "cut")
    assert found.advice.endswith("Not worth its size: soft F1, no better and 500 times as large.")


def test_an_interval_above_zero_that_is_not_clear_is_explained():
    gains = np.array([0.02, 0.08, 0.05, 0.03, 0.06])
    found = said({"linear": LOW, "cut": LOW + gains, "soft": LOW - 0.1})
    assert found.outcome == "unclear"
    assert found.headline.endswith("of F1 (taken alone; not clear with all steps allowed for).")


@pytest.mark.parametrize("scores", [LOW - 0.1, LOW, [0.9, 0.4, 0.4, 0.4, 0.4]])
def test_no_gain_is_no_advice_to_change(scores):
    """The last has as good a mean, but not where it is chosen."""
    found = said({"linear": LOW, "cut": scores})
    assert (found.outcome, found.winner, found.reference) == ("stay", "linear", "linear")
    assert found.headline.startswith("Stay with logistic regression cut at 0.5: choosing among 2")


def test_the_users_own_model_is_what_all_is_held_against():
    rungs = RUNGS | {"mine": "own", "mine-tuned": "tuned"}
    scores = {"mine": LOW, "linear": LOW - 0.1, "mine-tuned": LOW + 0.1}
    found = said(scores, rungs=rungs)
    assert (found.winner, found.reference) == ("mine-tuned", "mine")
    assert found.headline.endswith("of F1 over mine.")


@pytest.mark.parametrize(
    ("task", "curve", "words"),
    [("multiclass", False, "over logistic regression."), ("binary", True, "logistic regression.")],
)
def test_without_a_threshold_none_is_named(task, curve, words):
    found = said({"linear": LOW, "soft": LOW + 0.1}, task=task, curve=curve)
    assert found.headline.endswith(words)


def test_candidates_of_one_kind():
    found = said({"linear": LOW, "b": LOW + 0.1}, rungs={"linear": "default", "b": "default"})
    assert found.headline == "Use b: it has the best mean of 2 candidates of one kind."
    assert found.winner == found.reference == "b"


def test_a_single_split_cannot_tell_and_the_verdict_says_so():
    alone = paired([0.7], [0.6], test_share=0.2, one_row=0.01)
    assert in_words(alone, "F1") == "+0.100 of F1 (on one split: too few to tell)"
