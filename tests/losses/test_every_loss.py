"""What every loss promises."""

from __future__ import annotations

import copy
import pickle
from contextlib import nullcontext, suppress

import pytest
import torch

import softset as ss
from softset.counting.kernels.choice import using
from tests.reference import TASKS, random_problem

MEAN_LOSSES = {
    "cross-entropy": ss.CrossEntropyLoss,
    "absolute": ss.losses.MeanAbsoluteErrorLoss,
    "focal": ss.FocalLoss,
    "focal 0.5": lambda **k: ss.FocalLoss(0.5, **k),
}


def every_loss(task):
    for make in MEAN_LOSSES.values():
        yield make(task=task)
    yield ss.MetricLoss("f1", task=task)
    yield 0.5 * ss.CrossEntropyLoss(task=task) + ss.MetricLoss("dice", task=task)
    yield ss.LovaszLoss(task=task)
    prior = {"binary": 0.3, "multiclass": [4, 3, 2, 1], "multilabel": [0.1, 0.2, 0.3, 0.4]}
    yield ss.LogitAdjustedLoss(prior[task], 0.7, task=task)
    if task != "multiclass":
        yield ss.AsymmetricLoss(1.0, 4.0, task=task)
        yield ss.AsymmetricLoss(0.5, 0.5, 0.0, task=task)
    if task != "multiclass":
        p = 0.3 if task == "binary" else [0.3, 0.4, 0.5, 0.6]
        yield ss.SurrogateFBetaLoss(p)
        yield ss.SurrogateFBetaLoss(p, beta=2, q=0.7)


@pytest.mark.parametrize("task", TASKS)
def test_all_losses_share_one_signature(task):
    z, y = random_problem(task, n=20)
    w = torch.arange(20) % 3
    repeated = z.repeat_interleave(w, 0), y.repeat_interleave(w, 0)
    for loss in every_loss(task):
        assert loss(z, y).shape == ()
        torch.testing.assert_close(loss(z, y, w), loss(*repeated))
        assert loss(z.float(), y).dtype == torch.float32
        for copied in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
            assert torch.equal(copied(z, y), loss(z, y))
        few = z[:8].clone().requires_grad_(), y[:8]
        assert torch.autograd.gradcheck(loss, few)
        assert torch.autograd.gradgradcheck(loss, few)


@pytest.mark.parametrize("task", TASKS)
def test_empty_masks_and_single_pixels_have_finite_gradients(task):
    channels = () if task == "binary" else (4,)
    for size in (1, 3):
        for k in (0, 1):
            y = torch.full((2, *(channels if task == "multilabel" else ()), size, size), k)
            for loss in every_loss(task):
                x = torch.randn(2, *channels, size, size, requires_grad=True)
                value = loss(x, y)
                value.backward()
                assert torch.isfinite(value), loss
                assert torch.isfinite(x.grad).all(), loss


@pytest.mark.parametrize("task", TASKS)
def test_all_losses_survive_extreme_logits(task):
    for size in (20.0, 1e4):
        shape = (6,) if task == "binary" else (6, 4)
        z = torch.full(shape, size)
        z[::2] = -size
        y = (
            torch.zeros(6).long()
            if task == "multiclass"
            else (torch.arange(z.numel()) % 2).reshape(shape)
        )
        for dtype in (torch.float32, torch.bfloat16):
            for loss in every_loss(task):
                x = z.to(dtype, copy=True).requires_grad_()
                value = loss(x, y)
                value.backward()
                assert torch.isfinite(value), loss
                assert torch.isfinite(x.grad).all(), loss


def more_losses(task):
    """Every loss, and every way that counts take."""
    yield from every_loss(task)
    yield ss.MetricLoss(lambda c: c.tp.sum() / c.predicted.sum(), task=task)
    yield ss.MetricLoss("auroc", task=task)
    yield ss.MetricLoss("auroc", task=task, thresholds=[0.2, 0.7])
    yield ss.MetricLoss("mcc", task=task, class_weight=[1, 2, 3, 4][: 2 if task == "binary" else 4])
    yield ss.MetricLoss("quadratic_kappa", task=task)
    yield ss.MetricLoss("f1", task=task, per="image")
    yield ss.MetricLoss("f1", task=task, ema_decay=0.5)
    yield ss.MetricLoss("f1", task=task, ignore_index=-1)
    yield ss.MetricLoss("f1", task=task, soft_targets=True)
    yield ss.MetricLoss("f1", task=task, from_logits=False)


# The same scores are probabilities to one loss, and logits to all others.
@pytest.mark.filterwarnings("ignore::softset.losses.soft_metric.ProbabilitiesWarning")
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_what_is_changed_in_place_before_the_gradient_is_refused(task, native):
    """Or does not matter, as a copy was read."""
    z, y = random_problem(task, n=12)
    z, w = torch.sigmoid(z), torch.arange(12.0).double() + 1
    z = z / z.sum(-1, keepdim=True) if task == "multiclass" else z
    refused = 0
    with nullcontext() if native else using("torch"):
        for loss in more_losses(task):
            x = z.clone().requires_grad_()
            (wanted,) = torch.autograd.grad(copy.deepcopy(loss)(x, y, w), x)
            for changed in range(2):
                given = [y.clone(), w.clone()]
                value = copy.deepcopy(loss)(x, *given)
                given[changed][:] = given[changed].flip(0)
                with suppress(RuntimeError):  # "modified by an inplace operation"
                    (found,) = torch.autograd.grad(value, x)
                    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
                    continue
                refused += 1
    assert refused > 8


@pytest.mark.parametrize("native", [True, False])
def test_thresholds_and_steps_are_those_of_the_forward_pass(native):
    z, y = random_problem("multilabel", n=12)
    tau, delta = torch.full((4,), 0.4).double(), torch.full((3,), 0.1).double()
    many = torch.stack([z, -z, 2 * z]).requires_grad_()
    with nullcontext() if native else using("torch"):
        for tensor in (tau, delta):
            slopes = []
            for factor in (1.0, 2.0):
                settings = {"threshold": tau, "step": ss.LinearStep(delta), "batch_dims": 1}
                value = ss.metric_loss(many, y, task="multilabel", **settings).sum()
                tensor *= factor
                slopes += torch.autograd.grad(value, many)
            torch.testing.assert_close(*slopes)


DTYPES = (
    torch.bool, torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32,
    torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_targets_are_of_any_type(task, native):
    """In rows and in masks, next to scores of half precision too."""
    z, y = random_problem(task, n=12, classes=4)
    y = y.clamp(max=1)  # which is a truth value as well
    masks = [t.reshape(2, 6, *t.shape[1:]).movedim(1, -1) for t in (z, y)]
    with nullcontext() if native else using("torch"):
        for loss in more_losses(task):
            if isinstance(loss, ss.MetricLoss) and not loss.from_logits:
                continue
            for scores, target in ((z, y), (masks[0].half(), masks[1])):
                wanted = copy.deepcopy(loss)(scores, target)
                for dtype in DTYPES:
                    found = copy.deepcopy(loss)(scores, target.to(dtype))
                    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ss.SurrogateFBetaLoss(0), "prevalence must be in"),
        (lambda: ss.SurrogateFBetaLoss(0.5, beta=-1), "beta must be in"),
        (lambda: ss.SurrogateFBetaLoss(0.5, beta=1e200), "beta must be in"),
        (lambda: ss.SurrogateFBetaLoss(1e-320), "prevalence must be in"),
        (lambda: ss.FBeta(1e200), r"beta must be in .*Recall\(\)"),
        (lambda: ss.SurrogateFBetaLoss(0.5, q=2), "q must be in"),
        (lambda: ss.FocalLoss(-1), "gamma must be in"),
        (lambda: ss.CrossEntropyLoss(task="x"), "task must be one of"),
        (lambda: ss.CrossEntropyLoss(class_weight={0: 1.0}), "class_weight must hold numbers"),
        (lambda: ss.MetricLoss(class_weight={0: 1.0}), "class_weight must hold numbers"),
        (lambda: ss.losses.balanced_class_weight(["a", "b"]), "target must hold numbers"),
        (lambda: ss.CrossEntropyLoss()(torch.zeros(2), torch.tensor([-1, 1])), "target > 0"),
        (
            lambda: ss.CrossEntropyLoss(class_weight=[1.0])(torch.zeros(2), torch.ones(2)),
            "class_weight",
        ),
        (
            lambda: ss.CrossEntropyLoss(task="multiclass")(torch.zeros(2, 2), torch.tensor([0, 2])),
            "classes 0 to 1",
        ),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
