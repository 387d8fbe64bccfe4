"""A few numbers with their derivatives: formulas of counts, differentiated as they stand.

A loss is a formula of four numbers per class. In small batches autograd takes longer to record and
to differentiate such a formula than a kernel takes for all rows, and on a GPU each of its small
steps is a launch. So a formula may be called with ``Traced`` numbers instead of tensors: the same
code, and its gradient by ``gradient``. They are NumPy's where values may be read on the host, and
PyTorch's, on their device, where not. Whatever is not supported raises ``NotTracedError``, and
autograd serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch

from softset.counting.numerics import NotTracedError, Traced

Array = Any  # np.ndarray, np.float64 or torch.Tensor
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
        if g.shape != shape:
            g = g.sum(-1, keepdims=bool(shape)) if shape in ((), (1,)) else g + 0 * self.value
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

    def __rpow__(self, base: float) -> Taped:
        """Of an exponent without a derivative."""
        if self.tape is not None:
            raise NotTracedError("powers of which the exponent has a derivative")
        return Taped(base**self.value, None)

    def root(self, degree: int | torch.Tensor | Taped, tiny: float) -> Taped:
        """``numerics.root``: the root, and below ``tiny`` its chord from the origin."""
        power, x = 1 / _value(degree), self.value
        if isinstance(x, torch.Tensor):
            # x^(1/d) = x c with c = max(x, tiny)^(1/d - 1), which below tiny is the chord.
            chord = x.clamp(min=tiny) ** (power - 1)
            return self._made(
                x * chord,
                lambda g: self.add(g * chord * torch.where(x > tiny, power, 1.0)),
            )
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
        """Whether all of them are known to be: on a device nobody looks."""
        if isinstance(self.value, torch.Tensor):
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
        if self.tape is not None:
            return self
        value = self.value
        return Taped(value.to(dtype) if isinstance(value, torch.Tensor) else value * 1.0, None)

    # --- shapes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.value.dtype if isinstance(self.value, torch.Tensor) else torch.float64

    @property
    def device(self) -> torch.device:
        """Of tensors; NumPy has none."""
        if not isinstance(self.value, torch.Tensor):
            raise NotTracedError("device")
        return self.value.device

    def dim(self) -> int:
        return len(self.value.shape)

    def sum(self, dim: int, keepdim: bool = False) -> Taped:
        def pull(g: Array) -> None:
            if not keepdim:
                g = g.unsqueeze(dim) if _is_tensor(g) else np.expand_dims(g, dim)
            self.add(_spread(g, self.value))

        return self._made(self.value.sum(dim, keepdims=keepdim), pull)

    def mean(self, dim: int) -> Taped:
        return self.sum(dim) * (1 / self.value.shape[dim])

    def movedim(self, source: int, to: int) -> Taped:
        value = self.value
        if not _is_tensor(value):
            raise NotTracedError("movedim")
        if source == to:
            return self
        moved = self._made(value.movedim(source, to), lambda g: self.add(g.movedim(to, source)))
        return moved if self.tape is not None else Taped(moved.value, None)

    def diff(self, dim: int) -> Taped:
        """Of neighbors in the last dimension."""
        return self[..., 1:] - self[..., :-1]

    def prod(self, dim: int) -> Taped:
        value = self.value
        if isinstance(value, torch.Tensor):
            ones = value[..., :1] * 0 + 1
            left = torch.cat([ones, value[..., :-1]], -1).cumprod(-1)
            right = torch.cat([value[..., 1:], ones], -1).flip(-1).cumprod(-1).flip(-1)
            return self._made(value.prod(dim), lambda g: self.add(g[..., None] * left * right))
        before, after = np.ones_like(value), np.ones_like(value)
        before[..., 1:] = value[..., :-1].cumprod(-1)
        after[..., :-1] = value[..., :0:-1].cumprod(-1)[..., ::-1]
        return self._made(value.prod(dim), lambda g: self.add(g[..., None] * before * after))

    def clamp(self, min: float = -np.inf, max: float = np.inf) -> Taped:
        value = self.value
        if not _is_tensor(value):
            clamped = np.maximum(value, min) if max == np.inf else np.clip(value, min, max)
        else:
            clamped = value.clamp(min=min) if max == np.inf else value.clamp(max=max)
        return self._made(clamped, lambda g: self.add(g * ((value >= min) & (value <= max))))

    def __getitem__(self, at: Any) -> Taped:
        def pull(g: Array) -> None:
            if _is_tensor(g) and isinstance(at, tuple) and isinstance(at[-1], slice):
                start, stop, _ = at[-1].indices(self.value.shape[-1])
                self.add(torch.nn.functional.pad(g, (start, self.value.shape[-1] - stop)))
                return
            whole = torch.zeros_like(self.value) if _is_tensor(g) else np.zeros_like(self.value)
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
    if isinstance(x, int | float | np.ndarray | np.generic | torch.Tensor):
        return x
    raise NotTracedError(type(x).__name__)


def _is_tensor(x: Array) -> bool:
    return isinstance(x, torch.Tensor)


def _choose(mask: Array, x: Any, y: Any) -> Array:
    if isinstance(mask, torch.Tensor):
        return torch.where(mask, x, y)
    return np.where(mask, x, y)[()]


def _spread(g: Array, like: Array) -> Array:
    return g.expand_as(like) if isinstance(g, torch.Tensor) else g + 0 * like


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
    stack = torch.stack if isinstance(values[0], torch.Tensor) else np.stack
    return parts[0]._made(stack(values, -1), pull)


def _cat(parts: Sequence[Taped], dim: int) -> Taped:
    values = [t.value for t in parts]
    if dim != -1 or not _is_tensor(values[0]):
        raise NotTracedError("cat")
    tape = next((t.tape for t in parts if t.tape is not None), None)

    def pull(g: Array) -> None:
        for t, part in zip(parts, g.split([v.shape[-1] for v in values], -1), strict=True):
            t.add(part)

    return Taped(torch.cat(values, -1), tape, pull)


def _filled(t: Taped, number: float) -> Taped:
    if _is_tensor(t.value):
        return Taped(torch.full_like(t.value, number), None)
    return Taped(np.full_like(t.value, number), None)


_FUNCTIONS: dict[Callable[..., object], Callable[..., Taped]] = {
    torch.where: _where,
    torch.stack: _stack,
    torch.cat: _cat,
    torch.ones_like: lambda t: _filled(t, 1.0),
    torch.zeros_like: lambda t: _filled(t, 0.0),
}


class Known(NamedTuple):
    """One number, and its derivatives ``[2, ...]`` by the degree of positives and of negatives:
    what a positive adds to ``tp`` it takes from ``fn``, and a negative to ``fp`` from ``tn``."""

    value: Array
    by: Array


def gradient(formula: Callable[..., Traced], cells: Array) -> Known | None:
    """``1 - formula(tp, fp, fn, tn)``, one number, and its derivatives; none if it can't be traced.
    The cells are an array or a tensor ``[4, ...]``."""
    tape: list[Taped] = []
    tp, fp, fn, tn = leaves = [Taped(cell, tape) for cell in cells]
    pairs = cells[:2] + cells[2:]
    for pair, (one, other) in zip(pairs, ((tp, fn), (fp, tn)), strict=True):
        total = Taped(pair, None)  # which does not depend on the scores
        one.sums[id(other)], other.sums[id(one)] = (other, total), (one, total)
    try:
        with np.errstate(all="ignore"):
            value = formula(*leaves)
            assert isinstance(value, Taped)
            if value.tape is not None:
                one = value.value
                value.add(torch.full_like(one, -1.0) if _is_tensor(one) else one * 0 - 1.0)
            for t in reversed(tape):
                if t.grad is not None and t.pull is not None:
                    t.pull(t.grad)
    except NotTracedError:
        return None
    by = [_change(tp, fn), _change(fp, tn)]
    return Known(1 - value.value, torch.stack(by) if _is_tensor(by[0]) else np.array(by))


def _change(one: Taped, other: Taped) -> Array:
    """The derivative by what is added to one and taken from the other."""
    if other.grad is None:
        return one.value * 0 if one.grad is None else one.grad
    return -other.grad if one.grad is None else one.grad - other.grad
