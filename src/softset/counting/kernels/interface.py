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

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from softset.counting.numerics import full_precision, raised, under_transform, working

Counts = tuple[Tensor, Tensor, Tensor, Tensor]  # tp, predicted, support, total
Slopes = Callable[[Tensor, Tensor, Tensor], tuple[Any, ...] | None]


class Kernel(Protocol):
    """What counts: one file for each, and ``choice`` says which is used when."""

    dtype: torch.dtype  # of elementwise work
    closed_form: bool  # whether ``gradient`` needs no autograd, and takes numbers for derivatives

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        """The counts in plain PyTorch, differentiable in everything."""

    def count(self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False) -> Any:
        """The counts, and with ``keep`` what ``gradient`` may use (and overwrite: fresh memory
        costs more than arithmetic). Refuses scores that are not numbers, and stray labels."""

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Any, d_pred: Any
    ) -> Tensor:
        """The derivative by ``z``, from those by ``tp`` and ``predicted``; ``left`` is what
        ``count`` left, or nothing."""


class Tally(NamedTuple):
    """What a kernel has counted, not yet part of a graph."""

    kernel: Kernel
    z: Tensor
    y: Tensor
    w: Tensor | None
    counts: Counts
    left: Any


def tally(kernel: Kernel, z: Tensor, y: Tensor, w: Tensor | None) -> Tally:
    """Count. Once: ``differentiable`` or ``linearised_loss`` puts the result into a graph."""
    with full_precision(z):
        counts, left = kernel.count(z.detach(), y, w, z.requires_grad and torch.is_grad_enabled())
    return Tally(kernel, z, y, w, counts, left)


def differentiable(counted: Tally) -> Counts:
    """The counts, differentiable in ``z``."""
    kernel, z, y, w, counts, left = counted
    own = [c.clone() if c.is_inference() else c for c in counts]
    tp, predicted = _Fused.apply(z, y, w, kernel, own[:2], left)  # type: ignore[no-untyped-call]
    return tp, predicted, own[2], own[3]


def count(kernel: Kernel, z: Tensor, y: Tensor, w: Tensor | None, plain: bool = False) -> Counts:
    """``tp, predicted, support, total`` of scores ``z``, differentiable in ``z``; in all that the
    kernel is made of if they are to be ``plain``."""
    if plain or under_transform(z, y, w):
        with full_precision(z):
            return kernel.compose(raised(z, working(z)), y, w)
    return differentiable(tally(kernel, z, y, w))


class _Fused(torch.autograd.Function):
    """``tp`` and ``predicted``, which are known already, and their gradient."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Any, kernel: Kernel, counts: list[Tensor], left: Any
    ) -> tuple[Tensor, ...]:
        ctx.kernel, ctx.left = kernel, left
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, y, w)
        return tuple(counts)

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor | None) -> Any:
        z, y, w = ctx.saved_tensors
        d_tp, d_pred = adjoint
        known = d_pred if d_tp is None else d_tp
        if known is None:
            return (None,) * 6
        d_tp = torch.zeros_like(known) if d_tp is None else d_tp
        d_pred = torch.zeros_like(known) if d_pred is None else d_pred
        with full_precision(z):
            if torch.is_grad_enabled() or under_transform(known):
                # A second derivative is wanted: differentiate the plain composition instead.
                with torch.enable_grad():
                    outputs = ctx.kernel.compose(z, y, w)[:2]
                (grad,) = torch.autograd.grad(outputs, z, (d_tp, d_pred), create_graph=True)
            else:
                grad = ctx.kernel.gradient(z, y, w, _taken(ctx, z, y, w), d_tp, d_pred)
        return grad, *[None] * 5


def _taken(ctx: Any, z: Tensor, y: Tensor, w: Tensor | None) -> Any:
    """What ``count`` left, which is gone after this; if it is gone already, once more."""
    left, ctx.left = ctx.left, None
    return ctx.kernel.count(z, y, w, True)[1] if left is None else left


class _Linearised(torch.autograd.Function):
    """One minus a metric whose derivatives by ``tp`` and ``predicted`` are known.

    The few numbers of a small batch, or of many classes, cost more in autograd than its rows do.
    ``again`` is the loss of the plain composition, for second derivatives.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Any, kernel: Kernel, left: Any, slopes: Any, again: Any
    ) -> Tensor:
        ctx.kernel, ctx.left, ctx.slopes, ctx.again = kernel, left, slopes[1:], again
        ctx.save_for_backward(z, y, w)
        return torch.scalar_tensor(1 - slopes[0], dtype=working(z), device=z.device)

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor) -> Any:
        z, y, w = ctx.saved_tensors
        (g,) = adjoint
        with full_precision(z):
            if torch.is_grad_enabled() or under_transform(g):
                with torch.enable_grad():
                    loss = ctx.again(*ctx.kernel.compose(z, y, w))
                (grad,) = torch.autograd.grad(loss, z, g.to(loss.dtype), create_graph=True)
            else:
                by_tp, by_predicted = (slope * -g.item() for slope in ctx.slopes)
                left = _taken(ctx, z, y, w)
                grad = ctx.kernel.gradient(z, y, w, left, by_tp, by_predicted)
        return grad, *[None] * 6


def linearised_loss(
    counted: Tally, slopes: Slopes, again: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
) -> Tensor | None:
    """``1 - metric``, where ``slopes(tp, predicted, support)`` gives the metric and its derivatives
    by the first two; ``None`` where it gives none."""
    kernel, z, y, w, (tp, predicted, support, _), left = counted
    known = slopes(tp, predicted, support)
    if known is None:
        return None
    return _Linearised.apply(z, y, w, kernel, left, known, again)  # type: ignore[no-untyped-call]
