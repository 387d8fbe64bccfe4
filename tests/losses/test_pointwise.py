from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import softset as ss
from tests.losses.test_every_loss import MEAN_LOSSES
from tests.reference import TASKS, random_problem


def test_cross_entropies_equal_pytorch():
    z, y = random_problem("binary")
    torch.testing.assert_close(
        ss.CrossEntropyLoss()(z, y), F.binary_cross_entropy_with_logits(z, y.double())
    )
    z, y = random_problem("multilabel")
    torch.testing.assert_close(
        ss.CrossEntropyLoss(task="multilabel")(z, y),
        F.binary_cross_entropy_with_logits(z, y.double()),
    )
    z, y = random_problem("multiclass")
    torch.testing.assert_close(ss.CrossEntropyLoss(task="multiclass")(z, y), F.cross_entropy(z, y))


def test_absolute_and_focal_by_hand():
    p = torch.tensor([0.8, 0.3], dtype=torch.float64)
    z, y = torch.logit(p), torch.tensor([1, 0])
    right = torch.tensor([0.8, 0.7], dtype=torch.float64)
    torch.testing.assert_close(ss.MeanAbsoluteErrorLoss()(z, y), (2 - 2 * right).mean())
    focal = (-((1 - right) ** 3) * right.log()).mean()
    torch.testing.assert_close(ss.FocalLoss(3.0)(z, y), focal)
    two = torch.stack([torch.zeros(2, dtype=torch.float64), z], 1)
    for make in MEAN_LOSSES.values():
        torch.testing.assert_close(make(task="multiclass")(two, y), make()(z, y))
    torch.testing.assert_close(ss.FocalLoss(0.0)(z, y), ss.CrossEntropyLoss()(z, y))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", [ss.CrossEntropyLoss, ss.FocalLoss, ss.MeanAbsoluteErrorLoss])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_are_linear_in_soft_targets(task, kind, weighted):
    z, y = random_problem(task, n=20)
    _, other = random_problem(task, n=20, seed=1)
    settings = {"task": task, "soft_targets": True}
    if weighted:
        settings["class_weight"] = [1.0, 3.0] if task == "binary" else [1.0, 3.0, 0.5, 2.0]
    loss = kind(**settings)

    def shares(t):
        return F.one_hot(t, 4) if task == "multiclass" else t

    mixed = 0.3 * shares(y).double() + 0.7 * shares(other).double()
    wanted = 0.3 * loss(z, y) + 0.7 * loss(z, other)
    torch.testing.assert_close(loss(z, mixed), wanted)
    assert torch.autograd.gradcheck(lambda x: loss(x, mixed), (z.requires_grad_(),))


def test_pixels_are_examples_of_the_mean_losses():
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(2, 3, 4, 5, generator=g), torch.randint(0, 3, (2, 4, 5), generator=g)
    y[0, 0] = -1
    wanted = F.cross_entropy(z, y, ignore_index=-1)
    got = ss.CrossEntropyLoss(task="multiclass", ignore_index=-1)(z, y)
    torch.testing.assert_close(got, wanted)
    mask = (y > 0).float()
    wanted = F.binary_cross_entropy_with_logits(z[:, 0], mask)
    torch.testing.assert_close(ss.CrossEntropyLoss()(z[:, :1], mask), wanted)
