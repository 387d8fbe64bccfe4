"""Numbers on a device with their derivatives: a formula of counts and its gradient in one pass.

On a GPU each small operation of a formula is a launch, and so is each one of its backward pass. So
a formula may be called with ``Dual`` numbers instead of tensors: the same code, and the derivatives
come out with the value. Two are wanted of each class: by what a positive adds to ``tp`` and takes
from ``fn``, and by what a negative adds to ``fp`` and takes from ``tn``. They are two more rows of
the same tensor.

A derivative belongs to the cells at its own position. That holds for what is computed position by
position, and for totals over positions, whose derivatives by all cells stand at all positions. What
mixes totals with single positions, or neighbors, raises ``NotTracedError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import EllipsisType
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor

from softset.counting.numerics import Constants, NotTracedError, Traced

if TYPE_CHECKING:
    from softset.counting.sums import Cells

Axes = tuple[int, ...]
Operand: TypeAlias = "Dual | Tensor | float"
Index: TypeAlias = "tuple[int | slice | EllipsisType, ...]"


@lru_cache(maxsize=256)
def _number(value: float) -> Constants:
    """A number without derivatives."""
    return Constants(np.array([value, 0.0, 0.0]))


@lru_cache(maxsize=16)
def _trapezoids(size: int) -> Constants:
    """The area below heights ``y`` at ``x``, from (1, 1) down to (0, 0), is
    ``1/2 + y (x D + e) - x e``: by parts, with half the difference of neighbors in ``D``."""
    differences = (np.eye(size, k=1) - np.eye(size, k=-1)) / 2
    at_start = np.eye(1, size) / 2
    by_x = np.stack([0 * differences, -differences, -differences])
    return Constants(differences, at_start, by_x, np.stack([-at_start] * 3))


@lru_cache(maxsize=16)
def _steps(size: int) -> Constants:
    """``y (x D)``, with the difference of each to the next in ``D``."""
    differences = np.eye(size) - np.eye(size, k=-1)
    by_x = np.stack([0 * differences, differences.T, differences.T])
    return Constants(differences, np.zeros((1, size)), by_x, np.zeros((3, 1, size)))


@lru_cache(maxsize=16)
def _only(size: int, index: int) -> Constants:
    return Constants(np.eye(size)[index])


class Dual(Traced):
    """``rows`` are the value and its two derivatives, ``[3, *shape]``; a constant has a value only.

    All numbers of a formula have the dimensions of the cells, in their order: ``axes`` says which
    of these a formula sees, one for each dimension. A dimension that was summed away has size 1, or
    holds derivatives (``totals``).
    """

    __slots__ = ("_rows", "_value", "axes", "cells", "totals")
    __array_ufunc__ = None

    def __init__(
        self,
        cells: Cells,
        value: Tensor | None,
        axes: Axes,
        rows: Tensor | None = None,
        totals: frozenset[int] = frozenset(),
    ) -> None:
        self.cells, self._value, self.axes, self._rows, self.totals = (
            cells, value, axes, rows, totals
        )  # fmt: skip

    @property
    def constant(self) -> bool:
        """Whether it does not depend on the scores."""
        return self.rows is None

    @property
    def rows(self) -> Tensor | None:
        """Value and derivatives."""
        return self._rows

    @property
    def value(self) -> Tensor:
        """Without the derivatives."""
        return self._rows[0] if self._value is None else self._value  # type: ignore[index]

    def _made(self, rows: Tensor, *others: Dual) -> Dual:
        """A number that depends on the scores as ``self`` and others do."""
        totals = self.totals.union(*(x.totals for x in others))
        axes = max((self.axes, *(x.axes for x in others)), key=len)
        for x in (self, *others):
            if x.axes and x.axes != axes:
                raise NotTracedError("dimensions that are not the same")
        if totals.intersection(axes):
            raise NotTracedError("a total beside single positions")
        return Dual(self.cells, None, axes, rows, totals)

    def _fixed(self, value: Tensor, *others: Dual) -> Dual:
        axes = max((self.axes, *(x.axes for x in others)), key=len)
        return Dual(self.cells, value, axes)

    def _other(self, x: Operand) -> Dual | float:
        """The other side of an operation; its dimensions are those of this one from the last on."""
        if isinstance(x, Dual):
            if x.value.dim() != self.value.dim():
                raise NotTracedError("stacked numbers beside others")
            return x
        if isinstance(x, int | float):
            return x
        if not isinstance(x, Tensor) or x.dim() > len(self.axes):
            raise NotTracedError(type(x).__name__)
        axes = self.axes[len(self.axes) - x.dim() :]
        if list(axes) != sorted(axes):
            raise NotTracedError("dimensions in another order")
        shape = [1] * self.value.dim()
        for axis, size in zip(axes, x.shape, strict=True):
            shape[axis] = size
        return Dual(self.cells, x.reshape(shape), axes)

    def _number(self, x: float) -> Tensor:
        (rows,) = _number(float(x)).beside(self.value)
        return rows.view(3, *[1] * self.value.dim())

    def _lifted(self, x: Dual | float) -> Tensor:
        """Rows of whatever is on the other side."""
        if not isinstance(x, Dual):
            return self._number(x)
        return x.rows if x.rows is not None else x.value * x._number(1.0)

    # --- arithmetic

    def __add__(self, other: Operand) -> Dual:
        b = self._other(other)
        if isinstance(b, Dual) and self.constant and b.constant:
            return self._fixed(self.value + b.value, b)
        if self.constant and not isinstance(b, Dual):
            return self._fixed(self.value + b)
        others = (b,) if isinstance(b, Dual) else ()
        return self._made(self._lifted(self) + self._lifted(b), *others)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return self * -1.0

    def __sub__(self, other: Operand) -> Dual:
        b = self._other(other)
        if not isinstance(b, Dual):
            return self + -b
        if self.constant and b.constant:
            return self._fixed(self.value - b.value, b)
        return self._made(self._lifted(self) - self._lifted(b), b)

    def __rsub__(self, other: Operand) -> Dual:
        if self.constant:
            return self._fixed(_value(self._other(other)) - self.value)
        return self._made(self._lifted(self._other(other)) - self.rows)  # type: ignore[operator]

    def __mul__(self, other: Operand) -> Dual:
        b = self._other(other)
        x, y = self.rows, b.rows if isinstance(b, Dual) else None
        if x is None and y is None:
            return self._fixed(self.value * _value(b), *((b,) if isinstance(b, Dual) else ()))
        if x is None:
            return b._made(y * self.value, self)  # type: ignore[union-attr,operator]
        product = x * _value(b)
        if y is not None:
            product[1:].addcmul_(self.value, y[1:])
        return self._made(product, *((b,) if isinstance(b, Dual) else ()))

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Dual:
        b = self._other(other)
        if not isinstance(b, Dual):
            return self * (1 / b)
        return self._divided(b)

    def _divided(self, b: Dual) -> Dual:
        if self.constant and b.constant:
            return self._fixed(self.value / b.value, b)
        quotient = self._lifted(self) / b.value
        if b.rows is not None:
            quotient[1:].addcmul_(quotient[0], b.rows[1:] / b.value, value=-1)
        return self._made(quotient, b)

    def ratio(self, den: Traced, nothing: float, empty: float) -> Dual:
        """``numerics.ratio``: ``empty`` where the denominator is nothing, without a derivative."""
        assert isinstance(den, Dual)
        quotient, none = self._divided(den), den.value <= nothing
        if quotient.rows is None:
            return quotient._fixed(torch.where(none, empty, quotient.value))
        missing = 0.0 if empty == 0 else quotient._number(empty)
        return quotient._made(torch.where(none, missing, quotient.rows))

    def root(self, degree: int | Tensor, tiny: float) -> Dual:
        """``numerics.root``: the root, and below ``tiny`` its chord from the origin."""
        # x^(1/d) = x c with c = max(x, tiny)^(1/d - 1), which below tiny is the chord.
        power = 1 / _value(self._other(degree))
        chord = self.value.clamp(min=tiny) ** (power - 1)
        if self.rows is None:
            return self._fixed(self.value * chord)
        rows = self.rows * chord
        rows[1:].mul_(torch.where(self.value > tiny, power, 1.0))
        return self._made(rows)

    # --- what has no derivative

    def above(self, low: float) -> bool:
        """Whether all of them are known to be: on a device nobody looks."""
        return False

    def __gt__(self, other: float) -> Dual:
        return self._fixed(self.value > other)

    def __lt__(self, other: float) -> Dual:
        return self._fixed(self.value < other)

    def __le__(self, other: float) -> Dual:
        return self._fixed(self.value <= other)

    def __and__(self, other: Operand) -> Dual:
        return self._fixed(self.value & _value(self._other(other)))

    def __or__(self, other: Operand) -> Dual:
        return self._fixed(self.value | _value(self._other(other)))

    def to(self, dtype: torch.dtype) -> Dual:
        return self._fixed(self.value.to(dtype)) if self.constant else self

    def clamp(self, min: float) -> Dual:
        if not self.constant:
            raise NotTracedError("clamp")
        return self._fixed(self.value.clamp(min=min))

    # --- shapes

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape[axis] for axis in self.axes)

    @property
    def dtype(self) -> torch.dtype:
        return self.value.dtype

    @property
    def device(self) -> torch.device:
        return self.value.device

    def dim(self) -> int:
        return len(self.axes)

    def _without(self, dim: int) -> Axes:
        dim %= len(self.axes)
        return self.axes[:dim] + self.axes[dim + 1 :]

    def sum(self, dim: int, keepdim: bool = False) -> Dual:
        axis, axes = self.axes[dim], self.axes if keepdim else self._without(dim)
        stacked = axis == self.cells.dims  # numbers that the formula stacked
        if self.rows is None:
            return Dual(self.cells, self.value.sum(axis, keepdim=keepdim or not stacked), axes)
        if stacked:
            return Dual(self.cells, None, axes, self.rows.sum(-1, keepdim), self.totals)
        return self._total(self.value.sum(axis, True), self.rows[1:], axis, axes)

    def _total(self, total: Tensor, by: Tensor, axis: int, axes: Axes) -> Dual:
        rows = torch.cat([total.expand(by.shape[1:]).unsqueeze(0), by])
        return Dual(self.cells, None, axes, rows, self.totals | {axis})

    def mean(self, dim: int) -> Dual:
        return self.sum(dim) * (1 / self.shape[dim])

    def prod(self, dim: int) -> Dual:
        axis = self.axes[dim]
        if self.rows is None or axis >= self.cells.dims:
            raise NotTracedError("prod")
        ones = torch.ones_like(self.value.narrow(axis, 0, 1))
        last = self.value.shape[axis] - 1
        before = torch.cat([ones, self.value.narrow(axis, 0, last)], axis).cumprod(axis)
        after = torch.cat([self.value.narrow(axis, 1, last), ones], axis).flip(axis)
        others = before * after.cumprod(axis).flip(axis)
        by, total = self.rows[1:] * others, self.value.prod(axis, True)
        return self._total(total, by, axis, self._without(dim))

    def trapezoids(self, x: Traced | Tensor, most: float) -> Dual:
        """``numerics.trapezoids``, along the last dimension."""
        return self._paired(x, _trapezoids) + 0.5 if most == 1 else self._below(x, most)

    def _below(self, x: Traced | Tensor, most: float) -> Dual:
        """The area where ``x`` is below ``most``: of each trapezoid the part that is ``inside``."""
        axis, y = self.axes[-1], self.rows
        if not isinstance(x, Dual) or x.axes != self.axes or axis == self.cells.dims:
            raise NotTracedError("pairs")
        if y is None or x.rows is None:
            raise NotTracedError("pairs of constants")
        heights, places = (t.movedim(axis + 1, -1) for t in (y, x.rows))
        ends = torch.nn.functional.pad(torch.stack([heights[0], places[0]]), (1, 1))
        ends[..., 0].fill_(1.0)
        left, right = ends[..., :-1], ends[..., 1:]  # of each trapezoid: higher, and lower numbers
        width, inside = left[1] - right[1], -ends[1].clamp(max=most).diff(dim=-1)
        share = torch.where(inside < width, inside / width.clamp(min=1e-30), 1.0)
        drop = (left[0] - right[0]) * share
        at_cut = right[0] + drop
        part, area = inside * share / 2, inside * (right[0] + drop / 2)
        # By the heights on both sides; and by the places, where they are not cut off.
        bent, below = drop * share / 2, ends[1] < most
        by = torch.stack([part, at_cut * below[..., :-1] - bent])[..., 1:]
        by = by + torch.stack([inside - part, bent - at_cut * below[..., 1:]])[..., :-1]
        by = (by[0] * heights[1:]).addcmul_(by[1], places[1:]).movedim(-1, axis + 1)
        return self._total(area.sum(-1, True).movedim(-1, axis), by, axis, self.axes[:-1])

    def steps(self, x: Traced | Tensor) -> Dual:
        """``numerics.steps``, along the last dimension."""
        return self._paired(x, _steps)

    def _paired(self, x: Traced | Tensor, constants: Callable[[int], Constants]) -> Dual:
        """The sum of ``y (x D + e) + x f``; ``constants`` are those of values and derivatives."""
        axis, y = self.axes[-1], self.rows
        if not isinstance(x, Dual) or x.axes != self.axes or axis == self.cells.dims:
            raise NotTracedError("pairs")
        if y is None or x.rows is None:
            raise NotTracedError("pairs of constants")
        size = self.value.shape[axis]
        differences, at_start, by_x, at_x = constants(size).beside(self.value)
        heights, widths = (t.movedim(axis + 1, -1) for t in (y, x.rows))
        shape = heights.shape
        heights, widths = (t.reshape(3, -1, size) for t in (heights, widths))
        area = heights * torch.addmm(at_start, widths[0], differences)
        by = torch.baddbmm(at_x, heights[0].expand(3, -1, -1), by_x)
        area = area.addcmul_(widths, by).view(shape).movedim(-1, axis + 1)
        return self._total(area[0].sum(axis, True), area[1:], axis, self.axes[:-1])

    def any(self, dim: int) -> Dual:
        return Dual(self.cells, self.value.any(self.axes[dim], True), self._without(dim))

    def movedim(self, source: int, to: int) -> Dual:
        axes = list(self._without(source))
        axes.insert(to % len(self.axes), self.axes[source])
        return self._seen(tuple(axes))

    def _seen(self, axes: Axes) -> Dual:
        return Dual(self.cells, self._value, axes, self._rows, self.totals)

    def __getitem__(self, at: Index) -> Dual:
        """Of the last dimension."""
        axis, index = self.axes[-1], at[-1]
        if isinstance(index, EllipsisType):
            raise NotTracedError("other dimensions")
        axes = self._without(-1) if isinstance(index, int) else self.axes
        if self.rows is not None and axis < self.cells.dims:
            if not isinstance(index, int):
                raise NotTracedError("single positions")
            (only,) = _only(self.shape[-1], index).beside(self.value)
            by = self.rows[1:] * only.view(-1, *[1] * (self.value.dim() - 1 - axis))
            return self._total(self.value.narrow(axis, index, 1), by, axis, axes)
        if axis == self.cells.dims:  # the last one in memory, too
            if self.rows is None:
                return Dual(self.cells, self.value[..., index], axes)
            return Dual(self.cells, None, axes, self.rows[..., index], self.totals)
        start, stop, _ = _range(index).indices(self.shape[-1])
        return Dual(self.cells, self.value.narrow(axis, start, stop - start), axes)

    def neighbors(self, numbers: Sequence[Dual]) -> Tensor | None:
        """Numbers that lie in memory as ``torch.stack`` would put them, of which it is the first;
        none if they do not."""
        return None

    def __getattr__(self, name: str) -> NoReturn:
        raise NotTracedError(name)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., object],
        types: Iterable[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Dual:
        ours = _FUNCTIONS.get(function)
        if ours is None or not all(issubclass(t, Dual) for t in types):
            raise NotTracedError(str(function))
        return ours(*args, **(kwargs or {}))


def _value(x: Dual | float) -> Tensor | float:
    return x.value if isinstance(x, Dual) else x


def _range(index: int | slice) -> slice:
    return slice(index, index + 1) if isinstance(index, int) else index


def _where(condition: Dual, a: Dual | float, b: Dual | float) -> Dual:
    duals = [x for x in (a, b) if isinstance(x, Dual)]
    if all(x.constant for x in duals):
        return condition._fixed(torch.where(condition.value, _value(a), _value(b)), *duals)
    one, other = (0.0 if isinstance(x, float) and x == 0 else condition._lifted(x) for x in (a, b))
    chosen = torch.where(condition.value, one, other)
    return duals[0]._made(chosen, condition, *duals[1:])


def _stack(numbers: Sequence[Dual], dim: int) -> Dual:
    """Along a new last dimension."""
    if dim != -1:
        raise NotTracedError("stack")
    first, cells = numbers[0], numbers[0].cells
    rows = first.neighbors(numbers)
    if rows is None:
        if len({x.axes for x in numbers}) > 1:
            raise NotTracedError("dimensions that are not the same")
        rows = torch.stack(torch.broadcast_tensors(*(x._lifted(x) for x in numbers)), -1)  # type: ignore[no-untyped-call]
    totals = frozenset[int]().union(*(x.totals for x in numbers))
    return Dual(cells, None, (*first.axes, rows.dim() - 2), rows, totals)


_FUNCTIONS: dict[Callable[..., object], Callable[..., Dual]] = {
    torch.where: _where,
    torch.stack: _stack,
    torch.ones_like: lambda x: x._fixed(torch.ones_like(x.value)),
    torch.zeros_like: lambda x: x._fixed(torch.zeros_like(x.value)),
}
