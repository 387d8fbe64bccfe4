"""Operating points: rates of a fixed threshold, and constraints that it breaks."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import precision_score, recall_score

from softset import MetricLinearClassifier, compare, evaluate
from softset.comparison.operating import mean_point, operating_point
from softset.comparison.result import Comparison, OperatingPoint
from softset.metrics.registry import get_goal
from softset.report import render
from softset.tables.encoder import TableEncoder, infer_schema
from softset.tables.splits import repeated_folds

GOAL = "precision@recall>=0.8"


def drawn(n=400):
    random = np.random.default_rng(0)
    X = random.standard_normal((n, 2))
    return X, (X[:, 0] + random.standard_normal(n) > 1).astype(int)


def test_rates_are_those_of_scikit_learn_and_a_missed_constraint_is_broken():
    random = np.random.default_rng(1)
    y, predicted = random.integers(0, 2, 50), random.integers(0, 2, 50)
    for bound in (0.1, 0.9):
        point = operating_point(get_goal(f"precision@recall>={bound}"), predicted, y)
        assert point.metric == pytest.approx(precision_score(y, predicted))
        assert point.rates == {"recall": pytest.approx(recall_score(y, predicted))}
        assert point.broken == (recall_score(y, predicted) < bound)
    assert operating_point(get_goal("f1"), predicted, y) is None


def test_means_and_broken_splits():
    points = [OperatingPoint(0.4, {"recall": 0.7}, 1), OperatingPoint(0.6, {"recall": 0.9}, 0)]
    mean = mean_point(points)
    assert mean.metric == pytest.approx(0.5)
    assert mean.rates == {"recall": pytest.approx(0.8)}
    assert mean.broken == 1
    assert mean_point([None, None]) is None


@pytest.fixture(scope="module")
def found(small_models):
    X, y = drawn()
    names = ["linear-tuned", "linear-metric"]
    return compare(X, y, GOAL, candidates=names, quick=True, n_jobs=1, cv=3)


def test_candidates_are_ranked_by_the_frontier(found):
    """The best precision of their test scores under the constraint, not that of the threshold."""
    assert len(found.candidates) == 2
    for c in found.candidates:
        assert c.operating.broken <= found.splits.count
        assert c.mean >= c.operating.metric - 0.2
    held_out = found.predictions[found.winner]
    frontier = evaluate(held_out.scores, held_out.target, GOAL, from_logits=False)
    winner = next(c for c in found.candidates if c.id == found.winner)
    assert winner.mean == pytest.approx(frontier, abs=0.15)  # folds are pooled
    assert " at recall>=0.8" in found.verdict
    assert "broken in " in found.advice


def test_the_report_has_the_alternatives(found):
    page = render(found)
    section = page.partition('<section id="frontier">')[2].partition("</section>")[0]
    rows = re.findall(r"<tr.*?</tr>", section, flags=re.S)[1:]
    assert len(rows) == 7
    (asked,) = [row for row in rows if "asked for" in row]
    held_out = found.predictions[found.winner]
    value = evaluate(held_out.scores, held_out.target, GOAL, from_logits=False)
    assert f">{value:.3f}</td>" in asked
    alerts = [int(re.findall(r">([\d,]+)</td>", row)[0].replace(",", "")) for row in rows]
    assert alerts == sorted(alerts)
    assert " fewer</td>" in rows[0]
    assert " more</td>" in rows[-1]
    assert "constraint broken in" in section


@pytest.mark.parametrize(
    ("goal", "rows"), [("recall@alerts<=2000/10000", 7), ("f1@recall>=0.8&fpr<=0.3", 7)]
)
def test_the_report_has_the_alternatives_of_counts_and_of_two_constraints(found, goal, rows):
    stated = dataclasses.replace(found, metric=goal, promise="A promise.")
    section = render(stated).partition('<section id="frontier">')[2].partition("</section>")[0]
    shown = re.findall(r"<tr.*?</tr>", section, flags=re.S)[1:]
    assert len(shown) == rows
    (asked,) = [row for row in shown if "asked for" in row]
    held_out = found.predictions[found.winner]
    value = evaluate(held_out.scores, held_out.target, goal, from_logits=False)
    assert f">{value:.3f}</td>" in asked
    assert "A promise." in section


def test_a_count_of_the_rows_at_hand_is_refused():
    with pytest.raises(ValueError, match=r"splits differ in rows\. Write alerts<=40/N"):
        compare(*drawn(), "recall@alerts<=40")


def test_with_a_confidence_thresholds_keep_the_constraint(found):
    X, y = drawn()
    names = ["linear-tuned", "forest-tuned"]
    given = {"candidates": names, "quick": True, "n_jobs": 1, "cv": 3}
    sure = compare(X, y, GOAL, confidence=0.95, **given)
    by_id = {c.id: c for c in found.candidates}
    (linear,) = [c for c in sure.candidates if c.id == "linear-tuned"]
    assert linear.operating.rates["recall"] > by_id["linear-tuned"].operating.rates["recall"]
    assert linear.scores == by_id["linear-tuned"].scores  # the ranking is the same
    assert "recall >= 0.8" in sure.promise
    assert sure.promise == str(sure.model.classifier.promise_)
    assert sure.promise in " ".join(render(sure).replace("&gt;", ">").split())
    assert found.promise == ""
    with pytest.raises(ValueError, match="confidence is of a constraint"):
        compare(X, y, "f1", confidence=0.95, **given)


def test_costs_are_in_money_in_the_report():
    X, y = drawn()
    names = ["linear-tuned", "forest-tuned"]
    found = compare(X, y, "cost(fn=20, fp=1)", candidates=names, quick=True, n_jobs=1, cv=3)
    section = render(found).partition('<section id="frontier">')[2].partition("</section>")[0]
    rows = [re.findall(r">([^<>\n]+)</t[hd]>", r) for r in re.findall(r"<tr.*?</tr>", section)[1:]]
    assert [row[0].split(",")[0] for row in rows] == [
        "the model&#39;s threshold",
        "default threshold",
        "best threshold for these rows",
        "flag every row",
        "flag no row",
    ]
    cost = [int(row[1].replace(",", "")) for row in rows]
    assert cost[3] == round((y == 0).mean() * 10_000)
    assert cost[4] == round(20 * y.mean() * 10_000)
    assert cost[2] == min(cost)


def test_costs_of_each_row_are_compared_and_reported_in_money():
    random = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame({"a": random.normal(size=n), "amount": np.exp(2 * random.normal(size=n) + 2)})
    y = (random.random(n) < 1 / (1 + np.exp(1 - 2 * X["a"]))).astype(int).to_numpy()
    ids = ["linear", "linear-tuned"]
    result = compare(X, y, "cost(fn=amount, fp=5)", candidates=ids, n_jobs=1, quick=True, cv=2)
    scores = {c.id: c.scores for c in result.candidates}
    # Each split by hand: the threshold 0.5 of logistic regression, one row after the other.
    plan = repeated_folds(y, None, 2, 1, 0)[0]
    for split in range(2):
        train, test = plan != split, plan == split
        encoder = TableEncoder(infer_schema(X)).fit(X[train])
        model = MetricLinearClassifier("f1", path=(), threshold=None)
        said = model.fit(encoder.transform(X[train]), y[train]).predict(encoder.transform(X[test]))
        spent = np.where(y[test] > said, X["amount"][test], np.where(y[test] < said, 5.0, 0.0))
        assert scores["linear"][split] == pytest.approx(-spent.mean())
    assert [c.name for c in result.candidates if c.id == "linear-tuned"] == [
        "Logistic regression, costs of each row"
    ]
    assert result.gains.stages[-1].name == "costs of each row"
    assert result.costs.sentence.startswith("Decide by expected costs of each row")
    assert Comparison.from_dict(result.to_dict()).costs == result.costs
    page = render(result)
    assert "cost per 10,000 rows" in page
    assert "expected costs of each row" in page
    with pytest.raises(ValueError, match="costs of each row are for two classes"):
        compare(X, np.arange(n) % 3, "cost(fn=amount, fp=5)")
