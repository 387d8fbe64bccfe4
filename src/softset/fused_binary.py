"""Binary and multilabel kernels: any step, the linear one, and a grid of thresholds in bins.

Scores ``[*lead, N]``, see ``fused``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from softset.fused import Counts, as_dtype, check_binary, off_labels, store, vjp, wide, working
from softset.steps import LinearStep, Step

# Elements in a chunk: small enough for the cache, large enough to hide the cost of a call.
CHUNK = 2**16
# Up to this many scores their probabilities are kept for the backward pass; of more it computes
# them again, so that memory stays near that of the gradient alone.
KEEP = 2**21

# Kernels of PyTorch's own backward passes: g where a < p < b, g where p > b, g p (1 - p). Masks of
# bool cost several times as much on a CPU.
_inside = torch.ops.aten.hardtanh_backward.default
_inside_out = torch.ops.aten.hardtanh_backward.grad_input
_above = torch.ops.aten.threshold_backward.default
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input


class Room:
    """Scratch space that the chunks of a pass share: fresh memory costs more than arithmetic.

    With a single chunk there is nothing to share, and PyTorch makes its results itself.
    """

    def __init__(self, chunks: int) -> None:
        self.shared = chunks > 1
        self.held: dict[str, Tensor] = {}

    def __call__(self, name: str, like: Tensor, dtype: torch.dtype | None = None) -> Any:
        """A tensor of the shape of ``like`` with any content; the same memory for the same name."""
        if not self.shared:
            return None
        held = self.held.get(name)
        if held is None:
            held = self.held[name] = torch.empty_like(like, dtype=dtype)
        return held if held.shape == like.shape else held[..., : like.shape[-1]]

    def cast(self, name: str, x: Tensor, dtype: torch.dtype) -> Tensor:
        """``x`` in another dtype; itself if there is nothing to do."""
        if x.dtype is dtype:
            return x
        return self(name, x, dtype).copy_(x) if self.shared else x.to(dtype)


class BinaryKernel:
    """``tp = sum w y H(p, tau)`` and ``predicted = sum w H(p, tau)``, for any step, by chunks.

    ``taus`` holds one threshold, or a grid of them (``grid=True``: sums get a last dimension for
    it). A threshold is a number or a tensor that broadcasts with ``[*lead, 1]``.
    """

    def __init__(self, step: Step, taus: Sequence[Any], grid: bool, from_logits: bool) -> None:
        self.step, self.taus, self.grid, self.from_logits = step, taus, grid, from_logits

    def stack(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values, -1) if self.grid else values[0]

    def unstack(self, adjoint: Tensor | float, dtype: torch.dtype) -> list[Any]:
        """The derivative by the sums at each threshold: numbers where there is one problem."""
        if isinstance(adjoint, float):
            return [adjoint]
        parts = adjoint.unbind(-1) if self.grid else (adjoint,)
        if parts[0].dim() == 0 and adjoint.device.type == "cpu":
            return [float(part) for part in parts]
        return [part.to(dtype).unsqueeze(-1) for part in parts]

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        tp, predicted, (_, wy, w) = self._soft_sums(z, y, w)
        support = wy.sum(-1).expand_as(tp[0])
        total = _total(w, z.shape[-1], tp[0])
        margins = [self.stack([m] * len(tp)) for m in (support, total)]
        return self.stack(tp), self.stack(predicted), margins[0], margins[1]

    def _soft_sums(self, z: Tensor, y: Tensor, w: Tensor | None) -> Any:
        dtype = wide(z.device)
        z = z.to(working(z))
        p = torch.sigmoid(z) if self.from_logits else z
        w = None if w is None else w.to(dtype)
        wy = y.to(dtype) if w is None else y.to(dtype) * w
        tp, predicted = [], []
        for tau in self.taus:
            h = self.step(p, tau).to(dtype)
            tp.append((h * wy).sum(-1))
            predicted.append(h.sum(-1) if w is None else (h * w).sum(-1))
        return tp, predicted, (p, wy, w)

    def chunks(self, z: Tensor, y: Tensor, w: Tensor | None) -> Iterator[Any]:
        n = z.shape[-1]
        size = math.ceil(n / _parts(z))
        if size >= n:
            yield slice(None), z, y, w
            return
        for start in range(0, n, size):
            part = slice(start, start + size)
            yield part, z[..., part], y[..., part], None if w is None else w[..., part]

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        f, dtype = working(z), wide(z.device)
        parts = _parts(z)
        room, kept = Room(parts), self.keep(z, parts)
        sums: list[Tensor] = []
        bad: Any = None
        for part, zc, yc, wc in self.chunks(z, y, w):
            yf = room.cast("y", yc, f)
            if yc.dtype != torch.bool:
                off = off_labels(yf, room("h", yf))
                bad = off if bad is None else bad + off
            wy = room.cast("wide y", yf, dtype)
            if wc is not None:
                wc = room.cast("w", wc, dtype)
                wy = torch.mul(wy, wc, out=room("wy", wy))
            p = self.probabilities(zc, room("p", zc) if kept is None else kept[..., part])
            here = [wy.sum(-1)]
            for tau in self.taus:
                h, unit = self.value(p, tau, room)
                h = room.cast("wide h", h, dtype)
                here += [_dot(h, wy), _sum(h, wc)]
                if unit is not None:
                    here[-2:] = [s.mul_(unit) for s in here[-2:]]
            sums = [s.add_(t) for s, t in zip(sums, here, strict=True)] if sums else here
        support, tp, predicted = sums[0], self.stack(sums[1::2]), self.stack(sums[2::2])
        check_binary(z, y, bad, predicted)
        total = _total(w, z.shape[-1], support)
        if self.grid:
            support, total = (m.unsqueeze(-1).expand(tp.shape) for m in (support, total))
        return (tp, predicted, support, total), self.saved(p, kept, parts)

    def keep(self, z: Tensor, parts: int) -> Tensor | None:
        """Where the forward pass leaves the probabilities of all chunks for the backward pass."""
        few = parts > 1 and z.numel() <= KEEP and self.from_logits
        return torch.empty_like(z, dtype=working(z)) if few else None

    def probabilities(self, zc: Tensor, out: Tensor | None) -> Tensor:
        zc = as_dtype(zc, working(zc))
        return torch.sigmoid(zc, out=out) if self.from_logits else zc

    def saved(self, p: Tensor, kept: Tensor | None, parts: int) -> list[Tensor]:
        if not self.from_logits:
            return []
        return [p] if parts == 1 else [] if kept is None else [kept]

    def again(self, zc: Tensor, room: Room, saved: Any, part: slice) -> Tensor:
        """The probabilities once more, in the backward pass."""
        if saved:
            return saved[0] if saved[0].shape == zc.shape else saved[0][..., part]
        return self.probabilities(zc, room("p", zc))

    def value(self, p: Tensor, tau: Any, room: Room) -> tuple[Tensor, float | None]:
        """The step, in units of a number if that saves a pass."""
        return self.step(p, tau), None

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for part, zc, yc, wc in self.chunks(z, y, w):
            with torch.enable_grad():
                leaf = zc.detach().to(working(z)).requires_grad_()
                tp, predicted, _ = self._soft_sums(leaf, yc, wc)
                sums = (self.stack(tp), self.stack(predicted))
            store(out[..., part], vjp(sums, leaf, (d_tp, d_pred)))
        return out


class LinearKernel(BinaryKernel):
    """The linear step: ``dL/dz = w (y L_tp + L_predicted) H'(p) p (1 - p)``."""

    step: LinearStep

    def value(self, p: Tensor, tau: Any, room: Room) -> tuple[Tensor, float | None]:
        # m1 p + (m2 - m1) (clip(p, a, b) - a) + (m3 - m1) max(p - b, 0): nothing cancels, however
        # steep the middle piece. At tau = 1/2, where m1 = m3, in units of m1.
        a, b, m1, m2, m3 = self.step.pieces(tau)
        middle = torch.clamp(p, a, b, out=room("h", p)).sub_(a)
        if isinstance(m1, float) and m1 == m3 > 0:
            return torch.add(p, middle, alpha=m2 / m1 - 1, out=middle), m1
        h = _axpy(middle.mul_(m2 - m1), p, m1)
        return _axpy(h, torch.sub(p, b, out=room("above", p)).clamp_(min=0), m3 - m1), None

    def pull(
        self, y: Tensor, by_tp: Any, by_predicted: Any, p: Tensor, tau: Any, room: Room
    ) -> Tensor:
        """``(y L_tp + L_predicted) H'(p)``."""
        a, b, m1, m2, m3 = self.step.pieces(tau)
        if isinstance(m1, Tensor) or isinstance(by_tp, Tensor) or m1 == 0:
            above = (p - b).sign_()
            inside = (p - a).sign_().sub_(above)
            slope = inside.mul_((m2 - m1) / 2).add_((m1 + m3) / 2)
            return _axpy(slope, above, (m3 - m1) / 2).mul_(_affine(y, by_tp, by_predicted))
        # The same in fewer passes: the slope of the lower piece everywhere, then the others.
        g = _affine(y, by_tp * m1, by_predicted * m1, room("g", y))
        out = room("h", p)
        inside = _inside(g, p, a, b) if out is None else _inside_out(g, p, a, b, grad_input=out)
        g.add_(inside, alpha=m2 / m1 - 1)
        return g if m1 == m3 else g.add_(_above(g, p, b), alpha=m3 / m1 - 1)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Any, d_pred: Any
    ) -> Tensor:
        dtype = working(z)
        per_tp, per_pred = self.unstack(d_tp, dtype), self.unstack(d_pred, dtype)
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        room = Room(_parts(z))
        for part, zc, yc, wc in self.chunks(z, y, w):
            p = self.again(zc, room, saved, part)
            yf = room.cast("y", yc, dtype)
            g: Any = None
            for tau, by_tp, by_pred in zip(self.taus, per_tp, per_pred, strict=True):
                term = self.pull(yf, by_tp, by_pred, p, tau, room)
                if g is None:
                    g = term if len(self.taus) == 1 else term.clone()
                else:
                    g.add_(term)
            self.through(g, p, zc, wc, out if zc is z else out[..., part])
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


class GridKernel(LinearKernel):
    """A linear step of width 1 at thresholds ``i/K``, ``i = 1 … K-1``, in O(n + K).

    Every corner of every step is a multiple of ``1/(2K)``. So count and sum of ``p`` per class in
    ``2K`` bins determine all sums, by prefix sums; and the derivative by ``p`` is constant in a
    bin, so that the backward pass is one look-up per example. Made once for each grid.
    """

    @classmethod
    @lru_cache(maxsize=16)
    def make(cls, step: LinearStep, size: int, from_logits: bool) -> GridKernel:
        return cls(step, size, from_logits)

    def __init__(self, step: LinearStep, size: int, from_logits: bool) -> None:
        super().__init__(step, [i / size for i in range(1, size)], True, from_logits)
        self.bins = 2 * size
        pieces = [step.pieces(tau) for tau in self.taus]
        self.table = torch.tensor(pieces, dtype=torch.float64)

    def where(self, p: Tensor, yf: Tensor, room: Room, out: Tensor | None) -> Tensor:
        """The bin of each example, positives after all bins of the negatives."""
        bins = torch.mul(p, self.bins, out=room("h", p)).add_(yf, alpha=self.bins + 1)
        return bins.to(torch.int32) if out is None else out.copy_(bins)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        dtype, lead = wide(z.device), z.shape[:-1]
        cells = 2 * (self.bins + 1)
        # Mass and moment as one complex number: one scatter instead of two.
        both = torch.zeros(*lead, cells, 2, dtype=dtype, device=z.device)
        parts = _parts(z)
        room, kept = Room(parts), self.keep(z, parts)
        places = None if kept is None else torch.empty_like(kept, dtype=torch.int32)
        pairs = None
        for part, zc, yc, wc in self.chunks(z, y, w):
            p = self.probabilities(zc, room("p", zc) if kept is None else kept[..., part])
            yf = room.cast("y", yc, working(z))
            # Before an index is made of them: a NaN or a stray label is no place in a table.
            check_binary(z, y, off_labels(yf, room("h", yf)), p.sum())
            at = self.where(
                p, yf, room, room("bins", p, torch.int32) if places is None else places[..., part]
            )
            if pairs is None or pairs.shape[:-1] != p.shape:
                pairs = torch.ones(*p.shape, 2, dtype=dtype, device=z.device)
            pairs[..., 1] = p
            if wc is not None:
                pairs[..., 0] = wc
                pairs[..., 1] *= wc
            wide_at = room.cast("wide bins", at, torch.int64)
            torch.view_as_complex(both).scatter_add_(-1, wide_at, torch.view_as_complex(pairs))
        mass, moment = both.unbind(-1)
        a, b, m1, m2, m3 = self.table.to(mass.device, dtype).unbind(-1)
        i, j = (a * self.bins).round().long(), (b * self.bins).round().long()
        tau = torch.tensor(self.taus, dtype=dtype, device=z.device)

        def sums(mass: Tensor, moment: Tensor) -> Tensor:
            """Sum of H over one class at every threshold, from prefix sums of its bins."""
            n, s = _prefix(mass), _prefix(moment)
            low = m1 * s[..., i]
            n_mid, s_mid = n[..., j] - n[..., i], s[..., j] - s[..., i]
            mid = m2 * s_mid + (0.5 - m2 * tau) * n_mid
            n_high, s_high = n[..., -1:] - n[..., j], s[..., -1:] - s[..., j]
            return low + mid + m3 * s_high + (1 - m3) * n_high

        (mass0, mass1), (moment0, moment1) = mass.chunk(2, -1), moment.chunk(2, -1)
        tp = sums(mass1, moment1)
        support = mass1.sum(-1, keepdim=True).expand(tp.shape)
        total = support + mass0.sum(-1, keepdim=True)
        counts = (tp, tp + sums(mass0, moment0), support, total)
        return counts, [] if kept is None or places is None else [kept, places]

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        # The slope of the sum over thresholds in bin k: each threshold adds m1 below its corner a,
        # m2 up to b and m3 above, so that differences at the corners, summed up, give the table.
        a, b, m1, m2, m3 = self.table.to(d_tp.device, d_tp.dtype).unbind(-1)
        i, j = (a * self.bins).round().long(), (b * self.bins).round().long()

        def table(adjoint: Tensor) -> Tensor:
            steps = torch.zeros(*adjoint.shape[:-1], self.bins + 1).to(adjoint)
            steps[..., 0] = (adjoint * m1).sum(-1)
            steps.scatter_add_(-1, i.expand(adjoint.shape), adjoint * (m2 - m1))
            steps.scatter_add_(-1, j.expand(adjoint.shape), adjoint * (m3 - m2))
            return steps.cumsum(-1).to(working(z))

        slopes = torch.cat([table(d_pred), table(d_pred + d_tp)], -1)
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        room = Room(_parts(z))
        for part, zc, yc, wc in self.chunks(z, y, w):
            p = self.again(zc, room, saved, part)
            if saved:
                at = saved[1][..., part]
            else:
                bins = room("bins", p, torch.int32)
                at = self.where(p, room.cast("y", yc, p.dtype), room, bins)
            if at.dim() == 1:  # five times as fast as gather
                g = torch.index_select(slopes, 0, at, out=room("g", p))
            else:
                g = torch.gather(slopes, -1, at.long(), out=room("g", p))
            self.through(g, p, zc, wc, out[..., part])
        return out


def _parts(z: Tensor) -> int:
    """How many chunks."""
    return max(1, min(round(z.numel() / CHUNK), z.shape[-1]))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a, b) if a.dim() == 1 and b.dim() == 1 else (a * b).sum(-1)


def _sum(x: Tensor, w: Tensor | None) -> Tensor:
    return x.sum(-1) if w is None else _dot(x, w)


def _total(w: Tensor | None, n: int, like: Tensor) -> Tensor:
    if w is None and like.dim() == 0 and like.device.type == "cpu":
        return torch.scalar_tensor(n, dtype=like.dtype)
    return torch.full_like(like, n) if w is None else w.sum(-1).expand_as(like)


def _affine(x: Tensor, scale: Any, shift: Any, out: Tensor | None = None) -> Tensor:
    """``scale x + shift``; in one pass where the two are numbers."""
    if isinstance(scale, float):
        return torch.add(torch.scalar_tensor(shift, dtype=x.dtype), x, alpha=scale, out=out)
    return (x * scale).add_(shift)


def _axpy(x: Tensor, y: Tensor, c: Any) -> Tensor:
    """``x + c y``, in place."""
    return x.addcmul_(y, c) if isinstance(c, Tensor) else x.add_(y, alpha=c)


def _prefix(x: Tensor) -> Tensor:
    """Sums of the first 0, 1, 2, … elements."""
    return torch.nn.functional.pad(x.cumsum(-1), (1, 0))
