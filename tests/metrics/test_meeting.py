"""The small language of goals: what it reads, and one clear line for what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import softset as ss
from softset.decisions.thresholds import ConstraintWarning
from softset.metrics.meeting import Constraint, Meeting
from softset.metrics.registry import get_goal, pack_metric, unpack_metric

READ = {
    "precision@recall>=0.9": ss.At("precision", recall=0.9),
    "recall@precision>=0.9": ss.At("recall", precision=0.9),
    "recall@fpr<=0.01": ss.At("recall", fpr=0.01),
    "specificity@recall>=0.95": ss.At("specificity", recall=0.95),
    "recall@alerts<=2%": ss.At("recall", alerts=0.02),
    "recall@alerts<=200/10000": ss.At("recall", alerts="200/10000"),
    "recall@alerts<=200": ss.At("recall", alerts=200),
    "f1@precision>=0.8": ss.At("f1", precision=0.8),
    "f1@recall>=0.8&fpr<=0.01": ss.At("f1", recall=0.8, fpr=0.01),
    " F1 @ recall >= 80 % & fpr <= 1e-2 ": ss.At("f1", recall=0.8, fpr=0.01),
    "precision@recall≥90%": ss.At("precision", recall=0.9),
    "cost(fn=50, fp=1)@recall>=0.5": ss.At(ss.Cost(fn=50, fp=1), recall=0.5),
}
MALFORMED = [
    "precision@", "@recall>=0.9", "precision@recall", "precision@recall>0.9",
    "precision@recall=0.9",
    "precision@recall==0.9", "precision@recall>=", "precision@recall>=high",
    "precision@recall>=1.5",
    "precision@recall>=-0.1", "precision@recall>=nan", "precision@recall>=inf",
    "precision@recal>=0.9", "precision@recall<=0.9", "recall@precision<=0.9", "recall@fpr>=0.1",
    "recall@alerts>=0.1", "recall@specificity<=0.9", "recall@recall>=0.9", "specificity@fpr<=0.1",
    "precision@precision>=0.5", "auroc@recall>=0.9", "average_precision@fpr<=0.1",
    "precision@recall>=0.9&", "precision@&recall>=0.9", "precision@recall>=0.9&recall>=0.8",
    "precision@recall>=0.9@fpr<=0.1", "precision@recall>=0.9,fpr<=0.1", "precision@0.9",
    "precision@recall>=3", "recall@alerts<=300%", "recall@alerts<=200/100", "recall@alerts<=200/0",
    "recall@alerts<=-5", "recall@alerts<=2.5", "recall@fpr<=1/100", "precison@recall>=0.9",
    "recall@f1>=0.9", "recall@alerts<=1/2/3", "recall@alerts<=200/week", "0.9@recall>=0.9",
    "cost", "cost()", "cost(fn)", "cost(fn=)", "cost(50, 1)", "cost(fn=50", "cost(fn=50, fn=1)",
    "cost(miss=50)", "cost(fn=nan)", "cost(fn=inf, fp=1)", "cost(fn=0, fp=0)", "cost(tp=1, fn=1)",
    "cost(fn=50 fp=1)", "recall@alerts<=1",
    "cost([[0, 1], [5]])", "cost([[0, 1]])", "cost([[1, 1], [1, 1]])", "cost([[0, x], [1, 0]])",
    "cost(fn=1, fp=2)@cost<=3", "profit", "profit(tp=)", "costs(fn=1)",
]  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_string_is_the_object(name):
    assert get_goal(name) == READ[name]
    assert get_goal(READ[name].name) == READ[name]
    assert get_goal(unpack_metric(pack_metric(READ[name]))) == READ[name]


def test_there_are_forty_malformed_goals():
    assert len(set(MALFORMED)) >= 40


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_goal_is_one_line_that_says_what_is_expected(name):
    with pytest.raises(ValueError, match=r"Expected METRIC@|Expected cost\(|Did you mean") as error:
        get_goal(name)
    text = str(error.value)
    assert "\n" not in text
    assert repr(name) in text
    assert len(text) < 700


def test_a_count_is_of_the_next_rows_or_of_those_at_hand():
    z, y = [5.0, 4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0, 0]
    assert ss.evaluate(z, y, "recall@alerts<=2/5") == 0.5
    assert ss.evaluate(z, y, "recall@alerts<=3") == 1.0
    assert ss.evaluate(z * 2, y * 2, "recall@alerts<=3") == 0.5  # of ten rows: two of equal scores
    with pytest.raises(ValueError, match="alerts<=3/N"):
        ss.metric_loss(z, y, "recall@alerts<=3")


def test_constraints_say_what_they_miss():
    c = ss.Confusion.from_matrix([[8, 2], [1, 1]], task="binary")
    both = Meeting((Constraint("recall", 0.9), Constraint("fpr", 0.1)))
    words = both.violation(ss.F1(), c)
    assert words == "recall 0.9 is not reached; 0.5 is, fpr 0.1 is not reached; 0.2 is, at f1 0.4"
    assert Meeting.parse("fpr<=0.2").violation(ss.F1(), c) is None


# --- degenerate rows: nothing returns a silent 0.5 ------------------------------------------------

Z, Y = [3.0, 2.0, 1.0, 0.0, -1.0, -2.0], [1, 0, 1, 0, 0, 0]


def flagged(z, threshold):
    return [int(s >= np.log(threshold / (1 - threshold))) for s in z]


def test_equal_scores_are_all_flagged_or_none():
    z, y = [2.0] * 6, Y
    assert flagged(z, ss.best_threshold(z, y, "precision@recall>=0.9")) == [1] * 6
    assert flagged(z, ss.best_threshold(z, y, "recall@fpr<=0.1")) == [0] * 6
    with pytest.warns(ConstraintWarning, match="precision 0.9 is not reached; 0.333 is, at recall"):
        assert flagged(z, ss.best_threshold(z, y, "recall@precision>=0.9")) == [1] * 6


def test_one_positive_is_found():
    y = [0, 0, 1, 0, 0, 0]
    tau = ss.best_threshold(Z, y, "precision@recall>=0.5")
    assert flagged(Z, tau) == [1, 1, 1, 0, 0, 0]
    with pytest.warns(ConstraintWarning, match="precision 0.9 is not reached; 0.333 is"):
        assert flagged(Z, ss.best_threshold(Z, y, "recall@precision>=0.9")) == [1, 1, 1, 0, 0, 0]


def test_without_positives_recall_is_said_to_be_out_of_reach():
    with pytest.warns(ConstraintWarning, match="recall 0.9 is not reached; 0 is"):
        ss.best_threshold(Z, [0] * 6, "precision@recall>=0.9")
    assert flagged(Z, ss.best_threshold(Z, [0] * 6, "recall@fpr<=0")) == [0] * 6


def test_a_constraint_that_all_thresholds_meet_leaves_the_metric_to_choose():
    assert ss.best_threshold(Z, Y, "f1@recall>=0") == ss.best_threshold(Z, Y, "f1")
    assert ss.best_threshold(Z, Y, "f1@fpr<=1") == ss.best_threshold(Z, Y, "f1")


def test_rows_of_weight_zero_are_no_rows():
    w = [1, 0, 1, 1, 0, 1]
    some = [0, 2, 3, 5]
    for goal in ("precision@recall>=0.9", "recall@fpr<=0.1", "recall@alerts<=2"):
        tau = ss.best_threshold(Z, Y, goal, sample_weight=w)
        z, y = ([a[i] for i in some] for a in (Z, Y))
        assert flagged(z, tau) == flagged(z, ss.best_threshold(z, y, goal))
    with pytest.raises(ValueError, match="weight"):
        ss.best_threshold(Z, Y, "precision@recall>=0.9", sample_weight=[0] * 6)


@pytest.mark.parametrize("times", [3, 2**24])
def test_a_row_of_weight_k_is_k_alerts(times):
    random = np.random.default_rng(0)
    z = random.normal(size=60)
    y, w = (random.random(60) < 0.4).astype(int), random.integers(0, 4, 60)
    for alerts in (5, 20):
        once, often = f"recall@alerts<={alerts}", f"recall@alerts<={alerts * times}"
        found = ss.evaluate(z, y, often, sample_weight=times * w)
        copies = np.repeat(z, w), np.repeat(y, w)
        assert found == pytest.approx(ss.evaluate(*copies, once)) != 0
        tau = ss.best_threshold(z, y, often, sample_weight=times * w)
        assert w[z >= np.log(tau / (1 - tau))].sum() <= alerts
        assert tau == pytest.approx(ss.best_threshold(*copies, once))


def test_labels_say_which_of_them_misses_its_constraint():
    z, y = np.column_stack([Z, Z]), np.column_stack([Y, [0] * 6])
    with pytest.warns(ConstraintWarning, match="label 1: recall 0.9 is not reached"):
        ss.best_threshold(z, y, "precision@recall>=0.9", task="multilabel")


def test_a_classifier_says_that_its_constraint_is_out_of_reach():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(200, 2)), np.arange(200) % 2
    goal = "f1@recall>=0.9&fpr<=0.05"
    model = ss.MetricThresholdClassifier(LogisticRegression(), goal, random_state=0)
    with pytest.warns(ConstraintWarning, match="is not reached"):
        model.fit(x, y)
    assert model.threshold_ != 0.5


@pytest.mark.parametrize("goal", ["recall@precision>=0.99", "precision@recall>=0.6"])
def test_a_goal_of_labels_is_the_mean_of_each_also_where_one_misses_it(goal):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (60, 3))
    z = rng.normal(size=(60, 3)) + y * [5.0, 0.0, 2.0]
    z[z[:, 1].argmax()] = 9.0  # the highest score of the second label is a negative
    y[z[:, 1].argmax(), 1] = 0
    each = [ss.evaluate(z[:, k], y[:, k], goal, from_logits=True) for k in range(3)]
    assert (min(each) < 0) == (goal == "recall@precision>=0.99")
    found = ss.evaluate(z, y, goal, task="multilabel", from_logits=True)
    assert found == pytest.approx(np.mean(each))
