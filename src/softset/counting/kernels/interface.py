"""Scores to soft counts in one pass, with the gradient in closed form.

A loss depends on the data only through four sums per class: ``tp``, ``fp``, ``fn`` and ``tn``. So
each kernel does two things: ``count`` reduces scores to those cells, and ``gradient`` turns the
derivatives of the loss by the cells into the gradient by the scores, chunk by chunk, so that
temporaries stay in the cache and memory does not grow with thresholds. ``compose`` is the same
computation in plain differentiable PyTorch: it serves second derivatives, ``torch.compile``,
``torch.func`` transforms, and weights, thresholds and steps that are learned. It is the reference:
a kernel that disagrees with it is wrong.

Layout. Binary and multilabel: scores ``[*lead, N]``, one problem for each index of ``lead``.
Multiclass: scores ``[*lead, N, C]``. Cells are ``[4, *lead]`` or ``[4, *lead, C]``, in float64, in
the order ``tp, fp, fn, tn``. What a positive adds to ``tp`` it takes from ``fn``, and what a
negative adds to ``fp`` it takes from ``tn``: so two derivatives are enough, ``L_tp - L_fn`` for
positives and ``L_fp - L_tn`` for negatives.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from softset.counting.numerics import full_precision, raised, under_transform, working
from softset.counting.problem import Problem


class Kernel(Protocol):
    """What counts: one file for each, and ``choice`` says which is used when."""

    dtype: torch.dtype  # of elementwise work

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """The cells in plain PyTorch, differentiable in everything."""

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """The cells. Refuses scores that are not numbers, and stray labels."""

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        """The derivative by ``z``, from those by the degree of a positive and of a negative."""

    def in_place(self, problem: Problem) -> InPlace | None:
        """What the kernel counts of the arguments where they lie; none if it wants them laid out,
        or if there is something to be refused."""


class InPlace(Protocol):
    """Cells of arguments where they lie, and their gradient."""

    @property
    def cells(self) -> Tensor:
        """As ``count`` gives them."""

    def gradient(self, positive: Any, negative: Any) -> Tensor:
        """The derivative by the scores, in their shape."""


def count(kernel: Kernel, problem: Problem, plain: bool = False) -> Tensor:
    """The cells of a problem, differentiable in the scores; in all that the kernel is made of if
    they are to be ``plain``."""
    z, y, w = problem.z, problem.y, problem.w
    if plain or under_transform(z, y, w):
        with full_precision(z):
            return kernel.compose(raised(z, working(z)), y, w)
    with full_precision(z):
        cells = kernel.count(z.detach(), y, w)
    return _Fused.apply(z, y, w, kernel, cells)  # type: ignore[no-untyped-call]


def count_in_place(kernel: Kernel, problem: Problem, counted: InPlace) -> Tensor:
    """The cells that were counted in place, differentiable in the scores as they came."""
    return _InPlace.apply(problem.scores, problem, kernel, counted)  # type: ignore[no-untyped-call]


def composed(kernel: Kernel, problem: Problem) -> Tensor:
    """The cells in plain PyTorch, with the graph of the scores as they came."""
    with torch.enable_grad(), full_precision(problem.z):
        return kernel.compose(problem.z, problem.y, problem.w)


class _InPlace(torch.autograd.Function):
    """The cells, which are known already, and their gradient by the scores where they lie."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, problem: Problem, kernel: Kernel, counted: InPlace
    ) -> Tensor:
        ctx.problem, ctx.kernel, ctx.counted = problem, kernel, counted
        # What is read again: autograd refuses it if it was changed in between.
        ctx.save_for_backward(*problem.read)
        return counted.cells

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> Any:
        scores, *_ = ctx.saved_tensors
        if torch.is_grad_enabled() or under_transform(adjoint):
            cells = composed(ctx.kernel, ctx.problem)
            (grad,) = torch.autograd.grad(cells, scores, adjoint, create_graph=True)
        else:
            tp, fp, fn, tn = adjoint
            grad = ctx.counted.gradient(tp - fn, fp - tn)
        return grad, None, None, None


class _Fused(torch.autograd.Function):
    """The cells, which are known already, and their gradient."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, w: Any, kernel: Kernel, cells: Tensor) -> Tensor:
        ctx.kernel = kernel
        ctx.save_for_backward(z, y, w)
        return cells

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> Any:
        z, y, w = ctx.saved_tensors
        with full_precision(z):
            if torch.is_grad_enabled() or under_transform(adjoint):
                # A second derivative is wanted: differentiate the plain composition instead.
                with torch.enable_grad():
                    cells = ctx.kernel.compose(z, y, w)
                (grad,) = torch.autograd.grad(cells, z, adjoint, create_graph=True)
            else:
                tp, fp, fn, tn = adjoint
                grad = ctx.kernel.gradient(z, y, w, tp - fn, fp - tn)
        return grad, *[None] * 4
