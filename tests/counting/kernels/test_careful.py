"""Where digits are scarce: float32 against an oracle in float64 that shares nothing with it."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import softset as ss
from softset.counting.kernels.choice import using
from tests.fuzz.loss_oracle import Setting, loss, slope
from tests.reference import TASKS, random_problem


def compare(z, y, metric, setting, near=1e-6, **own):
    """Value and gradient of float32, the latter by its largest element."""
    x = z.clone().requires_grad_()
    found = ss.metric_loss(x, y, metric, task=setting.task, **own)
    found.backward()
    scores, labels, w = z.double().numpy(), y.numpy(), np.ones(len(y))
    assert found.item() == pytest.approx(
        float(np.real(loss(scores + 0j, labels, w, setting))), abs=near
    )
    wanted = np.zeros(scores.shape)
    for place in np.ndindex(scores.shape):
        v = np.zeros(scores.shape)
        v[place] = 1
        wanted[place] = slope(scores, labels, w, setting, v)
    size = np.abs(wanted).max()
    assert size > 0
    np.testing.assert_allclose(x.grad.double().numpy() / size, wanted / size, rtol=0, atol=2e-5)


@pytest.mark.parametrize("tau", [1e-3, 1e-6, 1e-8, 1e-12, 1e-29, 1 - 1e-4, 1 - 1e-7, 1 - 1e-12])
@pytest.mark.parametrize("around", ["threshold", "half"])
@pytest.mark.parametrize("copies", [1, 1100])
@pytest.mark.parametrize("native", [True, False])
def test_gradients_at_thresholds_next_to_0_and_1(tau, around, copies, native):
    """Around one half all rows lie above (or below) the step, where its slope is smallest."""
    with nullcontext() if native else using("torch"):
        check_threshold(tau, around, copies)


def check_threshold(tau, around, copies):
    center = np.log(tau) - np.log1p(-tau) if around == "threshold" else 0.0
    few, y = torch.linspace(-6, 6, 60) + np.float32(center), (torch.arange(60) % 3 == 0).long()
    if copies == 1:
        compare(few, y, "f1", Setting("binary", "fbeta", thresholds=(tau,)), threshold=tau)
        return
    # in chunks, and long columns of float32
    z = few.repeat(copies).requires_grad_()
    ss.metric_loss(z, y.repeat(copies), threshold=tau).backward()
    one = few.double().requires_grad_()
    ss.metric_loss(one, y, threshold=tau).backward()
    size = one.grad.abs().max()
    scaled = z.grad[:60].double() * copies
    torch.testing.assert_close(scaled / size, one.grad / size, rtol=0, atol=2e-5)


STEPS = [(0.1, 1.999), (0.3, 1.99999), (0.5, 1.9), (0.001, 0.005), (0.01, 0.1)]
TEMPERATURES = [0.39, 0.3999, 0.3999999, 0.01, 1e-3]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("delta", "width"), [*STEPS, *((t, 5 * t) for t in TEMPERATURES)])
def test_wide_and_steep_steps(task, delta, width):
    z, y = random_problem(task, n=40, dtype=torch.float32)
    setting = Setting(task, "fbeta", step=("linear", delta, width))
    compare(z, y, "f1", setting, near=5e-6, step=ss.LinearStep(delta, width))


NEEDY = [
    "specificity",
    "balanced_accuracy",
    "gmean",
    "mcc",
    "cohen_kappa",
    "informedness",
    "markedness",
]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", NEEDY)
@pytest.mark.parametrize("height", [5.0, 17.0, 27.0, 40.0])
def test_saturated_scores_keep_the_digits_of_what_is_rejected(name, task, height):
    """``total - predicted`` is rounding there: Markedness was off by .99."""
    z, y = random_problem(task, n=30, classes=3, dtype=torch.float32)
    if task == "multiclass":
        z[:, 0] += height
    else:
        z = z + height
    compare(z, y, name, Setting(task, name), step=ss.LinearStep(0.1))


@pytest.mark.parametrize("name", NEEDY)
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_saturated_scores_inside_transforms(name, transform):
    z, y = random_problem("binary", n=30, dtype=torch.float32)
    z = z + 20
    x = z.clone().requires_grad_()
    ss.metric_loss(x, y, name).backward()
    found = transform(lambda x: ss.metric_loss(x, y, name))(z)
    size = x.grad.abs().max()
    torch.testing.assert_close(found / size, x.grad / size, rtol=0, atol=1e-5)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("width", [1e-10, 2 - 1e-14])
def test_the_steepest_and_the_widest_steps_have_finite_gradients(width, dtype, native):
    """Of every metric; a row of equal scores lies on the threshold."""
    with nullcontext() if native else using("torch"):
        for task in TASKS:
            z, y = random_problem(task, n=12, dtype=dtype)
            z[0] = 0
            for name in ss.METRICS:
                x = z.clone().requires_grad_()
                value = ss.metric_loss(x, y, name, task=task, step=ss.LinearStep(0.1, width))
                value.backward()
                assert value.isfinite(), (task, name)
                assert x.grad.isfinite().all(), (task, name)


def test_a_handful_of_negatives_among_a_million():
    """Float32 sums of blocks of positives leave rounding larger than the negatives."""
    z = torch.full((1_000_000,), 3.0)
    z[:3] = torch.tensor([-2.0, 0.5, 1.0])
    y = torch.ones(1_000_000, dtype=torch.long)
    y[:3] = 0
    h = ss.LinearStep()(torch.sigmoid(z[:3].double()), 0.5)
    loss = ss.metric_loss(z, y, "specificity")
    assert loss.item() == pytest.approx(h.mean().item(), abs=1e-6)


def test_weights_far_apart():
    """1 of negatives next to 1e14 of positives is no rounding."""
    z, y = torch.tensor([2.0, 1.0, -3.0, 0.5]).double(), torch.tensor([1, 1, 0, 0])
    w = torch.tensor([1e14, 3e14, 1.0, 3.0], dtype=torch.float64)
    h = ss.LinearStep()(torch.sigmoid(z), 0.5)
    c = ss.confusion(z, y, step=ss.LinearStep(), sample_weight=w, from_logits=True)
    assert c.negatives.item() == 4
    assert c.fp.item() == pytest.approx((h[2] + 3 * h[3]).item(), rel=1e-12)
    hard = ss.confusion(z, y, sample_weight=w, from_logits=True)
    assert [hard.fp.item(), hard.tn.item(), hard.rejected.item()] == [3, 1, 1]
    several = torch.stack([-z, z], 1)
    many = ss.confusion(several, y, task="multiclass", sample_weight=w, from_logits=True)
    assert many.fp.tolist() == [0, 3]
    assert many.tn.tolist() == [4e14, 1]
