"""Counts of arguments where they lie, by the kernels in C: nothing is copied, and positions that
are left out, weights and checks need no pass of their own.

Whatever is unusual is declined (``None``): ``arrange`` then knows what to do, or which error to
raise, and counts come from there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softset.counting.kernels.choice import Scores, binary_kernel, multiclass_kernel
from softset.counting.kernels.native.kernels import (
    FLOATS,
    NativeBinary,
    NativeMulticlass,
    Rows,
)
from softset.counting.kernels.native.library import native
from softset.counting.kernels.native.task import EXACT, KINDS
from softset.counting.numerics import under_transform
from softset.counting.problem import USUAL_WEIGHTS
from softset.counting.steps import Step
from softset.tasks import Task

_KERNELS = NativeBinary | NativeMulticlass
_TENSORS = (Tensor, torch.nn.Parameter)


class Direct(NamedTuple):
    """What was counted, and what its gradient needs."""

    kernel: _KERNELS
    rows: Rows  # of scores without a graph
    tp: Tensor  # [classes], one for a binary problem; float64, as the others
    predicted: Tensor
    support: Tensor
    total: Tensor

    @property
    def read(self) -> tuple[Tensor | None, ...]:
        """What the gradient reads again: autograd refuses it if it was changed in between."""
        return self.rows.y, self.rows.w, self.rows.class_weight

    def gradient(self, by_tp: Tensor, by_predicted: Tensor) -> Tensor:
        """The derivative by the scores, in their shape."""
        z = self.rows.z
        if isinstance(self.kernel, NativeMulticlass):
            out = self.kernel.gradient_rows(self.rows, by_tp, by_predicted)
        else:
            levels = self.kernel.levels(())
            out = self.kernel.gradient_rows(self.rows, levels, by_tp, by_predicted)
        assert out is not None, f"what was counted has a gradient: {list(z.shape)}"
        if out.dim() == 2 and z.shape[-1] > 1:  # rows: as they came, and it shows in small batches
            return out
        return out.squeeze(-1) if z.shape[-1] == 1 else out.movedim(-1, 1)


def count_directly(
    scores: Any,
    target: Any,
    *,
    task: Task,
    step: Step,
    threshold: Any,
    from_logits: bool,
    sample_weight: Any,
    class_weight: Any,
    ignore_index: int | None,
    soft: bool,
) -> Direct | None:
    """The soft counts, if this is as usual."""
    if torch.compiler.is_compiling() or native() is None:
        return None
    if type(scores) not in _TENSORS or type(target) is not Tensor:
        return None
    if not _is_plain(scores, target, sample_weight):
        return None
    if ignore_index is not None and not (type(ignore_index) is int and abs(ignore_index) <= EXACT):
        return None
    kernel = _kernel(task, step, threshold, scores.dtype, from_logits, soft)
    if kernel is None:
        return None
    soft = soft and target.is_floating_point()
    rows = _rows(task, scores.detach(), target, sample_weight, class_weight, ignore_index, soft)
    if rows is None:
        return None
    if isinstance(kernel, NativeMulticlass):
        counts = kernel.count_rows(rows)
        return None if counts is None else Direct(kernel, rows, *counts)
    sums = kernel.count_rows(rows, kernel.levels(()))
    return None if sums is None else Direct(kernel, rows, *sums.unbind(-1))


def _is_plain(scores: Tensor, target: Tensor, weight: Any) -> bool:
    """Tensors of numbers in memory, as C reads them."""
    if under_transform(scores, target) or target.requires_grad:
        return False
    if not (scores.is_cpu and target.is_cpu and scores.numel()):
        return False
    if scores.dtype not in FLOATS or target.dtype not in KINDS:
        return False
    if scores.layout is not torch.strided or target.layout is not torch.strided:
        return False
    if weight is None:
        return True
    usual = type(weight) is Tensor and weight.is_cpu and weight.dtype in FLOATS
    return usual and not weight.requires_grad and not under_transform(weight)


def _kernel(
    task: Task, step: Step, threshold: Any, dtype: torch.dtype, from_logits: bool, soft: bool
) -> _KERNELS | None:
    if type(threshold) is not float or not from_logits:  # probabilities are checked elsewhere
        return None
    for value in getattr(step, "__dict__", {"": None}).values():
        if type(value) is not float and type(value) is not int:
            return None
    return _chosen(task, step, threshold, dtype, soft)


@lru_cache(maxsize=64)
def _chosen(
    task: Task, step: Step, threshold: float, dtype: torch.dtype, soft: bool
) -> _KERNELS | None:
    """Made once: to choose a kernel takes as long as a small batch."""
    if not 0 < threshold < 1 or (task.exclusive and (threshold != 0.5 or soft)):
        return None
    scores = Scores(dtype, torch.device("cpu"), True, soft)
    try:
        if task.exclusive:
            kernel = multiclass_kernel(scores, step)
        else:
            kernel = binary_kernel(scores, step, [threshold], False)
    except ValueError:  # which ``arrange`` and ``Counting`` will say
        return None
    return kernel if isinstance(kernel, NativeBinary | NativeMulticlass) else None


def _rows(
    task: Task, z: Tensor, y: Tensor, w: Any, v: Any, ignored: int | None, soft: bool
) -> Rows | None:
    """Scores with the classes at the end, and what belongs to them; none if shapes do not fit."""
    shape = z.shape
    if v is not None:
        size = 2 if task.single else shape[1] if z.dim() > 1 else 0
        if type(v) is not Tensor or v.shape != (size,) or v.requires_grad or soft:
            return None
        if not v.is_cpu or v.dtype is not torch.float64 or under_transform(v):
            return None
        low, high = (float(x) for x in torch.aminmax(v))
        if not (low >= 0 and USUAL_WEIGHTS[0] <= high <= USUAL_WEIGHTS[1]):
            return None
        v = v.contiguous()
    if task.single:
        if z.dim() == 0 or (z.dim() == 2 and shape[1] == 2) or y.shape != shape:
            return None
        positions = shape[:1] + shape[2:] if z.dim() > 1 and shape[1] == 1 else shape
        z, y = z.unsqueeze(-1), y.unsqueeze(-1)
    elif z.dim() < 2 or shape[1] < 2:
        return None
    else:
        positions = shape[:1] + shape[2:]
        if task.independent:
            if y.shape != shape:
                return None
            y = y.movedim(1, -1) if y.dim() > 2 else y
        elif y.shape != positions or y.is_floating_point():
            return None
        z = z.movedim(1, -1) if z.dim() > 2 else z
    if w is not None:
        if w.shape == positions:
            w = w.reshape(z.shape[:-1]) if w.dim() != z.dim() - 1 else w
        elif w.shape == shape[:1]:
            w = w.reshape(-1, *[1] * (z.dim() - 2)).expand(z.shape[:-1])
        else:
            return None
    return Rows(z, y, w, 0, v, ignored)
