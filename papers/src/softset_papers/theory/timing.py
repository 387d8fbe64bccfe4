"""What soft F1 costs (paper 000 section 6 and supplement 3): by the rows of a batch, and with the
step read from a table.

CPU time of one thread, of a value and its gradient, so that a busy machine hardly matters.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from softset.counting.steps import LinearStep
from softset.losses.soft_metric import MetricLoss
from softset_papers.theory.findings import Finding, at_most

TAU = 0.5
ENTRIES = 100  # of the table: p to two decimals
_CUBIC = 1.5  # a power below is nearer to linear than to quadratic


class LookedUp(torch.autograd.Function):
    """H and its slope by index: the whole of what the supplement proposes."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
        index = (p * ENTRIES).to(torch.int32)
        ctx.save_for_backward(index, slopes)
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        index, slopes = ctx.saved_tensors
        return grad * slopes.index_select(0, index), None, None


def tabulated(step: LinearStep) -> tuple[Tensor, Tensor]:
    """The table: the step and its slope at 0, 0.01, … 1."""
    p = torch.linspace(0, 1, ENTRIES + 1, requires_grad=True)
    h = step(p, TAU)
    (slope,) = torch.autograd.grad(h.sum(), p)
    return h.detach(), slope


def seconds(call: Callable[[Tensor], Tensor], leaf: Tensor) -> float:
    """CPU time of a value and its gradient."""
    started = time.process_time()
    torch.autograd.grad(call(leaf).sum(), leaf)
    return time.process_time() - started


def median_ratio(
    call: Callable[[Tensor], Tensor], base: Callable[[Tensor], Tensor], leaf: Tensor, rounds: int
) -> float:
    """Of the times of two calls that take turns; the median."""
    for each in (call, base):  # the first call is slower
        seconds(each, leaf)
    pairs = [(seconds(call, leaf), seconds(base, leaf)) for _ in range(rounds)]
    return statistics.median(a / b for a, b in pairs)


def _rows(n: int, seed: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, generator=g).requires_grad_()
    return z, (torch.rand(n, generator=g) < 0.1).float()


def check_runtime(seed: int = 0, sizes: tuple[int, int] = (100_000, 4_000_000)) -> list[Finding]:
    """000 supplement 3: the time of the loss is linear in the rows, and a batch has no limit."""
    loss, best, values = MetricLoss("f1"), [], []
    for n in sizes:
        z, y = _rows(n, seed)
        best.append(min(seconds(partial(loss, target=y), z) for _ in range(5)))
        values.append(float(loss(z, y).detach()))
    power = math.log(best[1] / best[0]) / math.log(sizes[1] / sizes[0])
    return [
        Finding(
            f"time of soft F1 and its gradient from {sizes[0]:,} to {sizes[1]:,} rows, as a power",
            f"≈ 1 (below {_CUBIC})",
            power,
            power < _CUBIC,
        ),
        Finding(
            f"soft F1 loss of a batch of {sizes[1]:,} rows", "in [0, 1]", values[1],
            0 <= values[1] <= 1,
        ),
    ]  # fmt: skip


def check_lookup(
    seed: int = 0, sizes: tuple[int, ...] = (65_536, 1_000_000), rounds: int = 15
) -> list[Finding]:
    """000 supplement 3: the step read from a table costs less than the step computed."""
    linear = LinearStep(0.1)
    values, slopes = tabulated(linear)
    loss, found = MetricLoss("f1", step=linear), []

    def table(p: Tensor) -> Tensor:
        return LookedUp.apply(p, values, slopes)  # type: ignore[no-untyped-call]

    def looked_up(z: Tensor, y: Tensor) -> Tensor:
        h = table(torch.sigmoid(z))
        return 1 - 2 * (h * y).sum() / (h.sum() + y.sum())

    for n in sizes:
        z, y = _rows(n, seed)
        p = torch.sigmoid(z.detach()).requires_grad_()
        step = median_ratio(table, lambda q: linear(q, TAU), p, rounds)
        found.append(at_most(f"time of the step from a table, {n:,} rows, over computed", 1, step))
    for n in sizes:
        z, y = _rows(n, seed)
        whole = median_ratio(partial(looked_up, y=y), partial(loss, target=y), z, rounds)
        found.append(
            Finding(
                f"time of the whole loss from a table, {n:,} rows, over MetricLoss",
                "any",
                whole,
                whole > 0,
            )
        )
    return found
