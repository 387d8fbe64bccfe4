"""Costs of each row: thresholds and expected costs equal enumeration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import softset as ss
from softset.classifiers.row_costs import mean_prices
from softset.decisions.calibration import Calibration
from softset.decisions.costs import (
    cheapest_threshold,
    cost_decision,
    mean_cost,
    sample_costs,
    saved_by_flagging,
)
from softset.tables.splits import dealt_folds


def rows(seed, n=60, tied=False):
    random = np.random.default_rng(seed)
    y = (random.random(n) < 0.4).astype(int)
    y[:2] = 0, 1
    z = random.normal(size=n) + y
    costs = random.exponential(size=(n, 4)) * [0.1, 1, 5, 0.1]
    return z.round(1) if tied else z, y, random.integers(0, 3, n) + 0.5, costs


@pytest.mark.parametrize("tied", [False, True])
def test_the_threshold_is_the_cheapest_of_all(tied):
    for seed in range(20):
        z, y, w, costs = rows(seed, tied=tied)
        enumerated = [mean_cost((z >= t).astype(int), y, w, costs) for t in [*z, np.inf]]
        found = mean_cost((z >= cheapest_threshold(z, y, w, costs)).astype(int), y, w, costs)
        assert found == pytest.approx(min(enumerated))


def test_each_row_is_decided_by_the_cheaper_expectation():
    z, _, _, costs = rows(0)
    p = expit(z)
    for saved, q, (tp, fp, fn, tn) in zip(saved_by_flagging(p, costs), p, costs, strict=True):
        expected = {1: q * tp + (1 - q) * fp, 0: q * fn + (1 - q) * tn}
        assert (saved > 0) == min(expected, key=expected.get)


def simulated(n=4000):
    """Calibrated scores, and amounts that vary by orders of magnitude."""
    random = np.random.default_rng(1)
    z = 2 * random.normal(size=n) - 2
    return z, (random.random(n) < expit(z)).astype(int), np.exp(2 * random.normal(size=n) + 2)


def test_amounts_decide_row_by_row_where_that_is_cheaper():
    z, y, amount = simulated()
    rule = cost_decision(z, y, "cost(fn=amount, fp=5)", {"amount": amount})
    assert rule.by_row
    assert rule.row_cost < 0.8 * rule.threshold_cost < 0.8 * rule.plain_cost
    new = rule(z, pd.DataFrame({"amount": amount}))
    p = rule.calibration(z)
    assert (new == (p * amount > (1 - p) * 5)).all()
    assert f"{rule.row_cost:.4g} by expected costs" in str(rule)


def test_scores_that_cannot_be_calibrated_are_decided_by_one_threshold():
    random = np.random.default_rng(2)
    z = random.uniform(-1, 1, 4000)
    # Positive between two scores and beyond a third: no increasing function is the probability.
    y = ((z > 0.5) | (random.random(4000) < 0.02)).astype(int)
    z = np.where(z > 0.5, 0.5 + 1e-3 * z, 100 * z - 50)
    rule = cost_decision(z, y, ss.Cost(fn=1.0, fp=1.0), np.tile([0.0, 1.0, 1.0, 0.0], (4000, 1)))
    assert rule.threshold_cost <= rule.row_cost
    assert (rule(z) == (z >= rule.logit)).all() or rule.by_row


def test_probabilities_and_logits_decide_alike():
    z, y, amount = simulated(500)
    a = cost_decision(z, y, "cost(fn=amount, fp=5)", {"amount": amount})
    b = cost_decision(expit(z), y, "cost(fn=amount, fp=5)", {"amount": amount}, from_logits=False)
    assert a.row_cost == pytest.approx(b.row_cost)
    assert (b(expit(z), {"amount": amount}, from_logits=False) == a(z, {"amount": amount})).all()


def test_a_profit_is_a_cost_with_the_other_sign():
    z, y, amount = simulated(500)
    cost = cost_decision(z, y, "cost(tp=loss, fp=5)", {"loss": -amount})
    profit = cost_decision(z, y, "profit(tp=amount, fp=-5)", {"amount": amount})
    assert cost.row_cost == profit.row_cost
    assert "profit of a row" in str(profit)


def test_a_matrix_of_each_row_is_that_of_the_columns():
    z, y, amount = simulated(500)
    prices = {"amount": amount}
    for goal, sign in (("cost(fn=amount, fp=5)", 1), ("profit(fn=amount, fp=5)", -1)):
        columns, matrix = cost_decision(z, y, goal, prices), np.zeros((500, 4))
        matrix[:, 1], matrix[:, 2] = 5, amount
        assert cost_decision(z, y, goal, matrix) == columns
        assert (columns(z, matrix) == columns(z, prices)).all()
        each = np.where(z >= 0, np.where(y > 0, 0, 5), np.where(y > 0, amount, 0))
        assert columns.plain_cost == pytest.approx(sign * each.mean())


def numbers(rule):
    return [getattr(rule, name) for name in ("logit", "row_cost", "threshold_cost", "plain_cost")]


def test_rows_count_by_their_weights():
    z, y, amount = simulated(600)
    random = np.random.default_rng(0)
    w = random.integers(0, 3, 600).astype(float)
    some, lies = w > 0, random.random(600) < 0.6

    def rule(rows, y, w):
        return cost_decision(
            z[rows], y[rows], "cost(fn=amount, fp=5)", {"amount": amount[rows]}, sample_weight=w
        )

    found, every = rule(some, y, w[some]), slice(None)
    for other in (rule(every, y, w), rule(some, y, 1e4 * w[some])):
        assert numbers(other) == pytest.approx(numbers(found))
        assert (other.by_row, other.rows) == (found.by_row, some.sum())
        assert other.calibration.slope == pytest.approx(found.calibration.slope, rel=1e-3)
    wrong = rule(every, np.where(lies, 1 - y, y), np.where(lies, 1e-4, 1.0))
    right = rule(~lies, y, None)
    assert numbers(wrong)[1:] == pytest.approx(numbers(right)[1:], rel=0.1)
    one = [Calibration.fit(z, np.zeros(600, int), unit * np.ones(600)) for unit in (1.0, 1e4)]
    assert one[0].intercept == pytest.approx(one[1].intercept)


def test_costs_out_of_fold_are_those_of_plain_sums():
    """Of weighted rows: each fifth is decided by what the others say."""
    z, y, amount = simulated(300)
    w = np.random.default_rng(3).exponential(size=300) ** 2
    w = np.where((z > -1) & (y == 0), 5 * w, w)
    rule = cost_decision(z, y, "cost(fn=amount, fp=5)", {"amount": amount}, sample_weight=w)
    costs = np.column_stack([0 * amount, 5 + 0 * amount, amount, 0 * amount])
    fold, by_row, by_cut = dealt_folds(y, 5), np.zeros(300), np.zeros(300)
    for k in range(5):
        rest, test = fold != k, fold == k
        p = Calibration.fit(z[rest], y[rest], w[rest])(z[test])
        by_row[test] = p * amount[test] > (1 - p) * 5
        cut = cheapest_threshold(z[rest], y[rest], w[rest], costs[rest])
        by_cut[test] = z[test] >= cut

    def spent(decided):
        each = np.where(y == 1, (1 - decided) * amount, decided * 5)
        return w @ each / w.sum()

    assert rule.row_cost == pytest.approx(spent(by_row))
    assert rule.threshold_cost == pytest.approx(spent(by_cut))
    assert rule.plain_cost == pytest.approx(spent(z >= 0))
    assert rule.constant_cost == pytest.approx(min(spent(np.ones(300)), spent(np.zeros(300))))
    assert len({spent(d) for d in (by_row, by_cut, z >= 0)}) == 3


def test_mean_prices_are_those_of_weighted_rows():
    _, y, w, costs = rows(1)
    found, unit = mean_prices(costs, y, w)
    prices = [found.tp * unit, found.fp * unit, found.fn * unit, found.tn * unit]
    wanted = [np.average(costs[y == (c in (0, 2)), c], weights=w[y == (c in (0, 2))])
              for c in range(4)]  # fmt: skip
    assert prices == pytest.approx(wanted)
    assert unit == pytest.approx(max(abs(wanted[2] - wanted[0]), abs(wanted[1] - wanted[3])))


def test_a_calibration_is_that_of_the_population():
    z, y, _ = simulated()
    found = Calibration.fit(3 * z + 1, y, np.ones(4000))
    assert found.slope == pytest.approx(1 / 3, abs=0.05)
    assert found(3 * z + 1).mean() == pytest.approx(y.mean(), abs=1e-3)
    assert Calibration.fit(-z, y, np.ones(4000)).slope == 0
    assert 0 < Calibration.fit(z, np.zeros(4000, int), np.ones(4000))(z)[0] < 1e-3


@pytest.mark.parametrize(
    ("metric", "values", "message"),
    [
        ("f1", None, "must be a cost"),
        ("cost([[0, 1], [2, 0]])", None, "must be a cost"),
        ("cost(fn=amount, fp=5)", None, "'amount' has the costs of fn, and is not there. Pass it"),
        ("cost(fn=amount, fp=5)", {"other": [1, 2]}, "not there: 'other'"),
        ("cost(fn=amount, fp=5)", {"amount": ["a", "b"]}, "must hold numbers"),
        ("cost(fn=amount, fp=5)", {"amount": [1.0, np.nan]}, "2 finite numbers"),
        ("cost(fn=amount, fp=5)", [[1, 2], [3, 4]], "2 x 4 finite numbers"),
    ],
)
def test_bad_costs_are_refused(metric, values, message):
    with pytest.raises(ValueError, match=message):
        cost_decision([1.0, -1.0], [1, 0], metric, values)


def test_costs_of_each_row_are_a_matrix():
    cost = ss.Cost(fn="amount", fp=5)
    found = sample_costs(cost, 2, {"amount": [7.0, 8.0]})
    assert found.tolist() == [[0, 5, 7, 0], [0, 5, 8, 0]]


def test_a_decision_that_changes_nothing_is_refused_and_a_useless_one_is_said():
    z, y, _, costs = rows(0)
    with pytest.raises(ValueError, match="flagging changes nothing"):
        cost_decision(z, y, "cost(fn=amount)", {"amount": np.zeros(len(z))})
    with pytest.warns(UserWarning, match="no better than without a model"):
        cost_decision(z, np.zeros(len(z)), "cost(fn=amount, fp=5)", {"amount": costs[:, 0]})


def test_a_table_without_the_column_of_costs_says_what_it_has():
    z, y, _, costs = rows(0)
    table = pd.DataFrame({"a": z, "b": costs[:, 0]})
    with pytest.raises(ValueError, match="of fn, and is not there: 'a', 'b'"):
        ss.MetricLinearClassifier("cost(fn=amount, fp=5)").fit(table, y)
