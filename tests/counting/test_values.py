from __future__ import annotations

import pytest
import torch

import softset as ss
from tests.reference import random_problem


@pytest.mark.parametrize("classes", [3, 100])
@pytest.mark.parametrize("step", [None, ss.LinearStep(), ss.SigmoidStep()])
def test_a_nan_row_is_named(step, classes):
    z, y = random_problem("multiclass", n=200, classes=classes)
    z[17, 1] = torch.nan
    with pytest.raises(ValueError, match="first bad row is 17"):
        ss.confusion(z, y, task="multiclass", step=step)


def test_a_step_that_gives_nothing_is_refused():
    z, y = random_problem("multiclass")
    with pytest.raises(ValueError, match="step must return finite degrees"):
        ss.confusion(z, y, task="multiclass", step=lambda p, tau: p * 0 + tau * 0)


@pytest.mark.parametrize("label", [0.5, 2.0, -1.0, 1e-6, float("nan")])
def test_a_stray_label_is_found_in_a_long_column(label):
    y = torch.zeros(150_001)
    y[::50] = 1
    y[140_003] = label
    with pytest.raises(ValueError, match="target must hold 0 and 1 only"):
        ss.metric_loss(torch.zeros(150_001), y)
