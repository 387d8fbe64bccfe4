"""What holds on every device, seen without one: operations are counted on CPU tensors with
``check="device"``, which takes the way of a GPU in PyTorch."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch

import softset as ss
from softset.counting.kernels.choice import using
from softset.metrics.registry import METRICS, get_metric
from tests.operations import Operations
from tests.reference import TASKS, is_area, random_problem

STEPS = {"linear": None, "sigmoid": ss.SigmoidStep(), "identity": ss.IdentityStep()}
# Metrics over a grid of thresholds are claimed with the linear step of width 1 at even thresholds;
# the number of operations of others grows with the number of thresholds.
AREAS = [m for m in METRICS if is_area(get_metric(m))]
MOST = 150


def operations(metric, task, shape=None, n=4096, classes=10, weight=None, **options):
    """Of forward and backward, the second time: constants are copied to a device once."""
    shape = shape or ((n,) if task == "binary" else (n, classes))
    g = torch.Generator().manual_seed(0)
    z = torch.randn(shape, generator=g)
    labels = (shape[0], *shape[2:]) if task == "multiclass" else shape
    most = shape[1] if task == "multiclass" else 2
    y = torch.randint(0, most, labels, generator=g)
    loss = ss.MetricLoss(metric, task=task, check="device", **options)
    for _ in range(2):
        x = z.clone().requires_grad_()
        with Operations() as seen:
            value = loss(x, y, weight)
            value.backward()
    assert value.isfinite()
    assert x.grad.isfinite().all()
    assert x.grad.any()
    return seen


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_task_and_step_waits_for_nothing(metric, task):
    for step in STEPS if metric not in AREAS else ["linear"]:
        seen = operations(metric, task, step=STEPS[step])
        assert not seen.waiting, (step, seen.waiting)
        assert seen.count <= MOST, (step, seen.names)


@pytest.mark.parametrize(
    ("metric", "task", "shape", "most"),
    [
        ("f1", "binary", (4096,), 40),
        ("f1", "binary", (5003,), 40),
        ("f1", "binary", (4, 1, 63, 65), 40),
        ("f1", "multilabel", (5003, 10), 40),
        ("f1", "multiclass", (4096, 10), 60),
        ("f1", "multiclass", (5003, 10), 60),
        ("miou", "multiclass", (4, 19, 64, 64), 60),
        ("miou", "multiclass", (3, 19, 63, 65), 60),
        ("mcc", "binary", (5003,), 80),
        ("mcc", "multilabel", (5003, 10), 80),
        ("mcc", "multiclass", (5003, 10), 80),
        ("auroc", "binary", (4096,), 60),
        ("auroc", "binary", (5003,), 60),
    ],
)
def test_operations_of_the_usual_losses(metric, task, shape, most):
    seen = operations(metric, task, shape)
    assert seen.count <= most, seen.names
    assert not seen.waiting


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc"])
def test_the_number_of_operations_does_not_depend_on_that_of_rows(metric, task):
    few, many = (operations(metric, task, n=n).count for n in (5003, 2**15 + 1))
    assert few == many


OPTIONS = {
    "weights": {"weight": torch.rand(4096, generator=torch.Generator().manual_seed(1))},
    "ignored": {"ignore_index": 1},
    "classes weighted": {"class_weight": True},
    "leave out": {"empty": "ignore"},
    "micro": {"average": "micro"},
    "weighted average": {"average": "weighted"},
    "memory": {"ema_decay": 0.9},
    "fractions": {"soft_targets": True},
    "probabilities": {"from_logits": False},
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("option", OPTIONS)
def test_options_wait_for_nothing(option, task):
    options = dict(OPTIONS[option])
    if options.pop("class_weight", False):
        options["class_weight"] = [1.0, 2.0] if task == "binary" else [1.0 + i for i in range(10)]
    metric = "f1"
    if average := options.pop("average", None):
        metric = ss.FBeta(1.0, average=average)
    if option in ("fractions", "probabilities"):
        z, y = random_problem(task, n=512, classes=4, dtype=torch.float32)
        if option == "fractions":
            y = torch.softmax(z * 0.3, -1) if task == "multiclass" else y * 0.9
        else:
            z = torch.softmax(z, -1) if task == "multiclass" else torch.sigmoid(z)
        loss = ss.MetricLoss(metric, task=task, check="device", **options)
        for _ in range(2):  # as in ``operations``
            x = z.clone().requires_grad_()
            with Operations() as seen:
                loss(x, y).backward()
        assert x.grad.isfinite().all()
    else:
        seen = operations(metric, task, **options)
    assert not seen.waiting, seen.waiting
    assert seen.count <= MOST, seen.names


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", METRICS)
def test_the_mean_over_images_waits_for_nothing(metric, task):
    shape = (4, 1, 31, 33) if task == "binary" else (4, 5, 31, 33)
    seen = operations(metric, task, shape, per="image")
    assert not seen.waiting, seen.waiting
    assert seen.count <= MOST, seen.names


@pytest.mark.parametrize(
    "metric", ["precision@recall>=0.8", "recall@alerts<=0.1", "f1@recall>=0.8&fpr<=0.1"]
)
def test_operating_points_wait_for_nothing_and_take_as_many_operations_for_any_number_of_rows(
    metric,
):
    few, more = operations(metric, "binary", n=256), operations(metric, "binary", n=2048)
    assert not few.waiting
    assert few.count == more.count


def test_a_value_that_is_read_on_the_host_is_seen(monkeypatch):
    """With a planted ``item()`` the tests above fail."""
    from softset.counting.kernels import binary  # noqa: PLC0415

    original = binary.summed
    monkeypatch.setattr(binary, "summed", lambda x: original(x) * (1 + 0 * x.sum().item()))
    assert operations("f1", "binary").waiting == {"aten._local_scalar_dense": 2 - 1}
    monkeypatch.setattr(binary, "summed", lambda x: original(x) + 0 * x[x > 2].sum())
    assert "aten.index" in operations("f1", "binary").waiting


def test_careful_checks_do_wait():
    z, y = random_problem("binary", dtype=torch.float32)
    with using("torch"), Operations() as seen:
        ss.metric_loss(z, y, check="full")
    assert seen.waiting


# --- the same numbers, and NaN for bad input -----------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", METRICS)
def test_the_device_has_the_numbers_of_the_cpu(metric, task):
    z, y = random_problem(task, n=300, classes=4, dtype=torch.float32)
    w = torch.rand(300, generator=torch.Generator().manual_seed(2))
    found = {}
    for check in ("full", "device"):
        x = z.clone().requires_grad_()
        value = ss.metric_loss(x, y, metric, task=task, sample_weight=w, check=check)
        value.backward()
        found[check] = value.detach(), x.grad
    torch.testing.assert_close(*(v for v, _ in found.values()), rtol=2e-6, atol=2e-6)
    size = found["full"][1].abs().max()
    torch.testing.assert_close(*(g / size for _, g in found.values()), rtol=0, atol=2e-5)


def bad_inputs(task):
    z, y = random_problem(task, n=40, classes=4, dtype=torch.float32)
    w = torch.ones(40)
    scores, label, weight = z.clone(), y.clone(), w.clone()
    scores.view(-1)[3] = torch.nan
    label.view(-1)[3] = 7
    weight[3] = -1.0
    yield "scores", (scores, y, w)
    yield "target", (z, label, w)
    yield "sample_weight", (z, y, weight)


@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc"])
@pytest.mark.parametrize("task", TASKS)
def test_bad_input_is_nan_on_a_device_and_an_error_with_full_checks(metric, task):
    for name, given in bad_inputs(task):
        value = ss.MetricLoss(metric, task=task, check="device")(*given)
        assert value.isnan(), name
        for check in ("full", "auto"):  # on the CPU
            with pytest.raises(ValueError, match=name):
                ss.MetricLoss(metric, task=task, check=check)(*given)
    z, y = random_problem(task, n=40, classes=4, dtype=torch.float32)
    p = torch.softmax(z, -1) if task == "multiclass" else torch.sigmoid(z)
    p.view(-1)[0] = 1.5
    assert ss.MetricLoss(metric, task=task, check="device", from_logits=False)(p, y).isnan()


def test_what_check_may_be():
    with pytest.raises(ValueError, match="check must be one of 'auto', 'device', 'full'"):
        ss.MetricLoss(check="fast")
    with pytest.raises(ValueError, match="check must be one of"):
        ss.metric_loss(torch.zeros(2), torch.tensor([0, 1]), check="no")


def test_set_numbers_are_refused_where_nothing_may_be_read():
    loss = ss.MetricLoss(check="device")
    with pytest.raises(ValueError, match="set numbers"):
        loss(torch.zeros(4), torch.tensor([0, 1, 0, 1]), per=torch.tensor([0, 0, 1, 1]))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast(task, dtype):
    z, y = random_problem(task, n=200, classes=4, dtype=torch.float32)
    exact = ss.metric_loss(z, y, task=task)
    x = z.to(dtype).requires_grad_()
    value = ss.metric_loss(x, y, task=task, check="device")
    value.backward()
    assert value.dtype == torch.float32
    assert x.grad.dtype == dtype
    assert value.item() == pytest.approx(exact.item(), abs=1e-2)
    model = torch.nn.Linear(3, 1 if task == "binary" else 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(torch.randn(200, 3))
        value = ss.metric_loss(
            scores, y.unsqueeze(-1) if task == "binary" else y, task=task, check="device"
        )
        assert value.dtype == torch.float32
    value.backward()
    assert model.weight.grad.isfinite().all()


# --- no values at all ----------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", METRICS)
def test_meta_tensors_go_forward_and_backward(metric, task):
    loss = ss.MetricLoss(metric, task=task)
    shape = (64,) if task == "binary" else (64, 4)
    z = torch.zeros(shape, device="meta", requires_grad=True)
    labels = shape[:1] if task == "multiclass" else shape
    value = loss(z, torch.zeros(labels, dtype=torch.long, device="meta"))
    value.backward()
    assert value.device.type == "meta"
    assert z.grad.shape == shape
    good, y = random_problem(task, n=40, classes=4, dtype=torch.float32)
    assert loss(good, y).isfinite()  # nothing without values was kept


FAKE = """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    import softset as ss

    def at(x, index):
        dim = 0
        for i in index if isinstance(index, tuple) else (index,):
            if i is Ellipsis:
                dim = x.dim() - sum(k is not None for k in index) + 1
            elif i is None:
                x, dim = x.unsqueeze(dim), dim + 1
            elif isinstance(i, int):
                x = x.select(dim, i)
            else:
                x, dim = torch.ops.aten.slice(x, dim, i.start, i.stop), dim + 1
        return x

    # Brackets and ~ ask for the device itself, which a build for CPUs does not have.
    torch.Tensor.__getitem__, torch.Tensor.__invert__ = at, lambda x: x.eq(False)

    with FakeTensorMode(allow_non_fake_inputs=False), torch.no_grad():
        for task in ("binary", "multiclass", "multilabel"):
            shape = (64,) if task == "binary" else (64, 4)
            z = torch.zeros(shape, device="cuda:0")
            y = torch.zeros(shape[:1] if task == "multiclass" else shape, dtype=torch.long,
                            device="cuda:0")
            for metric in ss.METRICS:
                loss = ss.MetricLoss(metric, task=task)
                value = loss(z, y, torch.ones(64, device="cuda:0"))
                assert value.device == torch.device("cuda:0"), (task, metric)
                assert value.shape == (), (task, metric)
    print("all on cuda:0")
"""


def test_a_fake_gpu_goes_forward():
    """In a process of its own: with autograd PyTorch 2.13 aborts it."""
    command = [sys.executable, "-c", textwrap.dedent(FAKE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "all on cuda:0", done.stderr[-2000:]
