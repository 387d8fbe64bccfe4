"""A few numbers with their derivatives: formulas of counts, differentiated as they stand.

A loss is a formula of four numbers per class. In small batches autograd takes longer to record and
to differentiate such a formula than a kernel takes for all rows. So a formula may be called with
``Traced`` numbers instead of tensors: the same code, and its gradient by ``gradient``. They are
NumPy's, or ``Symbol`` where the lines of a kernel are written for a GPU. Whatever is not supported
raises ``NotTracedError``, and autograd serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch

from softset.counting.numerics import NotTracedError, Traced
from softset.counting.symbols import Stacked, Symbol

Array = Any  # np.ndarray, np.float64 or a Symbol
_Pull = Callable[[Array], None]


class Taped(Traced):
    """Numbers, and how a derivative by them becomes one by those they were computed from."""

    __slots__ = ("grad", "pull", "sums", "tape", "value")

    def __init__(self, value: Array, tape: list[Taped] | None, pull: _Pull | None = None) -> None:
        self.value, self.tape, self.pull, self.grad = value, tape, pull, None
        self.sums: dict[int, tuple[Taped, Taped]] = {}  # what was added to it, and the sum
        if tape is not None:  # else it is a constant
            tape.append(self)

    def _made(self, value: Array, pull: _Pull, other: Any = None) -> Taped:
        tape = self.tape
        if tape is None and isinstance(other, Taped):
            tape = other.tape
        return Taped(value, tape, pull)

    def add(self, g: Array) -> None:
        """Add to the derivative, summed over the dimensions along which the number was repeated."""
        if self.tape is None:
            return
        shape = self.value.shape
        while len(g.shape) > len(shape):
            g = g.sum(0)
        for dim, size in enumerate(shape):
            if size == 1 and g.shape[dim - len(shape) + len(g.shape)] > 1:
                g = g.sum(dim, keepdims=True)
        g = g if g.shape == shape else g + 0 * self.value
        self.grad = g if self.grad is None else self.grad + g

    # --- arithmetic

    def __add__(self, other: Any) -> Taped:
        if id(other) in self.sums:
            return self.sums[id(other)][1]
        b = _value(other)

        def pull(g: Array) -> None:
            self.add(g)
            if b is not other:
                other.add(g)

        total = self._made(self.value + b, pull, other)
        if b is not other:
            self.sums[id(other)] = (other, total)
        return total

    __radd__ = __add__

    def __neg__(self) -> Taped:
        return self._made(-self.value, lambda g: self.add(-g))

    def __sub__(self, other: Any) -> Taped:
        b = _value(other)

        def pull(g: Array) -> None:
            self.add(g)
            if b is not other:
                other.add(-g)

        return self._made(self.value - b, pull, other)

    def __rsub__(self, other: Any) -> Taped:
        return self._made(_value(other) - self.value, lambda g: self.add(-g))

    def __mul__(self, other: Any) -> Taped:
        b = _value(other)

        def pull(g: Array) -> None:
            self.add(g * b)
            if b is not other:
                other.add(g * self.value)

        return self._made(self.value * b, pull, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Taped:
        b = _value(other)
        value = self.value / b

        def pull(g: Array) -> None:
            self.add(g / b)
            if b is not other:
                other.add(-g * value / b)

        return self._made(value, pull, other)

    def __rtruediv__(self, other: Any) -> Taped:
        value = _value(other) / self.value
        return self._made(value, lambda g: self.add(-g * value / self.value))

    def __pow__(self, power: Any) -> Taped:
        """Of an exponent without a derivative."""
        n = _value(power)
        return self._made(self.value**n, lambda g: self.add(g * n * self.value ** (n - 1)))

    def root(self, degree: int | Taped, tiny: float) -> Taped:  # type: ignore[override]
        """``numerics.root``: the root, and below ``tiny`` its chord from the origin."""
        power, x = 1 / _value(degree), self.value
        if isinstance(x, Symbol):
            # x^(1/d) = x c with c = max(x, tiny)^(1/d - 1), which below tiny is the chord.
            chord = x.clamp(tiny) ** (power - 1)
            slope = chord * (x > tiny).choose(power, 1.0)
            return self._made(x * chord, lambda g: self.add(g * slope))
        normal, chord = x > tiny, tiny ** (power - 1)
        value = np.where(normal, x, 1.0) ** power
        slope = np.where(
            normal, value * power / np.where(normal, x, 1.0), np.where(x >= 0, chord, 0.0)
        )
        value = np.where(normal, value, np.maximum(x * chord, 0.0))[()]
        return self._made(value, lambda g: self.add(g * slope))

    def ratio(self, den: Traced, nothing: float, empty: float) -> Taped:
        """``numerics.ratio``: ``empty`` where the denominator is nothing, without a derivative."""
        assert isinstance(den, Taped)
        none = den.value <= nothing
        inverse = _choose(none, 0.0, 1 / _choose(none, 1.0, den.value))
        value = self.value * inverse
        value = value if empty == 0 else _choose(none, empty, value)

        def pull(g: Array) -> None:
            by = g * inverse
            self.add(by)
            if den.tape is not None:
                den.add(-by * value)

        return self._made(value, pull, den)

    # --- what has no derivative

    def above(self, low: float) -> bool:
        """Whether all of them are known to be."""
        if isinstance(self.value, Symbol):
            return False
        all_of_them = self.value > low
        return bool(all_of_them if not all_of_them.ndim else all_of_them.all())

    def __gt__(self, other: Any) -> Taped:
        return Taped(self.value > _value(other), None)

    def __lt__(self, other: Any) -> Taped:
        return Taped(self.value < _value(other), None)

    def __le__(self, other: Any) -> Taped:
        return Taped(self.value <= _value(other), None)

    def __and__(self, other: Any) -> Taped:
        return Taped(self.value & _value(other), None)

    def __or__(self, other: Any) -> Taped:
        return Taped(self.value | _value(other), None)

    def any(self, dim: int) -> Taped:
        return Taped(self.value.any(dim), None)

    def to(self, dtype: torch.dtype) -> Taped:
        return self if self.tape is not None else Taped(self.value * 1.0, None)

    # --- shapes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64

    def dim(self) -> int:
        return len(self.value.shape)

    def sum(self, dim: int, keepdim: bool = False) -> Taped:
        def pull(g: Array) -> None:
            self.add(_spread(g, self.value, dim, keepdim))

        return self._made(self.value.sum(dim, keepdims=keepdim), pull)

    def mean(self, dim: int) -> Taped:
        return self.sum(dim) * (1 / self.value.shape[dim])

    def prod(self, dim: int) -> Taped:
        value = self.value
        if isinstance(value, Symbol):
            product, others = value.product(dim)
            return self._made(product, lambda g: self.add(value.spread(g, dim) * others))
        before, after = np.ones_like(value), np.ones_like(value)
        before[..., 1:] = value[..., :-1].cumprod(-1)
        after[..., :-1] = value[..., :0:-1].cumprod(-1)[..., ::-1]
        return self._made(value.prod(dim), lambda g: self.add(g[..., None] * before * after))

    def clamp(self, min: float) -> Taped:
        value = self.value
        clamped = value.clamp(min) if isinstance(value, Symbol) else np.maximum(value, min)
        return self._made(clamped, lambda g: self.add(g * _choose(value < min, 0.0, 1.0)))

    def __getitem__(self, at: Any) -> Taped:
        def pull(g: Array) -> None:
            whole = _filled(self, 0.0).value
            whole[at] = g
            self.add(whole)

        return self._made(self.value[at], pull)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotTracedError(name)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., object],
        types: Iterable[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Taped:
        ours = _FUNCTIONS.get(function)
        if ours is None or not all(issubclass(t, Taped) for t in types):
            raise NotTracedError(str(function))
        return ours(*args, **(kwargs or {}))


def _value(x: Any) -> Any:
    """The numbers themselves; ``x`` if it is a number already."""
    if isinstance(x, Taped):
        return x.value
    if isinstance(x, int | float | np.ndarray | np.generic | Symbol):
        return x
    raise NotTracedError(type(x).__name__)


def _choose(mask: Array, x: Any, y: Any) -> Array:
    return mask.choose(x, y) if isinstance(mask, Symbol) else np.where(mask, x, y)[()]


def _spread(g: Array, like: Array, dim: int, keepdim: bool) -> Array:
    """A derivative by a sum as one by what was summed."""
    if isinstance(like, Symbol):
        return like.spread(g, dim)
    return (g if keepdim else np.expand_dims(g, dim)) + 0 * like


def _where(condition: Any, a: Any, b: Any) -> Taped:
    mask, x, y = _value(condition), _value(a), _value(b)
    tape = next((t.tape for t in (a, b) if isinstance(t, Taped) and t.tape is not None), None)

    def pull(g: Array) -> None:
        if x is not a and a.tape is not None:
            a.add(_choose(mask, g, 0.0))
        if y is not b and b.tape is not None:
            b.add(_choose(mask, 0.0, g))

    return Taped(_choose(mask, x, y), tape, pull)


def _stack(parts: Sequence[Taped], dim: int) -> Taped:
    if dim != -1:
        raise NotTracedError("stack")

    def pull(g: Array) -> None:
        for i, t in enumerate(parts):
            t.add(g[..., i])

    values = [t.value for t in parts]
    symbols = isinstance(values[0], Symbol)
    return parts[0]._made(Stacked(values) if symbols else np.stack(values, -1), pull)


def _filled(t: Taped, number: float) -> Taped:
    if isinstance(t.value, Symbol):
        return Taped(t.value.filled(number), None)
    return Taped(np.full_like(t.value, number), None)


_FUNCTIONS: dict[Callable[..., object], Callable[..., Taped]] = {
    torch.where: _where,
    torch.stack: _stack,
    torch.ones_like: lambda t: _filled(t, 1.0),
    torch.zeros_like: lambda t: _filled(t, 0.0),
}


class Known(NamedTuple):
    """One number, and its derivatives by the degree of positives and of negatives: what a positive
    adds to ``tp`` it takes from ``fn``, and a negative to ``fp`` from ``tn``."""

    value: Array
    by: list[Array]


def gradient(formula: Callable[..., Traced], cells: Iterable[Array]) -> Known | None:
    """``1 - formula(tp, fp, fn, tn)``, one number, and its derivatives; none if it can't be
    traced."""
    tape: list[Taped] = []
    tp, fp, fn, tn = leaves = [Taped(cell, tape) for cell in cells]
    for one, other in ((tp, fn), (fp, tn)):
        total = Taped(one.value + other.value, None)  # which does not depend on the scores
        one.sums[id(other)], other.sums[id(one)] = (other, total), (one, total)
    try:
        with np.errstate(all="ignore"):
            value = formula(*leaves)
            assert isinstance(value, Taped)
            if value.tape is not None:
                value.add(value.value * 0 - 1.0)
            for t in reversed(tape):
                if t.grad is not None and t.pull is not None:
                    t.pull(t.grad)
    except NotTracedError:
        return None
    return Known(1 - value.value, [_change(tp, fn), _change(fp, tn)])


def _change(one: Taped, other: Taped) -> Array:
    """The derivative by what is added to one and taken from the other."""
    if other.grad is None:
        return one.value * 0 if one.grad is None else one.grad
    return -other.grad if one.grad is None else one.grad - other.grad
