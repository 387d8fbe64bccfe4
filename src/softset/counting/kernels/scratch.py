"""Scratch memory that chunks share, and arithmetic in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor


def untracked(many: bool = True) -> AbstractContextManager[object]:
    """For the many calls of a closed form: what autograd notes of each is a tenth of its time.

    Tensors made in here have no place in a graph: a gradient is made before, counts are copied.
    """
    return torch.inference_mode() if many else nullcontext()


@contextmanager
def exact_products(z: Tensor) -> Iterator[None]:
    """Products of float32 are float32, whatever ``torch.set_float32_matmul_precision`` allows:
    sums of numbers that stand for classes must be exact."""
    backend: Any = torch.backends.cuda if z.is_cuda else torch.backends.mkldnn
    setting: Any = getattr(backend, "matmul", None)
    before = getattr(setting, "fp32_precision", "ieee")  # older versions do not tell
    if before in ("none", "ieee"):
        yield
        return
    setting.fp32_precision = "ieee"
    try:
        yield
    finally:
        setting.fp32_precision = before


class Room:
    """Scratch space that the chunks of a pass share: fresh memory costs more than arithmetic.

    ``dim`` is the one that the last chunk may be shorter in. With a single chunk there is nothing
    to share, and PyTorch makes its results itself.
    """

    def __init__(self, chunks: int, dim: int = -1) -> None:
        self.shared, self.dim = chunks > 1, dim
        self.held: dict[str, Tensor] = {}

    def __call__(self, name: str, like: Tensor, dtype: torch.dtype | None = None) -> Any:
        """A tensor of the shape of ``like`` with any content; the same memory for the same name."""
        if not self.shared:
            return None
        held = self.held.get(name)
        if held is None:
            held = self.held[name] = torch.empty_like(like, dtype=dtype)
        full = held.shape == like.shape
        return held if full else held.narrow(self.dim, 0, like.shape[self.dim])

    def make(self, name: str, like: Tensor) -> Tensor:
        """The same, with memory of its own where nothing is shared."""
        return self(name, like) if self.shared else torch.empty_like(like)

    def cast(self, name: str, x: Tensor, dtype: torch.dtype) -> Tensor:
        """``x`` in another dtype; itself if there is nothing to do."""
        if x.dtype is dtype:
            return x
        return self(name, x, dtype).copy_(x) if self.shared else x.to(dtype)


def chunks(size: int, dim: int, *tensors: Tensor | None) -> Iterator[Any]:
    """Tensors cut along ``dim``, side by side; nothing stays nothing."""
    count = -(-next(x.shape[dim] for x in tensors if x is not None) // size)
    if count <= 1:
        return iter([tensors])
    pieces = [[None] * count if x is None else torch.split(x, size, dim) for x in tensors]
    return zip(*pieces, strict=True)


def room_for_gradient(z: Tensor, left: Tensor | None) -> Tensor:
    """Where the gradient of ``z`` goes: what was left for it, if that has its kind and shape."""
    if left is not None and left.dtype == z.dtype and left.shape == z.shape:
        return left
    return torch.empty_like(z, memory_format=torch.contiguous_format)


def affine(x: Tensor, scale: Any, shift: Any, out: Tensor | None = None) -> Tensor:
    """``scale x + shift``; in one pass where the two are numbers."""
    if isinstance(scale, float):
        if not isinstance(shift, Tensor):
            shift = torch.scalar_tensor(shift, dtype=x.dtype, device=x.device)
        return torch.add(shift, x, alpha=scale, out=out)
    return torch.mul(x, scale, out=out).add_(shift)


def axpy(x: Tensor, y: Tensor, c: Any) -> Tensor:
    """``x + c y``, in place."""
    return x.addcmul_(y, c) if isinstance(c, Tensor) else x.add_(y, alpha=c)


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
