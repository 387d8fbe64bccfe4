"""The kernels in C behind the interface of the others. ``compose`` stays PyTorch, the truth; what a
call declines, as it finds something unusual, the PyTorch kernel counts, or refuses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.binary_grid import GridKernel
from softset.counting.kernels.chunks import store
from softset.counting.kernels.interface import Counts
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.native.library import Call, native
from softset.counting.kernels.native.task import (
    DONE,
    IDENTITY,
    KINDS,
    LEVEL,
    LINEAR,
    SIGMOID,
    Layout,
    Levels,
    Task,
)
from softset.counting.steps import IdentityStep, LinearStep, SigmoidStep, Step

STEPS: dict[type, int] = {LinearStep: LINEAR, SigmoidStep: SIGMOID, IdentityStep: IDENTITY}
FLOATS = (torch.float32, torch.float64)


class Rows(NamedTuple):
    """Arguments where they lie: scores ``[*batch, *positions, classes]``; target, and weights if
    there are any, the same with or without the classes."""

    z: Tensor
    y: Tensor
    w: Tensor | None = None
    batch_dims: int = 0
    class_weight: Tensor | None = None
    ignored: int | None = None


def is_native(step: Step) -> bool:
    """Whether the kernels in C know a step; not a subclass, which may do anything."""
    return type(step) in STEPS


class _Native:
    """What the native kernels share."""

    step: Any
    dtype: torch.dtype
    from_logits: bool
    soft: bool

    def run(
        self,
        call: Call,
        rows: Rows,
        levels: Levels,
        sums: Tensor | None,
        out: Tensor | None = None,
        by_tp: Tensor | None = None,
        by_predicted: Tensor | None = None,
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
            z, out, y, w, v, levels, by_tp, by_predicted, sums, layout, wide, step,
            self.from_logits, self.soft, rows.ignored,
        )  # fmt: skip
        return call(task.packed(), out is not None) == DONE


def _readable(z: Tensor, dtype: torch.dtype) -> Tensor:
    """Scores that C can read: half precision is raised."""
    return z if z.dtype in FLOATS else z.to(dtype)


def _gradient_like(z: Tensor, out: Tensor) -> Tensor:
    """The gradient in the dtype of the scores."""
    if out.dtype is z.dtype:
        return out
    lower = torch.empty_like(out, dtype=z.dtype)
    store(lower, out)
    return lower


def _sums(adjoint: Any, shape: tuple[int, ...]) -> Tensor:
    """Derivatives by the sums as C reads them."""
    if isinstance(adjoint, float):
        return torch.full(shape, adjoint, dtype=torch.float64, device="cpu")
    return adjoint.to(torch.float64).resolve_neg().contiguous()


class NativeMulticlass(_Native, MulticlassKernel):
    """Several classes, from logits, with a step that C knows."""

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

    def count_rows(self, rows: Rows) -> Counts | None:
        """The counts ``[*batch, classes]``; nothing if they are for the PyTorch kernel."""
        library = native()
        if library is None:
            return None
        shape = (*rows.z.shape[: rows.batch_dims], 3, rows.z.shape[-1])
        sums = torch.empty(shape, dtype=torch.float64, device="cpu")
        if not self.run(library.multiclass, rows, self.levels, sums):
            return None
        tp, predicted, support = sums.unbind(-2)
        return tp, predicted, support, support.sum(-1, keepdim=True).expand_as(support)

    def gradient_rows(self, rows: Rows, d_tp: Any, d_pred: Any) -> Tensor | None:
        """The derivative by the scores, in their layout."""
        library, out = native(), torch.empty_like(rows.z)
        if library is None:
            return None
        shape = (*rows.z.shape[: rows.batch_dims], rows.z.shape[-1])
        by = (_sums(d_tp, shape), _sums(d_pred, shape))
        return out if self.run(library.multiclass, rows, self.levels, None, out, *by) else None

    def rows(self, z: Tensor, y: Tensor, w: Tensor | None) -> Rows:
        w = None if w is None else w.expand(y.shape)
        return Rows(_readable(z, self.dtype), y, w, z.dim() - 2)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        counts = self.count_rows(self.rows(z, y, w))
        return super().count(z, y, w) if counts is None else counts

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = self.gradient_rows(self.rows(z, y, w), d_tp, d_pred)
        if out is None:
            return super().gradient(z, y, w, d_tp, d_pred)
        return _gradient_like(z, out)


class NativeBinary(_Native, BinaryKernel):
    """One class or several labels, with a step that C knows."""

    @cached_property
    def each_level(self) -> list[tuple[Any, ...]]:
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
        """``[*batch, classes, 2 thresholds + 2]``: tp and predicted at each, support, total."""
        library = native()
        if library is None:
            return None
        size = 2 * levels.thresholds + 2
        shape = (*rows.z.shape[: rows.batch_dims], rows.z.shape[-1], size)
        sums = torch.empty(shape, dtype=torch.float64, device="cpu")
        return sums if self.run(library.binary, rows, levels, sums) else None

    def gradient_rows(self, rows: Rows, levels: Levels, d_tp: Any, d_pred: Any) -> Tensor | None:
        """The derivative by the scores, in their layout."""
        library, out = native(), torch.empty_like(rows.z)
        if library is None:
            return None
        shape = (*rows.z.shape[: rows.batch_dims], rows.z.shape[-1], levels.thresholds)
        by = (_sums(d_tp, shape), _sums(d_pred, shape))
        return out if self.run(library.binary, rows, levels, None, out, *by) else None

    def rows(self, z: Tensor, y: Tensor, w: Tensor | None) -> Rows:
        """The last dimension of ``lead`` is one of labels."""
        return _labels_last(_readable(z, self.dtype), y, w)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        levels = self.levels(z.shape[:-1])
        sums = self.count_rows(self.rows(z, y, w), levels)
        if sums is None:
            return super().count(z, y, w)
        sums = sums if z.dim() > 1 else sums.squeeze(-2)
        count = levels.thresholds
        tp, predicted = sums[..., :count], sums[..., count : 2 * count]
        support, total = sums[..., -2:-1], sums[..., -1:]
        if self.grid:
            return tp, predicted, support.expand_as(tp), total.expand_as(tp)
        return tp[..., 0], predicted[..., 0], support[..., 0], total[..., 0]

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = self.gradient_rows(self.rows(z, y, w), self.levels(z.shape[:-1]), d_tp, d_pred)
        if out is None:
            return super().gradient(z, y, w, d_tp, d_pred)
        out = out.movedim(-1, -2) if z.dim() > 1 else out.squeeze(-1)
        return _gradient_like(z, out)


def _labels_last(z: Tensor, y: Tensor, w: Tensor | None) -> Rows:
    """Scores ``[*batch, labels, N]`` or ``[N]`` with the labels at the end, where they lie."""
    w = None if w is None else w.expand(y.shape)
    if z.dim() == 1:
        return Rows(z.unsqueeze(-1), y.unsqueeze(-1), None if w is None else w.unsqueeze(-1))
    weight = None if w is None else w.movedim(-2, -1)
    return Rows(z.movedim(-2, -1), y.movedim(-2, -1), weight, z.dim() - 2)


def _level(step: Step, tau: Any) -> tuple[Any, ...]:
    """The numbers of a step at a threshold, as ``level`` in binary.h has them."""
    if isinstance(step, LinearStep):
        pieces = step.pieces(tau)
        return pieces.a, pieces.m1, pieces.m2, pieces.m3, pieces.beyond, tau, pieces.b
    k = step.k if isinstance(step, SigmoidStep) else 0.0
    return k, 0.0, 0.0, 0.0, 0.0, tau, 0.0


def _spread(v: Any, like: Tensor) -> Tensor:
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

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        library, rows = native(), _labels_last(_readable(z, self.dtype), y, w)
        if library is None or y.dtype not in KINDS:
            return super().count(z, y, w)
        sums = torch.empty(*z.shape[:-1], 2, self.bins + 1, 2, dtype=torch.float64, device="cpu")
        if not self.run(library.bins, rows, self.numbers, sums):
            return super().count(z, y, w)
        return self.from_bins(sums)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        library, rows = native(), _labels_last(_readable(z, self.dtype), y, w)
        if library is None or y.dtype not in KINDS:
            return super().gradient(z, y, w, d_tp, d_pred)
        slopes = torch.stack([self.slopes(d_pred), self.slopes(d_pred + d_tp)], -2).contiguous()
        out = torch.empty_like(rows.z)
        if not self.run(library.bins, rows, self.numbers, None, out, None, slopes):
            return super().gradient(z, y, w, d_tp, d_pred)
        return _gradient_like(z, out.movedim(-1, -2) if z.dim() > 1 else out.squeeze(-1))
