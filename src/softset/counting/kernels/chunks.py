"""Long problems in pieces, so that what a kernel of PyTorch makes in between stays small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.interface import Counts

# Elements in a chunk: small enough for the cache, large enough to hide the cost of a call.
CHUNK = 2**17


def chunks(size: int, dim: int, *tensors: Tensor | None) -> Iterator[Any]:
    """Tensors cut along ``dim``, side by side; nothing stays nothing."""
    count = -(-next(x.shape[dim] for x in tensors if x is not None) // size)
    if count <= 1:
        return iter([tensors])
    pieces = [[None] * count if x is None else torch.split(x, size, dim) for x in tensors]
    return zip(*pieces, strict=True)


def added(parts: list[Counts]) -> Counts:
    """The counts of all chunks."""
    tp, predicted, support, total = (
        each[0] if len(parts) == 1 else torch.stack(each).sum(0)
        for each in zip(*parts, strict=True)
    )
    return tp, predicted, support, total


def total_of(w: Tensor | None, n: int, like: Tensor) -> Tensor:
    """The weight of all ``n`` rows, in the shape of ``like``."""
    return torch.full_like(like, n) if w is None else w.sum(-1).expand_as(like)


def store(out: Tensor, g: Tensor) -> None:
    """Write a gradient; what half precision cannot hold becomes its largest number."""
    if out.dtype != g.dtype:
        limit = torch.finfo(out.dtype).max
        g = g.clamp(-limit, limit)
    out.copy_(g)


def vjp(outputs: tuple[Tensor, ...], leaf: Tensor, adjoint: tuple[Tensor, ...]) -> Tensor:
    """The gradient of a chunk by autograd; zero where nothing depends on it."""
    live = [(o, a) for o, a in zip(outputs, adjoint, strict=True) if o.requires_grad]
    if not live:
        return torch.zeros_like(leaf)
    (grad,) = torch.autograd.grad([o for o, _ in live], leaf, [a for _, a in live])
    return grad
