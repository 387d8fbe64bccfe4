"""The adversarial baseline against the package of its authors, and against the whole game."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from softset_papers.baselines.adversarial import AdversarialF1Loss, is_installed

needs_package = pytest.mark.skipif(not is_installed(), reason="ap_perf is not installed")


def problem(n=23, seed=0, positives=0.4):
    g = torch.Generator().manual_seed(seed)
    z = 2 * torch.randn(n, generator=g, dtype=torch.float64)
    y = (torch.rand(n, generator=g) < positives).long()
    w = torch.rand(n, generator=g, dtype=torch.float64) + 0.1
    return z, y, w


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="piece"):
        AdversarialF1Loss(1)


@needs_package
@pytest.mark.parametrize("spread", [0.02, 0.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_adversarial_slope_is_that_of_the_package(seed, spread):
    """Its projections stop short of the nearest point: at large scores marginals reach 1.0024."""
    import ap_perf

    class F1(ap_perf.PerformanceMetric):
        def define(self, c):
            return (2 * c.tp) / (c.ap + c.pp)

    metric = F1()
    metric.initialize()
    metric.enforce_special_case_positive()
    z, y, _ = problem(20, seed)
    z = (z * spread).requires_grad_()
    (slope,) = torch.autograd.grad(AdversarialF1Loss()(z, y), z)
    (theirs,) = torch.autograd.grad(ap_perf.MetricLayer(metric)(z, y.double()).sum(), z)
    assert torch.allclose(slope, theirs.double(), atol=5e-3)


def f1(a, b):
    found = sum(i * j for i, j in zip(a, b, strict=True))
    return 1.0 if sum(a) + sum(b) == 0 else 2 * found / (sum(a) + sum(b))


def adversary(z):
    """Value and marginals of the adversary, from a linear program over all 2^n labelings.

    Variables Q(y') and v: minimize v - E z.y', with v >= E F1(answer, y') for every answer.
    """
    every = list(itertools.product((0, 1), repeat=len(z)))
    cost = [-float(np.dot(z, b)) for b in every] + [1.0]
    upper = [[f1(a, b) for b in every] + [-1.0] for a in every]
    found = linprog(
        cost,
        upper,
        [0.0] * len(every),
        [[1.0] * len(every) + [0.0]],
        [1.0],
        bounds=[(0, None)] * len(every) + [(None, None)],
    )
    return found.fun, np.array(every).T @ found.x[:-1]


@needs_package
@pytest.mark.parametrize("scores", [[0.3, -0.2], [1.0, 0.0, -1.0], [0.1, 0.4, 0.2]])
def test_adversarial_value_and_slope_are_those_of_the_whole_game(scores):
    z = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    loss = AdversarialF1Loss()(z, torch.zeros(len(scores)))
    loss.backward()
    value, marginals = adversary(scores)
    assert loss.item() == pytest.approx(-value, abs=0.05)
    assert z.grad.tolist() == pytest.approx(marginals.tolist(), abs=0.1)


@needs_package
def test_adversarial_gradient_scales_and_points_down():
    z, y, _ = problem(20)
    z = (z / 4).requires_grad_()
    loss = AdversarialF1Loss()
    (slope,) = torch.autograd.grad(loss(z, y), z)
    (double,) = torch.autograd.grad(2 * loss(z, y), z)
    assert torch.allclose(double, 2 * slope)
    with torch.no_grad():
        assert loss(z - 0.1 * slope, y) < loss(z, y)


@needs_package
def test_adversarial_refuses_weights_and_cuts_long_batches():
    z, y, w = problem(44)
    loss = AdversarialF1Loss(piece=22)
    with pytest.raises(ValueError, match="sample_weight"):
        loss(z, y, w)
    halves = [loss(z[:22], y[:22]), loss(z[22:], y[22:])]
    assert loss(z, y).item() == pytest.approx(sum(halves).item() / 2, abs=1e-9)


@pytest.mark.skipif(is_installed(), reason="ap_perf is installed")
def test_adversarial_says_what_to_install():
    with pytest.raises(ValueError, match=r"softset-papers\[adversarial\]"):
        AdversarialF1Loss()(torch.zeros(3), torch.tensor([0, 1, 0]))
