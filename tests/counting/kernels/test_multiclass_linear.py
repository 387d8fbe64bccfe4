"""The closed form for several classes against the plain composition, where the two largest of a row
are easy or hard to tell apart."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch

import softset as ss
from softset.counting.kernels import multiclass, multiclass_linear
from softset.counting.kernels.multiclass_linear import (
    MulticlassLinearKernel,
    _are_pairs,
    _numbers,
    _places,
    _top_two,
)

KINDS = ("plain", "ties below", "ties at the top", "all equal", "saturated")
SIZES = (2, 3, 63, 64, 257)


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
    return z


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", SIZES)
@pytest.mark.parametrize(("chunk", "block"), [(2**18, 2**16), (100, 2**16), (100, 9)])
def test_counts_and_gradient_are_those_of_the_composition(kind, classes, chunk, block, monkeypatch):
    """At a tie any of the equal ones may be the second: the gradient has the same sum."""
    monkeypatch.setattr(multiclass, "CHUNK", chunk)
    monkeypatch.setattr(multiclass_linear, "ROWS", block)
    z = scores(kind, 23, classes, torch.float64)
    y = torch.arange(23) % classes
    w = torch.rand(23, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = MulticlassLinearKernel(ss.LinearStep.at_temperature(0.15), torch.float64)
    leaf = z.clone().requires_grad_()
    tp, predicted, *_ = kernel.compose(leaf, y, w)
    by_tp, by_predicted = (
        torch.linspace(-1, 1, classes).double(),
        torch.linspace(0, 2, classes) ** 2,
    )
    (wanted,) = torch.autograd.grad((tp * by_tp + predicted * by_predicted).sum(), leaf)
    counts, left = kernel.count(z, y, w, keep=True)
    torch.testing.assert_close(counts[0], tp.detach(), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(counts[1], predicted.detach(), rtol=1e-12, atol=1e-13)
    gradient = kernel.gradient(z, y, w, left, by_tp, by_predicted.double())
    if kind in ("plain", "saturated"):
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-13)
    torch.testing.assert_close(gradient.sum(1), wanted.sum(1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [3, 100])
@pytest.mark.parametrize(("chunk", "block"), [(2**18, 2**16), (1000, 2**16), (1000, 16)])
@pytest.mark.parametrize("lead", [(1,), (3,), (2, 2)])
@pytest.mark.parametrize("own_step", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_many_problems_at_once_are_each_one(
    classes, chunk, block, lead, own_step, tied, monkeypatch
):
    """In one chunk and in several, with a step for all and with one for each."""
    monkeypatch.setattr(multiclass, "CHUNK", chunk)
    monkeypatch.setattr(multiclass_linear, "ROWS", block)
    count = math.prod(lead)
    z = torch.stack([scores("plain", 40, classes, torch.float64) / (k + 1) for k in range(count)])
    z = z.round(decimals=1) if tied else z
    y = torch.arange(40 * count).reshape(count, 40) % classes
    delta, width = (
        torch.linspace(low, high, count).double() for low, high in ((0.1, 0.2), (0.5, 1.5))
    )
    step = ss.LinearStep.at_temperature(0.2)
    steps = ss.LinearStep(delta.reshape(lead), width.reshape(lead)) if own_step else step
    many = z.reshape(*lead, 40, classes).requires_grad_()
    together = ss.metric_loss(
        many, y.reshape(*lead, 40), task="multiclass", step=steps, batch_dims=len(lead)
    )
    (gradient,) = torch.autograd.grad(together.sum(), many)
    for k in range(count):
        if own_step:
            step = ss.LinearStep(delta[k].item(), width[k].item())
        one = z[k].clone().requires_grad_()
        alone = ss.metric_loss(one, y[k], task="multiclass", step=step)
        torch.testing.assert_close(together.flatten()[k], alone, rtol=1e-12, atol=0)
        (wanted,) = torch.autograd.grad(alone, one)
        got = gradient.reshape(z.shape)[k]
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("classes", [2, 3, 2048, 2049, 5000])
@pytest.mark.parametrize("dim", [-1, -2])
def test_the_places_of_the_two_largest(classes, dim):
    """In float32, with as many classes as sums of squares are exact for, and more."""
    z = scores("plain", 300, classes, torch.float32)
    z = z if dim == -1 else z.mT.contiguous()
    e = (z - z.amax(dim, keepdim=True)).exp()
    e2, sums = torch.empty(300), torch.empty(2, 300)
    _top_two(e, dim, e2, sums, torch.empty_like(e))
    assert _are_pairs(sums, classes)
    first, second = _places(e, dim, sums)
    wanted = z.topk(2, dim).indices.unbind(dim)
    assert torch.equal(first, wanted[0])
    assert torch.equal(second, wanted[1])
    torch.testing.assert_close(e2, e.topk(2, dim).values.unbind(dim)[1])


@pytest.mark.parametrize("classes", [3, 64, 3000])
def test_a_tie_or_nan_in_one_row_is_seen(classes):
    for spoilt in ("ties below", "ties at the top", "nan"):
        z = scores("plain", 5, classes, torch.float32)
        z[3] = scores(spoilt, 5, classes, torch.float32)[3]
        z[3, 1:] = z[3, 1] if spoilt == "ties below" else z[3, 1:]
        z[3, :2] = 9.0 if spoilt == "ties at the top" else z[3, :2]
        z[3, 0] = float("nan") if spoilt == "nan" else z[3, 0]
        e = (z - z.amax(-1, keepdim=True)).exp()
        e2, sums = torch.empty(5), torch.empty(2, 5)
        _top_two(e, -1, e2, sums, torch.empty_like(e))
        assert not _are_pairs(sums, classes)
        assert _are_pairs(sums[:, :3], classes)


def test_two_numbers_never_add_up_to_three():
    number, _ = _numbers(7, torch.float64)
    two = [float(number[i] + number[j]) for i in range(7) for j in range(i)]
    three = [float(number[i] + number[j] + number[k]) for i in range(7) for j in range(i)
             for k in range(j)]  # fmt: skip
    assert min(two) >= 4 * 7
    assert max(two) < 6 * 7 <= min(three)
    assert float(number.max()) < 4 * 7


ROUGH = """
import torch, softset as ss
torch.manual_seed(0)
z, y = torch.randn(300, 70), torch.randint(0, 70, (300,))

def gradient():
    x = z.clone().requires_grad_()
    ss.metric_loss(x, y, task="multiclass").backward()
    many = torch.stack([z, z]).requires_grad_()
    ss.metric_loss(many, y, task="multiclass", batch_dims=1).sum().backward()
    return torch.cat([x.grad, *many.grad])

wanted = gradient()
torch.set_float32_matmul_precision("medium")
assert torch.equal(gradient(), wanted)
assert torch.get_float32_matmul_precision() == "medium"
"""


def test_products_stay_exact_where_rough_ones_are_allowed():
    """In a process of its own: the setting is global, and some machines fail at rough products."""
    command = [sys.executable, "-c", ROUGH]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
