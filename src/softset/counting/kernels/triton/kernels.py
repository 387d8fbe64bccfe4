"""The kernels in Triton behind the interface of the others; ``compose`` is the reference.

They read arguments where they lie in memory. What they can't read there (a grid of thresholds, a
threshold for each label, fractions or probabilities of several classes) the PyTorch kernels count,
and what they find to be bad these refuse, where values are read on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from softset.counting.arguments import USUAL_WEIGHTS, holds
from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.layout import EXACT, STEPS, Rows
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.triton.operators import cells, cells_gradient
from softset.counting.numerics import readable, under_transform
from softset.counting.steps import LinearStep, SigmoidStep, Step

if TYPE_CHECKING:
    from softset.counting.problem import Problem

POSITIONS = 2**31  # at most: their numbers are int32


def levels_of(step: Step, tau: Any, exclusive: bool) -> list[float] | None:
    """The numbers of a step at a threshold, as the kernels take them; none if they differ from one
    problem or label to the next."""
    numbers: tuple[Any, ...]
    if exclusive:
        k = step.k if isinstance(step, SigmoidStep) else 0.0
        numbers = (step.delta, step.width) if isinstance(step, LinearStep) else (k, 1.0)
    elif isinstance(step, LinearStep):
        a, b, m1, m2, m3, beyond = step.pieces(tau)
        numbers = (a, m1, m2, m3, beyond, tau, b)
    else:
        k = step.k if isinstance(step, SigmoidStep) else 0.0
        numbers = (k, 0.0, 0.0, 0.0, 0.0, tau, 0.0)
    if any(isinstance(n, Tensor) for n in numbers):
        return None
    return [float(n) for n in numbers]


class Counted(NamedTuple):
    """Cells of arguments where they lie, and what their gradient needs. ``with_graph``: the cells
    have the graph of the scores, as a compiler sees it."""

    kernel: TritonBinary | TritonMulticlass
    rows: Rows  # of scores without a graph
    shape: torch.Size  # of the scores
    cells: Tensor
    with_graph: bool

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores, in their shape."""
        out = self.kernel.gradient_rows(self.rows, positive, negative)
        if out.dim() > 2 and out.shape[-1] > 1:
            return out.movedim(-1, 1)
        return out if out.shape == self.shape else out.reshape(self.shape)


def rows_of(problem: Problem) -> Rows | None:
    """The arguments of a problem where they lie; none if they must be laid out."""
    made_of = problem.arguments
    if made_of is None or problem.numbers is not None or made_of.shapes.batch:
        return None
    z, y, w, v = made_of[:4]
    ignored, task, shapes = made_of.ignore_index, problem.task, made_of.shapes
    if shapes.by_class or (task.exclusive and y.is_floating_point()) or z.numel() >= POSITIONS:
        return None
    if problem.soft and v is not None:
        return None
    if any(t is not None and t.requires_grad for t in (y, w, v)):
        return None
    if ignored is not None and not holds(y.dtype, int(ignored)):
        ignored = None
    if ignored is not None and y.is_floating_point() and abs(ignored) > EXACT:
        return None
    if readable(w, v):  # else weights are as they are
        for weights in (w, v):
            high = USUAL_WEIGHTS[1] if weights is None else float(weights.detach().max())
            if not USUAL_WEIGHTS[0] <= high <= USUAL_WEIGHTS[1]:
                return None
    return Rows(shapes.classes_last(z), shapes.target(y), w, int(problem.sets), v, ignored)


class _Triton:
    """What the kernels in Triton share."""

    step: Step
    dtype: torch.dtype
    exclusive: bool
    from_logits: bool
    soft: bool

    @property
    def levels(self) -> list[float] | None:
        """The numbers of the step; none if PyTorch must count."""
        raise NotImplementedError

    def _settings(self, rows: Rows) -> tuple[Any, ...]:
        wide = self.dtype is torch.float64
        step = STEPS[type(self.step)]
        return (rows.batch_dims, self.exclusive, step, self.levels, self.from_logits, self.soft,
                rows.ignored, wide)  # fmt: skip

    def count_rows(self, rows: Rows) -> Tensor:
        """The cells ``[4, *batch, classes]``."""
        return cells(rows.z, rows.y, rows.w, rows.class_weight, *self._settings(rows))

    def gradient_rows(self, rows: Rows, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores, in their layout."""
        tensors = (rows.z, rows.y, rows.w, rows.class_weight, positive, negative)
        return cells_gradient(*tensors, *self._settings(rows))

    def in_place(self, problem: Problem) -> Counted | None:
        """What is counted of the arguments where they lie; none if they must be laid out, or if
        there is something to be refused."""
        rows = None if self.levels is None else rows_of(problem)
        if rows is None:
            return None
        compiling = under_transform(rows.z, rows.y, rows.w)
        if compiling and not torch.compiler.is_compiling():
            return None  # a function transform sees the composition
        if not compiling:
            rows = rows._replace(z=rows.z.detach())
        cells = self.count_rows(rows)
        if readable(*rows[:3]) and not cells.isfinite().all():
            return None
        cells = cells.squeeze(-1) if problem.task.single else cells
        return Counted(self, rows, problem.scores.shape, cells, compiling)  # type: ignore[arg-type]


class TritonBinary(_Triton, BinaryKernel):
    """One class or several labels, at one threshold, with a step that the kernels know."""

    exclusive = False

    @property
    def levels(self) -> list[float] | None:
        """The numbers of the step; none for a grid of thresholds, or one for each label."""
        return None if self.grid else levels_of(self.step, self.taus[0], False)


class TritonMulticlass(_Triton, MulticlassKernel):
    """Several classes, from logits, with a step that the kernels know."""

    exclusive = True

    @property
    def levels(self) -> list[float] | None:
        """The numbers of the step; none if they differ from one problem to the next, for
        probabilities, and for fractions of classes."""
        return levels_of(self.step, 0.5, True) if self.from_logits and not self.soft else None
