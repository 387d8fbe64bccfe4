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

# Kernels of PyTorch's own backward passes: g where a < p < b, g where p > b, g p (1 - p). Masks of
# bool cost several times as much on a CPU.
_inside = torch.ops.aten.hardtanh_backward.default
_above = torch.ops.aten.threshold_backward.default
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input


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
        size = math.ceil(n / max(1, round(z.numel() / CHUNK)))
        if size >= n:
            yield slice(None), z, y, w
            return
        for start in range(0, n, size):
            part = slice(start, start + size)
            yield part, z[..., part], y[..., part], None if w is None else w[..., part]

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        f, dtype = working(z), wide(z.device)
        sums: list[Tensor] = []
        bad: Any = None
        for _, zc, yc, wc in self.chunks(z, y, w):
            yf = as_dtype(yc, f)
            if yc.dtype != torch.bool:
                off = off_labels(yf)
                bad = off if bad is None else bad + off
            wc = None if wc is None else wc.to(dtype)
            wy = yf.to(dtype) if wc is None else yf.to(dtype) * wc
            p = self.probabilities(zc)
            here = [wy.sum(-1)]
            for tau in self.taus:
                h = self.value(p, tau).to(dtype)
                here += [_dot(h, wy), _sum(h, wc)]
            sums = [s.add_(t) for s, t in zip(sums, here, strict=True)] if sums else here
        support, tp, predicted = sums[0], self.stack(sums[1::2]), self.stack(sums[2::2])
        check_binary(z, y, bad, predicted)
        total = _total(w, z.shape[-1], support)
        if self.grid:
            support, total = (m.unsqueeze(-1).expand(tp.shape) for m in (support, total))
        # A single chunk is small enough to keep; of more, the backward pass computes p again.
        saved = [p] if p.shape == z.shape and self.from_logits else []
        return (tp, predicted, support, total), saved

    def probabilities(self, zc: Tensor) -> Tensor:
        zc = as_dtype(zc, working(zc))
        return torch.sigmoid(zc) if self.from_logits else zc

    def value(self, p: Tensor, tau: Any) -> Tensor:
        return self.step(p, tau)

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

    def value(self, p: Tensor, tau: Any) -> Tensor:
        # m1 p + (m2 - m1) (clip(p, a, b) - a) + (m3 - m1) max(p - b, 0): nothing cancels, however
        # steep the middle piece, and m1 = m3 at tau = 1/2.
        a, b, m1, m2, m3 = self.step.pieces(tau)
        h = _axpy(p.clamp(a, b).sub_(a).mul_(m2 - m1), p, m1)
        if isinstance(m1, Tensor) or m1 != m3:
            h = _axpy(h, (p - b).clamp_(min=0), m3 - m1)
        return h

    def pull(self, y: Tensor, by_tp: Any, by_predicted: Any, p: Tensor, tau: Any) -> Tensor:
        """``(y L_tp + L_predicted) H'(p)``."""
        a, b, m1, m2, m3 = self.step.pieces(tau)
        if isinstance(m1, Tensor) or isinstance(by_tp, Tensor) or m1 == 0:
            above = (p - b).sign_()
            inside = (p - a).sign_().sub_(above)
            slope = inside.mul_((m2 - m1) / 2).add_((m1 + m3) / 2)
            return _axpy(slope, above, (m3 - m1) / 2).mul_(_affine(y, by_tp, by_predicted))
        # The same in fewer passes: the slope of the lower piece everywhere, then the others.
        g = _affine(y, by_tp * m1, by_predicted * m1)
        g.add_(_inside(g, p, a, b), alpha=m2 / m1 - 1)
        return g if m1 == m3 else g.add_(_above(g, p, b), alpha=m3 / m1 - 1)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Any, d_pred: Any
    ) -> Tensor:
        dtype = working(z)
        per_tp, per_pred = self.unstack(d_tp, dtype), self.unstack(d_pred, dtype)
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for part, zc, yc, wc in self.chunks(z, y, w):
            p, yf = saved[0] if saved else self.probabilities(zc), as_dtype(yc, dtype)
            g: Any = None
            for tau, by_tp, by_pred in zip(self.taus, per_tp, per_pred, strict=True):
                term = self.pull(yf, by_tp, by_pred, p, tau)
                g = term if g is None else g.add_(term)
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

    def where(self, p: Tensor, yf: Tensor) -> Tensor:
        """The bin of each example, positives after all bins of the negatives."""
        return torch.add(p * self.bins, yf, alpha=self.bins + 1).long()

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        dtype, lead = wide(z.device), z.shape[:-1]
        cells = 2 * (self.bins + 1)
        mass = torch.zeros(*lead, cells, dtype=dtype, device=z.device)
        moment = torch.zeros_like(mass)
        for _, zc, yc, wc in self.chunks(z, y, w):
            p, yf = self.probabilities(zc), yc.to(working(z))
            # Before an index is made of them: a NaN or a stray label is no place in a table.
            check_binary(z, y, off_labels(yf), p.sum())
            at, p = self.where(p, yf), p.to(dtype)
            weight = (p.new_ones(()) if wc is None else wc.to(dtype)).expand_as(p)
            mass.scatter_add_(-1, at, weight)
            moment.scatter_add_(-1, at, p if wc is None else p * weight)
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
        return (tp, tp + sums(mass0, moment0), support, total), []

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
        for part, zc, yc, wc in self.chunks(z, y, w):
            p = self.probabilities(zc)
            at = self.where(p, yc.to(p.dtype))
            g = slopes.index_select(0, at) if at.dim() == 1 else slopes.gather(-1, at)
            self.through(g, p, zc, wc, out[..., part])
        return out


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a, b) if a.dim() == 1 and b.dim() == 1 else (a * b).sum(-1)


def _sum(x: Tensor, w: Tensor | None) -> Tensor:
    return x.sum(-1) if w is None else _dot(x, w)


def _total(w: Tensor | None, n: int, like: Tensor) -> Tensor:
    if w is None and like.dim() == 0 and like.device.type == "cpu":
        return torch.scalar_tensor(n, dtype=like.dtype)
    return torch.full_like(like, n) if w is None else w.sum(-1).expand_as(like)


def _affine(x: Tensor, scale: Any, shift: Any) -> Tensor:
    """``scale x + shift``; in one pass where the two are numbers."""
    if isinstance(scale, float):
        return torch.add(torch.scalar_tensor(shift, dtype=x.dtype), x, alpha=scale)
    return (x * scale).add_(shift)


def _axpy(x: Tensor, y: Tensor, c: Any) -> Tensor:
    """``x + c y``, in place."""
    return x.addcmul_(y, c) if isinstance(c, Tensor) else x.add_(y, alpha=c)


def _prefix(x: Tensor) -> Tensor:
    """Sums of the first 0, 1, 2, … elements."""
    return torch.nn.functional.pad(x.cumsum(-1), (1, 0))
