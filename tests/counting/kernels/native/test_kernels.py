"""The kernels in C against the plain composition: where the two largest of a row are easy or hard
to tell apart, wherever scores lie, and with everything that is left out or weighed."""

from __future__ import annotations

import math

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import softset as ss
from softset.counting.kernels.choice import using
from softset.counting.kernels.native.kernels import NativeBinary, NativeMulticlass
from softset.counting.kernels.native.library import native

pytestmark = pytest.mark.skipif(native() is None, reason="the kernels in C are not built")

KINDS = ("plain", "ties below", "ties at the top", "all equal", "saturated", "minus infinity")
STEPS = [
    ss.LinearStep.at_temperature(0.15),
    ss.LinearStep(0.0, 0.3),
    ss.LinearStep(0.5, 1.9),
    ss.SigmoidStep(7.0),
    ss.IdentityStep(),
]
NEAR = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-13},
    torch.float32: {"rtol": 2e-5, "atol": 2e-6},
}


def scores(kind: str, rows: int, classes: int, dtype: torch.dtype) -> torch.Tensor:
    z = torch.randn(rows, classes, generator=torch.Generator().manual_seed(classes), dtype=dtype)
    if kind == "ties below":
        z = z.clamp(max=0.5)
        z[:, 0] = 2.0
    elif kind == "ties at the top":
        z = z.clamp(max=0.5)
    elif kind == "all equal":
        z = torch.zeros_like(z)
    elif kind == "saturated":
        z[:, 0] = 5000.0
    elif kind == "minus infinity":
        z[:, 1] = -math.inf
    return z


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_several_classes_are_counted_as_by_the_composition(kind, dtype):
    for classes in (2, 3, 17, 64, 257):
        for step in STEPS:
            check_several_classes(kind, classes, step, dtype)


def check_several_classes(kind, classes, step, dtype):
    """At a tie any of the equal ones may be the second: the gradient has the same sum."""
    z = scores(kind, 133, classes, dtype)  # two blocks and a part of one
    y = torch.arange(133) % classes
    w = torch.rand(133, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = NativeMulticlass(step, True, dtype)
    leaf = z.clone().requires_grad_()
    cells = kernel.compose(leaf, y, w)
    tp, fp = cells[:2]
    by_tp = torch.linspace(-1, 1, classes, dtype=torch.float64)
    by_fp = torch.linspace(0, 2, classes, dtype=torch.float64) ** 2
    (wanted,) = torch.autograd.grad((tp * by_tp + fp * by_fp).sum(), leaf)
    counts = kernel.count_rows(kernel.rows(z, y, w))
    assert counts is not None
    for found, truth in zip(counts, cells, strict=True):
        torch.testing.assert_close(found, truth.detach(), **NEAR[dtype])
    gradient = kernel.gradient(z, y, w, by_tp, by_fp)
    assert gradient.isfinite().all()
    if kind in ("plain", "saturated"):
        torch.testing.assert_close(gradient, wanted, **NEAR[dtype])
    # a shift of all scores changes nothing
    assert gradient.sum(1).abs().max() < (1e-4 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("step", STEPS, ids=repr)
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_the_rounding_of_many_classes_does_not_add_up(step, spread):
    """What the rows give to all classes is their weight, exactly."""
    z = torch.randn(20, 30_000, generator=torch.Generator().manual_seed(0)) * spread
    y = z.topk(3).indices[torch.arange(20), torch.arange(20) % 3]
    w = torch.rand(20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = NativeMulticlass(step, True, torch.float64)
    leaf = z.double().requires_grad_()
    wanted = exact.compose(leaf, y, w)
    found = NativeMulticlass(step, True, torch.float32).count(z, y, w)
    torch.testing.assert_close(found[:2].sum(), w.sum(), rtol=1e-12, atol=0)
    torch.testing.assert_close(found.sum(), 30_000 * w.sum(), rtol=1e-12, atol=0)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() < 1e-6 * other.abs().max()
    by = torch.linspace(-1, 1, 30_000, dtype=torch.float64)
    (slope,) = torch.autograd.grad((wanted[0] + wanted[1] * by).sum(), leaf)
    ours = NativeMulticlass(step, True, torch.float32).gradient(z, y, w, torch.ones_like(by), by)
    assert (ours - slope).abs().max() <= 1e-4 * slope.abs().max()


@pytest.mark.parametrize("step", [ss.LinearStep(0.1), *STEPS[1:]], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(133,), (5, 40), (2, 3, 70)])
@pytest.mark.parametrize("grid", [(0.5,), (0.03, 0.3, 0.98)])
def test_one_class_is_counted_as_by_the_composition(step, dtype, shape, grid):
    generator = torch.Generator().manual_seed(3)
    z = torch.randn(shape, generator=generator, dtype=dtype) * 4
    z.view(-1)[:4] = torch.tensor([-300.0, 300.0, -20.0, 20.0])
    y = (torch.rand(shape, generator=generator) < 0.3).long()
    w = torch.rand(shape, generator=generator, dtype=torch.float64)
    kernel = NativeBinary(step, grid, len(grid) > 1, True, dtype)
    leaf = z.double().requires_grad_()
    exact = NativeBinary(step, grid, len(grid) > 1, True, torch.float64)
    cells = exact.compose(leaf, y, w)
    tp, fp = cells[:2]
    by_tp = torch.linspace(-1, 1, tp.numel(), dtype=torch.float64).reshape(tp.shape)
    by_fp = by_tp.flip(-1) if by_tp.dim() else by_tp + 0.5
    (wanted,) = torch.autograd.grad((tp * by_tp + fp * by_fp).sum(), leaf)
    counts = kernel.count(z, y, w)
    for found, truth in zip(counts, cells, strict=True):
        torch.testing.assert_close(found, truth.detach(), **NEAR[dtype])
    gradient = kernel.gradient(z, y, w, by_tp, by_fp)
    torch.testing.assert_close(gradient, wanted.to(dtype), **NEAR[dtype])


def gradient(loss, z, y, w=None):
    x = z.detach().requires_grad_()
    value = loss(x, y, w)
    return value.detach(), torch.autograd.grad(value, x)[0]


def layouts(z):
    """The same numbers in several places."""
    yield "contiguous", z.contiguous()
    if z.dim() == 4:
        yield "channels last", z.contiguous(memory_format=torch.channels_last)
        larger = torch.full((*z.shape[:3], z.shape[3] + 3), 77, dtype=z.dtype)
        larger[..., : z.shape[3]] = z
        yield "cropped", larger[..., : z.shape[3]]
    twice = torch.full((*z.shape[:-1], 2 * z.shape[-1]), 77, dtype=z.dtype)
    twice[..., ::2] = z
    yield "every other", twice[..., ::2]
    yield "transposed", z.transpose(0, -1).contiguous().transpose(0, -1)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("shape", [(70, 5), (2, 5, 9, 11), (2, 5, 3, 130), (3, 5, 7)])
@pytest.mark.parametrize("ignore", [None, 255])
@pytest.mark.parametrize("weights", [None, "rows", "positions"])
def test_wherever_scores_and_labels_lie(task, shape, ignore, weights):
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(shape, generator=generator)
    positions = shape[:1] + shape[2:]
    several = task == "multiclass"
    labels = positions if several else shape
    y = torch.randint(0, 5 if several else 2, labels, generator=generator)
    if ignore is not None:
        y.view(-1)[::7] = ignore
    w = None
    if weights is not None:
        w = torch.rand(shape[:1] if weights == "rows" else shape if task == "binary" else positions,
                       generator=generator)  # fmt: skip
    loss = ss.MetricLoss("f1", task=task, ignore_index=ignore)
    with using("torch"):
        wanted, slope = gradient(loss, z.double(), y, w)
    first = None
    for name, scores in layouts(z):
        for _, labels in layouts(y):
            value, found = gradient(loss, scores, labels, w)
            first = (value, found) if first is None else first
            torch.testing.assert_close(value, first[0], rtol=1e-6, atol=0, msg=name)
            torch.testing.assert_close(found, first[1], rtol=1e-5, atol=1e-9, msg=name)
    assert first is not None
    torch.testing.assert_close(first[0].double(), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(first[1].double(), slope, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("metric", ["auroc", "average_precision", "dice"])
@pytest.mark.parametrize("per", ["batch", "image"])
def test_narrow_crops_fill_their_blocks(metric, per):
    """A block goes on in the next row: with 5 positions a row it has parts of 13 rows."""
    z = torch.randn(2, 1, 40, 5, generator=torch.Generator().manual_seed(0))
    y = (z + torch.randn(z.shape, generator=torch.Generator().manual_seed(1)) > 1).long()
    loss = ss.MetricLoss(metric, per=per)
    with using("torch"):
        wanted, slope = gradient(loss, z, y)
    for name, scores in layouts(z):
        value, found = gradient(loss, scores, y)
        torch.testing.assert_close(value, wanted, rtol=1e-5, atol=1e-6, msg=name)
        torch.testing.assert_close(found, slope, rtol=1e-3, atol=1e-7, msg=name)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8, torch.float32, torch.bool])
def test_labels_of_every_type(kind):
    z, y = torch.randn(100), torch.arange(100) % 3 == 0
    wanted = gradient(ss.MetricLoss("mcc"), z, y.long())
    found = gradient(ss.MetricLoss("mcc"), z, y.to(kind))
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_what_is_left_out_may_be_anything(task):
    z = torch.randn(70, 4) if task == "multiclass" else torch.randn(70)
    y = torch.arange(70) % (4 if task == "multiclass" else 2)
    keep = torch.arange(70) % 3 != 0
    loss = ss.MetricLoss("mcc", task=task, ignore_index=-1)
    wanted, slope = gradient(loss, z[keep], y[keep])
    z[~keep], y[~keep] = math.nan, -1
    value, found = gradient(loss, z, y)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(found[keep], slope)
    assert (found[~keep] == 0).all()


BAD = [
    ("multiclass", {"z": math.nan}, "scores must not be NaN: the first bad row is 66"),
    ("multiclass", {"z": math.inf}, "the largest score of a row must be finite, got inf"),
    ("multiclass", {"y": 9}, "target must hold classes 0 to 3"),
    ("multiclass", {"y": -1}, "Set ignore_index=-1"),
    ("multiclass", {"w": -1.0}, "sample_weight must be finite and not negative"),
    ("multiclass", {"w": math.nan}, "sample_weight must be finite and not negative"),
    ("binary", {"z": math.nan}, "scores must not be NaN: the first bad row is 66"),
    ("binary", {"y": 2}, "target must hold 0 and 1 only, got 2"),
    ("binary", {"w": math.inf}, "sample_weight must be finite and not negative"),
]


@pytest.mark.parametrize(("task", "bad", "message"), BAD)
@pytest.mark.parametrize("in_c", [True, False])
def test_what_is_refused(task, bad, message, in_c):
    """With the same words, whichever kernel is asked."""
    rows = {
        "z": torch.randn(70, 4) if task == "multiclass" else torch.randn(70),
        "y": torch.arange(70) % (4 if task == "multiclass" else 2),
        "w": torch.ones(70),
    }
    for name, value in bad.items():
        rows[name][66] = value
    loss = ss.MetricLoss("f1", task=task)
    if not in_c:
        with using("torch"), pytest.raises(ValueError, match=message):
            loss(rows["z"], rows["y"], rows["w"])
        return
    with pytest.raises(ValueError, match=message):
        loss(rows["z"], rows["y"], rows["w"])


@pytest.mark.parametrize("metric", ["f1", "mcc", lambda c: c.tp.sum() / c.predicted.sum()])
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_second_derivatives_are_those_of_the_composition(metric, task):
    z = torch.randn(12, 3, dtype=torch.float64) if task != "binary" else torch.randn(12).double()
    y = torch.arange(12) % 3 if task == "multiclass" else (torch.rand(z.shape) < 0.5).long()
    loss = ss.MetricLoss(metric, task=task, step=ss.SigmoidStep())
    x = z.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(x, y), x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x)
    with using("torch"):
        (plain,) = torch.autograd.grad(loss(x, y), x, create_graph=True)
        (wanted,) = torch.autograd.grad((plain**2).sum(), x)
    torch.testing.assert_close(first, plain, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(second, wanted, rtol=1e-9, atol=1e-12)


def test_scores_that_were_changed_in_between_are_refused():
    z = torch.randn(50, requires_grad=True)
    x = z * 1
    loss = ss.MetricLoss("f1")(x, torch.arange(50) % 2)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_nothing_is_made_but_the_gradient(task):
    """An image of 2 MB, with ignored pixels and weights."""
    z = torch.randn(2, 4, 256, 256, requires_grad=True)
    shape = (2, 256, 256) if task == "multiclass" else z.shape
    y = torch.randint(0, 2, shape)
    y[:, :20] = 255
    w = torch.rand(z.shape if task == "binary" else (2, 256, 256))
    loss = ss.MetricLoss("jaccard", task=task, ignore_index=255)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss(z, y, w).backward()
    large = [e for e in seen.events() if e.self_cpu_memory_usage >= 2**16 and not e.cpu_children]
    assert len(large) == 1


def test_the_same_numbers_every_time():
    z, y = torch.randn(5000, 11), torch.randint(0, 11, (5000,))
    loss = ss.MetricLoss("mcc", task="multiclass")
    first = gradient(loss, z, y)
    for _ in range(3):
        again = gradient(loss, z, y)
        assert torch.equal(first[0], again[0])
        assert torch.equal(first[1], again[1])
