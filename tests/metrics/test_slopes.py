"""Slopes in closed form against autograd, for every metric that is a function of two sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import softset as ss
from softset.counting.cells import Confusion
from softset.metrics.slopes import Sums, slopes
from softset.tasks import BINARY, MULTICLASS, get_task
from tests.reference import is_area

NAMES = [
    name
    for name, row in ss.METRICS.items()
    if not is_area(row.make()) and not row.make().wants_matrix(MULTICLASS, 3)
]
AVERAGES = ("macro", "micro", "weighted")


def sums(task, seed=0):
    """Soft counts of 200 rows; of labels they are independent."""
    rng = np.random.default_rng(seed)
    classes = 1 if task == "binary" else 4
    support = rng.multinomial(200, [0.4, 0.3, 0.2, 0.1])[:classes].astype(float)
    tp = support * rng.uniform(0.3, 0.9, classes)
    predicted = tp + rng.uniform(1, 30, classes)
    if task == "multiclass":
        predicted *= 200 / predicted.sum()
        tp = np.minimum(tp, 0.9 * predicted)
    return Sums(tp, predicted, support, np.full(classes, 200.0))


def by_autograd(metric, task, c, empty):
    tensors = [torch.from_numpy(v.copy()) for v in c]
    leaves = [t.requires_grad_() for t in tensors[:2]]
    cells = [t.squeeze(0) for t in tensors] if task == "binary" else tensors
    value = metric(Confusion(*cells, task), empty=empty)
    by = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return value.item(), *(b.numpy() for b in by)


def averaged(metric, average, both=False):
    if isinstance(metric, ss.FBeta):
        return ss.FBeta(metric.beta, average, both)
    return replace(metric, average=average, both_classes=both)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("empty", ["penalise", "ignore"])
def test_slopes_are_those_of_autograd(name, task, average, empty):
    metric = ss.METRICS[name].make()
    if metric.joint and task == "multiclass" and average != "macro":
        pytest.skip("one number for all classes")
    for both in (False, True) if task == "binary" and average == "macro" else (False,):
        m = averaged(metric, average, both)
        known = slopes(m, get_task(task), sums(task), empty)
        assert known is not None
        value, *by = by_autograd(m, task, sums(task), empty)
        assert known.value.item() == pytest.approx(value, rel=1e-12)
        for found, wanted in zip(known[1:], by, strict=True):
            np.testing.assert_allclose(np.broadcast_to(found, wanted.shape), wanted, 1e-9, 1e-14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
@pytest.mark.parametrize("average", ["macro", "weighted"])
@pytest.mark.parametrize("empty", ["penalise", "ignore"])
def test_classes_without_rows(name, task, average, empty):
    """They are left out, or pushed down, as autograd has it; or there is no answer."""
    metric = ss.METRICS[name].make()
    if metric.joint and task == "multiclass" and average != "macro":
        pytest.skip("one number for all classes")
    metric = averaged(metric, average)
    c = sums(task)
    c.s[2] = c.x[2] = 0.0
    known = slopes(metric, get_task(task), c, empty)
    if known is None:
        return
    value, *by = by_autograd(metric, task, c, empty)
    assert known.value.item() == pytest.approx(value, rel=1e-12)
    for found, wanted in zip(known[1:], by, strict=True):
        np.testing.assert_allclose(np.broadcast_to(found, wanted.shape), wanted, 1e-9, 1e-14)


def test_corners_have_no_answer():
    c = sums("binary")
    assert slopes(ss.MCC(), BINARY, c, "penalise") is not None
    for wrong in (c._replace(s=c.s * 0), c._replace(s=c.n), c._replace(q=c.q * 0)):
        assert slopes(ss.MCC(), BINARY, wrong, "penalise") is None
