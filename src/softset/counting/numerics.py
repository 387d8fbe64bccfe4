"""Division and roots with finite gradients, and which dtype to count in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


class NotTracedError(AttributeError):
    """A formula does what only tensors can."""


class Traced:
    """Numbers of a formula that stand for tensors; what ``numerics`` asks of them."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves operators to this class

    def ratio(self, den: Traced, nothing: float, empty: float) -> Self:
        """``numerics.ratio``."""
        raise NotImplementedError

    def root(self, degree: int | Tensor, tiny: float) -> Self:
        """``numerics.root``."""
        raise NotImplementedError

    def above(self, low: float) -> bool:
        """Whether all of them are known to be."""
        raise NotImplementedError

    def trapezoids(self, x: Traced | Tensor, most: float) -> Self:
        """``numerics.trapezoids``."""
        raise NotTracedError("trapezoids")

    def steps(self, x: Traced | Tensor) -> Self:
        """``numerics.steps``."""
        raise NotTracedError("steps")


_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
# Counts below this are nothing: a reciprocal, and what it is multiplied by, must stay finite.
NOTHING = 1e-30
# Below this a rate is treated as zero by `root`: 1e-16 is far under 1/n for any n we can count.
_TINY = 1e-16


def ratio(num: Tensor, den: Tensor, empty: float = 0.0) -> Tensor:
    """``num / den``, and ``empty`` where ``den`` is zero, or below 1e-30: value and gradient are
    always finite.

    The denominator is masked *before* dividing: ``where(den > 0, num / den, empty)`` has the
    right value at zero and a NaN gradient.

    >>> import torch
    >>> ratio(torch.tensor([1.0, 1.0]), torch.tensor([4.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    if all_positive(den, NOTHING):
        return num / den
    if isinstance(num, Traced) and isinstance(den, Traced):
        return num.ratio(den, NOTHING, empty)
    nothing = den <= NOTHING  # a NaN is not nothing, and stays one
    return torch.where(nothing, empty, num / torch.where(nothing, 1.0, den))


def at_least_zero(x: Tensor, rounding: Tensor | float = 0.0) -> Tensor:
    """``x``, and zero where it is no more than ``rounding``; its gradient stays everywhere.

    >>> import torch
    >>> at_least_zero(torch.tensor([2.0, -1e-17])).tolist()
    [2.0, 0.0]
    """
    return torch.where(x > rounding, x, x - x.detach())


def all_but_each(x: Tensor) -> Tensor:
    """The sum of the others, for every element of the last dimension; nothing is subtracted.

    >>> all_but_each(torch.tensor([1.0, 2.0, 4.0])).tolist()
    [6.0, 5.0, 3.0]
    """
    before = torch.nn.functional.pad(x.cumsum(-1)[..., :-1], (1, 0))
    after = torch.nn.functional.pad(x.flip(-1).cumsum(-1)[..., :-1], (1, 0))
    return before + after.flip(-1)


def all_positive(x: Tensor, low: float = 0.0) -> bool:
    """Whether every element is known to be above ``low``; False where they cannot be looked at."""
    if isinstance(x, Traced):
        return x.above(low)
    if not readable(x):
        return False
    return x.item() > low if x.dim() == 0 else bool((x > low).all())


def root(x: Tensor, degree: int | Tensor = 2) -> Tensor:
    """The ``degree``-th root of a rate in [0, 1], exact, with a finite derivative at zero.

    Below 1e-16 the root is replaced by its chord from the origin: the derivative is bounded.

    >>> import torch
    >>> root(torch.tensor([0.25, 0.0])).tolist()
    [0.5, 0.0]
    """
    if isinstance(x, Traced):
        return x.root(degree, _TINY)
    normal = x > _TINY
    chord = x * _TINY ** (1 / degree - 1)
    return torch.where(normal, torch.where(normal, x, 1.0) ** (1 / degree), chord.clamp(min=0))


def trapezoids(y: Tensor, x: Tensor, most: float = 1.0) -> Tensor:
    """The area below heights ``y`` at ``x``, along the last dimension, in which both fall from 1 to
    0: the end points are added. ``most``: the part of it where ``x`` is below that.

    >>> trapezoids(torch.tensor([0.5]), torch.tensor([0.0])).item()
    0.75
    >>> trapezoids(torch.tensor([0.5]), torch.tensor([0.0]), 0.5).item()
    0.3125
    """
    if isinstance(y, Traced):
        return y.trapezoids(x, most)
    one, zero = torch.ones_like(y[..., :1]), torch.zeros_like(y[..., :1])
    y, x = torch.cat([one, y, zero], -1), torch.cat([one, x, zero], -1)
    high, low = y[..., :-1], y[..., 1:]
    width = x[..., :-1] - x[..., 1:]
    if most == 1:
        return ((low + high) * width).sum(-1) / 2
    inside = -x.clamp(max=most).diff(dim=-1)
    share = torch.where(inside < width, ratio(inside, width), 1.0)
    return (inside * (low + (high - low) * share / 2)).sum(-1)


def steps(y: Tensor, x: Tensor) -> Tensor:
    """The sum of heights ``y``, each times the difference of ``x`` to the next, of which the last
    is 0; along the last dimension.

    >>> steps(torch.tensor([1.0, 2.0]), torch.tensor([0.75, 0.5])).item()
    1.25
    """
    if isinstance(y, Traced):
        return y.steps(x)
    return (y * (x - torch.nn.functional.pad(x[..., 1:], (0, 1)))).sum(-1)


def log_odds(z: Tensor) -> Tensor:
    """``log p - log(1 - p)`` of every class of logits ``[..., C]``, in float64: each against all
    others. They differ where probabilities are rounded to 0 or 1.

    >>> import torch
    >>> log_odds(torch.tensor([[50.0, 0.0], [60.0, 0.0]])).tolist()
    [[50.0, -50.0], [60.0, -60.0]]
    """
    z = z.to(wide(z.device))
    top = z.argmax(-1, keepdim=True)
    others = z.scatter(-1, top, float("-inf")).logsumexp(-1, keepdim=True)
    largest = z.gather(-1, top)
    e = torch.exp(z - largest)
    # Of the largest the rest is summed without it: a difference would have lost its digits.
    others_of_top = largest + torch.log(e.sum(-1, keepdim=True) - e)
    return z - others_of_top.scatter(-1, top, others)


def under_transform(*tensors: Tensor | None) -> bool:
    """Whether a compiler or a ``torch.func`` transform watches: it sees the plain composition."""
    if torch.compiler.is_compiling():
        return True
    return any(t is not None and _wrapped(t) for t in tensors)


CHECKS = ("auto", "device", "full")


class _Checks(threading.local):
    """How values are checked in this thread: one of ``CHECKS``."""

    mode = "full"


_CHECKS = _Checks()


@contextmanager
def _checked(mode: str) -> Iterator[None]:
    before, _CHECKS.mode = _CHECKS.mode, mode
    try:
        yield
    finally:
        _CHECKS.mode = before


def checked(mode: str) -> AbstractContextManager[None]:
    """Check values as ``mode`` says: ``"full"`` reads them on the host and raises errors that name
    the cause; ``"device"`` reads nothing, and bad input makes counts NaN; ``"auto"`` is ``"full"``
    for tensors on the CPU and ``"device"`` for all others. A compiler reads nothing anyway."""
    return nullcontext() if torch.compiler.is_compiling() else _checked(mode)


def checks_on_device() -> bool:
    """Whether all checks are made on the device, on the CPU too."""
    return _CHECKS.mode == "device"


def without_values(*tensors: Tensor | None) -> bool:
    """Whether nobody can read values: while compiling, inside ``torch.func`` transforms, or where
    tensors have a shape but no values (``torch.device("meta")``, ``FakeTensorMode``)."""
    return under_transform(*tensors) or any(
        t is not None and (t.is_meta or isinstance(t, FakeTensor)) for t in tensors
    )


def readable(*tensors: Tensor | None) -> bool:
    """Whether values may be read on the host: they are there, and checks are not made on the device
    (``checked``)."""
    if checks_on_device() or without_values(*tensors):
        return False
    return _CHECKS.mode == "full" or all(t is None or t.is_cpu for t in tensors)


def full_precision(z: Tensor) -> AbstractContextManager[object]:
    """Counts are a float32 island: autocast must not turn their products into half precision."""
    device = z.device.type
    if device != "meta" and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def wide(device: torch.device) -> torch.dtype:
    """The dtype counts accumulate in: float32 sums stop at 2**24."""
    return torch.float32 if device.type == "mps" else torch.float64


def working(z: Tensor) -> torch.dtype:
    """The dtype of elementwise work: half precision is raised to float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32


class Constants:
    """Arrays as tensors, on every device where they are needed: copied there once."""

    def __init__(self, *arrays: NDArray[np.float64]) -> None:
        self.arrays = arrays
        self.copies: dict[torch.device, tuple[Tensor, ...]] = {}

    def beside(self, x: Tensor) -> tuple[Tensor, ...]:
        """In float64 where the device has it."""
        if isinstance(x, FakeTensor):
            return self._copied(x.device)
        if x.device not in self.copies:
            copied = self._copied(x.device)
            if x.is_cuda and torch.cuda.is_current_stream_capturing():
                return copied  # memory of the graph that is captured, and of nobody else
            self.copies[x.device] = copied
        return self.copies[x.device]

    def _copied(self, device: torch.device) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(a, dtype=wide(device), device=device) for a in self.arrays)


# Terms that are added in the dtype of the work, by pairs; their sums are added in float64.
RUN = 64


def summed(x: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum over the last dimension, in float64 where the device has it.

    No element is widened: runs of 64 terms are added in their own dtype, and the sums of the runs
    in float64, which keeps the digits of float32 and counts beyond 2**24.
    """
    dtype = wide(x.device)
    if x.dtype is dtype:
        return torch.sum(x, -1, out=out)
    count, beyond = divmod(x.shape[-1], RUN)
    in_runs = count * RUN
    runs = x.new_empty(*x.shape[:-1], count + (beyond > 0))
    torch.sum(x[..., :in_runs].view(*x.shape[:-1], count, RUN), -1, out=runs[..., :count])
    if beyond:
        torch.sum(x[..., in_runs:], -1, out=runs[..., count])
    return torch.sum(runs, -1, dtype=dtype, out=out)


def lowered(g: Tensor, dtype: torch.dtype) -> Tensor:
    """A gradient in the dtype of the scores; what half precision cannot hold becomes its largest
    number."""
    if g.dtype is dtype:
        return g
    limit = torch.finfo(dtype).max
    return g.clamp(-limit, limit).to(dtype)


def as_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x.to(dtype)`` without the call where there is nothing to do: it shows in small batches."""
    return x if x.dtype is dtype else x.to(dtype)


def raised(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x`` in a wider dtype; a gradient that half precision cannot hold becomes its largest number
    instead of an infinite one."""
    wider = as_dtype(x, dtype)
    if wider is not x and wider.requires_grad and not under_transform(x):
        limit = torch.finfo(x.dtype).max
        wider.register_hook(lambda g: g.clamp(-limit, limit))  # type: ignore[no-untyped-call]
    return wider
