"""Scores to soft counts in one pass, with the gradient in closed form.

A loss depends on the data only through a few sums per class. So each kernel here does two things:
``count`` reduces scores to those sums, and ``gradient`` turns the derivatives of the loss by the
sums into the gradient by the scores, chunk by chunk, so that temporaries stay in the cache and
memory does not grow with thresholds. What ``count`` leaves for ``gradient`` (probabilities) is
overwritten by the gradient: fresh memory costs more than arithmetic. ``compose`` is the same
computation in plain differentiable PyTorch: it serves second derivatives, ``torch.compile`` and
``torch.func`` transforms.

Layout. Binary and multilabel: scores ``[*lead, N]``, one problem for each index of ``lead``.
Multiclass: scores ``[*lead, N, C]``. Sums are ``[*lead]`` or ``[*lead, C]``, in float64.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.counting.numerics import full_precision, under_transform, working

Counts = tuple[Tensor, Tensor, Tensor, Tensor]


def count(kernel: Any, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
    """``tp, predicted, support, total`` of scores ``z``, differentiable in ``z``."""
    with full_precision(z):
        if under_transform(z, y, w):
            return kernel.compose(z, y, w)
        margins: list[Tensor] = []
        tp, predicted = _Fused.apply(z, y, w, kernel, margins)  # type: ignore[no-untyped-call]
        return tp, predicted, margins[0], margins[1]


class _Fused(torch.autograd.Function):
    """``tp, predicted``; the other two sums have no gradient and are left in ``margins``."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Tensor | None, kernel: Any, margins: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        counts, left = kernel.count(z, y, w, ctx.needs_input_grad[0])
        tp, predicted, *rest = (c.clone() if c.is_inference() else c for c in counts)
        margins += rest
        ctx.kernel, ctx.left = kernel, left
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, y, w)
        return tp, predicted

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor | None) -> Any:
        z, y, w = ctx.saved_tensors
        d_tp, d_pred = adjoint
        known = d_pred if d_tp is None else d_tp
        if known is None:
            return None, None, None, None, None
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
        return grad, None, None, None, None


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
        ctx: Any, z: Tensor, y: Tensor, w: Any, kernel: Any, left: Any, slopes: Any, again: Any
    ) -> Tensor:
        ctx.kernel, ctx.left, ctx.slopes, ctx.again = kernel, left, slopes[1:], again
        ctx.save_for_backward(z, y, w)
        return torch.scalar_tensor(1 - slopes[0], dtype=working(z))

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
    kernel: Any, z: Tensor, y: Tensor, w: Tensor | None, slopes: Any, again: Any
) -> Tensor | None:
    """``1 - metric`` with ``slopes(tp, predicted, support)``; nothing if there are none."""
    with full_precision(z):
        (tp, predicted, support, _), left = kernel.count(z.detach(), y, w, z.requires_grad)
        known = slopes(tp, predicted, support)
        if known is None:
            return None
        return _Linearised.apply(z, y, w, kernel, left, known, again)  # type: ignore[no-untyped-call]
