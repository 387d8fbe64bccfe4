"""What a kernel in C is asked for: where scores, target and weights lie, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import torch
from torch import Tensor

# As in task.h: ``enum kind``, ``enum step`` and what a call returns.
KINDS = {
    torch.int64: 0,
    torch.uint8: 1,
    torch.bool: 1,
    torch.float32: 2,
    torch.float64: 3,
    torch.int32: 4,
}
EXACT = 2**24  # labels up to here are exact as C reads them, in float32
LINEAR, SIGMOID, IDENTITY = 0, 1, 2
DONE = 0
LEVEL = 7  # numbers of a level

POSITIONS = 3  # dimensions of positions that a kernel walks through
_NOTHING = (0, 0, 0, 0, 0)


class Levels(NamedTuple):
    """What a step needs to know: ``[batch, classes, thresholds, LEVEL]``, and how to walk it."""

    numbers: Tensor  # float64
    of_batch: int = 0  # levels from one problem to the next; 0 if all have the same
    of_class: int = 0
    thresholds: int = 1


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
    """Dimensions ``(size, *strides)`` without those of one element; neighbours that every tensor
    walks through as if they were one become one."""
    found: list[tuple[int, ...]] = []
    for size, *strides in dims:
        if size == 1:
            continue
        if found and all(a == b * size for a, b in zip(found[-1][1:], strides, strict=True)):
            found[-1] = (found[-1][0] * size, *strides)
        else:
            found.append((size, *strides))
    return found


class Task(NamedTuple):
    """The fields of ``task`` in task.h, in its order."""

    scores: Tensor
    gradient: Tensor | None
    target: Tensor
    weight: Tensor | None
    class_weight: Tensor | None
    levels: Levels
    positive: Tensor | None
    negative: Tensor | None
    sums: Tensor | None
    layout: Layout
    wide_work: bool
    step: int
    from_logits: bool
    soft: bool
    ignored: int | None

    def packed(self) -> bytes:
        """As C sees it. The tensors must outlive the call."""
        y, w, levels, layout = self.target, self.weight, self.levels, self.layout
        return _FORMAT.pack(
            self.scores.data_ptr(),
            _address(self.gradient),
            y.data_ptr(),
            _address(w),
            _address(self.class_weight),
            levels.numbers.data_ptr(),
            _address(self.positive),
            _address(self.negative),
            _address(self.sums),
            *layout.sizes,
            *layout.scores,
            *layout.gradient,
            *layout.target,
            *layout.weight,
            self.scores.dtype is torch.float64,
            w is not None and w.dtype is torch.float64,
            self.wide_work,
            KINDS[y.dtype],
            self.step,
            levels.of_batch,
            levels.of_class,
            levels.thresholds,
            self.from_logits,
            self.soft,
            self.ignored is not None,
            self.ignored or 0,
        )


_FORMAT = Struct("@46q")
SIZE = _FORMAT.size


def _address(t: Tensor | None) -> int:
    return 0 if t is None else t.data_ptr()
