"""Multiclass kernels: any step, and the linear one on logits in closed form.

Scores ``[*lead, N, C]``, see ``fused``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from softset.fused import (
    Counts,
    Room,
    affine,
    axpy,
    check_rows,
    chunks,
    room_for_gradient,
    store,
    vjp,
    wide,
    working,
)
from softset.steps import LinearStep, Step

# Elements in a chunk, as in the binary kernels; here a call does less for each.
CHUNK = 2**18
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

    def parts(self, z: Tensor) -> int:
        """How many chunks."""
        return max(1, min(round(z.numel() / CHUNK), z.shape[-2]))

    def size(self, z: Tensor) -> int:
        """Rows in a chunk."""
        return math.ceil(z.shape[-2] / self.parts(z))

    def pieces(self, z: Tensor, y: Tensor, w: Tensor | None) -> Iterator[Any]:
        size = self.size(z)
        rows = zip(torch.split(z, size, -2), chunks(size, -1, y, w), strict=True)
        return ((zc, yc, wc) for zc, (yc, wc) in rows)

    def count(
        self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False
    ) -> tuple[Counts, list[Tensor]]:
        parts = [self.compose(*part) for part in self.pieces(z, y, w)]
        tp, predicted, support, total = (
            torch.stack(sums).sum(0) for sums in zip(*parts, strict=True)
        )
        check_rows(z, predicted)
        return (tp, predicted, support, total), []

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = room_for_gradient(z, None)
        pieces = zip(self.pieces(z, y, w), torch.split(out, self.size(z), -2), strict=True)
        for (zc, yc, wc), to in pieces:
            with torch.enable_grad():
                leaf = zc.detach().to(working(z)).requires_grad_()
                sums = self.compose(leaf, yc, wc)[:2]
            store(to, vjp(sums, leaf, (d_tp, d_pred)))
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

    def __init__(self, step: LinearStep, dtype: torch.dtype) -> None:
        super().__init__(step, True)
        # Numbers, or tensors with one for each problem.
        delta, width = (
            x.to(dtype) if isinstance(x, Tensor) else x for x in (step.delta, step.width)
        )
        self.delta, self.reach, self.a = delta, 1 + width / 2, 1 - width / 2
        self.alpha, self.beta = delta / self.a, (1 - 2 * delta) / width
        self.steep = self.beta - self.alpha

    def row_terms(self, e2: Tensor, z_sum: Tensor, excess: Tensor) -> tuple[Tensor, ...]:
        """``t``, the upper corner in units of the largest, what lies above it, and ``t sum H``."""
        # In place, as a chunk has few rows and each call costs more than they do.
        t = torch.add(e2, 1).mul_(0.5)
        upper = t * self.reach
        lift = torch.sub(z_sum, 1).div_(z_sum - upper).mul_(-self.delta)
        lift = axpy(lift.add_(1 + self.steep * self.a), t.reciprocal(), -self.beta)
        lift.masked_fill_(upper >= 1, 0)
        th_sum = axpy(torch.mul(z_sum, self.alpha), excess, self.steep).addcmul_(lift, t)
        return t, upper, lift, th_sum

    def layout(self, z: Tensor) -> int:
        return -2 if z.shape[-1] < CLASS_MAJOR_BELOW else -1

    def count(
        self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False
    ) -> tuple[Counts, list[Tensor]]:
        f, dtype, dim = working(z), wide(z.device), self.layout(z)
        z_rows = z.detach() if dim == -1 else z.detach().mT
        exps = torch.empty(z_rows.shape, dtype=f, device=z.device)
        yk, wk = y.unsqueeze(dim), None if w is None else w.to(f).unsqueeze(dim)
        rows = exps.new_empty(3, *yk.shape)
        places = torch.empty(2, *yk.shape, dtype=torch.long, device=z.device)
        predicted = torch.zeros(*z.shape[:-2], z.shape[-1], dtype=dtype, device=z.device)
        room, above = Room(self.parts(z), -3 - dim), torch.zeros_like(predicted)
        for zc, wc, ec, row, place in chunks(
            self.size(z), -3 - dim, z_rows, wk, exps, rows, places
        ):
            zc = zc.to(f) if dim == -1 else zc.to(f).contiguous()
            e2, z_sum, excess = row.unbind()
            e = _exp_top_two(zc, dim, ec, e2, place, room)
            torch.sum(e, dim, keepdim=True, out=z_sum)
            corner = torch.add(e2, 1).mul_(self.a / 2)  # a t
            over = torch.sub(e, corner, out=room("wide", e)).clamp_(min=0)
            torch.sum(over, dim, keepdim=True, out=excess)
            *_, th_sum = self.row_terms(e2, z_sum, excess)
            share = th_sum.reciprocal_() if wc is None else wc / th_sum
            predicted += _over_rows(e, share, dim)
            above += _over_rows(over, share, dim)
        alpha, steep = self.alpha, self.steep
        if isinstance(alpha, Tensor):
            alpha, steep = alpha.squeeze(-1).to(dtype), steep.squeeze(-1).to(dtype)
        predicted = axpy(predicted.mul_(alpha), above, steep)

        t, _, lift, th_sum = self.row_terms(*rows.unbind())
        ones = torch.ones_like(yk, dtype=dtype) if w is None else w.to(dtype).unsqueeze(dim)
        lift, ones = lift * t / th_sum, ones.expand_as(yk)
        gy = self.of_y(exps, yk, t, dim)[0] / th_sum + lift * (places[0] == yk)

        def add(to: Tensor, at: Tensor, values: Tensor) -> None:
            to.scatter_add_(-1, at.squeeze(dim), (values.to(dtype) * ones).squeeze(dim))

        tp, support = torch.zeros_like(predicted), torch.zeros_like(predicted)
        add(predicted, places[0], lift)
        add(tp, yk, gy)
        add(support, yk, torch.ones_like(gy))
        check_rows(z, predicted)
        total = support.sum(-1, keepdim=True).expand_as(support)
        return (tp, predicted, support, total), [exps, rows, places]

    def of_y(self, exps: Tensor, yk: Tensor, t: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """``t H`` and ``t h'`` of the true class, but for what lies above the upper corner."""
        e = exps.gather(dim, yk)
        over = e - self.a * t
        slope = (over > 0).to(e.dtype).mul_(self.steep).add_(self.alpha).mul_(e)
        return axpy(over.clamp_(min=0).mul_(self.steep), e, self.alpha), slope

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        # With L_j = dL/d predicted_j, r = (L + [j = y] dL/d tp_y - mean) / sum H the derivative
        # by H, and h' = u dH/du: dL/dz_j = w (h'_j r_j - kappa p_j + lambda p_j [j in top two]),
        # where kappa = r_1 bend and lambda = (kappa - sum h' r) / (p_1 + p_2) carry what depends
        # on tau. The upper corner changes h' of the largest by "tilt".
        exps, rows, places = left
        f, dim = working(z), self.layout(z)
        d_tp, d_pred = d_tp.to(f), d_pred.to(f)
        e2, z_sum, _ = rows.unbind()
        yk, i1 = y.unsqueeze(dim), places[0]
        t, upper, lift, th_sum = self.row_terms(*rows.unbind())
        h, inv_t, room_above = th_sum / t, 1 / t, z_sum - upper
        delta = torch.where(upper < 1, self.delta / room_above, 0.0)
        tilt = torch.where(upper < 1, delta - self.beta / t, 0.0)
        bend = delta * z_sum * (1 - upper) / room_above
        y_is_1 = (i1 == yk).to(f)
        by_y = d_tp.gather(-1, y).unsqueeze(dim)
        by_1 = d_pred.gather(-1, i1.squeeze(dim)).unsqueeze(dim)
        ty, slope_y = self.of_y(exps, yk, t, dim)
        gy, slope_y = ty / th_sum + lift / h * y_is_1, slope_y / t + tilt * y_is_1
        weight = torch.ones_like(t) if w is None else w.to(f).unsqueeze(dim).expand_as(t)
        # What a row contributes whatever its chunk finds, all rows at once: a chunk has few rows,
        # and a call costs as much as they do.
        all_l = d_pred.sum(-1, keepdim=True).unsqueeze(-1)
        half = self.steep * self.a / (2 * h)
        known = torch.stack(
            [
                self.a * t,
                lift * by_1 / h + gy * by_y - half * all_l,  # of mean
                1 / th_sum,
                half,
                tilt,
                inv_t,
                tilt * by_1 + slope_y * by_y,  # of sum h' r
                by_1 + by_y * y_is_1,
                bend / h,
                1 / h,
                weight * inv_t / 2,
                weight / th_sum,
                weight / z_sum,
                weight * slope_y * by_y / h,
                weight * tilt * by_1 / h,
                weight * tilt / h,
                e2,
            ]
        )
        index = torch.cat([yk.expand_as(i1), *places.unbind()], dim)
        columns = torch.stack([d_pred, torch.ones_like(d_pred)], -2 if dim == -1 else -1)
        middle, half_steep = (self.alpha + self.beta) / 2, self.steep / 2
        out = room_for_gradient(z, exps if dim == -1 else None)
        room = Room(self.parts(z), -3 - dim)
        out_rows = out if dim == -1 else out.mT
        for e, row, at, here in chunks(self.size(z), -3 - dim, exps, known, index, out_rows):
            (corner, of_mean, per_th, half, tilt, inv_t, of_drift, r_1, bend, per_h,
             half_weight, scale, w_p1, at_y, at_1, per_mean, e2) = row.unbind()  # fmt: skip
            side = torch.sub(e, corner, out=room("wide", e)).sign_()  # 1 in the middle piece, or -1
            side_l = _over_classes(side, d_pred, dim)
            slope = affine(side, half_steep, middle, side).mul_(e)  # t h'
            slope_l = _over_classes(slope, d_pred, dim)
            mean = torch.addcmul(of_mean, slope_l, per_th).addcmul_(side_l, half, value=-1)
            slope_1 = torch.addcmul(tilt, slope.sum(dim, keepdim=True), inv_t)
            drift = torch.addcmul(of_drift, slope_l, inv_t).addcmul_(mean, slope_1, value=-1)
            kappa = torch.sub(r_1, mean).mul_(bend)
            lam = torch.addcmul(kappa, drift, per_h, value=-1).mul_(half_weight)
            pair = torch.cat([scale, torch.mul(mean, scale).neg_()], dim)
            a, b = (pair, columns) if dim == -1 else (columns, pair)
            g = torch.matmul(a, b, out=room("g", e)).mul_(slope)
            g = torch.addcmul(g, e, kappa.mul_(w_p1), value=-1, out=here if here.dtype == f else g)
            at_1 = torch.add(at_1, lam).addcmul_(mean, per_mean, value=-1)
            g.scatter_add_(dim, at, torch.cat([at_y, at_1, lam.mul_(e2)], dim))
            if g is not here:
                store(here, g)
        return out


def _exp_top_two(
    z: Tensor, dim: int, out: Tensor, e2: Tensor, places: Tensor, room: Room
) -> Tensor:
    """``exp(z - max z)`` in ``out``, its second largest in ``e2``, ``places`` of the largest two.

    ``topk`` costs more than the rest of the forward pass. A maximum without its place is cheap,
    and ``sign(x - max)`` is 0 at the maximum and -1 elsewhere, so that a product with place codes
    finds it; a tie gives a code out of range, and then ``topk`` decides.
    """
    classes = z.shape[dim]
    i1, i2 = places.unbind()
    e = torch.sub(z, z.amax(dim, keepdim=True), out=out)
    if z.device.type == "cpu" and 2.5 * classes**2 < 2**24:  # sums of codes exact in float32
        base, shift, code = _codes(classes, z.dtype)
        sign = torch.sign(e, out=room("wide", e))
        first = _over_classes(sign, code, dim).add_(shift)
        e = e.exp_()
        if float(first.max()) < base:
            e.scatter_(dim, i1.copy_(first), -1.0)
            torch.amax(e, dim, keepdim=True, out=e2)
            second = _over_classes(torch.sub(e, e2, out=sign).sign_(), code, dim).add_(shift)
            e.scatter_(dim, i1, 1.0)
            if float(second.max()) < base:
                i2.copy_(second)
                return e
    else:
        e = e.exp_()
    values, index = e.topk(2, dim)
    e2.copy_(values.narrow(dim, 1, 1))
    for place, k in ((i1, 0), (i2, 1)):
        place.copy_(index.narrow(dim, k, 1))
    return e


@lru_cache(maxsize=16)
def _codes(classes: int, dtype: torch.dtype) -> tuple[int, int, Tensor]:
    """``base``, codes from ``base`` on, and what to add to minus the sum of all codes but one to
    get its place; with all but two it is at least ``base``."""
    base = 2 * classes
    code = torch.arange(base, base + classes, dtype=dtype)
    return base, classes * base + classes * (classes - 1) // 2 - base, code


def _over_classes(x: Tensor, v: Tensor, dim: int) -> Tensor:
    """``sum_j x_j v_j`` over the class dimension, which stays."""
    return x @ v.unsqueeze(-1) if dim == -1 else v.unsqueeze(-2) @ x


def _over_rows(x: Tensor, r: Tensor, dim: int) -> Tensor:
    """``sum_i x_ij r_i`` over the rows."""
    return (x.mT @ r if dim == -1 else x @ r.mT).squeeze(-1)
