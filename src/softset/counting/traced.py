"""A few numbers with their derivatives: formulas of counts, differentiated in NumPy.

A loss is a formula of four numbers per class. In small batches PyTorch takes longer to record and
to differentiate such a formula than a kernel takes for all rows. So a formula may be called with
``Traced`` numbers instead of tensors: the same code, and its gradient by ``gradient``. Whatever is
not supported raises ``NotTracedError``, and PyTorch serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

Array = Any  # np.ndarray or np.float64
_Pull = Callable[[Array], None]


class NotTracedError(AttributeError):
    """A formula does what only tensors can."""


class Traced:
    """Numbers, and how a derivative by them becomes one by those they were computed from."""

    __slots__ = ("grad", "pull", "tape", "value")
    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, value: Array, tape: list[Traced] | None, pull: _Pull | None = None) -> None:
        self.value, self.tape, self.pull, self.grad = value, tape, pull, None
        if tape is not None:  # else it is a constant
            tape.append(self)

    def _made(self, value: Array, pull: _Pull, other: Any = None) -> Traced:
        tape = self.tape
        if tape is None and isinstance(other, Traced):
            tape = other.tape
        return Traced(value, tape, pull)

    def add(self, g: Array) -> None:
        """Add to the derivative, summed over the dimensions along which the number was repeated."""
        if self.tape is None:
            return
        shape = self.value.shape
        if g.shape != shape:
            g = g.sum(-1, keepdims=bool(shape)) if shape in ((), (1,)) else g + 0 * self.value
        self.grad = g if self.grad is None else self.grad + g

    # --- arithmetic

    def __add__(self, other: Any) -> Traced:
        b = _value(other)

        def pull(g: Array) -> None:
            self.add(g)
            if b is not other:
                other.add(g)

        return self._made(self.value + b, pull, other)

    __radd__ = __add__

    def __neg__(self) -> Traced:
        return self._made(-self.value, lambda g: self.add(-g))

    def __sub__(self, other: Any) -> Traced:
        b = _value(other)

        def pull(g: Array) -> None:
            self.add(g)
            if b is not other:
                other.add(-g)

        return self._made(self.value - b, pull, other)

    def __rsub__(self, other: Any) -> Traced:
        return self._made(_value(other) - self.value, lambda g: self.add(-g))

    def __mul__(self, other: Any) -> Traced:
        b = _value(other)

        def pull(g: Array) -> None:
            self.add(g * b)
            if b is not other:
                other.add(g * self.value)

        return self._made(self.value * b, pull, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Traced:
        b = _value(other)
        value = self.value / b

        def pull(g: Array) -> None:
            self.add(g / b)
            if b is not other:
                other.add(-g * value / b)

        return self._made(value, pull, other)

    def __rtruediv__(self, other: Any) -> Traced:
        value = _value(other) / self.value
        return self._made(value, lambda g: self.add(-g * value / self.value))

    def __pow__(self, power: Any) -> Traced:
        """Of an exponent without a derivative."""
        n = _value(power)
        return self._made(self.value**n, lambda g: self.add(g * n * self.value ** (n - 1)))

    def __rpow__(self, base: float) -> Traced:
        """Of an exponent without a derivative."""
        if self.tape is not None:
            raise NotTracedError("powers of which the exponent has a derivative")
        return Traced(base**self.value, None)

    def root(self, degree: Any, tiny: float) -> Traced:
        """``numerics.root``: the root, and below ``tiny`` its chord from the origin."""
        power, x = 1 / _value(degree), self.value
        normal, chord = x > tiny, tiny ** (power - 1)
        value = np.where(normal, x, 1.0) ** power
        slope = np.where(
            normal, value * power / np.where(normal, x, 1.0), np.where(x >= 0, chord, 0.0)
        )
        value = np.where(normal, value, np.maximum(x * chord, 0.0))[()]
        return self._made(value, lambda g: self.add(g * slope))

    # --- what has no derivative

    def above(self, low: float) -> bool:
        """Whether all of them are."""
        all_of_them = self.value > low
        return bool(all_of_them if not all_of_them.ndim else all_of_them.all())

    def __gt__(self, other: Any) -> Traced:
        return Traced(self.value > _value(other), None)

    def __le__(self, other: Any) -> Traced:
        return Traced(self.value <= _value(other), None)

    def __and__(self, other: Any) -> Traced:
        return Traced(self.value & _value(other), None)

    def __or__(self, other: Any) -> Traced:
        return Traced(self.value | _value(other), None)

    def any(self, dim: int) -> Traced:
        return Traced(self.value.any(dim), None)

    def to(self, dtype: torch.dtype) -> Traced:
        return self if self.tape is not None else Traced(self.value.astype(np.float64), None)

    # --- shapes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64

    def dim(self) -> int:
        return len(self.value.shape)

    def sum(self, dim: int, keepdim: bool = False) -> Traced:
        ones = np.ones_like(self.value)

        def pull(g: Array) -> None:
            self.add((g if keepdim else g[..., None]) * ones)

        return self._made(self.value.sum(dim, keepdims=keepdim), pull)

    def prod(self, dim: int) -> Traced:
        value = self.value
        before, after = np.ones_like(value), np.ones_like(value)
        before[..., 1:] = value[..., :-1].cumprod(-1)
        after[..., :-1] = value[..., :0:-1].cumprod(-1)[..., ::-1]
        return self._made(value.prod(dim), lambda g: self.add(g[..., None] * before * after))

    def clamp(self, min: float) -> Traced:
        inside = self.value >= min
        return self._made(np.maximum(self.value, min), lambda g: self.add(g * inside))

    def __getitem__(self, at: Any) -> Traced:
        def pull(g: Array) -> None:
            whole = np.zeros_like(self.value)
            whole[at] = g
            self.add(whole)

        return self._made(self.value[at], pull)

    def __getattr__(self, name: str) -> Any:
        raise NotTracedError(name)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        ours = _FUNCTIONS.get(function)
        if ours is None or not all(issubclass(t, Traced) for t in types):
            raise NotTracedError(str(function))
        return ours(*args, **(kwargs or {}))


def _value(x: Any) -> Any:
    """The numbers themselves; ``x`` if it is a number already."""
    if isinstance(x, Traced):
        return x.value
    if isinstance(x, int | float | np.ndarray | np.generic):
        return x
    raise NotTracedError(type(x).__name__)


def _where(condition: Any, a: Any, b: Any) -> Traced:
    mask, x, y = condition.value, _value(a), _value(b)
    tape = next((t.tape for t in (a, b) if isinstance(t, Traced) and t.tape is not None), None)

    def pull(g: Array) -> None:
        if x is not a:
            a.add(np.where(mask, g, 0.0))
        if y is not b:
            b.add(np.where(mask, 0.0, g))

    return Traced(np.where(mask, x, y)[()], tape, pull)


def _stack(parts: Sequence[Traced], dim: int) -> Traced:
    if dim != -1:
        raise NotTracedError("stack")

    def pull(g: Array) -> None:
        for i, t in enumerate(parts):
            t.add(g[..., i])

    return parts[0]._made(np.stack([t.value for t in parts], -1), pull)


_FUNCTIONS: dict[Any, Callable[..., Traced]] = {
    torch.where: _where,
    torch.stack: _stack,
    torch.ones_like: lambda t: Traced(np.ones_like(t.value), None),
}


def gradient(formula: Callable[..., Traced], cells: Array) -> tuple[float, list[Array]] | None:
    """The value of ``formula(*cells)``, one number, and its derivatives by the cells; none if it
    can't be traced."""
    tape: list[Traced] = []
    leaves = [Traced(cell, tape) for cell in cells]
    try:
        with np.errstate(all="ignore"):
            value = formula(*leaves)
            if value.tape is None:
                return float(value.value), [np.zeros_like(cell) for cell in cells]
            value.add(np.float64(1))
            for t in reversed(tape):
                if t.grad is not None and t.pull is not None:
                    t.pull(t.grad)
    except NotTracedError:
        return None
    zero = np.zeros_like(cells[0])
    return float(value.value), [zero if t.grad is None else t.grad for t in leaves]
