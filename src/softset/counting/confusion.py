"""``Confusion``: counts per class, of decisions or of degrees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.arguments import as_numbers
from softset.counting.numerics import all_but_each, at_least_zero
from softset.tasks import BINARY, MULTICLASS, Task, get_task
from softset.typing import Settings, TensorLike

# A difference that is a smaller fraction than this is rounding of the weights: it counts as zero.
ROUNDING = 1e-12


class MatrixNotCountedError(ValueError):
    """The matrix of several classes was read, and is counted on request only."""


@dataclass(frozen=True)
class Confusion:
    """Counts per class; a class is the positive one (binary), a class or a label.

    Shapes: binary ``[*batch, *thresholds]``, multiclass ``[*batch, classes]``, multilabel
    ``[*batch, *thresholds, labels]``. The four cells are counted, each on its own, so that none
    loses its digits next to a larger one; all other numbers are their sums. Confusions of the same
    task add up: ``a + b``.

    >>> import torch
    >>> c = Confusion.from_matrix(torch.tensor([[5.0, 1.0], [2.0, 4.0]]), task="binary")
    >>> [float(v) for v in (c.tp, c.fp, c.fn, c.tn)]
    [4.0, 1.0, 2.0, 5.0]
    """

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor
    task: Task = BINARY
    counted_matrix: Tensor | None = None
    left_out: int | None = None  # a class that ``ignore_index`` names: averages are without it

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", get_task(self.task))

    @classmethod
    def of(
        cls, cells: Iterable[Tensor], task: Task = BINARY, matrix: Tensor | None = None
    ) -> Confusion:
        """From ``tp``, ``fp``, ``fn`` and ``tn``."""
        tp, fp, fn, tn = cells
        return cls(tp, fp, fn, tn, task, matrix)

    @property
    def predicted(self) -> Tensor:
        """``tp + fp``."""
        return self.tp + self.fp

    @property
    def rejected(self) -> Tensor:
        """``fn + tn``."""
        return self.fn + self.tn

    @property
    def support(self) -> Tensor:
        """``tp + fn``, the positives."""
        return self.tp + self.fn

    @property
    def negatives(self) -> Tensor:
        """``fp + tn``."""
        return self.fp + self.tn

    @property
    def total(self) -> Tensor:
        """All four cells."""
        return self.support + self.negatives

    @property
    def matrix(self) -> Tensor:
        """Rows true, columns predicted: ``[..., 2, 2]`` for a positive class, or ``[..., C, C]``.

        For several classes it is counted on request only: ``confusion(..., matrix=True)``.
        """
        if self.counted_matrix is not None:
            return self.counted_matrix
        if self.task.exclusive:
            raise MatrixNotCountedError("matrix was not counted; pass matrix=True to confusion().")
        cells = torch.stack([self.tn, self.fp, self.fn, self.tp], -1)
        return cells.reshape(*self.tp.shape, 2, 2)

    @classmethod
    def from_matrix(cls, matrix: TensorLike, task: str = "multiclass") -> Confusion:
        """From counts ``[..., C, C]``, rows true and columns predicted.

        ``task="binary"`` takes ``[..., 2, 2]`` and makes the second class the positive one.
        """
        check_choice("task", task, (BINARY, MULTICLASS))
        task, m = get_task(task), as_numbers("matrix", matrix)
        m = m if m.is_floating_point() else m.to(torch.float64)
        if m.dim() < 2 or m.shape[-1] != m.shape[-2] or (task.single and m.shape[-1] != 2):
            wanted = "[..., 2, 2]" if task.single else "[..., C, C]"
            raise ValueError(f"matrix must have shape {wanted}, got {list(m.shape)}.")
        tp, off = m.diagonal(dim1=-2, dim2=-1), _without_diagonal(m)
        if task.single:
            return cls(tp[..., 1], off[..., 0, 1], off[..., 1, 0], tp[..., 0])
        fp, fn = off.sum(-2), off.sum(-1)
        negatives = all_but_each(tp + fn)
        return cls(tp, fp, fn, at_least_zero(negatives - fp, ROUNDING * negatives), task, m)

    @classmethod
    def from_sums(
        cls,
        tp: Tensor,
        predicted: Tensor,
        support: Tensor,
        total: Tensor | float,
        task: Task = BINARY,
        matrix: Tensor | None = None,
    ) -> Confusion:
        """From sums of decisions, of which the cells are differences: those of weights are zero
        where they are no more than rounding."""
        fp = at_least_zero(predicted - tp, ROUNDING * predicted)
        fn = at_least_zero(support - tp, ROUNDING * support)
        tn = at_least_zero((total - support) - fp, ROUNDING * total)
        return cls(tp, fp, fn, tn, task, matrix)

    def map(self, function: Callable[..., Tensor]) -> Confusion:
        """Apply a function to every tensor."""
        c, matrix = self.each(function), self.counted_matrix
        return c if matrix is None else replace(c, counted_matrix=function(matrix))

    def each(self, function: Callable[..., Tensor]) -> Confusion:
        """Apply a function to the four cells; the matrix is left out."""
        tp, fp, fn, tn = (function(t) for t in (self.tp, self.fp, self.fn, self.tn))
        return Confusion(tp, fp, fn, tn, self.task, None, self.left_out)

    def detach(self) -> Confusion:
        """The same counts without their graph."""
        return self.map(Tensor.detach)

    def __add__(self, other: Confusion) -> Confusion:
        if not isinstance(other, Confusion):
            return NotImplemented
        if self.task != other.task:
            raise ValueError(f"cannot add a {other.task} confusion to a {self.task} one.")
        sums = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(self)
            if isinstance(getattr(self, f.name), Tensor)
            and isinstance(getattr(other, f.name), Tensor)
        }
        return replace(self, **({"counted_matrix": None} | sums))


def _without_diagonal(m: Tensor) -> Tensor:
    return torch.where(torch.eye(m.shape[-1], dtype=torch.bool, device=m.device), 0.0, m)


def joined(confusions: Sequence[Confusion], dim: int, order: Tensor) -> Confusion:
    """Confusions one after another along a dimension, then in this order."""
    names = [
        f.name for f in fields(Confusion) if isinstance(getattr(confusions[0], f.name), Tensor)
    ]
    together: Settings = {
        name: torch.cat([getattr(c, name) for c in confusions], dim).index_select(dim, order)
        for name in names
    }
    return replace(confusions[0], **together)
