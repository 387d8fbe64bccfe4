"""Another prevalence: its estimate, its test, and the decision for it."""

import numpy as np
import pytest

from softset.decisions.decision import Decision
from softset.decisions.promises import promised_decision
from softset.decisions.reference import Reference
from softset.decisions.shift import (
    estimated_shift,
    shifted_decision,
    stated_prior,
    stated_shift,
)
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_goal
from softset.tasks import BINARY, MULTICLASS


def drawn(n, prevalence, seed):
    random = np.random.default_rng(seed)
    y = (random.random(n) < prevalence).astype(int)
    return random.normal(size=n) + 2 * y, y


def test_intervals_hold_the_prevalence_and_label_shift_is_rarely_rejected():
    held, rejected = [], []
    for seed in range(100):
        reference = Reference.of(BINARY, *drawn(1000, 0.1, seed))
        shift = estimated_shift(reference, drawn(800, 0.3, 1000 + seed)[0], ["no", "yes"])
        held.append(shift.low[0] <= 0.3 <= shift.high[0])
        rejected.append(shift.p_value < 0.05)
        assert abs(shift.by_decisions[0] - 0.3) < 0.15
    assert np.mean(held) > 0.88
    assert np.mean(rejected) < 0.12


def test_intervals_know_that_the_reference_has_few_rows():
    """However many rows are new."""
    held = []
    for seed in range(50):
        reference = Reference.of(BINARY, *drawn(1000, 0.1, seed))
        shift = estimated_shift(reference, drawn(20_000, 0.3, 1000 + seed)[0], ["no", "yes"])
        held.append(shift.low[0] <= 0.3 <= shift.high[0])
    assert np.mean(held) > 0.88


def test_other_changes_are_rejected():
    reference = Reference.of(BINARY, *drawn(5000, 0.1, 0))
    shift = estimated_shift(reference, 1.5 * drawn(3000, 0.1, 1)[0], ["no", "yes"])
    assert shift.rejected
    assert "something else has changed" in str(shift)


@pytest.mark.parametrize("before", [0.1, 0.4])
def test_the_threshold_is_that_of_rows_with_the_new_prevalence(before):
    reference = Reference.of(BINARY, *drawn(20_000, before, 0))
    tuner = Tuner(get_goal("f1"), BINARY)
    decision = Decision.at(BINARY, 0.5)
    moved = [
        shifted_decision(
            decision, tuner, reference, stated_shift(reference, np.array([[1 - p, p]]), [0, 1])
        ).logit
        for p in (0.02, 0.2)
    ]
    for cut, prevalence in zip(moved, (0.02, 0.2), strict=True):
        z, y = drawn(100_000, prevalence, 5)
        value = [2 * (y @ (z >= c)) / (y.sum() + (z >= c).sum()) for c in np.linspace(-1, 4, 101)]
        own = 2 * (y @ (z >= cut)) / (y.sum() + (z >= cut).sum())
        assert own > max(value) - 0.01


def test_several_classes_add_the_log_ratio_to_their_offsets():
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 3000)
    z = random.normal(size=(3000, 3)) + 1.5 * np.eye(3)[y]
    reference = Reference.of(MULTICLASS, z, y)
    decision = Decision(MULTICLASS, np.array([0.0, 0.1, -0.1]))
    prior = stated_prior(reference, {"a": 0.2, "b": 0.3, "c": 0.5}, ["a", "b", "c"])
    moved = shifted_decision(
        decision,
        Tuner(get_goal("f1_macro"), MULTICLASS),
        reference,
        stated_shift(reference, prior, ["a", "b", "c"]),
    )
    expected = decision.logit + np.log([0.2, 0.3, 0.5]) - np.log(np.bincount(y) / 3000)
    np.testing.assert_allclose(moved.logit, expected)
    new = np.random.default_rng(1).choice(3, size=4000, p=[0.1, 0.2, 0.7])
    scores = np.random.default_rng(2).normal(size=(4000, 3)) + 1.5 * np.eye(3)[new]
    shift = estimated_shift(reference, scores, ["a", "b", "c"])
    assert np.abs(np.array(shift.after) - [0.1, 0.2, 0.7]).max() < 0.05
    assert not shift.rejected


def promised(goal, prevalence, rows=20_000):
    z, y = drawn(rows, prevalence, 0)
    tuner = Tuner(get_goal(goal), BINARY)
    w = np.ones(rows)
    decision = promised_decision(tuner.tune(z, y, w), tuner.goal, z, y, w, 0.95, exact=True)
    return Reference.of(BINARY, z, y), tuner, decision


@pytest.mark.parametrize("goal", ["precision@recall>=0.8", "recall@fpr<=0.05"])
def test_promises_of_one_class_stand_where_they_are(goal):
    reference, tuner, decision = promised(goal, 0.2)
    shift = stated_shift(reference, np.array([[0.95, 0.05]]), [0, 1])
    assert shifted_decision(decision, tuner, reference, shift) is decision


def test_a_promise_of_precision_is_made_again_and_kept():
    reference, tuner, decision = promised("recall@precision>=0.8", 0.3)
    shift = stated_shift(reference, np.array([[0.9, 0.1]]), [0, 1])
    moved = shifted_decision(decision, tuner, reference, shift)
    assert moved.logit > decision.logit
    assert not moved.promises[0].exact
    z, y = drawn(200_000, 0.1, 7)
    assert y[z >= moved.logit].mean() > 0.79
    assert y[z >= decision.logit].mean() < 0.75  # it would have been broken


@pytest.mark.parametrize(
    ("goal", "worse"), [("recall@alerts<=0.2", 1), ("recall@precision>=0.7", -1)]
)
def test_a_promise_after_an_estimate_is_that_of_its_worse_end(goal, worse):
    """Of the prevalence with more alerts, or with less precision."""
    reference, tuner, decision = promised(goal, 0.3)
    shift = estimated_shift(reference, drawn(400, 0.3, 5)[0], [0, 1])
    end = (shift.high if worse > 0 else shift.low)[0]
    stated = stated_shift(reference, np.array([[1 - end, end]]), [0, 1])
    found, known = (shifted_decision(decision, tuner, reference, s) for s in (shift, stated))
    assert found.logit == pytest.approx(known.logit)
    assert found.promises[0].logit == known.promises[0].logit


def test_where_label_shift_is_rejected_promises_are_withdrawn():
    reference, tuner, decision = promised("precision@recall>=0.8", 0.2)
    shift = estimated_shift(reference, 2 * drawn(3000, 0.2, 1)[0], [0, 1])
    moved = shifted_decision(decision, tuner, reference, shift)
    assert moved.promises == ()
    assert moved.logit == decision.logit


@pytest.mark.parametrize(
    ("prevalence", "words"),
    [
        (0.0, "prevalence must be in"),
        (1, "prevalence must be in"),
        (float("nan"), "prevalence must be in"),
        ("low", "prevalence must be a number"),
        ([0.1, 0.2], "prevalence must be one fraction"),
        ({"no": 0.5}, "a fraction for each of no, yes"),
    ],
)
def test_bad_prevalences_get_one_line(prevalence, words):
    reference = Reference.of(BINARY, *drawn(100, 0.3, 0))
    with pytest.raises(ValueError, match=words):
        stated_prior(reference, prevalence, ["no", "yes"])
