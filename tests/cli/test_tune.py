"""``softset tune-threshold``: metrics, constraints, costs and promises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import softset as ss


@pytest.fixture
def scored(run):
    random = np.random.default_rng(0)
    y = (random.random(1000) < 0.2).astype(int)
    p = 1 / (1 + np.exp(-(2 * random.normal(size=1000) + 3 * y - 3)))
    pd.DataFrame({"p": p, "y": y}).to_csv("s.csv", index=False)
    return p, y


ARGUMENTS = ("tune-threshold", "s.csv", "-t", "y", "--scores", "p", "--metric")


def test_a_promise_is_the_one_of_python(run, scored):
    facts = run.json(*ARGUMENTS, "precision@recall>=0.8", "--confidence", "0.9")
    kept = ss.promise(*scored, "precision@recall>=0.8", confidence=0.9, from_logits=False)
    (found,) = facts["promises"]
    assert found["threshold"] == pytest.approx(kept.threshold)
    assert found["sentence"] == str(kept)
    lines = run(*ARGUMENTS, "precision@recall>=0.8", "--confidence", "0.9").splitlines()
    assert lines == ["positive: 1, 19 % of rows", str(kept)]


def test_nothing_promised_is_said_and_has_no_threshold(run, scored):
    facts = run.json(*ARGUMENTS, "precision@recall>=0.999", "--confidence", "0.9")
    assert facts["promises"][0]["threshold"] is None
    assert facts["promises"][0]["needed"] == 2302


@pytest.mark.filterwarnings("default")
def test_a_constraint_that_no_threshold_meets_is_said(run, scored):
    run(*ARGUMENTS, "f1@precision>=1&recall>=0.9")
    assert "precision 1 is not reached; 0.62 is" in run.err


def test_a_count_of_the_rows_at_hand_is_said_to_be_one(run, scored):
    text = run(*ARGUMENTS, "recall@alerts<=50")
    assert text.startswith("alerts<=50 is of these 1000 rows; alerts<=50/10000 would be of the")


def test_costs_are_goals(run, scored):
    facts = run.json(*ARGUMENTS, "cost(fn=50, fp=1)")
    p, y = scored
    cost = [np.where(y, 50 * (p < t), p >= t).mean() for t in [*p, 1.0]]
    assert facts["value"] == pytest.approx(-min(cost))


def test_costs_of_each_row_are_columns_of_the_file(run, scored):
    p, y = scored
    amount = np.random.default_rng(2).exponential(50, len(y))
    pd.DataFrame({"p": p, "y": y, "Amount": amount}).to_csv("s.csv", index=False)
    facts = run.json(*ARGUMENTS, "cost(fn=Amount, fp=5)")
    rule = ss.cost_decision(p, y, "cost(fn=A, fp=5)", {"A": amount}, from_logits=False)
    assert facts["row_cost"] == pytest.approx(rule.row_cost)
    assert facts["by_row"] == rule.by_row
    assert run(*ARGUMENTS, "cost(fn=Amount, fp=5)").splitlines()[1:] == [str(rule)]
    assert "'amount' has the costs of fn" in run.refused(*ARGUMENTS, "cost(fn=amount, fp=5)")


def test_what_cannot_be_is_refused_in_a_line(run, scored):
    assert "no constraint to promise" in run.refused(*ARGUMENTS, "f1", "--confidence", "0.9")
    assert "confidence must be in" in run.refused(
        *ARGUMENTS, "f1@recall>=0.5", "--confidence", "90"
    )
    assert "Expected METRIC@" in run.refused(*ARGUMENTS, "recall@recall>=0.5")


def test_a_model_keeps_its_promise_in_its_file(run):
    random = np.random.default_rng(1)
    y = (random.random(1000) < 0.3).astype(int)
    table = pd.DataFrame({"x": random.normal(size=1000) + 2 * y, "y": y})
    table[:500].to_csv("train.csv", index=False)
    table[500:].to_csv("new.csv", index=False)
    given = (
        "-t",
        "y",
        "-m",
        "precision@recall>=0.8",
        "--recipe",
        "linear-tuned",
        "-o",
        "m.softset",
    )
    text = run("train", "train.csv", *given, "--confidence", "0.9")
    assert "keeps recall >= 0.8 with about 90 % confidence (approximate)" in text
    text = run("evaluate", "new.csv", "-t", "y", "--model", "m.softset", "-m", "f1")
    assert "promised recall >= 0.8; here 0." in text


def test_the_threshold_has_an_interval_and_the_gain_says_when_it_is_noise(run, scored):
    facts = run.json(*ARGUMENTS, "f2")
    low, high = facts["interval"]
    assert 0 < low < facts["threshold"] < high < 1
    gain = facts["gain"]
    assert gain["plain"] == pytest.approx(facts["value_before"])
    assert gain["value"] - gain["plain"] == pytest.approx(gain["gain"])
    text = run(*ARGUMENTS, "f2")
    assert f"(95 % interval {low:.4g} to {high:.4g})" in text
    assert "gain on rows not tuned on: +0." in text
    assert "within noise" not in text  # at 0.5 most positives are missed
    p, y = scored
    pd.DataFrame({"p": np.log(p / (1 - p)), "y": y}).to_csv("s.csv", index=False)
    of_logits = run.json(*ARGUMENTS, "f2", "--logits")
    assert of_logits["interval"] == pytest.approx([low, high])  # as its threshold, a probability
    even = np.random.default_rng(1).random(len(y))
    pd.DataFrame({"p": even, "y": y}).sort_values("y").to_csv("s.csv", index=False)
    assert "]: within noise\n" in run(*ARGUMENTS, "balanced_accuracy")
    several = pd.DataFrame(np.random.default_rng(0).dirichlet([1, 1, 1], 200), columns=list("abc"))
    several.assign(y=np.arange(200) % 3).to_csv("t.csv", index=False)
    text = run("tune-threshold", "t.csv", "-t", "y", "--scores", "a,b,c", "--metric", "f1_macro")
    assert text.count("(95 % interval ") == 3
    assert "within noise" in text
