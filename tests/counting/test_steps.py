from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import softset as ss
from softset.counting.steps import both_degrees
from tests.reference import linear_step


@given(
    p=st.floats(0, 1),
    tau=st.floats(0.01, 0.99),
    delta=st.floats(0, 0.5),
    width=st.floats(0.01, 1.99),
)
def test_linear_step_goes_through_the_five_points(p, tau, delta, width):
    got = ss.LinearStep(delta, width)(torch.tensor(p, dtype=torch.float64), tau).item()
    assert got == pytest.approx(linear_step(p, tau, delta, width), abs=1e-9)


def test_linear_step_by_hand():
    # paper 000 eq. 5, tau = 0.4, delta = 0.1: m = 0.4, corners 0.2 and 0.6, slopes 0.5, 2, 0.25
    p = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8], dtype=torch.float64)
    expected = torch.tensor([0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95], dtype=torch.float64)
    torch.testing.assert_close(ss.LinearStep(0.1)(p, 0.4), expected)
    # paper 002 eq. 4, T = 0.1, tau = 0.5: m = 0.25, corners 0.375 and 0.625
    step = ss.LinearStep.at_temperature(0.1)
    assert step == ss.LinearStep(0.1, 0.5)
    p = torch.tensor([0.1875, 0.375, 0.4375, 0.8125], dtype=torch.float64)
    expected = torch.tensor([0.05, 0.1, 0.3, 0.95], dtype=torch.float64)
    torch.testing.assert_close(step(p, 0.5), expected)


@given(tau=st.floats(0.01, 0.99), delta=st.floats(0, 0.5))
def test_slopes_stay_below_the_lipschitz_constant(tau, delta):
    # paper 000 theorem 4.1: the largest of the three slopes
    step = ss.LinearStep(delta)
    p = torch.linspace(0, 1, 101, dtype=torch.float64)
    slopes = step(p, tau).diff() / p.diff()
    assert slopes.max() <= max(step.pieces(tau)[2:]) * (1 + 1e-9)
    assert slopes.min() >= -1e-12


def test_sigmoid_and_identity_by_hand():
    p = torch.tensor([0.6], dtype=torch.float64)
    torch.testing.assert_close(ss.SigmoidStep(10)(p, 0.5), 1 / (1 + torch.exp(-p * 10 + 5)))
    assert ss.IdentityStep()(p, 0.1).item() == 0.6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ss.LinearStep(0.6), "delta must be in"),
        (lambda: ss.LinearStep(-0.1), "delta must be in"),
        (lambda: ss.LinearStep(0.1, 2.0), "width must be in"),
        (lambda: ss.LinearStep.at_temperature(0.4), "temperature must be in"),
        (lambda: ss.LinearStep.at_temperature(0), "temperature must be in"),
        (lambda: ss.SigmoidStep(-1), "k must be in"),
        (lambda: ss.SigmoidStep(float("nan")), "k must be in"),
        (lambda: ss.LinearStep(0.1, 1e-20), "width must be in"),
        (lambda: ss.LinearStep.at_temperature(1e-20), "temperature must be in"),
        (lambda: ss.SigmoidStep(1e20), "k must be in"),
        (lambda: ss.MetricLoss(step="linear"), "step must be a step such as"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("tau", [1e-30, 5e-324])
@pytest.mark.parametrize("labels", [False, True])
def test_a_threshold_without_room_for_a_step_is_refused(tau, labels):
    z = torch.zeros(4, 2) if labels else torch.zeros(4)
    where = {"task": "multilabel", "threshold": [0.5, tau]} if labels else {"threshold": tau}
    with pytest.raises(ValueError, match="threshold must leave room for the pieces"):
        ss.metric_loss(z, torch.zeros_like(z), **where)


@pytest.mark.parametrize("tau", [1e-12, 1e-3, 0.3, 0.5, 0.7, 1 - 1e-12])
@pytest.mark.parametrize("step", [ss.LinearStep(), ss.LinearStep(0.3, 1.999), ss.SigmoidStep(50)])
def test_what_a_step_gives_and_what_it_leaves_is_one(tau, step):
    z = torch.cat([torch.linspace(-40, 40, 801), torch.linspace(-3, 3, 101)]).double()
    p, q = torch.sigmoid(z), torch.sigmoid(-z)
    h, rest = both_degrees(step, p, q, tau)
    torch.testing.assert_close(h + rest, torch.ones_like(h), rtol=0, atol=1e-15)
    assert (rest > 0).all()  # at z = 40 too, where 1 - p is 0
    assert (h > 0).all()
    if tau < 0.99:  # beyond, the digits of 1 - p are missing
        torch.testing.assert_close(step(p, tau), h, rtol=0, atol=1e-12)
