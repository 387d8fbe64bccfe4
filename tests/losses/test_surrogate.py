from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import softset as ss
from tests.reference import random_problem


def test_class_balanced_weights_are_those_of_the_training_set():
    z, y = random_problem("binary", n=60)
    v = ss.losses.balanced_class_weight(y)
    assert v.tolist() == [60 / 40, 60 / 20]
    each = F.binary_cross_entropy_with_logits(z, y.double(), reduction="none")
    expected = each[y == 1].mean() + each[y == 0].mean()  # paper 004 eq. 15
    torch.testing.assert_close(ss.CrossEntropyLoss(class_weight=v)(z, y), expected)
    with pytest.raises(ValueError, match="every class 0 to 2"):
        ss.losses.balanced_class_weight(y, classes=3)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_surrogate_by_hand(beta):
    p, f = 0.2, torch.tensor([0.7, 0.4], dtype=torch.float64)
    z, y = torch.logit(f), torch.tensor([1, 0])
    c = beta**2 * p / (1 - p)
    positive, negative = -math.log(0.7), math.log(c + 0.4)
    plain = ss.SurrogateFBetaLoss(p, beta, class_balanced=False)
    assert plain(z, y).item() == pytest.approx((positive + negative) / 2)
    balanced = ss.SurrogateFBetaLoss(p, beta)
    assert balanced(z, y).item() == pytest.approx((positive / 0.2 + negative / 0.8) / 2)
    q = 0.6
    noisy = ss.SurrogateFBetaLoss(p, beta, q=q, class_balanced=False)  # eq. 25
    expected = (1 - 0.7**q) / q + ((c + 0.4) ** q - 1) / q
    assert noisy(z, y).item() == pytest.approx(expected / 2)


def test_surrogate_limits_in_q():
    z, y = random_problem("binary")
    limit = ss.SurrogateFBetaLoss(0.3, 2.0)(z, y)
    gaps = [abs(ss.SurrogateFBetaLoss(0.3, 2.0, q=q)(z, y) - limit) for q in (1e-2, 1e-5, 1e-9)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-8
    half = ss.SurrogateFBetaLoss(0.5, 1.0, q=1.0, class_balanced=False)(z, y)
    torch.testing.assert_close(half, ss.losses.MeanAbsoluteErrorLoss()(z, y) / 2)


def test_surrogate_has_the_gradient_condition_of_f_beta():
    # paper 004 eq. 22: with equal scores in each class, Jensen's inequality is an equality, and the
    # derivatives by the two class means stand in the ratio of eq. 12
    q0, q1, p, beta = 0.3, 0.1, 0.2, 1.5
    z = torch.logit(torch.tensor([1 - q0] * 2 + [q1] * 8, dtype=torch.float64)).requires_grad_()
    y = torch.tensor([1] * 2 + [0] * 8)
    f = torch.sigmoid(z)
    mean0, mean1 = (1 - f[:2]).mean(), f[2:].mean()
    by_mean = []
    for mean in (mean0, mean1):
        (g,) = torch.autograd.grad(mean, z, retain_graph=True)
        (total,) = torch.autograd.grad(ss.SurrogateFBetaLoss(p, beta)(z, y), z)
        by_mean.append((total @ g) / (g @ g))
    expected = (1 / (1 - q0)) / (1 / (beta**2 * p / (1 - p) + q1))
    assert (by_mean[0] / by_mean[1]).item() == pytest.approx(expected)
