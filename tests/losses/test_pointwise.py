from __future__ import annotations

import torch
import torch.nn.functional as F

import softset as ss
from tests.losses.test_every_loss import MEAN_LOSSES
from tests.reference import random_problem


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
