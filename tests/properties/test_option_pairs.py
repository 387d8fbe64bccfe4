"""Options two and three at a time, against an oracle that shares nothing with us.

Each option alone is right, and wrong numbers were found where two of them meet. The rows of a
covering array have every pair of values, and every three of those that change what is counted.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
import torch

import softset as ss
from softset.counting import numerics
from softset.counting.kernels import binary_grid
from softset.counting.kernels.choice import using
from tests.fuzz import loss_oracle
from tests.properties import mean_losses
from tests.properties.covering import covering_array
from tests.properties.problems import (
    METRICS,
    OPTIONS,
    STEPS,
    make_case,
    options_of,
    our_metric,
    our_thresholds,
    setting,
)
from tests.reference import TASKS, is_area

COUNTED = ("labels", "soft", "weights", "class_weight", "ignore", "per", "batch")
# How many values of an option, the first ones, the short way through the kernels in C takes.
USUAL = {"per": 1, "batch": 1, "from_logits": 1, "threshold": 2, "kernel": 1}
PARTS = 4
# A loss is a term of another, so often; a power of two, which rounds nothing.
PART = 4.0
AVERAGES = ("macro", "micro", "weighted")


@contextmanager
def in_runs():
    with using("torch"), patch.object(numerics, "RUN", 4), patch.object(binary_grid, "BLOCK", 5):
        yield


KERNELS = {"C": nullcontext, "PyTorch": lambda: using("torch"), "runs": in_runs}


@cache
def loss_rows(task):
    options = {
        **options_of(task),
        "metric": METRICS[task],
        "average": ("positive", *AVERAGES) if task == "binary" else AVERAGES,
        "step": tuple(STEPS),
        "threshold": ("half", "low", "labels", "grid", "even grid"),
        "empty": ("penalize", "ignore"),
        "kernel": tuple(KERNELS),
        "entry": ("function", "module"),
        "order": (1, 2),
    }
    # What is usual has a shorter way, which is taken only if nothing else is asked for.
    usual = {**options, **{name: options[name][:count] for name, count in USUAL.items()}}
    return covering_array(options, triples=COUNTED) + covering_array(usual)


def our_loss(case, metric, settings, entry):
    if entry == "function":
        return lambda z: ss.metric_loss(z, case.target, metric, **settings)
    weight, per = settings.pop("sample_weight", None), settings.pop("per", None)
    if isinstance(per, str):
        settings, per = {**settings, "per": per}, None
    loss = ss.MetricLoss(metric, **settings)
    return lambda z: loss(z, case.target, weight, per)


def oracle_loss(z, mass, sets, s):
    if sets is None:
        return 1 - loss_oracle.metric(z, mass, s)
    return 1 - loss_oracle.metric_in_sets(z, mass, s, sets)


def oracle_slope(z, mass, sets, s, v):
    return np.imag(oracle_loss(z + 1e-30j * v, mass, sets, s)) / 1e-30


def check_loss(task, number, row):
    case = make_case(task, row, number)
    metric, known = our_metric(row["metric"], row["average"], task)
    thresholds, taus = our_thresholds(row["threshold"], task, known)
    step, described = STEPS[row["step"]]
    described = described or ("linear", 0.2 if task == "multiclass" else 0.1, 1.0)
    settings = {**case.settings, **thresholds, "empty": row["empty"]}
    settings |= {} if step is None else {"step": step}
    s = setting(task, known, row, step=described, thresholds=taus, empty=row["empty"])
    z = case.scores.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    with KERNELS[row["kernel"]]():
        value = our_loss(case, metric, settings, row["entry"])(z)
        twice = row["order"] == 2
        settings = {"allow_unused": True, "materialize_grads": True}
        whole = PART * value.sum()
        (slopes,) = torch.autograd.grad(whole, z, create_graph=twice, **settings)
        slopes = slopes / PART
    double = row["dtype"] == torch.float64
    values, gradients = value.detach().double().reshape(-1).tolist(), case.places(slopes)
    rng = np.random.default_rng(number)
    directions, wanted = [], 0.0
    for i, (z1, mass) in enumerate(zip(case.rows, case.masses, strict=True)):
        assert values[i] == pytest.approx(
            float(np.real(oracle_loss(z1 + 0j, mass, case.sets, s))),
            abs=1e-9 if double else 2e-5,
        )
        g, out = gradients[i], case.left_out[i]
        assert not g[out].any(), "what is left out has no gradient"
        sharp = loss_oracle.at_a_corner(z1, mass, s, 1e-4 if twice else 1e-9 if double else 1e-5)
        free = ~sharp.reshape(len(z1), *[1] * (z1.ndim - 1)) & ~out
        v, u = (np.where(free, rng.choice([-1.0, 1.0], z1.shape), 0.0) for _ in range(2))
        near = {"rel": 1e-6, "abs": 1e-9} if double else {"rel": 2e-3, "abs": 2e-5}
        for direction in (v, u):
            exact = oracle_slope(z1, mass, case.sets, s, direction)
            assert float((g * direction).sum()) == pytest.approx(exact, **near)
        directions.append((v, u))
        if twice:
            ends = [oracle_slope(z1 + h * u, mass, case.sets, s, v) for h in (1e-5, -1e-5)]
            wanted += (ends[0] - ends[1]) / 2e-5
    if twice and slopes.requires_grad:
        v, u = (torch.tensor(np.stack(each)) for each in zip(*directions, strict=True))
        v, u = (_like(t, case, z) for t in (v, u))
        (curved,) = torch.autograd.grad((slopes * v).sum(), z, **settings)
        found = float((curved.nan_to_num() * u).sum())
        near = {"rel": 1e-4, "abs": 1e-6} if double else {"rel": 2e-2, "abs": 2e-3}
        assert found == pytest.approx(wanted, **near)


def _like(rows, case, z):
    """Directions of all problems in the place of their scores."""
    at = [torch.tensor(a) for a in case.places(torch.arange(z.numel()).reshape(z.shape))]
    found = torch.zeros(z.numel(), dtype=z.dtype)
    for own, place in zip(rows, at, strict=True):
        found[place.long()] = own.to(z.dtype)
    return found.reshape(z.shape)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("task", TASKS)
def test_losses(task, part):
    """Value, gradient and curvature."""
    rows = loss_rows(task)
    for number in range(part, len(rows), PARTS):
        try:
            check_loss(task, number, rows[number])
        except Exception as error:
            raise AssertionError(f"row {number} of {task}: {rows[number]}") from error


def evaluation_rows(task):
    options = {
        **options_of(task),
        "batch": ("one",),
        "metric": METRICS[task],
        "average": ("positive", *AVERAGES) if task == "binary" else (*AVERAGES, None),
        "threshold": ("half", "low", "labels"),
        "empty": (None, "penalize", "ignore"),
    }
    return covering_array(options, triples=(*COUNTED[:-1], "empty"))


def check_evaluation(task, number, row):
    case = make_case(task, row, number)
    metric, known = our_metric(row["metric"], row["average"], task)
    thresholds, taus = our_thresholds(row["threshold"], task, known)
    thresholds = {} if is_area(metric) else thresholds
    empty = None if is_area(metric) and row["empty"] == "penalize" else row["empty"]
    offsets = 0.0
    if task == "multiclass" and not (is_area(metric) or known["k"]) and row["threshold"] != "half":
        offsets = np.array([0.4, -0.3, 0.1])
        thresholds = {"offsets": offsets.tolist()}
    s = setting(task, known, row, step=("hard",), thresholds=taus, empty=empty, offsets=offsets)
    settings = {**case.settings, **thresholds, "empty": empty}
    found = ss.evaluate(case.scores, case.target, metric, **settings)
    (z,), (mass,) = case.rows, case.masses
    wanted = 1 - oracle_loss(z, mass, case.sets, s)
    np.testing.assert_allclose(found, np.real(wanted), rtol=1e-9, atol=1e-12)
    if not is_area(metric) and not known["k"]:
        check_counts(task, case, {**case.settings, **thresholds}, z, mass, s)


def check_counts(task, case, settings, z, mass, s):
    """Of each set its own, in the order of their numbers."""
    c = ss.confusion(case.scores, case.target, **settings, matrix=task == "multiclass")
    sets = [...] if case.sets is None else [case.sets == k for k in np.unique(case.sets)]
    if case.sets is not None:
        assert len(c.tp) == len(sets)
    for i, own in enumerate(sets):
        at = ... if case.sets is None else i
        if task == "multiclass":
            m = loss_oracle.matrix(z[own], mass[own], s).real
            np.testing.assert_allclose(c.matrix[at], m, rtol=1e-9, atol=1e-9)
            cells = loss_oracle.class_cells(m)
        else:
            yes, no = mass
            cells = loss_oracle.binary_cells(z[own], yes[own], no[own], s)
            cells = [cell[0].real for cell in cells]
        for name, cell in zip(("tp", "fp", "fn", "tn"), cells, strict=True):
            np.testing.assert_allclose(getattr(c, name)[at], cell, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_evaluation(task):
    """``evaluate``, and the counts it is made of."""
    for number, row in enumerate(evaluation_rows(task)):
        try:
            check_evaluation(task, number, row)
        except Exception as error:
            raise AssertionError(f"row {number} of {task}: {row}") from error


# --- losses that are means over examples, and Lovász ----------------------------------------------

MEANS = {
    "cross-entropy": ss.CrossEntropyLoss,
    "absolute": ss.losses.MeanAbsoluteErrorLoss,
    "focal": lambda **k: ss.FocalLoss(mean_losses.GAMMA, **k),
    "adjusted": lambda task, **k: ss.LogitAdjustedLoss(_prior(task), 0.7, task=task, **k),
    "asymmetric": lambda **k: ss.AsymmetricLoss(1.0, 2.0, mean_losses.MARGIN, **k),
    "surrogate": lambda task, **k: ss.SurrogateFBetaLoss(_prior(task), **k),
    "robust": lambda task, **k: ss.SurrogateFBetaLoss(_prior(task), 2.0, 0.7, **k),
}


def _prior(task):
    return mean_losses.PRIOR.tolist() if task != "binary" else float(mean_losses.PRIOR[0])


def mean_rows(task):
    names = [name for name in MEANS if task != "multiclass" or name not in mean_losses.OF_LABELS]
    common = {**options_of(task), "from_logits": (True,), "order": (1, 2)}
    means = covering_array({**common, "per": ("batch",), "loss": names})
    common |= {"soft": (False,), "class_weight": ("none",), "order": (1,)}
    # Sets in numbers, and mixtures, are for one network.
    networks = {**common, "per": ("batch", "image"), "loss": ("lovász",)}
    return (
        means
        + covering_array(networks)
        + covering_array({**common, "batch": ("one",), "loss": ("lovász", "mixture")})
    )


def mean_oracle(name, case, i, task, z):
    y, w, sets = case.labels[i], case.weights[i], case.sets
    if name == "mixture":
        each = [mean_oracle(part, case, i, task, z) for part in ("cross-entropy", "lovász")]
        return 0.5 * each[0] + 2 * each[1]
    if name != "lovász":
        return mean_losses.mean_loss(name, z, y, w, task, case.settings.get("class_weight"))
    sets = np.zeros(len(z)) if sets is None else sets
    found = [mean_losses.lovasz(z[k == sets], y[k == sets], w[k == sets], task) for k in set(sets)]
    found = [value for value in found if value is not None]
    return sum(found) / len(found) if found else 0.0


def check_mean(task, number, row):
    name = row["loss"]
    if name in ("surrogate", "robust"):  # which have weights of their own, and hard targets
        row = {**row, "class_weight": "none", "soft": False}
    case = make_case(task, row, number)
    settings = dict(case.settings)
    del settings["from_logits"]
    weight, per, batch = (settings.pop(k, None) for k in ("sample_weight", "per", "batch_dims"))
    images = {"per": per} if isinstance(per, str) else {}
    if name == "lovász":
        loss = ss.LovaszLoss(**settings, **images)
    elif name == "mixture":
        loss = 0.5 * ss.CrossEntropyLoss(**settings) + 2.0 * ss.LovaszLoss(**settings, **images)
    else:
        loss = MEANS[name](**settings)
    z = case.scores.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    more = () if per is None or isinstance(per, str) else (per,)
    value = (loss.of_members if batch else loss)(z, case.target, weight, *more)
    twice = row["order"] == 2
    unused = {"allow_unused": True, "materialize_grads": True}
    (slopes,) = torch.autograd.grad(value.sum(), z, create_graph=twice, **unused)
    double = row["dtype"] == torch.float64
    near = {"rel": 1e-6, "abs": 1e-9} if double else {"rel": 1e-3, "abs": 2e-5}
    rng, curved, wanted = np.random.default_rng(number), [], 0.0
    for i, (z1, g) in enumerate(zip(case.rows, case.places(slopes), strict=True)):
        exact = mean_oracle(name, case, i, task, z1 + 0j)
        assert float(value.detach().reshape(-1)[i]) == pytest.approx(np.real(exact), **near)
        assert not g[case.left_out[i]].any(), "what is left out has no gradient"
        v = np.where(case.left_out[i], 0.0, rng.choice([-1.0, 1.0], z1.shape))
        slope = np.imag(mean_oracle(name, case, i, task, z1 + 1e-30j * v)) / 1e-30
        assert float((g * v).sum()) == pytest.approx(slope, **near)
        if twice:
            ends = [mean_oracle(name, case, i, task, z1 + (h + 1e-30j) * v) for h in (1e-5, -1e-5)]
            wanted += np.imag(ends[0] - ends[1]) / 2e-35
            curved.append(v)
    if twice:
        v = _like(torch.tensor(np.stack(curved)), case, z)
        (second,) = torch.autograd.grad((slopes * v).sum(), z, **unused)
        near = {"rel": 1e-4, "abs": 1e-6} if double else {"rel": 1e-2, "abs": 1e-4}
        assert float((second.nan_to_num() * v).sum()) == pytest.approx(wanted, **near)


@pytest.mark.parametrize("task", TASKS)
def test_means_over_examples(task):
    for number, row in enumerate(mean_rows(task)):
        try:
            check_mean(task, number, row)
        except Exception as error:
            raise AssertionError(f"row {number} of {task}: {row}") from error


# --- decisions that are tuned ---------------------------------------------------------------------


def tuning_rows(task):
    names = [m for m in METRICS[task] if "@" not in m and m not in loss_oracle.CURVES]
    options = {
        **options_of(task),
        **{name: OPTIONS[name][:1] for name in ("soft", "batch", "per")},
        "weights": OPTIONS["weights"][:4],
        "layout": ("rows", "image"),
        "metric": names,
        "average": ("positive", *AVERAGES) if task == "binary" else AVERAGES,
    }
    return covering_array(options)


def candidates(s):
    """A place between any two of some numbers, and beyond all of them."""
    s = np.unique(s[np.isfinite(s)])
    return [s[0] - 1, *((s[1:] + s[:-1]) / 2), s[-1] + 1]


def check_tuning(task, number, row):
    """No other threshold of a label, or offset of a class, is better."""
    case = make_case(task, row, number)
    metric, known = our_metric(row["metric"], row["average"], task)
    settings = dict(case.settings)
    (z,), (mass,) = case.rows, case.masses
    if task == "multiclass":
        del settings["task"]
        found = ss.best_offsets(case.scores, case.target, metric, **settings)
        logits = z if row["from_logits"] else np.log(z)
    else:
        found = ss.best_threshold(case.scores, case.target, metric, **settings)
        logits = z if row["from_logits"] else np.log(z / (1 - z))
    found = np.atleast_1d(found)

    def value(at):
        where = {"offsets": at} if task == "multiclass" else {"thresholds": (list(at),)}
        if task == "binary":
            where = {"thresholds": tuple(at)}
        s = setting(task, known, row, step=("hard",), empty=None, **where)
        return float(np.real(loss_oracle.metric(z, mass, s)))

    best = value(found)
    if task == "multiclass":
        assert best >= value(np.zeros(3)) - 1e-9
    for k in range(len(found)):
        if task == "multiclass":
            shifted = logits + found
            others = np.delete(shifted, k, 1).max(1)
            tried = found[k] + np.array(candidates(others - shifted[:, k]))
        else:
            own = logits if task == "binary" else logits[:, k]
            tried = 1 / (1 + np.exp(-np.array(candidates(own))))
        for place in tried:
            assert value(np.where(np.arange(len(found)) == k, place, found)) <= best + 1e-9


@pytest.mark.parametrize("task", TASKS)
def test_tuned_decisions(task):
    for number, row in enumerate(tuning_rows(task)):
        try:
            check_tuning(task, number, row)
        except Exception as error:
            raise AssertionError(f"row {number} of {task}: {row}") from error


# --- counts over batches --------------------------------------------------------------------------


def batch_rows(task):
    options = {
        **options_of(task),
        **{name: OPTIONS[name][:1] for name in ("per", "batch", "dtype")},
        "weights": OPTIONS["weights"][:4],
        "layout": ("rows", "image"),
        "metric": METRICS[task],
        "average": ("positive", *AVERAGES) if task == "binary" else AVERAGES,
        "step": ("default", "own"),
        "threshold": ("half", "low", "labels", "grid"),
        "empty": ("penalize", "ignore"),
    }
    return covering_array(options)


def accumulated_by_hand(loss, micro_batches):
    total = ss.training.Accumulation(loss)
    for z, *rest in micro_batches:
        total.count(z, *rest)
    sum(total(*batch) for batch in micro_batches).backward()
    return total.value


# Of a loss and its micro-batches to the loss of all of them, whose gradient the scores then have.
WAYS = {
    "two passes": lambda loss, batches: ss.accumulate(torch.nn.Identity(), loss, batches),
    "one pass": lambda loss, batches: ss.accumulate(torch.nn.Identity(), loss, batches, passes=1),
    "by hand": accumulated_by_hand,
}


def check_batches(task, number, row):
    """The loss of all rows at once, which ``test_losses`` compares with the oracle, is that of
    micro-batches, and of the first batch of a memory."""
    case = make_case(task, row, number)
    metric, known = our_metric(row["metric"], row["average"], task)
    step, _ = STEPS[row["step"]]
    settings = {**case.settings, **our_thresholds(row["threshold"], task, known)[0]}
    settings |= {"empty": row["empty"]} | ({} if step is None else {"step": step})
    weight = settings.pop("sample_weight", None)
    rest = (case.target,) if weight is None else (case.target, weight)

    def found(way, **more):
        z = case.scores.detach().clone().requires_grad_()
        loss = ss.MetricLoss(metric, **settings, **more)
        if way is None:
            value = loss(z, *rest)
            value.backward()
        else:
            sizes = [1, 2, len(z) - 3]
            batches = zip(*(t.split(sizes) for t in (z, *rest)), strict=True)
            value = WAYS[way](loss, list(batches))
        return value.detach(), z.grad

    plain, near = found(None), 1e-9
    others = {"memory": found(None, ema_decay=0.9), **{way: found(way) for way in WAYS}}
    for name, (value, slopes) in others.items():
        assert float(value) == pytest.approx(float(plain[0]), rel=near, abs=near), name
        np.testing.assert_allclose(slopes, plain[1], rtol=near, atol=near, err_msg=name)


@pytest.mark.parametrize("task", TASKS)
def test_losses_over_batches(task):
    for number, row in enumerate(batch_rows(task)):
        try:
            check_batches(task, number, row)
        except Exception as error:
            raise AssertionError(f"row {number} of {task}: {row}") from error


def test_a_memory_is_the_running_mean_of_counts():
    """``e = m e + (1 - m) C``, over ``1 - m^t``: the loss there, its slope by the last C."""
    rng, memory = np.random.default_rng(0), 0.7
    s = loss_oracle.Setting("binary", "fbeta")
    loss, before = ss.MetricLoss("f1", ema_decay=memory), 0.0
    for t in range(1, 5):
        z, y, w = rng.normal(size=12), rng.integers(0, 2, 12), rng.integers(0, 3, 12) + 0.5
        mass = loss_oracle.masses(y, w, "binary")
        counts = np.array(loss_oracle.binary_cells(z + 0j, *mass, s))[:, 0]
        before = memory * before + (1 - memory) * counts
        mean = before / (1 - memory**t)
        x = torch.tensor(z, requires_grad=True)
        value = loss(x, torch.tensor(y), torch.tensor(w))
        value.backward()
        assert value.item() == pytest.approx(1 - loss_oracle.of_one_class("fbeta", *mean).real)
        v = rng.normal(size=12)
        moved = np.array(loss_oracle.binary_cells(z + 1e-30j * v, *mass, s))[:, 0] - counts
        slope = -loss_oracle.of_one_class("fbeta", *(mean + moved)).imag / 1e-30
        assert float(x.grad @ torch.tensor(v)) == pytest.approx(slope, rel=1e-6)
