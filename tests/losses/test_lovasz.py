from __future__ import annotations

import itertools

import pytest
import torch

import softset as ss
from tests.reference import TASKS, random_problem


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


def test_the_hinge_equals_its_definition():
    for seed in range(5):
        z, y = random_problem("binary", n=9, seed=seed)
        errors = (1 - z * (2 * y - 1)).clamp(min=0).tolist()
        wanted = extension(errors, y.tolist())
        assert ss.LovaszLoss()(z, y).item() == pytest.approx(wanted, abs=1e-12)


def test_the_softmax_is_the_mean_over_classes_that_are_there():
    z, y = random_problem("multiclass", n=12)
    y[y == 2] = 1
    p = torch.softmax(z, 1)
    each = [
        extension(torch.where(y == k, 1 - p[:, k], p[:, k]).tolist(), (y == k).tolist())
        for k in (0, 1, 3)
    ]
    got = ss.LovaszLoss(task="multiclass")(z, y)
    assert got.item() == pytest.approx(sum(each) / 3, abs=1e-12)


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


@pytest.mark.parametrize("task", TASKS)
def test_images_and_sets_are_means(task):
    g = torch.Generator().manual_seed(0)
    shape = (4, 2, 3) if task == "binary" else (4, 3, 2, 3)
    z = torch.randn(shape, generator=g, dtype=torch.float64)
    y = torch.randint(0, 2, (4, 2, 3) if task == "multiclass" else shape, generator=g)
    y[1] = 255
    loss = ss.LovaszLoss(task=task, ignore_index=255)
    each = [loss(z[i : i + 1], y[i : i + 1]) for i in (0, 2, 3)]
    image = ss.LovaszLoss(task=task, ignore_index=255, per="image")
    torch.testing.assert_close(image(z, y), torch.stack(each).mean())
    numbers = torch.tensor([5, 1, 5, 2])
    sets = [loss(z[[0, 2]], y[[0, 2]]), loss(z[3:], y[3:])]
    torch.testing.assert_close(loss(z, y, None, numbers), torch.stack(sets).mean())
    members = image.of_members(torch.stack([z, -z]), y, None)
    torch.testing.assert_close(members, torch.stack([image(z, y), image(-z, y)]))
