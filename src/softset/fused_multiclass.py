"""Multiclass kernels: any step, and the linear one on logits in closed form.

Scores ``[*lead, N, C]``, see ``fused``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softset.fused import Counts, check_rows, store, vjp, wide, working
from softset.steps import LinearStep, Step

# Elements in a chunk, as in the binary kernels; here a call does less for each.
CHUNK = 2**20
# Fewer classes than this are laid out class by class: reductions then run over whole rows.
CLASS_MAJOR_BELOW = 64


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
        size = math.ceil(n / max(1, round(z.numel() / CHUNK)))
        for start in range(0, n, size):
            part = slice(start, start + size)
            yield part, z[..., part, :], y[..., part], None if w is None else w[..., part]

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> tuple[Counts, list[Tensor]]:
        parts = [self.compose(zc, yc, wc) for _, zc, yc, wc in self.chunks(z, y, w)]
        tp, predicted, support, total = (
            torch.stack(sums).sum(0) for sums in zip(*parts, strict=True)
        )
        check_rows(z, predicted)
        return (tp, predicted, support, total), []

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, saved: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for part, zc, yc, wc in self.chunks(z, y, w):
            with torch.enable_grad():
                leaf = zc.detach().to(working(z)).requires_grad_()
                sums = self.compose(leaf, yc, wc)[:2]
            store(out[..., part, :], vjp(sums, leaf, (d_tp, d_pred)))
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
            kept = exps[..., part, :] if dim == -1 else exps[..., part]
            e, e2, i1, i2 = _exp_top_two(zc, dim, kept)
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
            for k, row in enumerate((e2, z_sum, h_sum, gy.unsqueeze(dim))):
                rows[k][..., part] = row.squeeze(dim)
            places[0][..., part], places[1][..., part] = i1.squeeze(dim), i2.squeeze(dim)
        check_rows(z, predicted)
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
            here = out[..., part, :]
            direct = here if dim == -1 and here.dim() == 2 and here.dtype == f else None
            g = _outer(scale, -mean * scale, d_pred, dim, direct).mul_(slope)
            g.addcmul_(e, kappa * weight * p1, value=-1)
            g.scatter_add_(dim, yk, weight * slope_y * by_y / h_sum)
            g.scatter_add_(dim, i1, weight * (lam * p1 + tilt * (by_1 - mean) / h_sum))
            g.scatter_add_(dim, i2, weight * lam * e2 * p1)
            if direct is None:
                store(here, g if dim == -1 else g.mT)
        return out


def _exp_top_two(z: Tensor, dim: int, out: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``e = exp(z - max z)`` in ``out``, its second largest, and the places of the largest two.

    ``topk`` costs more than the rest of the forward pass. A maximum without its place is cheap,
    and ``sign(x - max)`` is 0 at the maximum and -1 elsewhere, so that a product with place codes
    finds it; a tie gives a code out of range, and then ``topk`` decides.
    """
    classes = z.shape[dim]
    e = torch.sub(z, z.amax(dim, keepdim=True), out=out)
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


def _outer(scale: Tensor, shift: Tensor, v: Tensor, dim: int, out: Tensor | None) -> Tensor:
    """``scale_i v_j + shift_i`` as one product of rank two, written to ``out`` if given."""
    rows = torch.cat([scale, shift], dim)
    columns = torch.stack([v, torch.ones_like(v)], -2)
    return torch.matmul(rows, columns, out=out) if dim == -1 else columns.mT @ rows
