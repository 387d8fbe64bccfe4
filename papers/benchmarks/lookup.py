"""What soft F1 costs: with the step computed, or looked up in a table (paper 000 supplement, 3).

    python papers/benchmarks/lookup.py

The supplement proposes to truncate p to two decimals and to read H(p, τ) from a table. Here the
table has the slope of the step in a second column, so that the backward pass is a look-up too.
Timed are the step alone, as the median ratio to computing it with torch, and the loss from logits
to gradient, as the ratio to ``MetricLoss``; all on one thread. ``LookupStep``
exists to reproduce the paper's numbers and computes both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from softset.counting.steps import LinearStep
from softset.losses.soft_metric import MetricLoss
from softset_papers.networks.losses import LookupStep

TAU = 0.5
SIZE = 100  # two decimals


class Table(torch.autograd.Function):
    """H and its slope by index: the whole of what the supplement proposes."""

    @staticmethod
    def forward(ctx, p: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
        index = (p * SIZE).to(torch.int32)
        ctx.save_for_backward(index, slopes)
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        index, slopes = ctx.saved_tensors
        return grad * slopes.index_select(0, index), None, None


def tabulated(step) -> tuple[Tensor, Tensor]:
    """The table: the step and its slope at 0, 0.01, … 1."""
    p = torch.linspace(0, 1, SIZE + 1, requires_grad=True)
    h = step(p, TAU)
    (slope,) = torch.autograd.grad(h.sum(), p)
    return h.detach(), slope


def looked_up_f1(z: Tensor, y: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
    """``1 - soft F1`` with memberships from the table."""
    h = Table.apply(torch.sigmoid(z), values, slopes)
    return 1 - 2 * (h * y).sum() / (h.sum() + y.sum())


def seconds(call: Callable[[Tensor], Tensor], leaf: Tensor) -> float:
    """CPU time of a value and its gradient, so that a busy machine hardly matters."""
    started = time.process_time()
    torch.autograd.grad(call(leaf).sum(), leaf)
    return time.process_time() - started


def ratio(call, base, leaf: Tensor, rounds: int = 15) -> float:
    """Of the times of two calls, who take turns; the median."""
    for each in (call, base):  # warm
        seconds(each, leaf)
    pairs = [(seconds(call, leaf), seconds(base, leaf)) for _ in range(rounds)]
    return statistics.median(a / b for a, b in pairs)


def main() -> None:
    """Print the ratios for three sizes."""
    torch.set_num_threads(1)
    linear = LinearStep(0.1)
    values, slopes = tabulated(linear)
    steps = {
        "table": lambda p: Table.apply(p, values, slopes),
        "LookupStep": lambda p: LookupStep(linear)(p, TAU),
    }
    loss = MetricLoss("f1", step=linear)
    print("forward and backward; ratio of the step to LinearStep, of the loss to MetricLoss")
    print(f"{'n':>10}{'table':>9}{'LookupStep':>12}{'loss by table':>15}")
    for n in (1024, 65_536, 1_000_000):
        g = torch.Generator().manual_seed(0)
        p = torch.rand(n, generator=g).requires_grad_()
        z = torch.randn(n, generator=g).requires_grad_()
        y = (torch.rand(n, generator=g) < 0.1).float()
        each = [ratio(way, lambda q: linear(q, TAU), p) for way in steps.values()]
        whole = ratio(
            lambda s, y=y: looked_up_f1(s, y, values, slopes), lambda s, y=y: loss(s, y), z
        )
        print(f"{n:>10}{each[0]:>9.2f}{each[1]:>12.2f}{whole:>15.2f}")


if __name__ == "__main__":
    main()
