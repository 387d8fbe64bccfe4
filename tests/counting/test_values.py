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
        ss.confusion(z, y, task="multiclass", step=step, from_logits=True)


def test_a_step_that_gives_nothing_is_refused():
    z, y = random_problem("multiclass")
    with pytest.raises(ValueError, match="step must return finite degrees"):
        ss.confusion(z, y, task="multiclass", step=lambda p, tau: p * 0 + tau * 0, from_logits=True)


@pytest.mark.parametrize("label", [0.5, 2.0, -1.0, 1e-6, float("nan")])
def test_a_stray_label_is_found_in_a_long_column(label):
    y = torch.zeros(150_001)
    y[::50] = 1
    y[140_003] = label
    with pytest.raises(ValueError, match="target must hold 0 and 1 only"):
        ss.metric_loss(torch.zeros(150_001), y)


@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc"])
@pytest.mark.parametrize("step", [ss.LinearStep(), ss.SigmoidStep()])
def test_an_infinite_score_of_a_class_is_called_infinite(metric, step):
    z, y = random_problem("multiclass")
    for value, word in ((float("inf"), "inf"), (float("-inf"), "-inf")):
        bad = z.clone()
        bad[17] = value
        with pytest.raises(ValueError, match=f"finite, got {word}: the first bad row is 17"):
            ss.metric_loss(bad, y, metric, task="multiclass", step=step)
        with pytest.raises(ValueError, match=f"finite, got {word}: the first bad row is 17"):
            ss.evaluate(bad, y, "auroc", task="multiclass", from_logits=True)
    masked = z.clone()
    masked[17, (y[17] + 1) % 4] = float("-inf")  # one class is out of the question
    assert ss.metric_loss(masked, y, metric, task="multiclass", step=step).isfinite()


def test_an_infinite_score_of_two_classes_is_a_probability():
    z = torch.tensor([float("inf"), float("-inf"), 0.0])
    assert ss.metric_loss(z, torch.tensor([1, 0, 1])).isfinite()
