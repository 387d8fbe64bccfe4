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

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from softset.counting.numerics import full_precision, raised, under_transform, working

if TYPE_CHECKING:
    from softset.counting.problem import Problem


class Kernel(Protocol):
    """What counts: one file for each, and ``choice`` says which is used when."""

    dtype: torch.dtype  # of elementwise work

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """The cells in plain PyTorch, differentiable in everything."""

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """The cells. Where values may be read on the host, scores that are not numbers and stray
        labels are refused."""

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        """The derivative by ``z``, from those by the degree of a positive and of a negative."""

    def counted(self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False) -> Counted:
        """The cells, and their gradient; ``keep`` what it needs if it will be asked for."""

    def in_place(self, problem: Problem) -> Counted | None:
        """The same of the arguments where they lie in memory; none if the kernel needs them laid
        out, or if there is something to be refused."""


class Counted(Protocol):
    """Cells, and their gradient by the scores."""

    @property
    def cells(self) -> Tensor:
        """As ``count`` gives them."""

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores, in their shape."""


class Separate:
    """The cells and the gradient of a kernel that keeps nothing between the two."""

    def __init__(self, kernel: Kernel, z: Tensor, y: Tensor, w: Tensor | None) -> None:
        self.kernel, self.read = kernel, (z, y, w)
        self.cells = kernel.count(z, y, w)

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        return self.kernel.gradient(*self.read, positive, negative)


def count(kernel: Kernel, problem: Problem, plain: bool = False) -> Tensor:
    """The cells of a problem, differentiable in the scores; in all that the kernel is made of if
    they are to be ``plain``."""
    z, y, w = problem.z, problem.y, problem.w
    if plain or under_transform(z, y, w):
        with full_precision(z):
            cells = kernel.compose(raised(z, working(z)), y, w)
        return cells if problem.invalid is None else spoiled(cells, problem.invalid)
    return differentiable(z, kernel, problem, laid_out(kernel, problem))


def laid_out(kernel: Kernel, problem: Problem) -> Counted:
    """What the kernel counts of a problem that is laid out; NaN if something in it is invalid."""
    z, y, w = problem.z, problem.y, problem.w
    with torch.no_grad(), full_precision(z):
        counted = kernel.counted(z.detach(), y, w, z.requires_grad)
    if problem.invalid is None:
        return counted
    return Spoiled(counted, problem.invalid)


class Spoiled:
    """Counted numbers of which all are NaN if something was invalid."""

    def __init__(self, counted: Counted, invalid: Tensor) -> None:
        self.counted, self.cells = counted, spoiled(counted.cells, invalid)

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        return self.counted.gradient(positive, negative)


def spoiled(cells: Tensor, invalid: Tensor) -> Tensor:
    """The cells, or NaN."""
    return torch.where(invalid, torch.nan, cells)


def differentiable(scores: Tensor, kernel: Kernel, problem: Problem, counted: Counted) -> Tensor:
    """The cells that were counted, with the graph of the scores they were counted from: laid out,
    or as they came."""
    if getattr(counted, "with_graph", False):
        return counted.cells
    return _Cells.apply(scores, problem, kernel, counted)  # type: ignore[no-untyped-call]


def composed(kernel: Kernel, problem: Problem) -> Tensor:
    """The cells in plain PyTorch, with the graph of the scores as they came."""
    with torch.enable_grad(), full_precision(problem.z):
        return kernel.compose(problem.z, problem.y, problem.w)


class _Cells(torch.autograd.Function):
    """The cells, which are known already, and their gradient."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, problem: Problem, kernel: Kernel, counted: Counted
    ) -> Tensor:
        ctx.problem, ctx.kernel, ctx.counted = problem, kernel, counted
        # Autograd refuses what was changed in between.
        ctx.save_for_backward(scores, *problem.read)
        return counted.cells

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> Any:
        scores, *_ = ctx.saved_tensors
        if torch.is_grad_enabled() or under_transform(adjoint):
            # A second derivative is wanted: differentiate the plain composition instead.
            cells = composed(ctx.kernel, ctx.problem)
            (grad,) = torch.autograd.grad(cells, scores, adjoint, create_graph=True)
        else:
            tp, fp, fn, tn = adjoint
            with full_precision(scores):
                grad = ctx.counted.gradient(tp - fn, fp - tn)
        return grad, None, None, None
