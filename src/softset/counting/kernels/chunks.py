"""Long problems in pieces, so that what a kernel of PyTorch makes in between stays small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# Elements in a chunk: small enough for the cache, large enough to hide the cost of a call.
CHUNK = 2**17


def chunks(size: int, dim: int, *tensors: Tensor | None) -> Iterator[Any]:
    """Tensors cut along ``dim``, side by side; nothing stays nothing."""
    count = -(-next(x.shape[dim] for x in tensors if x is not None) // size)
    if count <= 1:
        return iter([tensors])
    pieces = [[None] * count if x is None else torch.split(x, size, dim) for x in tensors]
    return zip(*pieces, strict=True)


def added(parts: list[Tensor]) -> Tensor:
    """The cells of all chunks."""
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def store(out: Tensor, g: Tensor) -> None:
    """Write a gradient; what half precision cannot hold becomes its largest number."""
    if out.dtype != g.dtype:
        limit = torch.finfo(out.dtype).max
        g = g.clamp(-limit, limit)
    out.copy_(g)


def vjp(output: Tensor, leaf: Tensor, adjoint: Tensor) -> Tensor:
    """The gradient of a chunk by autograd; zero where nothing depends on it."""
    if not output.requires_grad:
        return torch.zeros_like(leaf)
    (grad,) = torch.autograd.grad(output, leaf, adjoint)
    return grad
