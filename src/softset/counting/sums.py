"""Sums of the cells of a confusion on a device, with their derivatives: where a formula of ``Dual``
numbers begins. All sums that it reads are one product of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from softset.counting.duals import Axes, Dual, Operand
from softset.counting.numerics import Constants, NotTracedError, Traced

Weights = tuple[float, ...]  # of tp, fp, fn and tn in a sum
# The sums that formulas read most: a product of neighboring ones is one operation.
SUMS: dict[Weights, int] = {
    (1, 0, 0, 0): 0, (0, 1, 0, 0): 1, (1, 1, 0, 0): 2, (1, 0, 1, 0): 3,
    (0, 0, 0, 1): 4, (0, 0, 1, 0): 5, (0, 0, 1, 1): 6, (0, 1, 0, 1): 7,
    (1, 1, 1, 1): 8,
}  # fmt: skip
# Of the cells, by a positive and by a negative.
CHANGES = np.array([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]])


@lru_cache(maxsize=256)
def _sums_of(weights: tuple[Weights, ...]) -> Constants:
    """Sums of cells, and their derivatives, as one product of matrices."""
    each = np.array(weights, dtype=np.float64)
    by = CHANGES @ each.T
    matrix = np.concatenate([each, np.zeros((2 * len(each), 4))])
    return Constants(matrix, np.concatenate([np.zeros(len(each)), *by])[:, None])


class Sum(Dual):
    """A sum of cells, each times a number: it is computed when somebody asks for its value.
    ``summed`` are the dimensions that it is the sum over, or the mean (``~axis``)."""

    __slots__ = ("summed", "weights")

    def __init__(self, cells: Cells, weights: Weights, axes: Axes, summed: Axes = ()) -> None:
        super().__init__(cells, None, axes, None, frozenset(max(i, ~i) for i in summed))
        self.weights, self.summed = weights, summed
        if self.constant:
            self.totals = frozenset()

    @property
    def constant(self) -> bool:
        tp, fp, fn, tn = self.weights
        return tp == fn and fp == tn

    @property
    def rows(self) -> Tensor | None:
        return None if self.constant else self.cells.sums(self.weights, self.summed)

    @property
    def value(self) -> Tensor:
        return self.cells.sums(self.weights, self.summed)[0]

    def _like(self, other: object) -> TypeGuard[Sum]:
        return isinstance(other, Sum) and (other.cells, other.summed, other.axes) == (
            self.cells, self.summed, self.axes
        )  # fmt: skip

    def _weighted(self, weights: Weights) -> Sum:
        return Sum(self.cells, weights, self.axes, self.summed)

    def __add__(self, other: Operand) -> Dual:
        if not self._like(other):
            return super().__add__(other)
        return self._weighted(
            tuple(a + b for a, b in zip(self.weights, other.weights, strict=True))
        )

    def __sub__(self, other: Operand) -> Dual:
        if not self._like(other):
            return super().__sub__(other)
        return self._weighted(
            tuple(a - b for a, b in zip(self.weights, other.weights, strict=True))
        )

    def __mul__(self, other: Operand) -> Dual:
        if not isinstance(other, int | float):
            return super().__mul__(other)
        return self._weighted(tuple(other * a for a in self.weights))

    __radd__, __rmul__ = __add__, __mul__

    def ratio(self, den: Traced, nothing: float, empty: float) -> Dual:  # type: ignore[override]
        """By a constant: one division for all sums."""
        if isinstance(den, Sum) and den.constant and empty == 0 and self._like(den):
            return Sum(self.cells.divided(den, nothing), self.weights, self.axes, self.summed)
        return super().ratio(den, nothing, empty)

    def __gt__(self, other: float) -> Dual:
        key = (">", self.weights, self.summed, other)
        if key not in self.cells.known:
            self.cells.known[key] = self.value > other
        return self._fixed(self.cells.known[key])

    def sum(self, dim: int, keepdim: bool = False) -> Dual:
        if keepdim or not self.cells.plain:
            return super().sum(dim, keepdim)
        return self._reduced(dim, self.axes[dim])

    def mean(self, dim: int) -> Dual:
        return self._reduced(dim, ~self.axes[dim]) if self.cells.plain else super().mean(dim)

    def _reduced(self, dim: int, axis: int) -> Sum:
        summed = (*self.summed, axis)
        return Sum(self.cells, self.weights, self._without(dim), summed)

    def neighbors(self, numbers: Sequence[Dual]) -> Tensor | None:
        if self.weights not in SUMS:
            return None
        start = SUMS[self.weights]
        wanted = list(SUMS)[start : start + len(numbers)]
        if [x.weights if self._like(x) else None for x in numbers] != wanted:
            return None
        return self.cells.usual(self.summed)[:, start : start + len(numbers)].movedim(1, -1)

    def _seen(self, axes: Axes) -> Dual:
        return Sum(self.cells, self.weights, axes, self.summed)


class Cells:
    """The cells of a formula ``[4, *shape]``, and the sums of them that were asked for."""

    plain = True

    def __init__(self, cells: Tensor) -> None:
        self.tensor, self.dims = cells, cells.dim() - 1
        self.known: dict[tuple[object, ...], Tensor] = {}
        self.quotients: dict[tuple[object, ...], Cells] = {}

    def sums(self, weights: Weights, summed: Axes) -> Tensor:
        """A sum and its derivatives."""
        if weights in SUMS:
            return self.usual(summed)[:, SUMS[weights]]
        key = ("sum", weights, summed)
        if key not in self.known:
            self.known[key] = self._computed((weights,), summed)[:, 0]
        return self.known[key]

    def usual(self, summed: Axes) -> Tensor:
        """Those of ``SUMS`` ``[3, sums, *shape]``."""
        if summed not in self.known:
            self.known[summed] = self._computed(tuple(SUMS), summed)
        return self.known[summed]

    def _computed(self, weights: tuple[Weights, ...], summed: Axes) -> Tensor:
        key, share = ("cells", summed), 1.0
        for axis in summed:
            share /= self.tensor.shape[~axis + 1] if axis < 0 else 1
        if key not in self.known:
            cells = self.tensor
            for axis in summed:
                reduce = torch.mean if axis < 0 else torch.sum
                cells = reduce(cells, max(axis, ~axis) + 1, keepdim=True)
            self.known[key] = cells
        cells = self.known[key]
        matrix, by = _sums_of(weights).beside(cells)
        rows = torch.addmm(by, matrix, cells.reshape(4, -1), beta=share)
        return rows.view(3, len(weights), *cells.shape[1:])

    def divided(self, den: Sum, nothing: float) -> Cells:
        """All sums, divided by one of them that does not depend on the scores."""
        key = (den.weights, den.summed)
        if key not in self.quotients:
            self.quotients[key] = _Divided(self, den, nothing)
        return self.quotients[key]


class _Divided(Cells):
    plain = False

    def __init__(self, cells: Cells, den: Sum, nothing: float) -> None:
        super().__init__(cells.tensor)
        value = den.value
        quotients = cells.usual(den.summed) / value
        self.known[den.summed] = torch.where(value <= nothing, 0.0, quotients)

    def _computed(self, weights: tuple[Weights, ...], summed: Axes) -> Tensor:
        usual, (each,) = self.known[summed], weights
        cells = [usual[:, [0, 1, 5, 4][i]] * w for i, w in enumerate(each) if w]
        return sum(cells[1:], cells[0]).unsqueeze(1)


def dual_gradient(formula: Callable[..., Traced], cells: Tensor) -> Tensor | None:
    """``1 - formula(tp, fp, fn, tn)``, one number, and its two derivatives, ``[3, *shape]`` for
    cells ``[4, *shape]``; none if it can't be traced."""
    source = Cells(cells)
    axes = tuple(range(source.dims))
    leaves = [Sum(source, tuple(float(i == k) for i in range(4)), axes) for k in range(4)]
    try:
        value = formula(*leaves)
        assert isinstance(value, Dual)
        loss = 1 - value
    except NotTracedError:
        return None
    if loss.axes:
        return None
    return loss._lifted(loss).expand(3, *cells.shape[1:])
