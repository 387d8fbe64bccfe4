"""The losses of the published code of paper 000 against a literal count of its cells."""

import itertools
import math

import pytest
import torch

from softset.counting.steps import LinearStep, SigmoidStep
from softset.training.recipes import GRID
from softset_papers.baselines.published_cells import PublishedMetricLoss
from softset_papers.baselines.wmw import PublishedWMWLoss
from tests.baselines.problems import problem

STEPS = {"linear": LinearStep(0.2), "sigmoid": SigmoidStep(10)}


def linear(x, t, d=0.2):
    m = min(t, 1 - t)
    if x < t - m / 2:
        return d / (t - m / 2) * x
    if x > t + m / 2:
        slope = d / (1 - t - m / 2)
        return slope * x + 1 - d - slope * (t + m / 2)
    return (1 - 2 * d) / m * (x - t) + 0.5


def sigmoid(x, t):
    return 1 / (1 + math.exp(-10 * (x - t)))


def literal_cells(p, y, w, t, step):
    """One row after the other; a row of the other class enters each cell with x = 0."""
    tp = fn = fp = tn = 0.0
    for x, target, weight in zip(p, y, w, strict=True):
        positive, negative = float(target == 1), float(target == 0)
        tp += weight * step(positive * x, t if x > t else 1 - t)
        fn += weight * step(positive * (1 - x), 1 - t if x < t else t)
        fp += weight * step(negative * x, t if x < t else 1 - t)
        tn += weight * step(negative * (1 - x), 1 - t if x < t else t)
    return tp, fn, fp, tn


def literal_loss(metric, z, y, w, step):
    p = torch.sigmoid(z).tolist()
    cells = [literal_cells(p, y.tolist(), w.tolist(), t, step) for t in GRID]
    if metric == "accuracy":
        return 1 - sum((c[0] + c[3]) / sum(c) for c in cells) / len(cells)
    tpr = [tp / (tp + fn + 1e-7) for tp, fn, _, _ in cells]
    if metric == "f1":
        precision = [tp / (tp + fp + 1e-7) for tp, _, fp, _ in cells]
        pairs = zip(precision, tpr, strict=True)
        return 1 - sum(2 * a * b / (a + b + 1e-7) for a, b in pairs) / len(cells)
    points = sorted(
        (fp / (fp + tn + 1e-7), t) for (_, _, fp, tn), t in zip(cells, tpr, strict=True)
    )
    pairs = itertools.pairwise(points)
    return 1 - sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairs)


@pytest.mark.parametrize("metric", ["f1", "accuracy", "auroc"])
@pytest.mark.parametrize("name", STEPS)
def test_the_losses_are_those_of_a_literal_count(metric, name):
    z, y, w = problem()
    loss = PublishedMetricLoss(metric, STEPS[name])
    step = {"linear": linear, "sigmoid": sigmoid}[name]
    assert float(loss(z, y, w)) == pytest.approx(literal_loss(metric, z, y, w, step), abs=1e-9)
    both = loss.of_members(torch.stack([z, -z]), y, None)
    alone = [float(loss(s, y)) for s in (z, -z)]
    assert both.tolist() == pytest.approx(alone)


@pytest.mark.parametrize("metric", ["f1", "accuracy", "auroc"])
@pytest.mark.parametrize("name", STEPS)
def test_gradients_are_those_of_differences(metric, name):
    z, y, w = problem(9, seed=3)
    loss = PublishedMetricLoss(metric, STEPS[name])
    assert torch.autograd.gradcheck(lambda s: loss(s, y, w), (z.requires_grad_(),))


def test_the_published_cells_do_not_add_up_and_the_sigmoid_leaks():
    """Three rows, one of them positive: equation 6 gives tp + fn = 1 and fp + tn = 2."""
    p, y, w = torch.tensor([0.3, 0.2, 0.6]), torch.tensor([1.0, 0.0, 0.0]), torch.ones(3)
    c = PublishedMetricLoss("f1", LinearStep(0.2)).cells(p, y, w)
    assert float((c.tp + c.fn)[-1]) == pytest.approx(0.8353 + 0.9294, abs=1e-3)
    assert (c.fp + c.tn).tolist() == pytest.approx([2.0] * 9)
    leak = PublishedMetricLoss("f1", SigmoidStep(10)).cells(p, torch.zeros(3), w)
    assert leak.tp[[0, -1]].tolist() == pytest.approx([3 / (1 + math.e)] * 2, abs=1e-6)


def test_an_area_of_zero_has_no_gradient():
    z = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    value = PublishedMetricLoss("auroc", LinearStep(0.2))(z, torch.zeros(5).long())
    assert value.detach().item() == 1.0
    assert torch.autograd.grad(value, z)[0].abs().sum() == 0


def test_thresholds_must_be_symmetric():
    with pytest.raises(ValueError, match="thresholds must be symmetric"):
        PublishedMetricLoss("f1", LinearStep(0.2), (0.1, 0.5))


def test_published_wmw_compares_positives_with_positives():
    z, y, w = problem()
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] == y[j] == 1]
    expected = sum(float(w[i] * w[j]) * max(0.0, 0.2 - float(z[i] - z[j])) ** 3 for i, j in pairs)
    assert float(PublishedWMWLoss()(z, y, w)) == pytest.approx(expected)
    assert float(PublishedWMWLoss()(z + (1 - y) * 100.0, y, w)) == pytest.approx(expected)
