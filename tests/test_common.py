"""Promises that hold for every metric x step x task. All three are taken from the tables, so that
one that is forgotten fails."""

from __future__ import annotations

import copy
import math
import pickle
from contextlib import nullcontext

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import softset as ss
from softset.counting import numerics
from softset.counting.kernels import binary_grid
from softset.counting.kernels.choice import using
from tests.oracles import oracle
from tests.reference import SOFT_STEPS, TASKS, is_area, random_problem, soft_cells, soft_matrix

CASES = [
    (name, task, average)
    for name, row in ss.METRICS.items()
    for task in TASKS
    for average in (("macro",) if task == "binary" else row.averages)
]
# A plain ratio, square roots, products, a matrix, a curve: kernels and graphs are the same for all.
DELICATE = ("f1", "mcc", "gmean", "quadratic_kappa", "auroc")
CUT = [name for name in ss.METRICS if not is_area(ss.METRICS[name].make())]


def make(name: str, average: str | None = "macro"):
    return ss.METRICS[name].make(average=average)


def test_every_step_is_tried():
    tried = {type(step) for step in SOFT_STEPS.values()} | {ss.HardStep}
    assert set(ss.counting.STEPS.values()) <= tried


# 1. counts add up


@settings(max_examples=150, deadline=None)
@given(
    step=st.sampled_from([*SOFT_STEPS, "hard"]),
    task=st.sampled_from(TASKS),
    tau=st.floats(0.01, 0.99),
    n=st.integers(1, 50),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.1, 3.0, 100.0, 1e4]),
    weighted=st.booleans(),
)
def test_soft_counts_add_up_to_class_sizes(step, task, tau, n, seed, scale, weighted):
    g = torch.Generator().manual_seed(seed)
    shape = (n,) if task == "binary" else (n, 5)
    z = torch.randn(shape, generator=g, dtype=torch.float64) * scale
    y = (
        torch.randint(0, 5, (n,), generator=g)
        if task == "multiclass"
        else (torch.randint(0, 2, shape, generator=g))
    )
    w = torch.rand(n, generator=g, dtype=torch.float64) * 10 + 1e-3 if weighted else None
    chosen = None if step == "hard" else SOFT_STEPS[step]
    kwargs = {} if task == "multiclass" else {"threshold": tau}
    settled = {"task": task, "step": chosen, "sample_weight": w, "from_logits": True}
    c = ss.confusion(z, y, **settled, **kwargs)
    ones = torch.ones(n, dtype=torch.float64) if w is None else w
    if task == "multiclass":
        sizes = torch.stack([ones[y == k].sum() for k in range(5)])
        matrix = ss.confusion(z, y, **settled, matrix=True).matrix
        torch.testing.assert_close(matrix.sum(1), sizes, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(c.predicted.sum(), ones.sum(), rtol=1e-10, atol=0)
        torch.testing.assert_close(matrix.diagonal(), c.tp, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(matrix.sum(0), c.predicted, rtol=1e-10, atol=1e-10)
    else:
        sizes = (y * (ones if task == "binary" else ones[:, None])).sum(0)
    tight = {"rtol": 1e-10, "atol": 1e-10 * float(ones.sum())}
    torch.testing.assert_close(c.tp + c.fn, sizes.double(), **tight)
    torch.testing.assert_close(c.fp + c.tn, ones.sum() - sizes, **tight)
    for cell in (c.tp, c.fp, c.fn, c.tn):
        assert (cell > -1e-9 * ones.sum()).all()


# 2. training and evaluation are one


@pytest.mark.parametrize(("name", "task", "average"), CASES)
def test_hard_metric_equals_its_oracle(name, task, average):
    for seed, tau, weighted in ((0, 0.5, False), (1, 0.3, True), (2, 0.77, True)):
        z, y = random_problem(task, n=101, seed=seed)
        if task == "multiclass":
            tau = 0.5
            p = torch.softmax(z, 1).numpy()
            said = p.argmax(1)
        else:
            p = torch.sigmoid(z).numpy()
            said = (p >= tau).astype(int)
        w = np.random.default_rng(seed).uniform(0.1, 3, 101) if weighted else None
        expected = oracle(name, task, average, y.numpy(), said, p, w)
        metric = make(name, average)
        kwargs = {} if task == "multiclass" or is_area(metric) else {"threshold": tau}
        got = ss.evaluate(z, y, metric, task=task, sample_weight=w, **kwargs)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ss.METRICS)
def test_degenerate_value_is_the_one_in_the_table(name):
    z, y = torch.tensor([-1.0, -2.0, -3.0]), torch.zeros(3)
    got = ss.evaluate(z, y, name, from_logits=True)
    assert got == pytest.approx(ss.METRICS[name].degenerate, nan_ok=True)


@pytest.mark.parametrize(("name", "task", "average"), [c for c in CASES if c[2] is not None])
def test_soft_metric_converges_to_the_hard_one(name, task, average):
    z, y = random_problem(task, n=80, seed=3)
    metric = make(name, average)
    hard = 1 - ss.evaluate(z, y, metric, task=task, from_logits=True)
    if is_area(metric):  # the grid replaces the step: both must be fine
        size = 4000
        grid = [i / size for i in range(1, size)]
        loss = ss.metric_loss(z, y, metric, task=task, step=ss.SigmoidStep(1e6), thresholds=grid)
        assert loss.item() == pytest.approx(hard, abs=5e-3)
        return
    for step in (ss.LinearStep.at_temperature(1e-9), ss.SigmoidStep(1e9)):
        loss = ss.metric_loss(z, y, metric, task=task, step=step)
        assert loss.item() == pytest.approx(hard, abs=1e-7)
    gaps = [
        abs(ss.metric_loss(z, y, metric, task=task, step=ss.LinearStep.at_temperature(t)) - hard)
        for t in (0.2, 0.01, 0.0001)
    ]
    assert gaps[2] < 1e-2 * gaps[0] + 1e-6


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tau", [0.5, 0.3, 1e-4, 0.99])
def test_however_steep_a_step_is_its_counts_become_the_hard_ones(task, dtype, tau):
    """Also where float32 cannot tell the corners of the step apart."""
    z, y = random_problem(task, n=300, dtype=dtype)
    where = {} if task == "multiclass" else {"threshold": tau}
    hard = ss.confusion(z, y, task=task, **where)
    for temperature in (1e-5, 1e-7, 1e-9):
        step = ss.LinearStep.at_temperature(temperature)
        x = z.clone().requires_grad_()
        soft = ss.confusion(x, y, task=task, step=step, **where)
        near = {"rtol": 0, "atol": 300 * max(1e-4, 3 * temperature)}
        torch.testing.assert_close(soft.predicted.detach(), hard.predicted, **near)
        torch.testing.assert_close(soft.tp.detach(), hard.tp, **near)
        (soft.tp.sum() + soft.predicted.sum()).backward()
        assert x.grad.isfinite().all()
        assert x.grad.dtype == dtype


@pytest.mark.parametrize("step", [key for key in SOFT_STEPS if key != "own"])
def test_two_classes_equal_binary_at_one_half(step):
    """For steps with H(p) + H(1 - p) = 1, as all of the papers' have."""
    z, y = random_problem("binary", seed=4)
    two = torch.stack([torch.zeros_like(z), z], 1)
    c2 = ss.confusion(two, y, task="multiclass", step=SOFT_STEPS[step], from_logits=True)
    c1 = ss.confusion(z, y, step=SOFT_STEPS[step], from_logits=True)
    torch.testing.assert_close(c2.tp[1] / 60, c1.tp / 60, rtol=0, atol=1e-9)
    torch.testing.assert_close(c2.predicted[1] / 60, c1.predicted / 60, rtol=0, atol=1e-9)


# 4. gradients


@pytest.mark.parametrize("step", SOFT_STEPS)
def test_fused_equals_the_papers_formulas(step):
    h = SOFT_STEPS[step]
    z, y = random_problem("binary", n=300, seed=7)
    z1, z2 = z.clone().requires_grad_(), z.clone().requires_grad_()
    c = ss.confusion(z1, y, step=h, threshold=0.3, from_logits=True)
    cells = soft_cells(z2, y, h, 0.3)
    for key, cell in cells.items():
        torch.testing.assert_close(getattr(c, key), cell, rtol=1e-10, atol=1e-10)
    (c.tp * 2 - c.fp / 3).backward()
    (cells["tp"] * 2 - cells["fp"] / 3).backward()
    torch.testing.assert_close(z1.grad, z2.grad, rtol=1e-10, atol=1e-12)

    for classes in (3, 100, 2600):  # both layouts of the kernel, and more than codes can number
        z, y = random_problem("multiclass", n=min(3 * classes, 300), classes=classes, seed=8)
        z, y = z[:30], y[:30]
        z1, z2 = z.clone().requires_grad_(), z.clone().requires_grad_()
        c, matrix = (
            ss.confusion(z1, y, task="multiclass", step=h, from_logits=True),
            soft_matrix(z2, y, h),
        )
        torch.testing.assert_close(c.tp, matrix.diagonal(), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(c.predicted, matrix.sum(0), rtol=1e-10, atol=1e-10)
        a, b = torch.randn(2, classes, dtype=torch.float64)
        (c.tp @ a + c.predicted @ b).backward()
        (matrix.diagonal() @ a + matrix.sum(0) @ b).backward()
        torch.testing.assert_close(z1.grad, z2.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 70])
def test_ties_among_the_largest_are_counted_right(classes):
    step = ss.LinearStep.at_temperature(0.2)
    z = torch.zeros(6, classes, dtype=torch.float64)
    z[1, 0], z[2, :2], z[3, 1:], z[4, 0] = 2, 3, 1, -1  # unique, two, all but one, all but one
    y = torch.tensor([0, 1, 0, 1, 1, 0])
    x = z.clone().requires_grad_()
    c, matrix = (
        ss.confusion(x, y, task="multiclass", step=step, from_logits=True),
        soft_matrix(z, y, step),
    )
    torch.testing.assert_close(c.tp, matrix.diagonal(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(c.predicted, matrix.sum(0), rtol=1e-12, atol=1e-12)
    c.tp.sum().backward()
    assert torch.isfinite(x.grad).all()
    torch.testing.assert_close(x.grad.sum(1), torch.zeros(6, dtype=torch.float64))


# 5. never NaN


def hostile(task: str):
    """Batches that break naive losses: name, logits, labels."""
    wide = (lambda z: z) if task == "binary" else (lambda z: torch.stack([z, -z, z / 2], 1))
    n = 8
    ramp = torch.linspace(-3, 3, n)
    cases = {
        "one row": ramp[:1],
        "tied": torch.zeros(n),
        "huge": torch.tensor([1e4, -1e4] * 4),
        "saturated": torch.tensor([40.0, -40.0] * 4),
        "infinite" if task != "multiclass" else "large": torch.tensor(
            [math.inf, -math.inf] * 4 if task != "multiclass" else [1e30, -1e30] * 4
        ),
        "ordinary": ramp,
    }
    for key, z in cases.items():
        z = wide(z)
        if task == "multiclass":
            labels = [torch.zeros(len(z)), torch.full((len(z),), 2), torch.arange(len(z)) % 3]
        else:
            labels = [
                torch.zeros_like(z),
                torch.ones_like(z),
                (torch.arange(z.numel()) % 3 == 0).reshape(z.shape),
            ]
        for y in labels:
            yield key, z, y.long()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("name", "step"),
    [(n, s) for n in ss.METRICS for s in SOFT_STEPS if s == "linear" or n in DELICATE],
)
def test_never_nan(name, step, task):
    grid = [0.2, 0.4, 0.6, 0.8] if is_area(make(name)) else None
    kinds = [
        (torch.float64, "penalize"),
        (torch.float32, "ignore"),
        (torch.float16, "penalize"),
        (torch.bfloat16, "ignore"),
    ]
    for i, (key, z, y) in enumerate(hostile(task)):
        for dtype, empty in (kinds[i % 4], kinds[(i + 1 + i // 4) % 4]):
            x = z.to(dtype, copy=True)
            if key == "large":
                x = x.nan_to_num()  # 1e30 is infinite in half precision
            x.requires_grad_()
            loss = ss.metric_loss(
                x, y, name, task=task, step=SOFT_STEPS[step], empty=empty, thresholds=grid
            )
            assert torch.isfinite(loss), (key, dtype, empty)
            if loss.requires_grad:
                loss.backward()
                assert torch.isfinite(x.grad).all(), (key, dtype, empty)


@pytest.mark.parametrize("name", CUT)
def test_counts_next_to_nothing_have_a_finite_slope(name):
    """A class predicted to the degree of 1e-314, whose reciprocal is infinite."""
    z = torch.tensor([[-550.6, 168.3], [-279.4, 642.9]], dtype=torch.float64, requires_grad=True)
    step = ss.LinearStep.at_temperature(0.05)
    ss.metric_loss(z, torch.tensor([0, 0]), name, task="multiclass", step=step).backward()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("name", ss.METRICS)
@pytest.mark.parametrize("task", ["binary", "multilabel"])
@pytest.mark.parametrize("positives", [0.0, 1.0])
def test_a_batch_of_one_class_still_teaches(name, task, positives):
    """All negatives scored high (or all positives scored low): the scores are pushed back."""
    sign = 1 if positives == 0 else -1
    for height in (1.0, 5.0, 20.0):
        z = torch.full((6,) if task == "binary" else (6, 3), sign * height, requires_grad=True)
        loss = ss.metric_loss(z, torch.full_like(z, positives), name, task=task)
        loss.backward()
        if name in ("precision", "average_precision") and positives == 1:
            assert loss.item() == pytest.approx(0, abs=1e-6)  # whatever is called positive, is
            continue
        assert (z.grad * sign > 0).all()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", DELICATE)
def test_tied_scores_do_not_depend_on_the_order_of_rows(name, task):
    _, y = random_problem(task, n=30)
    z = torch.zeros(30) if task == "binary" else torch.zeros(30, 4)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    one, other = (ss.metric_loss(z, t, name, task=task) for t in (y, y[order]))
    assert one.item() == pytest.approx(other.item(), abs=1e-12)


@pytest.fixture(params=["native", "runs"])
def kernels(request, monkeypatch):
    """The kernels in C, or those in PyTorch with sums in short runs."""
    with nullcontext() if request.param == "native" else using("torch"):
        monkeypatch.setattr(numerics, "RUN", 4)
        monkeypatch.setattr(binary_grid, "BLOCK", 5)
        yield


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", DELICATE)
def test_results_are_ordinary_tensors(name, task, dtype, kernels):
    """Gradients accumulate in place, counts have a graph, a graph serves twice, and a first call in
    inference mode leaves nothing."""
    z, y = random_problem(task, n=70, classes=3, dtype=dtype)
    loss = ss.MetricLoss(name, task=task)
    with torch.inference_mode():
        alone = loss(z, y).item()
    z.requires_grad_()
    value = loss(z, y)
    assert value.item() == alone
    value.backward(retain_graph=True)
    once = z.grad.clone()
    value.backward()
    torch.testing.assert_close(z.grad, 2 * once)
    assert not value.is_inference()
    assert not z.grad.is_inference()
    c = loss.confusion(z, y)
    soft = ss.confusion(z, y, task=task, step=loss.step, from_logits=True)
    counts = (c.tp, c.predicted, c.support, c.total, soft.tp, soft.support, soft.total)
    assert not any(t.is_inference() for t in counts)
    (soft.fp.sum() * soft.support.sum()).backward()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", DELICATE)
def test_half_precision_is_close_to_double(name, task):
    z, y = random_problem(task, n=200, seed=9)
    for dtype in (torch.float16, torch.bfloat16):
        half = z.to(dtype)
        exact = ss.metric_loss(half.double(), y, name, task=task)
        x = half.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = ss.metric_loss(x, y, name, task=task)
            assert loss.dtype == torch.float32
            loss.backward()
        assert loss.item() == pytest.approx(exact.item(), abs=1e-2)
        assert x.grad.dtype == dtype
        assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ss.METRICS)
def test_float32_agrees_with_float64(name, task):
    z, y = random_problem(task, n=500, seed=10)
    x, x64 = z.float().requires_grad_(), z.float().double().requires_grad_()
    loss, exact = ss.metric_loss(x, y, name, task=task), ss.metric_loss(x64, y, name, task=task)
    assert (loss.dtype, exact.dtype) == (torch.float32, torch.float64)
    assert loss.item() == pytest.approx(exact.item(), abs=1e-6)
    loss.backward()
    exact.backward()
    scale = x64.grad.abs().max()
    torch.testing.assert_close(x.grad.double() / scale, x64.grad / scale, rtol=0, atol=2e-5)


# 9. compiles and travels


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", DELICATE)
def test_vmap_equals_batch_dims(name, task):
    parts = [random_problem(task, n=24, seed=s) for s in range(3)]
    z, y = torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts])
    grid = [0.25, 0.5, 0.75] if is_area(make(name)) else None

    def loss(z, y):
        return ss.metric_loss(z, y, name, task=task, thresholds=grid)

    expected = ss.metric_loss(z, y, name, task=task, batch_dims=1, thresholds=grid)
    torch.testing.assert_close(torch.func.vmap(loss)(z, y), expected)
    grads = torch.func.vmap(torch.func.grad(loss))(z, y)
    z.requires_grad_()
    ss.metric_loss(z, y, name, task=task, batch_dims=1, thresholds=grid).sum().backward()
    torch.testing.assert_close(grads, z.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_step_parameters_may_differ_by_problem(task):
    z, y = random_problem(task, n=40, seed=11)
    temperatures = torch.tensor([0.2, 0.1, 0.02], dtype=torch.float64)
    stacked = torch.stack([z] * 3).requires_grad_()
    together = ss.metric_loss(
        stacked, y, "f1", task=task, batch_dims=1, step=ss.LinearStep.at_temperature(temperatures)
    )
    together.sum().backward()
    for k, t in enumerate(temperatures.tolist()):
        x = z.clone().requires_grad_()
        alone = ss.metric_loss(x, y, "f1", task=task, step=ss.LinearStep.at_temperature(t))
        alone.backward()
        torch.testing.assert_close(together[k], alone)
        torch.testing.assert_close(stacked.grad[k], x.grad)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", DELICATE)
def test_losses_travel(name, task):
    z, y = random_problem(task)
    loss = ss.MetricLoss(name, task=task)
    before = loss(z, y)
    for copied in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), loss.to("cpu").float()):
        assert torch.equal(copied(z, y), before)
    assert dict(loss.state_dict()) == {}
    loss.load_state_dict({})
