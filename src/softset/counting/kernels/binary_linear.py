"""Binary and multilabel counts with the linear step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.blocks import parts_of, pieces_of
from softset.counting.kernels.scratch import Room, affine, axpy, room_for_gradient, store, untracked
from softset.counting.steps import LinearStep, Pieces

# Kernels of PyTorch's own backward passes: g where a < p < b, g where p > b, g p (1 - p). Masks of
# bool cost several times as much on a CPU.
_inside = torch.ops.aten.hardtanh_backward.default
_inside_out = torch.ops.aten.hardtanh_backward.grad_input
_above = torch.ops.aten.threshold_backward.default
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input


class LinearKernel(BinaryKernel):
    """The linear step: ``dL/dz = w (y L_tp + L_predicted) H'(p) p (1 - p)``."""

    step: LinearStep
    closed_form = True

    @cached_property
    def levels(self) -> Sequence[Pieces]:
        return [_in_dtype(self.step, self.step.pieces(tau), self.dtype) for tau in self.taus]

    def kept(self, z: Tensor, keep: bool) -> Tensor | None:
        return z.new_empty(z.shape, dtype=self.dtype) if keep and self.from_logits else None

    def value(self, p: Tensor, level: Pieces, room: Room) -> tuple[Tensor, float | None]:
        # m1 min(p, a) + m2 (clip(p, a, b) - a) + m3 max(p - b, 0): nothing cancels, however steep
        # a piece is. At tau = 1/2, where m1 = m3, as p + (m2/m1 - 1) (clip(p, a, b) - a), which
        # saves a pass and cancels where m2 < m1.
        a, b, m1, m2, m3, _ = level
        middle = torch.clamp(p, a, b, out=room("h", p)).sub_(a)
        if isinstance(m1, float) and 0 < m1 == m3 <= m2:
            return torch.add(p, middle, alpha=m2 / m1 - 1, out=middle), m1
        h = axpy(middle.mul_(m2), torch.clamp(p, max=a, out=room("outer", p)), m1)
        return axpy(h, torch.sub(p, b, out=room("outer", p)).clamp_(min=0), m3), None

    def pull(
        self, y: Tensor, positive: Any, negative: Any, p: Tensor, level: Pieces, room: Room
    ) -> Tensor:
        """``(y L_tp + L_predicted) H'(p)``, given what it is for a positive and for a negative."""
        a, b, m1, m2, m3, _ = level
        if isinstance(m1, Tensor) or isinstance(positive, Tensor) or not _alike(m1, m2, m3):
            # 1 or 0 as floats, as masks of bool are slow; each slope in its place, so that a small
            # one is not what is left of a large one.
            below = torch.lt(p, a, out=torch.empty_like(p))
            above = torch.gt(p, b, out=torch.empty_like(p))
            inside = torch.add(below, above).neg_().add_(1)
            slope = axpy(axpy(inside.mul_(m2), below, m1), above, m3)
            return slope.mul_(_either(y, positive, negative))
        # The same in fewer passes: the slope of the lower piece everywhere, then the others.
        g = _either(y, positive * m1, negative * m1, room("g", y))
        out = room("h", p)
        inside = _inside(g, p, a, b) if out is None else _inside_out(g, p, a, b, grad_input=out)
        g.add_(inside, alpha=m2 / m1 - 1)
        return g if m1 == m3 else g.add_(_above(g, p, b), alpha=m3 / m1 - 1)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Any, d_pred: Any
    ) -> Tensor:
        dtype = self.dtype
        positive = self.unstack(d_tp + d_pred, dtype)  # before they lose digits: they may cancel
        negative = self.unstack(d_pred, dtype)
        kept = left[0] if left else None
        out = room_for_gradient(z, kept)
        parts = parts_of(z)
        room = Room(parts)
        with untracked(parts > 1):
            for zc, yc, wc, kc, to in pieces_of(z, y, w, kept, out):
                p = self.again(zc, room, kc)
                yf = room.cast("y", yc, dtype)
                g: Any = None
                for level, pos, neg in zip(self.levels, positive, negative, strict=True):
                    term = self.pull(yf, pos, neg, p, level, room)
                    if g is None:
                        g = term if len(self.levels) == 1 else term.clone()
                    else:
                        g.add_(term)
                self.through(g, p, zc, wc, to)
        return out

    def through(self, g: Tensor, p: Tensor, zc: Tensor, wc: Tensor | None, out: Tensor) -> None:
        """From the derivative by the probability to that by the score, written to ``out``."""
        if wc is not None:
            g = g * wc.to(g.dtype)
        if not self.from_logits:
            store(out, g)
        elif zc.device.type == "cpu" and out.dtype == p.dtype and float(p.amax()) < 0.9995:
            _through_sigmoid(g, p, grad_input=out)  # g p (1 - p)
        else:
            # 1 - p loses its digits, in float32 it is exactly 0 from z = 17 on; sigmoid(-z) not.
            store(out, torch.sigmoid(-zc.to(g.dtype)).mul_(p).mul_(g))


def _in_dtype(step: LinearStep, level: Pieces, dtype: torch.dtype) -> Pieces:
    """With corners that the dtype of the work can hold, and the slope of the middle between these:
    ``m2 (b - a)`` is what a row above the step has gained, of which no digit may be lost."""
    if isinstance(level.m2, Tensor):
        level = Pieces(*(x.to(dtype) if isinstance(x, Tensor) else x for x in level))
        rise = (1 - 2 * step.delta) / (level.b - level.a)
        return level._replace(m2=rise.to(dtype))
    a, b = (torch.scalar_tensor(x, dtype=dtype, device="cpu").item() for x in level[:2])
    return level._replace(a=a, b=b, m2=(1 - 2 * step.delta) / (b - a))


def _either(y: Tensor, positive: Any, negative: Any, out: Tensor | None = None) -> Tensor:
    """``positive`` where ``y`` is 1, ``negative`` where it is 0."""
    if isinstance(positive, float) and abs(negative) <= 16 * abs(positive):
        return affine(y, positive - negative, negative, out)
    # Not as ``negative + (positive - negative)``, of which little may be left.
    return axpy(affine(y, -negative, negative, out), y, positive)


def _alike(m1: float, m2: float, m3: float) -> bool:
    """Whether the upper slopes may be made from the lower one: ``m1 + (m3 - m1)`` has the digits of
    ``m1``, of which ``m3`` must keep most."""
    return m2 >= m1 > 0 and m3 >= m1 / 16
