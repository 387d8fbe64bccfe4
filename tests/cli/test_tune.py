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
    given = ("-t", "y", "-m", "precision@recall>=0.8", "--recipe", "linear", "-o", "m.softset")
    text = run("train", "train.csv", *given, "--confidence", "0.9")
    assert "keeps recall >= 0.8 with about 90 % confidence (approximate)" in text
    text = run("evaluate", "new.csv", "-t", "y", "--model", "m.softset", "-m", "f1")
    assert "promised recall >= 0.8; here 0." in text
