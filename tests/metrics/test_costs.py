"""Costs equal enumeration, as metrics, losses and goals of a decision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softset as ss
from softset.metrics.registry import get_goal, pack_metric, range_of, unpack_metric


def rows(seed, n=40):
    random = np.random.default_rng(seed)
    y = (random.random(n) < 0.3).astype(int)
    y[:2] = 0, 1
    return (random.normal(size=n) + y).round(1), y, random.integers(0, 4, n).astype(float)


def price(said, y, w, tp=0.0, fp=0.0, fn=0.0, tn=0.0):
    each = np.where(said, np.where(y, tp, fp), np.where(y, fn, tn))
    return (w * each).sum() / w.sum()


@pytest.mark.parametrize(
    "prices", [{"fn": 50, "fp": 1}, {"tp": -100, "fp": 5}, {"fn": 3, "fp": 2, "tn": 0.5, "tp": 1}]
)
def test_the_best_threshold_is_the_cheapest_of_all(prices):
    for seed in range(10):
        z, y, w = rows(seed)
        cheapest = min(price(z >= t, y, w, **prices) for t in [*np.unique(z), np.inf])
        tau = ss.best_threshold(z, y, ss.Cost(**prices), sample_weight=w)
        assert price(1 / (1 + np.exp(-z)) >= tau, y, w, **prices) == pytest.approx(cheapest)
        value = ss.evaluate(z, y, ss.Cost(**prices), threshold=tau, sample_weight=w)
        assert value == pytest.approx(-cheapest)


def test_a_matrix_of_classes_equals_enumeration():
    random = np.random.default_rng(0)
    z, y = random.normal(size=(60, 3)), random.integers(0, 3, 60)
    matrix = [[0, 1, 4], [2, 0, 1], [9, 3, 0]]
    value = ss.evaluate(z, y, ss.Cost(matrix), task="multiclass")
    assert value == pytest.approx(-np.array(matrix)[y, z.argmax(1)].mean())
    offsets = ss.best_offsets(z, y, ss.Cost(matrix))
    tuned = np.array(matrix)[y, (z + offsets).argmax(1)].mean()
    assert tuned < -value
    assert ss.evaluate(z, y, ss.Cost(matrix), task="multiclass", offsets=offsets) == -tuned


def test_a_matrix_of_two_classes_is_the_four_prices():
    z, y, w = rows(1)
    a, b = (ss.evaluate(z, y, m, sample_weight=w) for m in ("cost([[1, 2], [3, 4]])", TWO))
    assert a == pytest.approx(b)


TWO = ss.Cost(tn=1, fp=2, fn=3, tp=4)


def test_profit_is_a_cost_with_the_other_sign():
    z, y, _ = rows(2)
    profit, cost = (ss.evaluate(z, y, m) for m in ("profit(tp=100, fp=-5)", "cost(tp=-100, fp=5)"))
    assert profit == cost


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_the_loss_has_the_gradient_of_the_soft_cost(task):
    z = torch.randn(12, *(() if task == "binary" else (3,)), dtype=torch.float64)
    y = torch.arange(12) % 3 if task == "multiclass" else (torch.rand_like(z) < 0.4).double()
    matrix = [[0, 1, 4], [2, 0, 1], [9, 3, 0]]
    cost = ss.Cost(matrix) if task == "multiclass" else ss.Cost(fn=50, fp=1)
    loss = ss.MetricLoss(cost, task=task, step=ss.SigmoidStep(5.0))
    assert torch.autograd.gradcheck(lambda z: loss(z, y), z.requires_grad_())


def test_without_positives_a_cost_is_that_of_the_alarms():
    assert ss.evaluate([1.0, -1.0], [0, 0], ss.Cost(fn=50, fp=1)) == -0.5
    loss = ss.metric_loss(torch.tensor([0.0, -9.0]), [0, 0], ss.Cost(fn=50, fp=2))
    assert 1 < float(loss) < 2.1


@pytest.mark.parametrize("cost", [TWO, ss.Cost([[0, 1, 2], [1, 0, 1], [2, 1, 0]])])
def test_names_and_files_lead_back_to_costs(cost):
    assert get_goal(cost.name).metric == cost
    assert get_goal(unpack_metric(pack_metric(cost))).metric == cost
    assert range_of(cost)[0] == -max(4.0 if cost is TWO else 2.0, 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (ss.Cost, "must depend on the decision"),
        (lambda: ss.Cost([[0, 1], [1, 0]], fn=3), "not both"),
        (lambda: ss.Cost(fn=True, fp=1), "finite number"),
        (lambda: ss.evaluate(3 * torch.eye(3), [0, 1, 2], "cost(fn=5)",
                             task="multiclass"), "matrix"),
        (lambda: ss.evaluate([2.0], [1], "cost([[0,1,2],[1,0,1],[2,1,0]])"), "fn and fp"),
        (lambda: ss.evaluate([2.0], [1], "cost(fn=amount, fp=5)"), "columns.*cost_decision"),
        (lambda: ss.evaluate(3 * torch.eye(3), [0, 1, 2], "cost([[0, 1], [5, 0]])",
                             task="multiclass"), "of 2 classes"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
