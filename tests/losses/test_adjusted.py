from __future__ import annotations

import pytest
import torch

import softset as ss
from tests.reference import random_problem


def test_classes_are_shifted_by_their_prior():
    z, y = random_problem("multiclass")
    counts = torch.tensor([40.0, 30, 20, 10])
    wanted = ss.CrossEntropyLoss(task="multiclass")(z + 0.5 * (counts / 100).log(), y)
    torch.testing.assert_close(ss.LogitAdjustedLoss(counts, 0.5)(z, y), wanted)
    weights = counts.double() * z.exp()
    balanced = -(weights / weights.sum(1, keepdim=True))[torch.arange(len(y)), y].log().mean()
    torch.testing.assert_close(ss.BalancedSoftmaxLoss(counts)(z, y), balanced)


def test_two_classes_are_the_binary_one():
    z, y = random_problem("binary")
    two = torch.stack([torch.zeros_like(z), z], 1)
    binary = ss.LogitAdjustedLoss(0.2, task="binary")(z, y)
    torch.testing.assert_close(binary, ss.LogitAdjustedLoss([0.8, 0.2])(two, y))
    labels = ss.LogitAdjustedLoss([0.2, 0.2], task="multilabel")
    torch.testing.assert_close(labels(torch.stack([z, z], 1), torch.stack([y, y], 1)), binary)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ss.LogitAdjustedLoss([3, 0]), "Every class needs examples"),
        (lambda: ss.LogitAdjustedLoss(0.5), "one number for each class"),
        (lambda: ss.LogitAdjustedLoss([0.5], task="binary"), "prior must be one number"),
        (lambda: ss.LogitAdjustedLoss(1.0, task="binary"), r"prior must be in \(0, 1\)"),
        (lambda: ss.LogitAdjustedLoss([1, 2], tau=-1), "tau must be in"),
        (lambda: ss.LogitAdjustedLoss([1, 2])(torch.zeros(2, 3), torch.zeros(2).long()), "3 class"),
        (lambda: ss.LogitAdjustedLoss([1, 2], reduction="sum"), "has no reduction"),
    ],
)
def test_a_prior_that_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
