"""Binary and multilabel counts with the linear step."""

from __future__ import annotations

from collections.abc import Sequence
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

    def __init__(
        self,
        step: LinearStep,
        taus: Sequence[Any],
        grid: bool,
        from_logits: bool,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(step, taus, grid, from_logits, dtype)
        self.levels = [_cast(step.pieces(tau), dtype) for tau in taus]

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
        self, y: Tensor, by_tp: Any, by_predicted: Any, p: Tensor, level: Pieces, room: Room
    ) -> Tensor:
        """``(y L_tp + L_predicted) H'(p)``."""
        a, b, m1, m2, m3, _ = level
        if isinstance(m1, Tensor) or isinstance(by_tp, Tensor) or not _alike(m1, m2, m3):
            # 1 or 0 as floats, as masks of bool are slow; each slope in its place, so that a small
            # one is not what is left of a large one.
            below = torch.lt(p, a, out=torch.empty_like(p))
            above = torch.gt(p, b, out=torch.empty_like(p))
            inside = torch.add(below, above).neg_().add_(1)
            slope = axpy(axpy(inside.mul_(m2), below, m1), above, m3)
            return slope.mul_(affine(y, by_tp, by_predicted))
        # The same in fewer passes: the slope of the lower piece everywhere, then the others.
        g = affine(y, by_tp * m1, by_predicted * m1, room("g", y))
        out = room("h", p)
        inside = _inside(g, p, a, b) if out is None else _inside_out(g, p, a, b, grad_input=out)
        g.add_(inside, alpha=m2 / m1 - 1)
        return g if m1 == m3 else g.add_(_above(g, p, b), alpha=m3 / m1 - 1)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Any, d_pred: Any
    ) -> Tensor:
        dtype = self.dtype
        per_tp, per_pred = self.unstack(d_tp, dtype), self.unstack(d_pred, dtype)
        kept = left[0] if left else None
        out = room_for_gradient(z, kept)
        parts = parts_of(z)
        room = Room(parts)
        with untracked(parts > 1):
            for zc, yc, wc, kc, to in pieces_of(z, y, w, kept, out):
                p = self.again(zc, room, kc)
                yf = room.cast("y", yc, dtype)
                g: Any = None
                for level, by_tp, by_pred in zip(self.levels, per_tp, per_pred, strict=True):
                    term = self.pull(yf, by_tp, by_pred, p, level, room)
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


def _cast(level: Pieces, dtype: torch.dtype) -> Pieces:
    """In the dtype of the work, where they are tensors."""
    return Pieces(*(x.to(dtype) if isinstance(x, Tensor) else x for x in level))


def _alike(m1: float, m2: float, m3: float) -> bool:
    """Whether the upper slopes may be made from the lower one: ``m1 + (m3 - m1)`` has the digits of
    ``m1``, of which ``m3`` must keep most."""
    return m2 >= m1 > 0 and m3 >= m1 / 16
