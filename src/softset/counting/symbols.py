"""A formula of counts with its derivatives, written down as the lines of a kernel.

On a GPU each small operation is a launch, and a formula has dozens. So it is called once with a
``Symbol`` in place of each number, as ``counting.traced`` calls it to differentiate it, and what is
done is written down: a kernel for each formula, task and number of classes
(``kernels/triton/formulas.py``). The formula itself stands in ``metrics`` only.

A number is a tile ``[rows, columns]`` in the language of Triton, of which one dimension, or both,
may be 1. The dimensions of the cells, at most two, are the last ones of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from softset.counting.numerics import NotTracedError

Value: TypeAlias = "Symbol | NDArray[np.generic] | float"
Index: TypeAlias = "tuple[int | slice | EllipsisType, ...]"
# Numbers of a class that differ from those of most others, at most.
EXCEPTIONS = 4


class Symbol:
    """What a formula does with numbers that are not there yet."""

    __array_ufunc__ = None  # NumPy leaves operators to this class
    shape: tuple[int, ...]

    def __add__(self, other: Value) -> Symbol:
        return _line("{} + {}", self, other)

    def __sub__(self, other: Value) -> Symbol:
        return _line("{} - {}", self, other)

    def __rsub__(self, other: Value) -> Symbol:
        return _line("{1} - {0}", self, other)

    def __mul__(self, other: Value) -> Symbol:
        return _line("{} * {}", self, other)

    def __truediv__(self, other: Value) -> Symbol:
        return _line("{} / {}", self, other)

    def __rtruediv__(self, other: Value) -> Symbol:
        return _line("{1} / {0}", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Symbol:
        return _line("-{}", self)

    def __pow__(self, power: Value) -> Symbol:
        """Of numbers above 0."""
        if isinstance(power, int | float) and abs(power) == 1 / 2:
            return _line("tl.sqrt({})" if power > 0 else "1.0 / tl.sqrt({})", self)
        return _line("tl.exp({1} * tl.log({0}))", self, power)

    def __gt__(self, other: Value) -> Symbol:
        return _line("{} > {}", self, other, truth=True)

    def __lt__(self, other: Value) -> Symbol:
        return _line("{} < {}", self, other, truth=True)

    def __le__(self, other: Value) -> Symbol:
        return _line("{} <= {}", self, other, truth=True)

    def __and__(self, other: Value) -> Symbol:
        return self.choose(other, False)

    def __or__(self, other: Value) -> Symbol:
        return self.choose(True, other)

    def choose(self, one: Value, other: Value) -> Symbol:
        """The one where it is true, and the other where not."""
        truth = all(isinstance(x, bool) or getattr(x, "truth", False) for x in (one, other))
        if not truth:
            return _line("tl.where({}, {}, {})", self, one, other, mask=True)
        return _line("tl.where({}, {}, {}) > 0", self, one, other, mask=True, truth=True)

    def clamp(self, low: float) -> Symbol:
        """At least ``low``; NaN stays."""
        return (self < low).choose(low, self)

    def filled(self, number: float) -> Symbol:
        """The number, in its shape."""
        return self.choose(number, number) if self.truth else self * 0.0 + number

    truth = False

    # In a shape of their own.

    def sum(self, dim: int, keepdims: bool = False) -> Symbol:
        raise NotImplementedError

    def any(self, dim: int) -> Symbol:
        raise NotImplementedError

    def product(self, dim: int) -> tuple[Symbol, Symbol]:
        """The product, and for each that of all others."""
        raise NotImplementedError

    def spread(self, g: Symbol, dim: int) -> Symbol:
        """``g``, of which a dimension was summed away, in its own shape."""
        raise NotImplementedError


class Program:
    """The lines of a kernel for cells of this shape, of at most two dimensions."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        if len(shape) > 2:
            raise NotTracedError("more than two dimensions")
        self.shape = shape
        self.rows, self.cols = (1, 1, *shape)[-2:]
        self.names: dict[str, str] = {}

    def name(self, text: str) -> str:
        """That of a number that is computed so: computed once."""
        return self.names.setdefault(text, f"x{len(self.names)}")

    def cells(self) -> list[Symbol]:
        axes = (0, 1)[2 - len(self.shape) :]
        return [Number(self, name, self.shape, axes) for name in ("tp", "fp", "fn", "tn")]

    def literal(self, x: float) -> str:
        """A number: in float64, as Triton's own are of float32."""
        text = repr(float(x))
        text = text if np.isfinite(x) else f'float("{text}")'
        return self.name(f"tl.full([1, 1], {text}, tl.float64)")

    def constant(self, x: NDArray[np.generic]) -> Number:
        """One number for each class, of which few differ from the others."""
        usual, counts = np.unique(x, return_counts=True)
        most = usual[counts.argmax()]
        others = np.flatnonzero(x != most)
        if x.shape != (self.cols,) or len(others) > EXCEPTIONS:
            raise NotTracedError("a number for each class")
        text = self.literal(float(most))
        for i in others:
            text = self.name(f"tl.where(col == {i}, {self.literal(float(x[i]))}, {text})")
        return Number(self, text, (self.cols,), (1,))


class Number(Symbol):
    """A tile; ``axes`` are those of its dimensions."""

    def __init__(
        self,
        program: Program,
        text: str,
        shape: tuple[int, ...] = (),
        axes: tuple[int, ...] = (),
        truth: bool = False,
    ) -> None:
        self.program, self.text, self.shape, self.axes, self.truth = (
            program, text, shape, axes, truth
        )  # fmt: skip

    def _masked(self, axis: int, filler: str) -> str:
        mask = (f"row < {self.program.rows}", f"col < {self.program.cols}")[axis]
        return self.program.name(f"tl.where({mask}, {_text(self)}, {filler})")

    def _reduced(self, text: str, dim: int, keepdims: bool, truth: bool = False) -> Number:
        dim %= len(self.shape)
        if keepdims:
            shape, axes = (*self.shape[:dim], 1, *self.shape[dim + 1 :]), self.axes
        else:
            shape = self.shape[:dim] + self.shape[dim + 1 :]
            axes = self.axes[:dim] + self.axes[dim + 1 :]
        return Number(self.program, self.program.name(text), shape, axes, truth)

    def sum(self, dim: int, keepdims: bool = False) -> Symbol:
        axis = self.axes[dim]
        if self.shape[dim] == 1:
            return self._reduced(f"{_text(self)} * 1", dim, keepdims)
        masked = self._masked(axis, self.program.literal(0.0))
        return self._reduced(f"tl.sum({masked}, axis={axis}, keep_dims=True)", dim, keepdims)

    def any(self, dim: int) -> Symbol:
        axis = self.axes[dim]
        masked = self._masked(axis, self.program.literal(0.0))
        return self._reduced(f"tl.max({masked}, axis={axis}, keep_dims=True) > 0", dim, False, True)

    def product(self, dim: int) -> tuple[Symbol, Symbol]:
        axis = self.axes[dim]
        none = _line("{} == {}", self, 0.0, truth=True)
        zeros = none.choose(1.0, 0.0).sum(dim, True)
        safe = none.choose(1.0, self)
        assert isinstance(safe, Number)
        masked = safe._masked(axis, self.program.literal(1.0))
        text = f"tl.reduce({masked}, {axis}, multiplied, keep_dims=True)"
        nonzero = safe._reduced(text, dim, True)
        others = none.choose((zeros < 2.0).choose(nonzero, 0.0), (zeros < 1.0).choose(nonzero, 0.0))
        product = (zeros < 1.0).choose(nonzero, 0.0)
        assert isinstance(product, Number)
        return product._reduced(f"{product.text} * 1.0", dim, False), others / safe

    def spread(self, g: Symbol, dim: int) -> Symbol:
        assert isinstance(g, Number)
        return Number(self.program, g.text, self.shape, self.axes, g.truth)

    def __getitem__(self, at: Index) -> Symbol:
        index = at[-1]
        if not isinstance(index, int) or not self.shape:
            raise NotTracedError("single positions")
        axis = self.axes[-1]
        index %= self.shape[-1]
        only = f"{('row', 'col')[axis]} == {index}"
        text = self.program.name(f"tl.where({only}, {self.text}, {self.program.literal(0.0)})")
        return self._reduced(f"tl.sum({text}, axis={axis}, keep_dims=True)", -1, False)


class Stacked(Symbol):
    """Symbols along a last dimension, each on its own."""

    def __init__(self, parts: Sequence[Symbol]) -> None:
        self.parts = list(parts)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (*self.parts[0].shape, len(self.parts))

    @property
    def truth(self) -> bool:  # type: ignore[override]
        return self.parts[0].truth

    def _is_last(self, dim: int) -> bool:
        return dim in (-1, len(self.shape) - 1)

    def _each(self, function: Callable[[Symbol, int], Symbol], dim: int) -> Symbol:
        return Stacked([function(x, dim + 1 if dim < 0 else dim) for x in self.parts])

    def sum(self, dim: int, keepdims: bool = False) -> Symbol:
        if not self._is_last(dim):
            return self._each(lambda x, d: x.sum(d, keepdims), dim)
        total = sum(self.parts[1:], self.parts[0])
        return Stacked([total]) if keepdims else total

    def any(self, dim: int) -> Symbol:
        if not self._is_last(dim):
            return self._each(lambda x, d: x.any(d), dim)
        either = self.parts[0]
        for x in self.parts[1:]:
            either = either | x
        return either

    def product(self, dim: int) -> tuple[Symbol, Symbol]:
        others = []
        for i in range(len(self.parts)):
            others.append(_times(self.parts[:i] + self.parts[i + 1 :], self.parts[0]))
        return _times(self.parts, self.parts[0]), Stacked(others)

    def spread(self, g: Symbol, dim: int) -> Symbol:
        if not self._is_last(dim):
            assert isinstance(g, Stacked)
            down = dim + 1 if dim < 0 else dim
            pairs = zip(self.parts, g.parts, strict=True)
            return Stacked([x.spread(y, down) for x, y in pairs])
        g = g.parts[0] if isinstance(g, Stacked) and len(g.parts) == 1 else g
        return Stacked([g] * len(self.parts))

    def __getitem__(self, at: Index) -> Symbol:
        index = at[-1]
        if isinstance(index, EllipsisType):
            raise NotTracedError("other dimensions")
        return Stacked(self.parts[index]) if isinstance(index, slice) else self.parts[index]

    def __setitem__(self, at: Index, value: Symbol) -> None:
        index = at[-1]
        if isinstance(index, slice):
            assert isinstance(value, Stacked)
            self.parts[index] = value.parts
        elif isinstance(index, int):
            self.parts[index] = value


def _times(parts: Sequence[Symbol], like: Symbol) -> Symbol:
    product = like.filled(1.0)
    for x in parts:
        product = product * x
    return product


def _text(x: Number) -> str:
    """Where a number is wanted."""
    return x.program.name(f"{x.text}.to(tl.float64)") if x.truth else x.text


def _line(template: str, *values: Value, truth: bool = False, mask: bool = False) -> Symbol:
    """What is computed of values; ``mask``: the first is one."""
    stacked = [len(x.parts) for x in values if isinstance(x, Stacked)]
    if stacked:
        each = [[_part(x, i) for x in values] for i in range(max(stacked))]
        return Stacked([_line(template, *parts, truth=truth, mask=mask) for parts in each])
    program = next(x.program for x in values if isinstance(x, Number))
    shape: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    texts = []
    for i, x in enumerate(values):
        if isinstance(x, int | float | np.generic):
            texts.append(program.literal(float(x)))
            continue
        x = program.constant(x) if isinstance(x, np.ndarray) else x
        if not isinstance(x, Number):
            raise NotTracedError(type(x).__name__)
        texts.append(x.text if mask and i == 0 else _text(x))
        longer, shorter = (axes, x.axes) if len(axes) >= len(x.axes) else (x.axes, axes)
        if longer[len(longer) - len(shorter) :] != shorter:
            raise NotTracedError("dimensions in another order")
        axes, shape = longer, np.broadcast_shapes(shape, x.shape)
    return Number(program, program.name(template.format(*texts)), shape, axes, truth)


def _part(x: Value, i: int) -> Value:
    if isinstance(x, Stacked):
        return x.parts[i if len(x.parts) > 1 else 0]
    if isinstance(x, np.ndarray):
        return float(x[..., i])
    if isinstance(x, Number) and x.shape:
        raise NotTracedError("single positions beside those that are stacked")
    return x
