from __future__ import annotations

import torch
import torch.nn.functional as F

import softset as ss
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
