"""The loss that the settings of a row name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softset as ss
from softset_papers.networks.losses import ClassDiceLoss, LookupStep, ThreePointStep, make_recipe

Z, Y = torch.tensor([-1.0, 0.5, 0.0, 1.0]), torch.tensor([0, 0, 0, 1])


def test_dice_of_several_classes_is_its_formula():
    torch.manual_seed(0)
    scores, y = torch.randn(7, 4), torch.tensor([0, 1, 1, 0, 3, 3, 3])
    p = scores.softmax(-1).numpy()
    values = [
        2 * p[y == k, k].sum() / ((p[:, k] ** 2).sum() + (y == k).sum().item()) for k in (0, 1, 3)
    ]
    assert ClassDiceLoss()(scores, y).item() == pytest.approx(1 - np.mean(values), abs=1e-6)
    assert isinstance(make_recipe({"loss": "dice"}, ("a", "b", "c")), ClassDiceLoss)
    assert not isinstance(make_recipe({"loss": "dice"}), ClassDiceLoss)


def test_smoothed_f_beta_is_that_of_paper_004():
    p = torch.sigmoid(Z)
    expected = 1 - 10 * p[3] / (10 * p[3] + 9 * (1 - p[3]) + p[:3].sum())  # eq. 24
    assert make_recipe({"loss": "identity", "beta": 3.0})(Z, Y).item() == pytest.approx(
        expected.item(), abs=1e-6
    )


def test_macro_f1_is_the_mean_over_both_classes_and_the_other_one_its_second_half():
    positive, macro, other = (
        make_recipe({"loss": name, "step": "linear", "delta": 0.2})(Z, Y).item()
        for name in ("f1", "f1-macro", "f1-other")
    )
    assert macro == pytest.approx((positive + other) / 2, abs=1e-6)
    turned = make_recipe({"loss": "f1", "step": "linear", "delta": 0.2})(-Z, 1 - Y).item()
    assert other == pytest.approx(turned, abs=1e-6)


def test_annealing_starts_at_its_temperature_and_cools_at_its_rate():
    (phase,) = make_recipe(
        {"loss": "fbeta", "beta": {"dog": 5}, "anneal": 0.9}, ("cat", "dog", "frog")
    )
    assert phase.loss.goal.metric.beta == (1.0, 5.0, 1.0)
    assert phase.cooling == {"rate": 0.9}
    (searched,) = make_recipe({"loss": "f1", "anneal": True, "cooling": 0.8})
    assert searched.cooling == {"rate": 0.8}
    assert (searched.loss.step.delta, searched.loss.step.width) == (0.2, 1.0)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_three_points(tau):
    """000 supplement eq. 23; at 0.5 it is the probability itself."""
    step = ThreePointStep()
    assert step(torch.tensor([0.0, tau, 1.0]), tau).tolist() == pytest.approx([0, 0.5, 1])
    p = torch.linspace(0, 1, 101)
    assert (step(p, tau).diff() > 0).all()
    if tau == 0.5:
        torch.testing.assert_close(step(p, tau), p)


def test_three_points_over_thresholds_is_the_mean_of_the_losses():
    options = {"loss": "f1-grid", "step": "three-point"}
    p, values = torch.sigmoid(Z), []
    for tau in np.arange(1, 10) / 10:
        h = ThreePointStep()(p, float(tau))
        values.append(1 - 2 * h[3] / (1 + h.sum()))
    assert make_recipe(options)(Z, Y).item() == pytest.approx(float(np.mean(values)), abs=1e-6)
    z = Z.clone().requires_grad_()
    make_recipe(options)(z, Y).backward()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "bc"}, "Did you mean 'bce'"),
        ({"loss": "f1", "step": "sigmod"}, "Did you mean 'sigmoid'"),
    ],
)
def test_unknown_names_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_recipe(options)


def test_lookup_truncates_the_value_and_keeps_the_slope():
    for dtype in (torch.float32, torch.float64):
        p = torch.tensor([0.29, 0.295, 1.0], dtype=dtype, requires_grad=True)
        step = LookupStep(ss.SigmoidStep(10))
        value = step(p, 0.5)
        table = ss.SigmoidStep(10)(torch.tensor([0.29, 0.29, 1.0], dtype=dtype), 0.5)
        torch.testing.assert_close(value.detach(), table)
        value.sum().backward()
        q = p.detach().clone().requires_grad_()
        ss.SigmoidStep(10)(q, 0.5).sum().backward()
        torch.testing.assert_close(p.grad, q.grad)


def learnt_lookup(v):
    return LookupStep(ss.SigmoidStep(10 * v), decimals=6)


def test_a_tabulated_step_may_be_learnt_and_trained_with():
    z = torch.linspace(-3, 3, 40, dtype=torch.float64)
    y = (torch.arange(40) * 7) % 10 < 3
    v = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    value = ss.metric_loss(z, y.long(), "mcc", step=learnt_lookup(v))
    exact = ss.metric_loss(z, y.long(), "mcc", step=ss.SigmoidStep(9.0))
    assert value.item() == pytest.approx(exact.item(), abs=1e-4)
    assert torch.autograd.grad(value, v)[0] != 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LookupStep(ss.LinearStep(), decimals=0), "decimals must be an integer"),
        (lambda: LookupStep("linear"), "step must be callable"),
        (lambda: LookupStep(ss.LinearStep(), decimals=2.5), "decimals must be an integer"),
    ],
)
def test_bad_tables_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
