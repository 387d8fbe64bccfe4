"""Shapes in which sizes coincide (as many classes as rows, pixels a side or problems): loss and
gradient of every layout against the oracle. A mistaken dimension cannot be told by its size."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import softset as ss
from softset.counting.kernels.choice import using
from tests.fuzz import loss_oracle
from tests.fuzz.loss_oracle import Setting
from tests.reference import TASKS

COUNT = 25
METRICS = {"f1": "fbeta", "mcc": "mcc", "recall": "recall", "auroc": "auroc"}
STEPS = {("linear", 0.1, 1.0): ss.LinearStep(0.1), ("sigmoid", 10.0): ss.SigmoidStep(10.0)}
IGNORED = 255


def make(number, task):
    """Scores, labels, target, the weight of each, metric, arguments of ours, setting of the
    oracle."""
    rng = np.random.default_rng([11, number, TASKS.index(task)])
    size = int(rng.choice([2, 3]))  # mostly one size for everything
    other = int(rng.choice([2, 3, 5]))

    def draw():
        return size if rng.random() < 0.8 else other

    batch = (draw(),) if rng.random() < 0.4 else ()
    sides = tuple(draw() for _ in range(rng.integers(0, 4)))
    n, classes = draw(), draw()
    columns = () if task == "binary" else (classes,)
    positions = (*batch, n, *sides)
    z = rng.normal(size=(*batch, n, *columns, *sides)) * 2
    y = rng.integers(0, classes if task == "multiclass" else 2,
                     positions if task == "multiclass" else z.shape)  # fmt: skip
    weights = np.ones(y.shape)
    own = {"task": task, "batch_dims": len(batch)}

    def spread(w):  # one for each position, to one for each target
        return np.expand_dims(w, len(batch) + 1) if task == "multilabel" else w

    kind = rng.choice(["none", "rows", "positions", "positions of one problem"])
    if kind == "rows":
        own["sample_weight"] = w = rng.uniform(0.5, 2, n)
        weights = weights * w.reshape(-1, *[1] * (y.ndim - len(batch) - 1))
    elif kind == "positions" or (kind != "none" and batch == (n,) and len(sides) == 1):
        own["sample_weight"] = w = rng.uniform(0.5, 2, positions)
        weights = weights * spread(w)
    elif kind != "none":
        own["sample_weight"] = w = rng.uniform(0.5, 2, (n, *sides))
        weights = weights * spread(np.broadcast_to(w, positions))
    if rng.random() < 0.3:
        own["class_weight"] = v = rng.uniform(0.5, 2, 2 if task == "binary" else classes)
        by_label = v.reshape(-1, *[1] * len(sides))
        weights = weights * (by_label if task == "multilabel" else v[y])
    target = y.copy()
    if rng.random() < 0.3:
        left_out = rng.random(y.shape) < 0.3
        left_out[(slice(None),) * len(batch) + (0,)] = False  # a label of nothing is undefined
        target[left_out], weights = IGNORED, np.where(left_out, 0.0, weights)
        own["ignore_index"] = IGNORED
    metric = str(rng.choice(list(METRICS)))
    step = list(STEPS)[rng.integers(len(STEPS))]
    own["step"] = STEPS[step]
    thresholds = tuple(i / 100 for i in range(1, 100)) if metric == "auroc" else (0.5,)
    setting = Setting(task, METRICS[metric], step=step, thresholds=thresholds)
    return z, y, target, weights, metric, own, setting


def as_rows(x, batch, task, classes):
    """``[problems, rows, ...]`` of ``[*batch, N, C, ...]``, or of one without classes."""
    if task != "binary" and classes:
        x = np.moveaxis(x, batch + 1, -1)
        return x.reshape(x.shape[0] if batch else 1, -1, x.shape[-1])
    return x.reshape(x.shape[0] if batch else 1, -1)


def check(number, task, native):
    z, y, target, weights, metric, own, setting = make(number, task)
    rng = np.random.default_rng([12, number])
    x = torch.from_numpy(z).requires_grad_()
    # (N, 2) would be two columns of scores
    channel = task == "binary" and (number % 2 or z.shape[own["batch_dims"] + 1 :] == (2,))
    with nullcontext() if native else using("torch"):
        scores = x.unsqueeze(own["batch_dims"] + 1) if channel else x
        found = ss.metric_loss(scores, torch.from_numpy(target), metric, **own)
        (slopes,) = torch.autograd.grad(found.sum(), x)
    v = rng.normal(size=z.shape)
    batch, labels = own["batch_dims"], task == "multilabel"
    parts = [as_rows(t, batch, task, True) for t in (z, slopes.numpy(), v)]
    parts += [as_rows(t, batch, task, labels) for t in (y, weights)]
    for z1, g1, v1, y1, w1, value in zip(*parts, found.flatten().tolist(), strict=True):
        wanted = float(np.real(loss_oracle.loss(z1 + 0j, y1, w1 + 0j, setting)))
        assert value == pytest.approx(wanted, abs=1e-9), (number, task, native)
        exact = float(loss_oracle.slope(z1, y1, w1, setting, v1))
        assert (g1 * v1).sum() == pytest.approx(exact, rel=1e-7, abs=1e-9), (number, task, native)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_sizes_that_coincide(task, native):
    for number in range(COUNT):
        check(number, task, native)
