from __future__ import annotations

import numpy as np
import pytest
import torch

from softset_papers.baselines.dice import DiceLoss, ExampleDiceLoss
from tests.baselines.problems import problem


def dice(z, y, w):
    p = [1 / (1 + np.exp(-v)) for v in z]
    top = sum(2 * c * a * b for a, b, c in zip(p, y, w, strict=True))
    return 1 - top / sum(c * (a * a + b * b) for a, b, c in zip(p, y, w, strict=True))


def example_dice(z, y, w):
    p = [1 / (1 + np.exp(-v)) for v in z]
    each = [1 - 2 * a * b / (a * a + b * b) for a, b in zip(p, y, strict=True)]
    return np.average(each, weights=w)


def logit_dice(z, y, w):
    return np.average(
        [1 - 2 * a * b / (a * a + b * b) for a, b in zip(z, y, strict=True)], weights=w
    )


def test_negatives_teach_nothing_in_the_per_example_form():
    z, y, _ = problem()
    z.requires_grad_()
    ExampleDiceLoss()(z, y).backward()
    assert (z.grad[y == 0] == 0).all()
    assert (z.grad[y == 1] != 0).all()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: ExampleDiceLoss("odds"), "output"),
        (lambda: DiceLoss()(torch.zeros(2), torch.tensor([1, -1])), "target"),
    ],
)
def test_bad_arguments_are_named(make, word):
    with pytest.raises(ValueError, match=word):
        make()
