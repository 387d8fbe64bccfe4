from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import softset as ss
from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.choice import _is_uniform, _usual, grid_kernel, using
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.native.kernels import NativeBinary, NativeMulticlass
from softset.counting.kernels.native.library import native
from softset.counting.problem import _checked_grid
from softset.metrics.custom import _tried
from tests.reference import TASKS, random_problem


def test_the_module_is_the_function():
    for task in TASKS:
        z, y = random_problem(task)
        w = torch.rand(60)
        loss = ss.MetricLoss("f2", task=task, step=ss.SigmoidStep(5))
        assert loss(z, y, w) == ss.metric_loss(
            z, y, "f2", task=task, step=ss.SigmoidStep(5), sample_weight=w
        )
        c = loss.confusion(z, y)
        assert ss.FBeta(2)(c).item() == pytest.approx(1 - loss(z, y).item())
        assert not c.tp.requires_grad
    assert "'f2'" in repr(loss)


@pytest.mark.parametrize("metric", ss.METRICS)
def test_the_default_step_of_the_module_is_that_of_the_function(metric):
    for task in TASKS:
        z, y = random_problem(task)
        assert ss.MetricLoss(metric, task=task)(z, y) == ss.metric_loss(z, y, metric, task=task)


def test_default_steps_are_those_of_the_papers():
    assert ss.MetricLoss().step == ss.LinearStep(0.1)
    assert ss.MetricLoss(task="multilabel").step == ss.LinearStep(0.1)
    assert ss.MetricLoss(task="multiclass").step == ss.LinearStep(0.2, 1.0)


def test_smoothed_f_beta_of_seed_004():
    # eq. 24 in smoothed proportions equals F-beta of the counts with the identity step
    z, y = random_problem("binary")
    f, yes = torch.sigmoid(z), y == 1
    p, q0, q1 = yes.double().mean(), (1 - f[yes]).mean(), f[~yes].mean()
    for beta in (0.5, 1.0, 3.0):
        b = beta**2
        expected = (1 + b) * p * (1 - q0) / (p * (b + 1 - q0 - q1) + q1)
        got = 1 - ss.metric_loss(z, y, ss.FBeta(beta), step=ss.IdentityStep())
        torch.testing.assert_close(got, expected)


def test_a_batch_without_positives():
    z, y = torch.tensor([2.0, -1.0, 0.3], dtype=torch.float64), torch.zeros(3)
    h = ss.LinearStep()(torch.sigmoid(z), 0.5)
    assert ss.metric_loss(z, y).item() == pytest.approx(h.mean().item())
    ignoring = z.clone().requires_grad_()
    loss = ss.metric_loss(ignoring, y, empty="ignore")
    assert loss.item() == 0
    loss.backward()
    assert (ignoring.grad == 0).all()
    # of two labels, the one with support counts
    two, labels = torch.stack([z, z], 1), torch.tensor([[0, 1], [0, 0], [0, 1]])
    only = ss.metric_loss(z, labels[:, 1])
    assert ss.metric_loss(two, labels, task="multilabel", empty="ignore").item() == pytest.approx(
        only.item()
    )
    both = ss.metric_loss(two, labels, task="multilabel")
    assert both.item() == pytest.approx((only.item() + h.mean().item()) / 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "f11x"}, "not known"),
        ({"empty": "drop"}, "empty must be one of"),
        ({"task": "regression"}, "task must be one of"),
        ({"threshold": 1.0}, "threshold must be in"),
        ({"task": "multiclass", "threshold": 0.3}, "do not apply to task='multiclass'"),
        ({"metric": ss.F1(average=None)}, "average=None"),
        ({"metric": ss.MCC(average="micro"), "task": "multiclass"}, "does not apply to MCC"),
        ({"metric": ss.FBeta((1, 2))}, "beta has 2 values"),
    ],
)
def test_mistakes_are_found_when_the_loss_is_made(settings, message):
    with pytest.raises(ValueError, match=message):
        ss.MetricLoss(**settings)


# Every metric that is a function of two sums per class, with averages.
def test_it_trains():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=g)
    y = (x[:, 0] + 0.5 * torch.randn(400, generator=g) > 1.3).long()
    for metric in ("f1", "mcc", "balanced_accuracy", "auroc"):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        loss, optimizer = ss.MetricLoss(metric), torch.optim.Adam(model.parameters(), 0.1)
        before = ss.evaluate(model(x), y, metric, from_logits=True)
        for _ in range(100):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
        assert ss.evaluate(model(x), y, metric, from_logits=True) > max(before, 0.5)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("n", [50, 150_001])
def test_a_graph_can_be_walked_twice(task, n):
    """The gradient is written over what the forward pass left: a second walk must not see that."""
    generator = torch.Generator().manual_seed(0)
    classes = 3 if task == "multiclass" else 2
    y = torch.randint(0, classes, (n,), generator=generator)
    shape = (n, classes) if task == "multiclass" else (n,)
    z = torch.randn(shape, generator=generator).requires_grad_()
    loss = ss.metric_loss(z, y, "f1", task=task)
    (first,) = torch.autograd.grad(loss, z, retain_graph=True)
    before = first.clone()
    (second,) = torch.autograd.grad(loss, z)
    assert torch.equal(first, before)
    assert torch.equal(second, before)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("in_c", [True, False])
def test_a_batch_is_counted_once(task, labels, in_c, monkeypatch):
    """Also one without positives, of which the metric has no slopes in closed form."""
    if in_c and native() is None:
        pytest.skip("the kernels in C are not here")
    seen = []

    def watch(where, name):
        original = getattr(where, name)

        def watched(*args, **kwargs):
            seen.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(where, name, watched)

    loss = ss.MetricLoss("f1", task=task, ignore_index=-1)
    z, y = random_problem(task)
    y = y if labels else torch.full_like(y, -1 if task == "multiclass" else 0)
    for native_kernel, kernel in (
        (NativeBinary, BinaryKernel),
        (NativeMulticlass, MulticlassKernel),
    ):
        watch(native_kernel, "count_rows")
        watch(kernel, "counted")
    x = z.clone().requires_grad_()
    with nullcontext() if in_c else using("torch"):
        value = loss(x, y)
        value.backward()
    assert seen == ["count_rows" if in_c else "counted"]
    assert value.isfinite()


# what else may be learned


def numerically(f, x, h=1e-6):
    """Central differences."""
    slopes = torch.zeros_like(x)
    for k in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[k] = h
        slopes.view(-1)[k] = (f(x + step) - f(x - step)).item() / (2 * h)
    return slopes


LEARNT = {
    "sample_weight": torch.rand(60, dtype=torch.float64) + 0.5,
    "class_weight": torch.tensor([0.7, 1.3], dtype=torch.float64),
    "threshold": torch.tensor(0.37, dtype=torch.float64),
    "thresholds": torch.tensor([0.2, 0.37, 0.8], dtype=torch.float64),
}


@pytest.mark.parametrize("name", LEARNT)
@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc", "f1_macro"])
@pytest.mark.parametrize("step", [ss.LinearStep(), ss.SigmoidStep()])
def test_weights_and_thresholds_may_be_learnt(name, metric, step):
    """They had no gradient, and nobody was told."""
    if name == "threshold" and metric == "auroc":
        return  # it has none
    z, y = random_problem("binary")
    x = LEARNT[name].clone().requires_grad_()

    def loss(v):
        return ss.metric_loss(z, y, metric, step=step, **{name: v})

    (found,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(found, numerically(loss, LEARNT[name]), rtol=1e-5, atol=1e-8)
    both = z.clone().requires_grad_()
    (with_x,) = torch.autograd.grad(ss.metric_loss(both, y, metric, step=step, **{name: x}), both)
    alone = z.clone().requires_grad_()
    settings = {"step": step, name: LEARNT[name]}
    (without,) = torch.autograd.grad(ss.metric_loss(alone, y, metric, **settings), alone)
    torch.testing.assert_close(with_x, without, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("make", [
    lambda v: ss.LinearStep(v[0], v[1]),
    lambda v: ss.SigmoidStep(10 * v[1]),
    lambda v: lambda p, tau: torch.sigmoid(v[1] * (p - tau)) ** (1 + v[0]),
])  # fmt: skip
def test_steps_may_be_learnt(task, make):
    z, y = random_problem(task)
    start = torch.tensor([0.15, 0.9], dtype=torch.float64)
    x = start.clone().requires_grad_()

    def loss(v):
        return ss.metric_loss(z, y, "mcc", task=task, step=make(v))

    (found,) = torch.autograd.grad(loss(x), x)
    assert (found != 0).any()
    torch.testing.assert_close(found, numerically(loss, start), rtol=1e-4, atol=1e-7)


def test_thresholds_of_labels_may_be_learnt():
    z, y = random_problem("multilabel", classes=3)
    start = torch.tensor([0.3, 0.55, 0.8], dtype=torch.float64)
    x = start.clone().requires_grad_()

    def loss(v):
        return ss.metric_loss(z, y, "mcc", task="multilabel", threshold=v)

    (found,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(found, numerically(loss, start), rtol=1e-5, atol=1e-8)


def test_what_is_learnt_is_checked_as_well():
    x = torch.tensor([0.5, 0.5], requires_grad=True)
    with pytest.raises(ValueError, match="0 and 1 only"):
        ss.metric_loss(torch.zeros(2), torch.tensor([0, 2]), sample_weight=x)
    with pytest.raises(ValueError, match="first bad row is 1"):
        ss.metric_loss(torch.tensor([0.0, torch.nan]), torch.tensor([0, 1]), sample_weight=x)
    with pytest.raises(ValueError, match="threshold must be in"):
        ss.metric_loss(torch.zeros(2), torch.tensor([0, 1]), threshold=x.sum() + 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: ss.MetricLoss(class_weight=x),
        lambda x: ss.CrossEntropyLoss(class_weight=x),
        lambda x: ss.SurrogateFBetaLoss(x[0]),
        lambda x: ss.FBeta(x[0]),
    ],
)
def test_constants_of_a_loss_cannot_be_learnt(make):
    with pytest.raises(ValueError, match=r"detach\(\)"):
        make(torch.tensor([0.5, 0.5], requires_grad=True))


# without values


def cost(c):
    return 1 - (5 * c.fn + c.fp).sum() / c.total.sum()


def trace(c):
    return c.matrix.diagonal().sum() / c.total[0]


def on_meta():
    return torch.device("meta")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("metric", "where"),
    [(metric, on_meta) for metric in (*ss.METRICS, "f1_macro", cost, trace)]
    + [(metric, FakeTensorMode) for metric in ("f1", "mcc", "auroc", trace)],
)
def test_losses_without_values_leave_nothing_behind(metric, task, where):
    """Shapes go through, and what was remembered on the way does not come up later."""
    if task != "multiclass" and metric is trace:
        return
    z, y = random_problem(task, n=20)
    weights = [1.0, 2.0] if task == "binary" else [1.0, 2.0, 3.0, 4.0]
    for memory in (_usual, _is_uniform, grid_kernel, _checked_grid):
        memory.cache_clear()
    _tried.clear()
    with where():
        loss = ss.MetricLoss(metric, task=task, class_weight=weights)
        empty = torch.zeros(z.shape, requires_grad=True)
        value = loss(empty, torch.zeros(y.shape).long(), torch.ones(20))
        value.backward()
        assert value.shape == ()
        assert empty.grad.shape == z.shape
    x = z.clone().requires_grad_()
    ss.metric_loss(x, y, metric, task=task, class_weight=weights).backward()
    assert x.grad.isfinite().all()
    if where is not FakeTensorMode:
        with where():  # real scores, in a place where new tensors have no values
            loss = ss.MetricLoss(metric, task=task, class_weight=weights)
            again = z.clone().requires_grad_()
            loss(again, y).backward()
            ss.evaluate(z, y, metric, task=task, from_logits=True)
        torch.testing.assert_close(again.grad, x.grad)


def test_a_loss_warns_once_of_scores_that_look_like_probabilities():
    p, y = torch.linspace(0, 1, 20), torch.arange(20) % 2
    loss = ss.MetricLoss("f1")
    loss(p, y)  # so few may be so by chance
    with pytest.warns(UserWarning, match="from_logits=False if they are probabilities"):
        loss(p, y)
    loss(p, y)  # once
    for quiet in (ss.MetricLoss("f1", from_logits=True), ss.MetricLoss("f1", from_logits=False)):
        quiet(p.repeat(2), y.repeat(2))
    started = ss.MetricLoss("f1")
    started(3 * p - 1, y)  # logits; later ones are not looked at
    started(p.repeat(2), y.repeat(2))
