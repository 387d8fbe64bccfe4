"""The kernels in C behind the interface of the others. ``compose`` stays PyTorch, the reference.
What a call in C declines as unusual, the PyTorch kernel counts, or refuses."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from softset.counting.arguments import USUAL_WEIGHTS
from softset.counting.kernels.binary import BinaryKernel, Tau
from softset.counting.kernels.binary_grid import GridKernel
from softset.counting.kernels.interface import Separate
from softset.counting.kernels.layout import EXACT, STEPS, Layout, Rows
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.native.library import PARALLEL, Call, Library, native
from softset.counting.numerics import lowered, under_transform
from softset.counting.steps import LinearStep, SigmoidStep, Step

if TYPE_CHECKING:
    from softset.counting.problem import Problem

# As in task.h: ``enum kind``, ``enum step`` and what a call returns.
KINDS = {
    torch.int64: 0,
    torch.uint8: 1,
    torch.bool: 1,
    torch.float32: 2,
    torch.float64: 3,
    torch.int32: 4,
}
DONE = 0
LEVEL = 7  # numbers of a level


class Levels(NamedTuple):
    """What a step needs to know: ``[batch, classes, thresholds, LEVEL]``, and how to walk it."""

    numbers: Tensor  # float64
    of_batch: int = 0  # levels from one problem to the next; 0 if all have the same
    of_class: int = 0
    thresholds: int = 1


class Task(NamedTuple):
    """The fields of ``task`` in task.h, in its order."""

    scores: Tensor
    gradient: Tensor | None
    target: Tensor
    weight: Tensor | None
    class_weight: Tensor | None
    levels: Levels
    positive: Tensor | None
    negative: Tensor | None
    sums: Tensor | None
    layout: Layout
    wide_work: bool
    step: int
    from_logits: bool
    soft: bool
    ignored: int | None

    def packed(self) -> bytes:
        """As C sees it. The tensors must outlive the call."""
        y, w, levels, layout = self.target, self.weight, self.levels, self.layout
        return _FORMAT.pack(
            self.scores.data_ptr(),
            _address(self.gradient),
            y.data_ptr(),
            _address(w),
            _address(self.class_weight),
            levels.numbers.data_ptr(),
            _address(self.positive),
            _address(self.negative),
            _address(self.sums),
            *layout.sizes,
            *layout.scores,
            *layout.gradient,
            *layout.target,
            *layout.weight,
            self.scores.dtype is torch.float64,
            w is not None and w.dtype is torch.float64,
            self.wide_work,
            KINDS[y.dtype],
            self.step,
            levels.of_batch,
            levels.of_class,
            levels.thresholds,
            self.from_logits,
            self.soft,
            self.ignored is not None,
            self.ignored or 0,
            torch.get_num_threads(),
            PARALLEL.address,
        )


_FORMAT = Struct("@48q")
SIZE = _FORMAT.size


def _address(t: Tensor | None) -> int:
    return 0 if t is None else t.data_ptr()


FLOATS = (torch.float32, torch.float64)


def rows_of(problem: Problem) -> Rows | None:
    """The arguments of a problem where they lie; none if C can't read them there."""
    made_of = problem.arguments
    if made_of is None or problem.in_sets or problem.batch_dims or not problem.from_logits:
        return None  # probabilities are checked when they are laid out
    z, y, w, v = made_of[:4]
    if torch.compiler.is_compiling() or not _is_plain(z, FLOATS) or not _is_plain(y, KINDS):
        return None
    ignored, task, shapes = made_of.ignore_index, problem.task, made_of.shapes
    if ignored is not None and not (type(ignored) is int and abs(ignored) <= EXACT):
        return None
    if task.exclusive and y.is_floating_point():
        return None
    if w is not None and (w.requires_grad or not _is_plain(w, FLOATS)):
        return None
    if v is not None:
        if problem.soft or v.requires_grad or not _is_plain(v, FLOATS):
            return None
        low, high = (float(x) for x in torch.aminmax(v))
        if not (low >= 0 and USUAL_WEIGHTS[0] <= high <= USUAL_WEIGHTS[1]):
            return None
        v = v.contiguous()
    return Rows(shapes.classes_last(z.detach()), shapes.target(y), w, 0, v, ignored)


def _is_plain(t: Tensor, dtypes: Container[torch.dtype]) -> bool:
    """Whether it is numbers in memory, as C reads them."""
    usual = type(t) in (Tensor, torch.nn.Parameter) and t.is_cpu and t.dtype in dtypes
    return usual and t.layout is torch.strided and not under_transform(t)


class Counted(NamedTuple):
    """Cells of arguments where they lie, and what their gradient needs."""

    kernel: NativeBinary | NativeMulticlass
    rows: Rows  # of scores without a graph
    shape: torch.Size  # of the scores
    cells: Tensor

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores, in their shape."""
        if isinstance(self.kernel, NativeMulticlass):
            out = self.kernel.gradient_rows(self.rows, positive, negative)
        else:
            levels = self.kernel.levels(self.rows.z.shape[-1:])
            out = self.kernel.gradient_rows(self.rows, levels, positive, negative)
        assert out is not None, f"what was counted has a gradient: {list(self.shape)}"
        if out.dim() > 2 and out.shape[-1] > 1:
            return out.movedim(-1, 1)
        return out if out.shape == self.shape else out.reshape(self.shape)


def is_native(step: Step) -> bool:
    """Whether the kernels in C know a step; not a subclass, which may do anything."""
    return type(step) in STEPS


class _Native:
    """What the native kernels share."""

    step: Any
    dtype: torch.dtype
    from_logits: bool
    soft: bool

    @cached_property
    def library(self) -> Library | None:
        """The functions in C; nothing where there are none."""
        return native()

    def counted(self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False) -> Separate:
        return Separate(self, z, y, w)  # type: ignore[arg-type]

    def run(
        self,
        call: Call,
        rows: Rows,
        levels: Levels,
        sums: Tensor | None,
        out: Tensor | None = None,
        positive: Tensor | None = None,
        negative: Tensor | None = None,
    ) -> bool:
        """Ask C; whether it did what it was asked for."""
        z, y, w, v = rows.z, rows.y, rows.w, rows.class_weight
        # C reads memory, in which a lazily negated tensor has the other sign.
        if any(t is not None and t.is_neg() for t in (z, y, w, v)):
            return False
        layout = Layout.of(z, y, w, out, rows.batch_dims)
        if layout is None:
            return False
        step = STEPS[type(self.step)]
        wide = self.dtype is torch.float64
        task = Task(
            z, out, y, w, v, levels, positive, negative, sums, layout, wide, step,
            self.from_logits, self.soft, rows.ignored,
        )  # fmt: skip
        return call(task.packed(), out is not None) == DONE


def _readable(z: Tensor, dtype: torch.dtype) -> Tensor:
    """Scores that C can read: half precision is raised."""
    return z if z.dtype in FLOATS else z.to(dtype)


def _sums(adjoint: Tensor) -> Tensor:
    """Derivatives by the sums as C reads them."""
    return adjoint.to(torch.float64).resolve_neg().contiguous()


class NativeMulticlass(_Native, MulticlassKernel):
    """Several classes, from logits, with a step that C knows."""

    def in_place(self, problem: Problem) -> Counted | None:
        rows = rows_of(problem)
        cells = None if rows is None else self.count_rows(rows)
        if rows is None or cells is None:
            return None
        return Counted(self, rows, problem.scores.shape, cells)

    @cached_property
    def levels(self) -> Levels:
        """Delta and width, or k."""
        values = vars(self.step).values()
        tensors = [
            torch.as_tensor(v, dtype=torch.float64, device="cpu").detach().flatten() for v in values
        ]
        many = max([len(t) for t in tensors], default=1)
        numbers = torch.zeros(many, LEVEL, dtype=torch.float64, device="cpu")
        for i, t in enumerate(tensors):
            numbers[:, i] = t
        return Levels(numbers, int(many > 1))

    def count_rows(self, rows: Rows) -> Tensor | None:
        """The cells ``[4, *batch, classes]``; nothing if they are for the PyTorch kernel."""
        library = self.library
        if library is None:
            return None
        shape = (*rows.z.shape[: rows.batch_dims], 4, rows.z.shape[-1])
        sums = torch.empty(shape, dtype=torch.float64, device="cpu")
        if not self.run(library.multiclass, rows, self.levels, sums):
            return None
        return sums.movedim(-2, 0)

    def gradient_rows(self, rows: Rows, positive: Tensor, negative: Tensor) -> Tensor | None:
        """The derivative by the scores, in their layout."""
        library, out = self.library, torch.empty_like(rows.z)
        if library is None:
            return None
        by = (_sums(positive), _sums(negative))
        return out if self.run(library.multiclass, rows, self.levels, None, out, *by) else None

    def rows(self, z: Tensor, y: Tensor, w: Tensor | None) -> Rows:
        w = None if w is None else w.expand(y.shape)
        return Rows(_readable(z, self.dtype), y, w, z.dim() - 2)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        cells = self.count_rows(self.rows(z, y, w))
        return super().count(z, y, w) if cells is None else cells

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        out = self.gradient_rows(self.rows(z, y, w), positive, negative)
        if out is None:
            return super().gradient(z, y, w, positive, negative)
        return lowered(out, z.dtype)


class NativeBinary(_Native, BinaryKernel):
    """One class or several labels, with a step that C knows."""

    def in_place(self, problem: Problem) -> Counted | None:
        rows = rows_of(problem)
        if rows is None:
            return None
        cells = self.count_rows(rows, self.levels(rows.z.shape[-1:]))
        if cells is None:
            return None
        if not self.grid:
            cells = (
                cells.reshape(4, *cells.shape[1:-1])
                if not problem.task.single
                else cells.reshape(4)
            )
        elif problem.task.single:
            cells = cells.squeeze(-2)
        return Counted(self, rows, problem.scores.shape, cells)

    @cached_property
    def each_level(self) -> list[tuple[Tau, ...]]:
        """The numbers of the step at each threshold."""
        return [_level(self.step, tau) for tau in self.taus]

    @cached_property
    def one_for_all(self) -> Levels | None:
        """Where these are numbers; nothing where problems differ in them."""
        if any(isinstance(v, Tensor) for level in self.each_level for v in level):
            return None
        numbers = torch.tensor(self.each_level, dtype=torch.float64, device="cpu")
        return Levels(numbers, thresholds=len(self.each_level))

    def levels(self, lead: Sequence[int]) -> Levels:
        """For problems of the shape ``lead``, whose last dimension C takes for labels."""
        if self.one_for_all is not None:
            return self.one_for_all
        like = torch.empty(tuple(lead), dtype=torch.float64, device="cpu")
        each = [torch.stack([_spread(v, like) for v in level], -1) for level in self.each_level]
        numbers, count = torch.stack(each, -2).contiguous(), len(each)
        return Levels(numbers, (lead[-1] if lead else 1) * count, count, count)

    def count_rows(self, rows: Rows, levels: Levels) -> Tensor | None:
        """The cells ``[4, *batch, classes, thresholds]``."""
        library = self.library
        if library is None:
            return None
        shape = (*rows.z.shape[: rows.batch_dims], rows.z.shape[-1], 4, levels.thresholds)
        sums = torch.empty(shape, dtype=torch.float64, device="cpu")
        return sums.movedim(-2, 0) if self.run(library.binary, rows, levels, sums) else None

    def gradient_rows(
        self, rows: Rows, levels: Levels, positive: Tensor, negative: Tensor
    ) -> Tensor | None:
        """The derivative by the scores, in their layout."""
        library, out = self.library, torch.empty_like(rows.z)
        if library is None:
            return None
        by = (_sums(positive), _sums(negative))
        return out if self.run(library.binary, rows, levels, None, out, *by) else None

    def rows(self, z: Tensor, y: Tensor, w: Tensor | None) -> Rows:
        """The last dimension of ``lead`` is one of labels."""
        return _labels_last(_readable(z, self.dtype), y, w)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        cells = self.count_rows(self.rows(z, y, w), self.levels(z.shape[:-1]))
        if cells is None:
            return super().count(z, y, w)
        cells = cells if z.dim() > 1 else cells.squeeze(-2)
        return cells if self.grid else cells.squeeze(-1)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        out = self.gradient_rows(self.rows(z, y, w), self.levels(z.shape[:-1]), positive, negative)
        if out is None:
            return super().gradient(z, y, w, positive, negative)
        out = out.movedim(-1, -2) if z.dim() > 1 else out.squeeze(-1)
        return lowered(out, z.dtype)


def _labels_last(z: Tensor, y: Tensor, w: Tensor | None) -> Rows:
    """Scores ``[*batch, labels, N]`` or ``[N]`` with the labels at the end, where they lie."""
    w = None if w is None else w.expand(y.shape)
    if z.dim() == 1:
        return Rows(z.unsqueeze(-1), y.unsqueeze(-1), None if w is None else w.unsqueeze(-1))
    weight = None if w is None else w.movedim(-2, -1)
    return Rows(z.movedim(-2, -1), y.movedim(-2, -1), weight, z.dim() - 2)


def _level(step: Step, tau: Tau) -> tuple[Tau, ...]:
    """The numbers of a step at a threshold, as ``level`` in binary.h has them."""
    if isinstance(step, LinearStep):
        pieces = step.pieces(tau)
        return pieces.a, pieces.m1, pieces.m2, pieces.m3, pieces.beyond, tau, pieces.b
    k = step.k if isinstance(step, SigmoidStep) else 0.0
    return k, 0.0, 0.0, 0.0, 0.0, tau, 0.0


def _spread(v: Tau, like: Tensor) -> Tensor:
    """One number for each problem: from a tensor that broadcasts with ``[*lead, 1]``."""
    if not isinstance(v, Tensor):
        return torch.full_like(like, float(v))
    v = v.detach().to(like.dtype)
    return (v.squeeze(-1) if v.dim() else v).expand_as(like)


class NativeGrid(_Native, GridKernel):
    """A uniform grid of thresholds, in bins."""

    @property
    def numbers(self) -> Levels:
        return Levels(torch.empty(0, device="cpu"), thresholds=self.bins)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        library, rows = self.library, _labels_last(_readable(z, self.dtype), y, w)
        if library is None or y.dtype not in KINDS:
            return super().count(z, y, w)
        sums = torch.empty(*z.shape[:-1], 2, self.bins + 1, 2, dtype=torch.float64, device="cpu")
        if not self.run(library.bins, rows, self.numbers, sums):
            return super().count(z, y, w)
        return self.from_bins(sums)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        library, rows = self.library, _labels_last(_readable(z, self.dtype), y, w)
        if library is None or y.dtype not in KINDS:
            return super().gradient(z, y, w, positive, negative)
        slopes = torch.stack([self.slopes(negative), self.slopes(positive)], -2).contiguous()
        out = torch.empty_like(rows.z)
        if not self.run(library.bins, rows, self.numbers, None, out, None, slopes):
            return super().gradient(z, y, w, positive, negative)
        return lowered(out.movedim(-1, -2) if z.dim() > 1 else out.squeeze(-1), z.dtype)
