"""Random problems of every kind: loss and gradient against an oracle that shares nothing with us.

Each case is made from its number alone; a failure names it, and ``check(number)`` runs it again.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

import softset as ss
from softset.counting import numerics
from softset.counting.kernels import binary_grid
from softset.counting.kernels.choice import using
from softset.counting.steps import Pieces
from tests.fuzz import loss_oracle
from tests.fuzz.loss_oracle import CURVES, JOINT, Setting

COUNT, PARTS, SLOW = 400, 4, 20_000
METRICS = [
    "fbeta", "accuracy", "balanced_accuracy", "precision", "recall", "specificity", "jaccard",
    "gmean", "mcc", "cohen_kappa", "informedness", "markedness", "fowlkes_mallows", "auroc",
    "average_precision",
]  # fmt: skip
DTYPES = [torch.float64, torch.float64, torch.float32, torch.float32, torch.float16, torch.bfloat16]
# What a number may be off by, and a slope, as a share of the largest.
VALUE = {torch.float64: 2e-9, torch.float32: 1e-6, torch.float16: 1e-6, torch.bfloat16: 1e-6}
SLOPE = {torch.float64: 1e-7, torch.float32: 3e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


@dataclass
class Case:
    """Arguments of ``metric_loss``, and the same as the oracle wants them."""

    setting: Setting
    z: torch.Tensor
    y: torch.Tensor
    own: dict[str, Any]  # arguments of ours
    weights: np.ndarray  # of every label, 0 where it is ignored
    labels: np.ndarray
    pieces: bool = False
    lead: tuple[int, ...] = ()


def make_scores(rng, shape):
    kind = rng.choice(["small", "usual", "wide", "high", "low", "tied", "huge", "mixed"])
    z = rng.normal(size=shape)
    if kind == "small":
        z = z * 0.05
    elif kind == "usual":
        z = z * 2 + rng.normal()
    elif kind == "wide":
        z = z * 12
    elif kind in ("high", "low"):
        z = np.abs(z) * 3 + rng.choice([4, 12, 17, 30])
        z = -z if kind == "low" else z
    elif kind == "tied":
        z = z.round()
    elif kind == "huge":
        z = np.sign(z) * 1e4
    elif kind == "mixed":
        z = z * rng.choice([0.1, 3, 20], size=shape)
    return np.clip(z, -50, 50) if kind != "huge" else z


def make_step(rng):
    kind = rng.choice(["default", "linear", "temperature", "sigmoid", "identity", "own"])
    if kind == "linear":
        delta = float(rng.choice([0.0, 0.01, 0.1, 0.25, 0.4, 0.5]))
        width = float(rng.choice([0.001, 0.1, 0.7, 1.0, 1.5, 1.9, 1.99, 1.999, 1.99999]))
        return ("linear", delta, width), ss.LinearStep(delta, width)
    if kind == "temperature":
        t = float(rng.choice([1e-6, 1e-3, 0.05, 0.2, 0.3, 0.39, 0.3999, 0.39999]))
        return ("linear", t, 5 * t), ss.LinearStep.at_temperature(t)
    if kind == "sigmoid":
        k = float(rng.choice([0.5, 10, 50, 1e3, 1e5]))
        return ("sigmoid", k), ss.SigmoidStep(k)
    if kind == "identity":
        return ("identity",), ss.IdentityStep()
    if kind == "own":
        return ("own",), lambda p, tau: torch.sigmoid(20 * (p - tau)) ** 2
    return None, None


def make_thresholds(rng, task, metric, labels):
    """What the oracle gets, whether it is a grid, and what we get."""
    if metric in CURVES or rng.random() < 0.15:
        size = int(rng.choice([4, 10, 100]))
        grid = [i / size for i in range(1, size)]
        if rng.random() < 0.4:
            grid = sorted(rng.uniform(0.01, 0.99, size=rng.integers(1, 6)).tolist())
        if metric in CURVES and rng.random() < 0.3:
            return tuple(i / 100 for i in range(1, 100)), True, {}
        return tuple(grid), True, {"thresholds": grid}
    choices = [0.5, 0.5, 0.3, 0.9, 0.03, 1e-3, 1e-6, 1e-9, 1 - 1e-4, 1 - 1e-7, 1 - 1e-10]
    if task == "multilabel" and rng.random() < 0.4:
        each = [float(rng.choice(choices)) for _ in range(labels)]
        return (each,), False, {"threshold": each}
    tau = float(rng.choice(choices))
    return (tau,), False, {"threshold": tau}


def make_weights(rng, n):
    kind = rng.choice(["none", "uniform", "whole", "tailed", "large", "small"])
    if kind == "none":
        return None
    if kind == "whole":
        w = rng.integers(0, 3, n).astype(float)
        w[0] = 1
        return w
    if kind == "tailed":
        return 10 ** rng.uniform(-7, 7, n)
    scale = {"uniform": 1.0, "large": 10.0 ** rng.integers(30, 250)}
    return rng.uniform(0.05, 1, n) * scale.get(kind, 10.0 ** -rng.integers(25, 250))


def make(number: int) -> Case:
    rng = np.random.default_rng([7, number])
    task = str(rng.choice(["binary", "multiclass", "multilabel"]))
    metric = str(rng.choice(METRICS))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    lead = [(), (), (), (1,), (3,), (2, 2)][rng.integers(6)]
    n, classes = int(rng.choice([1, 2, 5, 17, 40])), int(rng.choice([2, 3, 5]))
    if task == "multiclass" and rng.random() < 0.1:
        classes = 70
    shape = {"binary": (n,), "multiclass": (n, classes), "multilabel": (n, classes)}[task]
    joint = metric in JOINT
    average = "macro" if joint or task == "binary" else rng.choice(["macro", "micro", "weighted"])
    both = bool(task == "binary" and not joint and metric not in CURVES and rng.random() < 0.25)
    average = str(rng.choice(["macro", "micro", "weighted"])) if both else str(average)
    beta = float(rng.choice([1.0, 1.0, 0.5, 2.0, 30.0]))
    described, step = make_step(rng)
    if described is None:
        described = ("linear", 0.2 if task == "multiclass" else 0.1, 1.0)
    thresholds, grid, own = (0.5,), False, {}
    if task != "multiclass" or metric in CURVES:
        thresholds, grid, own = make_thresholds(rng, task, metric, classes)
    from_logits = bool(rng.random() < 0.75)
    z = make_scores(rng, (*lead, *shape))
    if not from_logits:
        z = (
            torch.softmax(torch.tensor(z), -1)
            if task == "multiclass"
            else torch.sigmoid(torch.tensor(z))
        )
    z = torch.as_tensor(z).to(dtype)
    rare = rng.choice([0.5, 0.05, 0.95])
    if task == "multiclass":
        y = np.minimum(rng.geometric(rng.choice([0.3, 0.6]), (*lead, n)) - 1, classes - 1)
    else:
        y = (rng.random((*lead, *shape)) < rare).astype(int)
    weights = np.ones(y.shape)
    w = make_weights(rng, n)
    if w is not None:
        own["sample_weight"] = w
        weights = weights * (w[:, None] if task == "multilabel" else w)
    if rng.random() < 0.3:
        v = rng.uniform(0.1, 3, 2 if task == "binary" else classes)
        v[rng.integers(len(v))] *= rng.choice([1, 1e-6, 1e6])
        own["class_weight"] = v
        weights = weights * (v if task == "multilabel" else v[y])
    target = torch.tensor(y)
    if n > 2 and rng.random() < 0.25:
        left_out = rng.random(y.shape) < 0.3
        left_out[(..., 0, slice(None)) if task == "multilabel" else (..., 0)] = False
        target = torch.tensor(np.where(left_out, -100, y))
        weights = np.where(left_out, 0.0, weights)
        own["ignore_index"] = -100
    empty = str(rng.choice(["penalize", "ignore"]))
    setting = Setting(
        task, metric, average, both, beta, described, thresholds, grid, empty, from_logits
    )
    own |= {"task": task, "empty": empty, "from_logits": from_logits, "batch_dims": len(lead)}
    if step is not None:
        own["step"] = step
    return Case(setting, z, target, own, weights, y, bool(rng.random() < 0.3), lead)


def our_metric(s: Setting):
    if s.metric == "fbeta":
        return ss.FBeta(s.beta, s.average, s.both)
    return ss.METRICS[s.metric].make(average=s.average, both_classes=s.both)


def steepest(s: Setting) -> float:
    """The steepest piece, where float32 is used for it."""
    kind, *numbers = s.step
    if kind == "sigmoid":
        return numbers[0] / 4 if numbers[0] <= 4000 else 0.0
    if kind != "linear":
        return 10.0
    if s.task == "multiclass" and s.metric not in CURVES:
        slope = (1 - 2 * numbers[0]) / numbers[1]
        return slope if slope <= 1000 else 0.0
    slopes = [1.0]
    for tau in np.ravel(np.array(s.thresholds, dtype=float)):
        _, beyond, m = loss_oracle.corners(tau, *numbers)
        slopes += [(1 - 2 * numbers[0]) / m * (1 - beyond), numbers[0] / beyond]
    return max(x if x <= 1000 else 0.0 for x in slopes)


@contextmanager
def in_small_pieces():
    """The PyTorch kernels, with sums in runs and blocks of a few rows."""
    with using("torch"), patch.object(numerics, "RUN", 4), patch.object(binary_grid, "BLOCK", 5):
        yield


@np.errstate(all="ignore")  # scores of 1e4
def check(number: int, native: bool = True) -> int:
    """Compare; return how many slopes were compared."""
    compared = 0
    case = make(number)
    s, dtype = case.setting, case.z.dtype
    rng = np.random.default_rng([8, number])
    z = case.z.clone().requires_grad_()
    pieces, whole = in_small_pieces(), nullcontext() if native else using("torch")
    with pieces if case.pieces and not native else whole:
        found = ss.metric_loss(z, case.y, our_metric(s), **case.own)
        (slopes,) = torch.autograd.grad(found.sum(), z, allow_unused=True, materialize_grads=True)
    assert slopes.isfinite().all(), number
    count = int(np.prod(case.lead))
    several = slopes.double().numpy().reshape(count, *case.z.shape[len(case.lead) :])
    scores = case.z.double().numpy().reshape(several.shape)
    labels = case.labels.reshape(count, *case.labels.shape[len(case.lead) :])
    weights = case.weights.reshape(labels.shape)
    eps = 1e-13 if dtype == torch.float64 else 2e-7
    near = VALUE[dtype] * (1 + 0.1 * steepest(s)) if dtype != torch.float64 else VALUE[dtype]
    for z1, y1, w1, g1, value in zip(
        scores, labels, weights, several, found.detach().double().flatten().tolist(), strict=True
    ):
        if not 1e-9 <= w1.max() <= 1e9:
            w1 = w1 / w1.max()  # which no metric depends on
        wanted = float(np.real(loss_oracle.loss(z1 + 0j, y1, w1 + 0j, s)))
        assert abs(value - wanted) <= near, (number, s, dtype, value, wanted)
        sharp = loss_oracle.at_a_corner(z1, None, s, eps)
        free = ~sharp.reshape(len(z1), *[1] * (z1.ndim - 1)) & np.ones(z1.shape, dtype=bool)
        if not free.any():
            continue
        size = np.abs(g1).max()
        for v in directions(rng, g1, free):
            exact = float(loss_oracle.slope(z1, y1, w1, s, v))
            ours = float((g1 * v).sum())
            if np.abs(g1).max() >= torch.finfo(dtype).max:
                continue  # the largest number of half precision stands for all beyond
            size = max(size, abs(exact) / np.abs(v).sum())
            allowed = SLOPE[dtype] * (1 + 0.02 * steepest(s)) * size * np.abs(v).sum() ** 0.5
            rounding = 1e-10 if dtype == torch.float64 else 5e-7 * (1 + steepest(s))
            allowed += rounding * np.abs(v).sum() ** 0.5
            allowed += 1e-7 * np.abs(v).sum() if dtype == torch.float16 else 0  # its least number
            if abs(ours - exact) > allowed:  # as far as the oracle itself is sure
                others = [loss_oracle.slope(z1, y1, w1, s, v, h) for h in (1.3e-30, 0.7e-28)]
                allowed += 10 * max(abs(exact - other) for other in others)
            assert abs(ours - exact) <= allowed, (number, s, dtype, ours, exact, v)
            compared += 1
    return compared


def directions(rng, g, free):
    """The coordinates of the largest slopes, some others, and all at once."""
    places = np.argwhere(free)
    by_size = places[np.argsort(-np.abs(g[free]))][:2]
    some = places[rng.integers(len(places), size=2)]
    for place in [*by_size, *some]:
        v = np.zeros(g.shape)
        v[tuple(place)] = 1.0
        yield v
    yield np.where(free, rng.choice([-1.0, 1.0], size=g.shape), 0.0)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("part", range(PARTS))
def test_losses_and_gradients_are_those_of_the_oracle(part, native):
    """By the kernels in C, where there are any, and by those in PyTorch in turn."""
    numbers = range(part + PARTS * native, COUNT, 2 * PARTS)
    compared = sum(check(number, native) for number in numbers)
    assert len(numbers) == COUNT // PARTS // 2
    assert compared > 4 * len(numbers)  # not one in five is left out for lying on a corner


@pytest.mark.slow
def test_losses_and_gradients_are_those_of_the_oracle_at_length():
    compared = sum(check(number) for number in range(COUNT, COUNT + SLOW))
    assert compared > 4 * SLOW


def by_differences(step, tau):
    """The corners of a linear step as the paper has them; next to 1 the digits of ``1 - b`` go."""
    nearest = torch.minimum(tau, 1 - tau) if isinstance(tau, torch.Tensor) else min(tau, 1 - tau)
    m = step.width * nearest
    a, b = tau - m / 2, tau + m / 2
    return Pieces(a, b, step.delta / a, (1 - 2 * step.delta) / m, step.delta / (1 - b), 1 - b)


def by_subtraction(step, pq, tau):
    """The degrees of a step, without the digits of ``q = 1 - p``."""
    h = step(pq[0], tau)
    return torch.stack([h, 1 - h]), None


@pytest.mark.parametrize(
    ("where", "wrong", "number"),
    [
        # what a step leaves is a difference, also next to nothing
        ("kernels.binary.degrees", by_subtraction, 405),
        # as are the lengths of a step
        ("steps.LinearStep.pieces", by_differences, 2386),
    ],
)
def test_the_oracle_finds_what_was_wrong(where, wrong, number):
    """With an old fault put back in, a case fails that does not without it."""
    check(number, native=False)
    with patch(f"softset.counting.{where}", wrong), pytest.raises(AssertionError):
        check(number, native=False)
