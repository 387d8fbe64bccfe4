"""Weights of a blend: the search finds the better part, and is held near equal weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softset.classifiers.blending import blend_weights
from softset.classifiers.export import averaged
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric
from softset.tasks import get_task

F1 = Tuner(get_metric("f1"), "binary")


def parts(n=600, seed=0):
    """A good part, a fair one, and one that knows nothing."""
    random = np.random.RandomState(seed)
    y = (random.rand(n) < 0.25).astype(int)
    return np.stack([random.randn(n) + s * (y - 0.5) for s in (4.0, 2.0, 0.0)]), y


def test_better_parts_have_more_weight():
    scores, y = parts()
    weights = blend_weights(scores, y, np.ones(len(y)), F1)
    assert weights[0] > weights[1] > weights[2]
    assert weights.sum() == pytest.approx(1)


def test_shrinkage_goes_from_free_to_equal_weights_and_fades_with_rows():
    scores, y = parts()
    w = np.ones(len(y))
    worst = [blend_weights(scores, y, w, F1, s)[2] for s in (0.0, 0.3, 3.0, 1e6)]
    assert worst == sorted(worst)
    assert worst[0] < 0.05
    assert worst[-1] == pytest.approx(1 / 3, abs=1e-3)
    many, target = parts(9600)
    assert blend_weights(many, target, np.ones(9600), F1, 3.0)[2] < worst[2]


def test_rows_of_weight_zero_do_not_count():
    scores, y = parts()
    w = (np.arange(len(y)) < 400).astype(float)
    wrong = scores.copy()
    wrong[:, 400:] = np.random.RandomState(1).randn(3, 200) * 3
    few = blend_weights(scores[:, :400], y[:400], np.ones(400), F1)
    np.testing.assert_allclose(blend_weights(wrong, y, w, F1), few, atol=0.1)


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
@pytest.mark.parametrize("metric", ["f1", "mcc"])
def test_several_classes_and_labels(task, metric):
    random = np.random.RandomState(0)
    y = random.randint(0, 3, 500)
    hot = np.eye(3)[y]
    scores = np.stack([random.randn(500, 3) + s * hot for s in (3.0, 0.0)])
    target = y if task == "multiclass" else hot.astype(int)
    weights = blend_weights(scores, target, np.ones(500), Tuner(get_metric(metric), task))
    assert weights[0] > 0.6
    assert weights.sum() == pytest.approx(1)


def test_nothing_to_choose_gives_equal_weights():
    scores, y = parts()
    w = np.ones(len(y))
    assert blend_weights(scores[:1], y, w, F1).tolist() == [1.0]
    area = Tuner(get_metric("auroc"), "binary")
    assert blend_weights(scores[:2], y, w, area).tolist() == [0.5, 0.5]
    assert blend_weights(scores[:2, :10], y[:10], w[:10], F1).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_a_weighted_mean_is_that_of_probabilities(task):
    task = get_task(task)
    shape = (3, 7) if task == "binary" else (3, 7, 4)
    z = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    squash = (lambda t: t.softmax(-1)) if task == "multiclass" else torch.sigmoid
    expected = (squash(z) * weights.reshape(3, *[1] * (z.dim() - 1))).sum(0)
    torch.testing.assert_close(squash(averaged(z, task, weights)), expected)
    equal = torch.full((3,), 1 / 3, dtype=torch.float64)
    torch.testing.assert_close(averaged(z, task, equal), averaged(z, task))
