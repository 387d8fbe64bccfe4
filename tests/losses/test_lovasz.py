from __future__ import annotations

import itertools

import pytest
import torch

import softset as ss


def jaccard_loss(wrong, positive):
    """If exactly these are mistakes: ``|wrong| / |positive or wrong|``."""
    union = sum(1 for i, p in enumerate(positive) if p or i in wrong)
    return len(wrong) / union if union else 0.0


def extension(errors, positive):
    """The definition: a sum over errors in falling order."""
    order = sorted(range(len(errors)), key=lambda i: -errors[i])
    total = 0.0
    for i, k in enumerate(order):
        change = jaccard_loss(set(order[: i + 1]), positive) - jaccard_loss(
            set(order[:i]), positive
        )
        total += errors[k] * change
    return total


def test_at_decisions_of_0_and_1_it_is_the_jaccard_loss():
    """What makes it an extension, for all sets of mistakes."""
    y = torch.tensor([1, 1, 0, 0])
    for wrong in itertools.chain.from_iterable(
        itertools.combinations(range(4), k) for k in range(5)
    ):
        errors = torch.zeros(4, dtype=torch.float64)
        errors[list(wrong)] = 1
        z = (1 - errors) * (2 * y - 1)
        wanted = jaccard_loss(set(wrong), y.tolist())
        assert ss.LovaszLoss()(z, y).item() == pytest.approx(wanted, abs=1e-12)
