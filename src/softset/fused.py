"""Scores to soft counts in one pass, with the gradient in closed form.

A loss depends on the data only through a few sums per class. So each kernel here does two things:
``count`` reduces scores to those sums, and ``gradient`` turns the derivatives of the loss by the
sums into the gradient by the scores, chunk by chunk, so that temporaries stay in the cache and
memory does not grow with thresholds. ``compose`` is the same computation in plain differentiable
PyTorch: it serves second derivatives, ``torch.compile`` and ``torch.func`` transforms.

Layout. Binary and multilabel: scores ``[*lead, N]``, one problem for each index of ``lead``.
Multiclass: scores ``[*lead, N, C]``. Sums are ``[*lead]`` or ``[*lead, C]``, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from softset._tools import under_transform
from softset.steps import LinearStep, Step

# Elements in a chunk: small enough for the cache, large enough to hide the cost of a call.
BINARY_CHUNK = 2**15
MULTICLASS_CHUNK = 2**20
# Fewer classes than this are laid out class by class: reductions then run over whole rows.
CLASS_MAJOR_BELOW = 64

# Kernels of PyTorch's own backward passes: g where a < p < b, g where p > b, g p (1 - p). Masks of
# bool cost several times as much on a CPU.
_inside = torch.ops.aten.hardtanh_backward.default
_above = torch.ops.aten.threshold_backward.default
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input

Counts = tuple[Tensor, Tensor, Tensor, Tensor]


def count(
    kernel: BinaryKernel | MulticlassKernel, z: Tensor, y: Tensor, w: Tensor | None
) -> Counts:
    """``tp, predicted, support, total`` of scores ``z``, differentiable in ``z``."""
    with full_precision(z):
        if under_transform(z, y, w):
            return kernel.compose(z, y, w)
        margins: list[Tensor] = []
        tp, predicted = _Fused.apply(z, y, w, kernel, margins)  # type: ignore[no-untyped-call]
        return tp, predicted, margins[0], margins[1]


def full_precision(z: Tensor) -> AbstractContextManager[object]:
    """Counts are a float32 island: autocast must not turn their products into half precision."""
    device = z.device.type
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def wide(device: torch.device) -> torch.dtype:
    """The dtype counts accumulate in: float32 sums stop at 2**24."""
    return torch.float32 if device.type == "mps" else torch.float64


def working(z: Tensor) -> torch.dtype:
    """The dtype of elementwise work: half precision is raised to float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32


def as_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x.to(dtype)`` without the call where there is nothing to do: it shows in small batches."""
    return x if x.dtype is dtype else x.to(dtype)


class _Fused(torch.autograd.Function):
    """``tp, predicted``; the other two sums have no gradient and are left in ``margins``."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Tensor | None, kernel: Any, margins: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        (tp, predicted, support, total), saved = kernel.count(z, y, w)
        margins += [support, total]
        ctx.kernel = kernel
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, y, w, *saved)
        return tp, predicted

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor | None) -> Any:
        z, y, w, *saved = ctx.saved_tensors
        d_tp, d_pred = adjoint
        known = d_pred if d_tp is None else d_tp
        if known is None:
            return None, None, None, None, None
        d_tp = torch.zeros_like(known) if d_tp is None else d_tp
        d_pred = torch.zeros_like(known) if d_pred is None else d_pred
        with full_precision(z):
            if torch.is_grad_enabled() or under_transform(known):
                # A second derivative is wanted: differentiate the plain composition instead.
                with torch.enable_grad():
                    outputs = ctx.kernel.compose(z, y, w)[:2]
                (grad,) = torch.autograd.grad(outputs, z, (d_tp, d_pred), create_graph=True)
            else:
                grad = ctx.kernel.gradient(z, y, w, saved, d_tp, d_pred)
        return grad, None, None, None, None


# --- binary and multilabel ---------------------------------------------------------------------


class BinaryKernel:
    """``tp = sum w y H(p, tau)`` and ``predicted = sum w H(p, tau)``, for any step, by chunks.

    ``taus`` holds one threshold, or a grid of them (``grid=True``: sums get a last dimension for
    it). A threshold is a number or a tensor that broadcasts with ``[*lead, 1]``.
    """

    def __init__(self, step: Step, taus: Sequence[Any], grid: bool, from_logits: bool) -> None:
        self.step, self.taus, self.grid, self.from_logits = step, taus, grid, from_logits

    def stack(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values, -1) if self.grid else values[0]

    def unstack(self, adjoint: Tensor, dtype: torch.dtype) -> list[Any]:
        """The derivative by the sums at each threshold: numbers where there is one problem."""
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
        size = max(1, BINARY_CHUNK * n // z.numel())
        if size >= n:
            yield slice(None), z, y, w
            return
        for start in range(0, n, size):
            part = slice(start, start + size)
            yield part, z[..., part], y[..., part], None if w is None else w[..., part]

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        f, dtype = working(z), wide(z.device)
        sums: list[Tensor] = []
        bad: Any = 0.0
        for _, zc, yc, wc in self.chunks(z, y, w):
            yf = as_dtype(yc, f)
            if yc.dtype != torch.bool:
                bad = bad + _off_labels(yf)
            wc = None if wc is None else wc.to(dtype)
            wy = yf.to(dtype) if wc is None else yf.to(dtype) * wc
            p = self.probabilities(zc)
            here = [wy.sum(-1)]
            for tau in self.taus:
                h = self.value(p, tau).to(dtype)
                here += [_dot(h, wy), _sum(h, wc)]
            sums = [s.add_(t) for s, t in zip(sums, here, strict=True)] if sums else here
        support, tp, predicted = sums[0], self.stack(sums[1::2]), self.stack(sums[2::2])
        _check_binary(z, y, bad, predicted)
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
            _store(out[..., part], _vjp(sums, leaf, (d_tp, d_pred)))
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

    def times_slope(self, g: Tensor, p: Tensor, tau: Any) -> Tensor:
        """``g dH/dp``."""
        a, b, m1, m2, m3 = self.step.pieces(tau)
        if isinstance(m1, Tensor):  # the same by signs, for corners that are tensors
            above = (p - b).sign_()
            inside = (p - a).sign_().sub_(above)
            s = inside.mul_((m2 - m1) / 2).add_((m1 + m3) / 2)
            return s.addcmul_(above, (m3 - m1) / 2).mul_(g)
        slope = _inside(g, p, a, b).mul_(m2 - m1).add_(g, alpha=m1)
        if m1 != m3:
            slope.add_(_above(g, p, b), alpha=m3 - m1)
        return slope

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        dtype = working(z)
        per_tp, per_pred = self.unstack(d_tp, dtype), self.unstack(d_pred, dtype)
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for part, zc, yc, wc in self.chunks(z, y, w):
            p, yf = saved[0] if saved else self.probabilities(zc), as_dtype(yc, dtype)
            g: Any = None
            for tau, by_tp, by_pred in zip(self.taus, per_tp, per_pred, strict=True):
                term = self.times_slope(_affine(yf, by_tp, by_pred), p, tau)
                g = term if g is None else g.add_(term)
            self.through(g, p, zc, wc, out[..., part])
        return out

    def through(self, g: Tensor, p: Tensor, zc: Tensor, wc: Tensor | None, out: Tensor) -> None:
        """From the derivative by the probability to that by the score, written to ``out``."""
        if wc is not None:
            g = g * wc.to(g.dtype)
        if not self.from_logits:
            _store(out, g)
        elif zc.device.type == "cpu" and out.dtype == p.dtype and float(p.amax()) < 0.9995:
            _through_sigmoid(g, p, grad_input=out)  # g p (1 - p)
        else:
            # 1 - p loses its digits, in float32 it is exactly 0 from z = 17 on; sigmoid(-z) not.
            _store(out, torch.sigmoid(-zc.to(g.dtype)).mul_(p).mul_(g))


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
            _check_binary(z, y, _off_labels(yf), p.sum())
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


# --- multiclass ---------------------------------------------------------------------------------


def memberships(p: Tensor, step: Step) -> Tensor:
    """``g = H(p, tau) / sum H`` with ``tau`` the mean of the two largest (paper 002 eq. 3 to 5)."""
    tau = p.topk(2, dim=-1).values.mean(-1, keepdim=True)
    h = step(p, tau)
    return h / h.sum(-1, keepdim=True)


class MulticlassKernel:
    """``predicted += w g`` and ``tp[y] += w g[y]``, for any step, by chunks of rows."""

    def __init__(self, step: Step, from_logits: bool) -> None:
        self.step, self.from_logits = step, from_logits

    def members(self, z: Tensor) -> Tensor:
        z = z.to(working(z))
        return memberships(torch.softmax(z, -1) if self.from_logits else z, self.step)

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        g, dtype = self.members(z), wide(z.device)
        w = None if w is None else w.to(dtype)
        gy = g.gather(-1, y.unsqueeze(-1)).squeeze(-1).to(dtype)
        g = g.to(dtype)
        predicted = (g if w is None else g * w.unsqueeze(-1)).sum(-2)
        zeros = torch.zeros_like(predicted)
        ones = torch.ones_like(gy) if w is None else w.expand_as(gy)
        tp = zeros.scatter_add(-1, y, gy * ones)
        support = zeros.scatter_add(-1, y, ones)
        return tp, predicted, support, ones.sum(-1, keepdim=True).expand_as(support)

    def chunks(self, z: Tensor, y: Tensor, w: Tensor | None) -> Iterator[Any]:
        n = z.shape[-2]
        size = max(1, MULTICLASS_CHUNK * n // max(1, z.numel()))
        for start in range(0, n, size):
            part = slice(start, start + size)
            yield part, z[..., part, :], y[..., part], None if w is None else w[..., part]

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        parts = [self.compose(zc, yc, wc) for _, zc, yc, wc in self.chunks(z, y, w)]
        tp, predicted, support, total = (
            torch.stack(sums).sum(0) for sums in zip(*parts, strict=True)
        )
        _check_rows(z, predicted)
        return (tp, predicted, support, total), []

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for part, zc, yc, wc in self.chunks(z, y, w):
            with torch.enable_grad():
                leaf = zc.detach().to(working(z)).requires_grad_()
                sums = self.compose(leaf, yc, wc)[:2]
            _store(out[..., part, :], _vjp(sums, leaf, (d_tp, d_pred)))
        return out


class MulticlassLinearKernel(MulticlassKernel):
    """The linear step on logits, in closed form.

    Write ``e_j = exp(z_j - max z)``, so that the largest is 1, and ``t = (1 + e_2)/2`` for the mean
    of the two largest: ``p/tau = e/t``. As ``tau <= 1/2``, the step below its upper corner is
    ``H = alpha u + (beta - alpha) max(u - a, 0)`` with ``u = e/t``, ``a = 1 - width/2``,
    ``alpha = delta/a`` and ``beta = (1 - 2 delta)/width``; and only the largest can lie above that
    corner. So a row needs ``e``, the place of its two largest, and a correction for one of them.
    """

    step: LinearStep

    def __init__(self, step: LinearStep) -> None:
        super().__init__(step, True)
        self.a = 1 - step.width / 2
        self.alpha = step.delta / self.a
        self.beta = (1 - 2 * step.delta) / step.width

    def top_piece(self, e2: Tensor, z_sum: Tensor) -> tuple[Tensor, ...]:
        """Where the largest lies above the upper corner: what its value and slopes change by."""
        t = (1 + e2) / 2
        p1, b = 1 / z_sum, (1 + self.step.width / 2) * t / z_sum
        m3 = self.step.delta / (1 - b)
        above = p1 > b
        linear = self.alpha / t + (self.beta - self.alpha) * (1 / t - self.a)
        lift = torch.where(above, 1 - m3 * (1 - p1) - linear, 0.0)
        tilt = torch.where(above, m3 * p1 - self.beta / t, 0.0)
        # kappa / r_1 of the derivation below
        bend = torch.where(above, m3 * (p1 - b) / (1 - b), 0.0)
        return t, p1, lift, tilt, bend

    def layout(self, z: Tensor) -> int:
        return -2 if z.shape[-1] < CLASS_MAJOR_BELOW else -1

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        f, dtype, dim = working(z), wide(z.device), self.layout(z)
        *lead, n, classes = z.shape
        tp = torch.zeros(*lead, classes, dtype=dtype, device=z.device)
        predicted, support = torch.zeros_like(tp), torch.zeros_like(tp)
        shape = (*lead, n, classes) if dim == -1 else (*lead, classes, n)
        exps = torch.empty(shape, dtype=f, device=z.device)
        rows = torch.empty(4, *lead, n, dtype=f, device=z.device)
        places = torch.empty(2, *lead, n, dtype=torch.long, device=z.device)
        for part, zc, yc, wc in self.chunks(z, y, w):
            zc = zc.to(f) if dim == -1 else zc.to(f).mT.contiguous()
            e, e2, i1, i2 = _exp_top_two(zc, dim)
            yk = yc.unsqueeze(dim)
            z_sum = e.sum(dim, keepdim=True)
            t, _, lift, _, _ = self.top_piece(e2, z_sum)
            excess = (e - self.a * t).clamp_(min=0)
            steep = self.beta - self.alpha
            h_sum = (self.alpha * z_sum + steep * excess.sum(dim, keepdim=True)) / t + lift
            weight = 1 / h_sum if wc is None else wc.to(f).unsqueeze(dim) / h_sum
            over_rows = _over_rows(e, self.alpha * weight / t, dim)
            over_rows = over_rows + _over_rows(excess, steep * weight / t, dim)
            predicted += over_rows.to(dtype)
            predicted.scatter_add_(-1, i1.squeeze(dim), (lift * weight).squeeze(dim).to(dtype))
            hy = (self.alpha * e.gather(dim, yk) + steep * excess.gather(dim, yk)) / t
            gy = ((hy + lift * (i1 == yk)) / h_sum).squeeze(dim)
            ones = torch.ones_like(gy, dtype=dtype) if wc is None else wc.to(dtype).expand_as(gy)
            tp.scatter_add_(-1, yc, gy.to(dtype) * ones)
            support.scatter_add_(-1, yc, ones)
            (exps[..., part, :] if dim == -1 else exps[..., part]).copy_(e)
            for k, row in enumerate((e2, z_sum, h_sum, gy.unsqueeze(dim))):
                rows[k][..., part] = row.squeeze(dim)
            places[0][..., part], places[1][..., part] = i1.squeeze(dim), i2.squeeze(dim)
        _check_rows(z, predicted)
        total = support.sum(-1, keepdim=True).expand_as(support)
        return (tp, predicted, support, total), [exps, rows, places]

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        # With L_j = dL/d predicted_j, r = (L + [j = y] dL/d tp_y - mean) / sum H the derivative
        # by H, and h' = u dH/du: dL/dz_j = w (h'_j r_j - kappa p_j + lambda p_j [j in top two]),
        # where kappa = r_1 bend and lambda = (kappa - sum h' r) / (p_1 + p_2) carry what depends
        # on tau.
        exps, rows, places = saved
        f, dim = working(z), self.layout(z)
        d_tp, d_pred = d_tp.to(f), d_pred.to(f)
        steep = self.beta - self.alpha
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for part, _, yc, wc in self.chunks(z, y, w):
            e = exps[..., part, :] if dim == -1 else exps[..., part]
            e2, z_sum, h_sum, gy = (row[..., part].unsqueeze(dim) for row in rows)
            i1, i2 = (place[..., part].unsqueeze(dim) for place in places)
            yk = yc.unsqueeze(dim)
            by_y = d_tp.gather(-1, yc).unsqueeze(dim)
            by_1 = d_pred.gather(-1, i1.squeeze(dim)).unsqueeze(dim)
            t, p1, lift, tilt, bend = self.top_piece(e2, z_sum)
            y_is_1 = (i1 == yk).to(f)

            middle = (e - self.a * t).sign_().add_(1)  # twice the indicator of the middle piece
            middle_l = _over_classes(middle, d_pred, dim) / 2
            slope = middle.mul_(steep / 2).add_(self.alpha).mul_(e)  # t h', in place
            slope_l = _over_classes(slope, d_pred, dim) / t
            slope_1 = slope.sum(dim, keepdim=True) / t
            mean = (slope_l - steep * self.a * middle_l + lift * by_1) / h_sum + gy * by_y
            slope_y = slope.gather(dim, yk) / t + tilt * y_is_1
            drift = (slope_l + tilt * by_1 - mean * (slope_1 + tilt) + slope_y * by_y) / h_sum
            kappa = bend * (by_1 - mean + by_y * y_is_1) / h_sum
            lam = (kappa - drift) / (2 * t * p1)

            weight = torch.ones_like(t) if wc is None else wc.to(f).unsqueeze(dim)
            scale = weight / (t * h_sum)
            g = _outer(scale, -mean * scale, d_pred, dim).mul_(slope)
            g.addcmul_(e, kappa * weight * p1, value=-1)
            g.scatter_add_(dim, yk, weight * slope_y * by_y / h_sum)
            g.scatter_add_(dim, i1, weight * (lam * p1 + tilt * (by_1 - mean) / h_sum))
            g.scatter_add_(dim, i2, weight * lam * e2 * p1)
            _store(out[..., part, :], g if dim == -1 else g.mT)
        return out


def _exp_top_two(z: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``e = exp(z - max z)``, the second largest of ``e``, and the places of the largest two.

    ``topk`` costs more than the rest of the forward pass. A maximum without its place is cheap,
    and ``sign(x - max)`` is 0 at the maximum and -1 elsewhere, so that a product with place codes
    finds it; a tie gives a code out of range, and then ``topk`` decides.
    """
    classes = z.shape[dim]
    e = z - z.amax(dim, keepdim=True)
    if z.device.type == "cpu" and 2.5 * classes**2 < 2**24:  # sums of codes exact in float32
        base = 2 * classes
        code = torch.arange(base, base + classes, dtype=z.dtype)
        code_sum = float(classes * base + classes * (classes - 1) // 2)
        sign = e.sign()
        first = _over_classes(sign, code, dim) + code_sum
        e = e.exp_()
        if first.max() < 2 * base:
            i1 = (first - base).long()
            e.scatter_(dim, i1, -1.0)
            e2 = e.amax(dim, keepdim=True)
            second = _over_classes(torch.sub(e, e2, out=sign).sign_(), code, dim) + code_sum
            e.scatter_(dim, i1, 1.0)
            if second.max() < 2 * base:
                return e, e2, i1, (second - base).long()
    else:
        e = e.exp_()
    values, index = e.topk(2, dim)
    return e, values.narrow(dim, 1, 1), index.narrow(dim, 0, 1), index.narrow(dim, 1, 1)


def _over_classes(x: Tensor, v: Tensor, dim: int) -> Tensor:
    """``sum_j x_j v_j`` over the class dimension, which stays."""
    return x @ v.unsqueeze(-1) if dim == -1 else v.unsqueeze(-2) @ x


def _over_rows(x: Tensor, r: Tensor, dim: int) -> Tensor:
    """``sum_i x_ij r_i`` over the rows."""
    return (x.mT @ r if dim == -1 else x @ r.mT).squeeze(-1)


def _outer(scale: Tensor, shift: Tensor, v: Tensor, dim: int) -> Tensor:
    """``scale_i v_j + shift_i`` as one product of rank two."""
    rows = torch.cat([scale, shift], dim)
    columns = torch.stack([v, torch.ones_like(v)], -2)
    return rows @ columns if dim == -1 else columns.mT @ rows


# --- shared -------------------------------------------------------------------------------------


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


def _store(out: Tensor, g: Tensor) -> None:
    """Write a gradient; what half precision cannot hold becomes its largest number."""
    if out.dtype != g.dtype:
        limit = torch.finfo(out.dtype).max
        g = g.clamp(-limit, limit)
    out.copy_(g)


def _vjp(outputs: tuple[Tensor, ...], leaf: Tensor, adjoint: tuple[Tensor, ...]) -> Tensor:
    live = [(o, a) for o, a in zip(outputs, adjoint, strict=True) if o.requires_grad]
    if not live:
        return torch.zeros_like(leaf)
    (grad,) = torch.autograd.grad([o for o, _ in live], leaf, [a for _, a in live])
    return grad


# --- checks of values: on what was reduced anyway; the row is searched for only on failure ------


def check_labels(y: Tensor) -> None:
    """Refuse labels other than 0 and 1."""
    if y.dtype != torch.bool and float(_off_labels(y.to(torch.float32))) != 0:
        wrong = y[(y != 0) & (y != 1)].flatten()[0].item()
        hint = " Map -1 to 0: target = (target > 0)." if wrong == -1 else ""
        raise ValueError(f"target must hold 0 and 1 only, got {wrong:g}.{hint}")


def _off_labels(y: Tensor) -> Tensor:
    """Zero exactly when every label is 0 or 1."""
    d = (y * y).sub_(y)
    d = d if d.dim() == 1 else d.flatten()
    return torch.dot(d, d)


def _check_binary(z: Tensor, y: Tensor, bad: Any, sums: Tensor) -> None:
    if float(bad) == 0 and math.isfinite(float(sums.sum() if sums.dim() else sums)):
        return
    check_labels(y)
    refuse_rows(torch.isnan(z))


def check_classes(y: Tensor, classes: int) -> None:
    """Refuse class numbers that have no column in the scores."""
    low, high = (int(v) for v in torch.aminmax(y))
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise ValueError(
            f"target must hold classes 0 to {classes - 1} (scores have {classes} columns), got "
            f"{wrong}. Set ignore_index={wrong} if it marks rows to leave out."
        )


def _check_rows(z: Tensor, predicted: Tensor) -> None:
    if float(predicted.sum() * 0) != 0:
        best = z.amax(-1)
        refuse_rows(torch.isnan(z).any(-1) | ~torch.isfinite(best))


def refuse_rows(bad: Tensor) -> None:
    """Name the first row marked as bad."""
    if not bad.any():
        raise ValueError("step must return finite degrees that are not all zero in a row.")
    row = int(bad.nonzero()[0, -1])
    raise ValueError(
        f"scores must not be NaN: the first bad row is {row}. Check the model's output."
    )
