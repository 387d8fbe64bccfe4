"""The closed forms against the plain composition, on random problems of every kind.

What a function transform sees is the composition (``under_transform``), so that ``torch.func`` is
the way to ask for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import softset as ss
from softset.counting import numerics
from softset.counting.kernels import binary_grid
from softset.counting.kernels.choice import using
from tests.reference import SOFT_STEPS, TASKS, is_area

STEPS = list(SOFT_STEPS.values())
HALF = (torch.float16, torch.bfloat16)
# Where the rounding of float32 does not decide what 0/0 is.
STEADY = ("f1", "f2", "f0.5", "accuracy", "recall", "jaccard", "auroc")


@st.composite
def problems(draw):
    """Scores, target and arguments of ``metric_loss``."""
    task, name = draw(st.sampled_from(TASKS)), draw(st.sampled_from(list(ss.METRICS)))
    row = ss.METRICS[name]
    average = "macro" if task == "binary" else draw(st.sampled_from([a for a in row.averages if a]))
    metric = row.make(average=average)
    dtype = draw(st.sampled_from([torch.float64, torch.float32, *HALF]))
    lead = draw(st.sampled_from([(), (), (1,), (3,), (2, 2)]))
    n, classes = draw(st.sampled_from([1, 2, 7, 33])), draw(st.sampled_from([2, 3, 5, 70]))
    classes = classes if task == "multiclass" else min(classes, 5)
    g = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    z = torch.randn(*lead, n, *[classes] * (task != "binary"), generator=g, dtype=torch.float64)
    z = z * draw(st.sampled_from([0.01, 1.0, 5.0, 100.0, 700.0, 1e4]))
    logits = draw(st.sampled_from([True, True, False]))
    if not logits:
        z = torch.softmax(z, -1) if task == "multiclass" else torch.sigmoid(z)
    z = z.to(dtype)
    labels = (*lead, n, classes) if task == "multilabel" else (*lead, n)
    y = torch.randint(0, classes if task == "multiclass" else 2, labels, generator=g)
    settled: dict = {"task": task, "from_logits": logits, "batch_dims": len(lead)}
    settled["empty"] = draw(st.sampled_from(["penalize", "ignore"]))
    if draw(st.booleans()):
        settled["sample_weight"] = torch.rand(n, generator=g, dtype=torch.float64) + 0.01
    if draw(st.booleans()):
        settled["class_weight"] = torch.rand(2 if task == "binary" else classes, generator=g) + 0.1
    if n > 2 and draw(st.booleans()):
        y[..., 0] = -1
        settled["ignore_index"] = -1
    if is_area(metric):
        settled["thresholds"] = draw(st.sampled_from([None, [0.2, 0.5, 0.9], (0.25, 0.5, 0.75)]))
    elif task != "multiclass":
        settled["thresholds"] = draw(st.sampled_from([None, None, [0.1, 0.2, 0.7], [0.5]]))
        if settled["thresholds"] is None:
            settled["threshold"] = draw(st.sampled_from([0.5, 0.5, 0.03, 0.3, 0.98]))
    settled["step"] = draw(st.sampled_from([None, *STEPS]))
    if lead and draw(st.booleans()):
        delta, width = (torch.rand(lead, generator=g) for _ in range(2))
        settled["step"] = ss.LinearStep(0.01 + 0.3 * delta, 0.1 + 1.5 * width)
    return metric, z, y, settled


def gradient(metric, z, y, settled):
    x = z.clone().requires_grad_()
    value = ss.metric_loss(x, y, metric, **settled)
    (slope,) = torch.autograd.grad(value.sum(), x, allow_unused=True)
    return value.detach(), torch.zeros_like(x) if slope is None else slope


@contextmanager
def in_small_pieces():
    """The PyTorch kernels, with sums in runs and blocks of a few rows."""
    with using("torch"), patch.object(numerics, "RUN", 4), patch.object(binary_grid, "BLOCK", 5):
        yield


def compare(problem):
    metric, z, y, settled = problem
    wanted_slope, wanted = torch.func.grad_and_value(
        lambda x: ss.metric_loss(x, y, metric, **settled).sum()
    )(z)
    exact = z.dtype == torch.float64
    value, slope = gradient(metric, z, y, settled)
    with in_small_pieces():
        value_2, slope_2 = gradient(metric, z, y, settled)
        with torch.no_grad():
            without = ss.metric_loss(z, y, metric, **settled)
    near = {"rtol": 1e-9, "atol": 1e-10} if exact else {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(without, value_2, rtol=0, atol=0)
    if exact or metric.name in STEADY:
        for found in (value, value_2):
            torch.testing.assert_close(found.sum().double(), wanted.double(), **near)
    for found in (slope, slope_2):
        assert found.isfinite().all()
        size = float(wanted_slope.double().abs().max())
        if exact and not tied(z, settled["task"]):
            torch.testing.assert_close(found, wanted_slope, rtol=1e-7, atol=1e-9 * (1 + size))


def tied(z, task) -> bool:
    """Whether a row has two largest, or two second largest: any of them may have the slope."""
    if task != "multiclass":
        return False
    top = z.topk(min(3, z.shape[-1]), -1).values
    return bool((top.diff(dim=-1) > -1e-12).any())


@settings(max_examples=150, deadline=None)
@given(problems())
def test_fused_is_the_composition(problem):
    compare(problem)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(problems())
def test_fused_is_the_composition_at_length(problem):
    compare(problem)
