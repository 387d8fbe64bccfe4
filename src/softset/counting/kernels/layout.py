"""Where scores, targets and weights lie in memory: what the kernels in C and in Triton are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from softset.counting.steps import IdentityStep, LinearStep, SigmoidStep

# As in task.h: ``enum step``.
LINEAR, SIGMOID, IDENTITY = 0, 1, 2
STEPS: dict[type, int] = {LinearStep: LINEAR, SigmoidStep: SIGMOID, IdentityStep: IDENTITY}
EXACT = 2**24  # labels up to here are exact as kernels read them, in float32
POSITIONS = 3  # dimensions of positions that a kernel walks through
_NOTHING = (0, 0, 0, 0, 0)


class Rows(NamedTuple):
    """Arguments where they lie: scores ``[*batch, *positions, classes]``; target, and weights if
    there are any, the same with or without the classes."""

    z: Tensor
    y: Tensor
    w: Tensor | None = None
    batch_dims: int = 0
    class_weight: Tensor | None = None
    ignored: int | None = None


class Layout(NamedTuple):
    """Sizes ``[batch, outer, middle, inner, classes]`` and the strides of four tensors in them."""

    sizes: tuple[int, ...]
    scores: tuple[int, ...]
    gradient: tuple[int, ...]
    target: tuple[int, ...]
    weight: tuple[int, ...]

    @classmethod
    def of(
        cls, z: Tensor, y: Tensor, w: Tensor | None, out: Tensor | None, batch_dims: int
    ) -> Layout | None:
        """Of scores ``[*batch, *positions, classes]`` and what belongs to them, where they lie.

        Target and weights may come without the classes. Nothing if there are more dimensions than a
        kernel walks through, after those that lie one behind the other have been put together.
        """
        last = z.dim() - 1
        if last == 1 and not batch_dims:  # rows: at once, as it shows in small batches
            return cls(
                (1, 1, 1, *z.shape),
                (0, 0, 0, *z.stride()),
                _NOTHING if out is None else (0, 0, 0, *out.stride()),
                (0, 0, 0, *y.stride(), 0)[:5],
                _NOTHING if w is None else (0, 0, 0, *w.stride(), 0)[:5],
            )
        tensors = (z, out, y, w)
        steps = [_NOTHING[:0] if t is None else t.stride() for t in tensors]
        of_class = [s[last] if len(s) > last else 0 for s in steps]
        none = (0,) * last
        places = [(s or none)[:last] for s in steps]
        dims = [(size, *(p[i] for p in places)) for i, size in enumerate(z.shape[:last])]
        batch, positions = _joined(dims[:batch_dims]), _joined(dims[batch_dims:])
        if len(batch) > 1 or len(positions) > POSITIONS:
            return None
        one = (1, 0, 0, 0, 0)
        filled = [*(batch or [one]), *[one] * (POSITIONS - len(positions)), *positions]
        sizes, *strides = zip(*filled, strict=True)
        each = ((*s, c) for s, c in zip(strides, of_class, strict=True))
        return cls((*sizes, z.shape[last]), *each)


def _joined(dims: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Dimensions ``(size, *strides)`` without those of one element; neighbors that every tensor
    walks through as if they were one become one."""
    joined: list[tuple[int, ...]] = []
    for size, *strides in dims:
        if size == 1:
            continue
        if joined and all(a == b * size for a, b in zip(joined[-1][1:], strides, strict=True)):
            joined[-1] = (joined[-1][0] * size, *strides)
        else:
            joined.append((size, *strides))
    return joined
