"""Scores to soft counts in one pass, with the gradient in closed form.

A loss depends on the data only through a few sums per class. So each kernel does two things:
``count`` reduces scores to those sums, and ``gradient`` turns the derivatives of the loss by the
sums into the gradient by the scores, chunk by chunk, so that temporaries stay in the cache and
memory does not grow with thresholds. ``compose`` is the same computation in plain differentiable
PyTorch: it serves second derivatives, ``torch.compile``, ``torch.func`` transforms, and weights,
thresholds and steps that are learnt. It is the truth: a kernel that disagrees with it is wrong.

Layout. Binary and multilabel: scores ``[*lead, N]``, one problem for each index of ``lead``.
Multiclass: scores ``[*lead, N, C]``. Sums are ``[*lead]`` or ``[*lead, C]``, in float64.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from softset.counting.numerics import full_precision, raised, under_transform, working

Counts = tuple[Tensor, Tensor, Tensor, Tensor]  # tp, predicted, support, total


class Kernel(Protocol):
    """What counts: one file for each, and ``choice`` says which is used when."""

    dtype: torch.dtype  # of elementwise work

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        """The counts in plain PyTorch, differentiable in everything."""

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        """The counts. Refuses scores that are not numbers, and stray labels."""

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        """The derivative by ``z``, from those by ``tp`` and ``predicted``."""


def count(kernel: Kernel, z: Tensor, y: Tensor, w: Tensor | None, plain: bool = False) -> Counts:
    """``tp, predicted, support, total`` of scores ``z``, differentiable in ``z``; in all that the
    kernel is made of if they are to be ``plain``."""
    if plain or under_transform(z, y, w):
        with full_precision(z):
            return kernel.compose(raised(z, working(z)), y, w)
    with full_precision(z):
        counts = kernel.count(z.detach(), y, w)
    tp, predicted = _Fused.apply(z, y, w, kernel, counts[:2])  # type: ignore[no-untyped-call]
    return tp, predicted, counts[2], counts[3]


class _Fused(torch.autograd.Function):
    """``tp`` and ``predicted``, which are known already, and their gradient."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Any, kernel: Kernel, counts: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        ctx.kernel = kernel
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, y, w)
        return counts

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor | None) -> Any:
        z, y, w = ctx.saved_tensors
        d_tp, d_pred = adjoint
        known = d_pred if d_tp is None else d_tp
        if known is None:
            return (None,) * 5
        d_tp = torch.zeros_like(known) if d_tp is None else d_tp
        d_pred = torch.zeros_like(known) if d_pred is None else d_pred
        with full_precision(z):
            if torch.is_grad_enabled() or under_transform(known):
                # A second derivative is wanted: differentiate the plain composition instead.
                with torch.enable_grad():
                    outputs = ctx.kernel.compose(z, y, w)[:2]
                (grad,) = torch.autograd.grad(outputs, z, (d_tp, d_pred), create_graph=True)
            else:
                grad = ctx.kernel.gradient(z, y, w, d_tp, d_pred)
        return grad, *[None] * 4
