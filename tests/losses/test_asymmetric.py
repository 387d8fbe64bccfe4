from __future__ import annotations

import pytest
import torch

import softset as ss
from tests.reference import random_problem


@pytest.mark.parametrize("settings", [(0, 4, 0.05), (1, 4, 0.05), (1, 2, 0.0), (0, 0, 0.2)])
def test_it_equals_the_formula(settings):
    z, y = random_problem("multilabel")
    up, down, m = settings
    p = torch.sigmoid(z)
    q = (p - m).clamp(min=0)
    wanted = torch.where(y == 1, (1 - p) ** up * p.log(), q**down * (1 - q).log())
    torch.testing.assert_close(ss.AsymmetricLoss(*settings)(z, y), -wanted.mean())


def test_it_is_for_labels():
    with pytest.raises(ValueError, match="task must be one of 'binary', 'multilabel'"):
        ss.AsymmetricLoss(task="multiclass")
    with pytest.raises(ValueError, match="margin must be in"):
        ss.AsymmetricLoss(margin=1)
