"""Losses and metrics of a stack equal those of each member alone."""

from __future__ import annotations

import pytest
import torch

import softset as ss
from softset.training.judging import member_losses, member_metrics
from tests.reference import TASKS, random_problem
from tests.training.helpers import make_binary


@pytest.mark.parametrize(
    "loss",
    [
        ss.CrossEntropyLoss(class_weight=[1.0, 5.0]),
        ss.FocalLoss(2.0),
        ss.losses.MeanAbsoluteErrorLoss(),
        ss.SurrogateFBetaLoss(0.2),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_batched_means_equal_each_loss_alone(loss, weighted):
    g = torch.Generator().manual_seed(0)
    z = torch.randn(3, 20, generator=g, dtype=torch.float64)
    y = torch.randint(0, 2, (3, 20), generator=g)
    w = torch.rand(3, 20, generator=g, dtype=torch.float64) if weighted else None
    got = member_losses(loss, z, y, w)
    for k in range(3):
        alone = loss(z[k], y[k], None if w is None else w[k])
        torch.testing.assert_close(got[k], alone)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_metrics_and_losses_of_a_stack_equal_each_alone(task, shared):
    g = torch.Generator().manual_seed(0)
    shape = {"binary": (), "multiclass": (4,), "multilabel": (3,)}[task]
    z = torch.randn(5, 30, *shape, generator=g, dtype=torch.float64)
    labels = (5, 30, 3) if task == "multilabel" else (5, 30)
    y = torch.randint(0, 4 if task == "multiclass" else 2, labels, generator=g)
    y = y if task == "multiclass" else y.double()
    w = torch.rand(5, 30, generator=g, dtype=torch.float64)
    y, w = (y[0], w[0]) if shared else (y, w)
    own = (lambda t, k: t) if shared else (lambda t, k: t[k])
    for loss in (ss.MetricLoss("f1", task=task), ss.CrossEntropyLoss(task=task)):
        got = member_losses(loss, z, y, w)
        for k in range(5):
            torch.testing.assert_close(got[k], loss(z[k], own(y, k), own(w, k)))
    if shared:
        for name in ("f1", "auroc", "accuracy"):
            got = member_metrics(ss.get_metric(name), z, y, w, task)
            for k in range(5):
                alone = ss.evaluate(z[k], y, name, task=task, sample_weight=w, from_logits=True)
                assert got[k].item() == pytest.approx(alone)


def test_a_step_takes_the_place_of_the_losss_own():
    z, y = torch.tensor([[0.3, -0.2, 1.0]] * 2), torch.tensor([1.0, 0.0, 0.0])
    steps = ss.LinearStep.at_temperature(torch.tensor([0.05, 0.3], dtype=torch.float64))
    got = member_losses(ss.MetricLoss("f1"), z, y, None, steps)
    for k, temperature in enumerate((0.05, 0.3)):
        alone = ss.MetricLoss("f1", step=ss.LinearStep.at_temperature(temperature))
        assert got[k].item() == pytest.approx(alone(z[k], y).item(), rel=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_a_mixture_of_a_stack_is_that_of_each_member(task):
    z, y = random_problem(task, n=30)
    scores = torch.stack([z, -z, z / 2]).requires_grad_()
    loss = ss.losses.Ramp(1.0, 0.0, 4) * ss.CrossEntropyLoss(task=task) + ss.LovaszLoss(task=task)
    loss = loss + 0.5 * ss.MetricLoss("dice", task=task)
    loss.epoch = 1
    together = member_losses(loss, scores, y, None)
    alone = torch.stack([loss(member, y) for member in scores])
    torch.testing.assert_close(together, alone)
    step = ss.LinearStep.at_temperature(0.05)
    assert not torch.equal(member_losses(loss, scores, y, None, step), together)


def test_members_learn_from_a_mixture():
    x, y = make_binary()
    mixture = ss.losses.Ramp(1.0, 0.2, 3) * ss.CrossEntropyLoss() + ss.MetricLoss("f1")
    members = [ss.training.Member(seed=s, learning_rate=0.02) for s in range(2)]
    trained = ss.training.train_members(
        (8,), (x, y), (x, y), recipe=mixture, monitor="metric", members=members, max_epochs=4
    )
    assert all(len(h["loss"]) == 4 for h in trained.history)
    assert mixture.epoch == 0
    with pytest.raises(ValueError, match="monitor='metric'"):
        ss.training.train_members((8,), (x, y), (x, y), recipe=mixture, members=members)


def test_a_step_and_weights_of_each_member_are_its_own():
    """Of our loss, of a mixture with it, and of a function."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(3, 20, generator=g, dtype=torch.float64)
    y, w = torch.randint(0, 2, (20,), generator=g), torch.rand(3, 20, generator=g).double()
    step, loss = ss.LinearStep(0.3), ss.MetricLoss("f1")
    alone = torch.stack(
        [ss.metric_loss(z[k], y, "f1", step=step, sample_weight=w[k]) for k in range(3)]
    )
    mean = torch.stack([ss.CrossEntropyLoss()(z[k], y, w[k]) for k in range(3)])
    torch.testing.assert_close(member_losses(loss, z, y, w, step), alone)
    mixed = member_losses(loss + 2.0 * ss.CrossEntropyLoss(), z, y, w, step)
    torch.testing.assert_close(mixed, alone + 2.0 * mean)
    plain = member_losses(lambda s, t, v: (s * t * v).sum(), z, y, w)
    torch.testing.assert_close(plain, (z * y * w).sum(1))
