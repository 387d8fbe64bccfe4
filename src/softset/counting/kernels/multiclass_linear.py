"""Counts of several classes with the linear step."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.interface import Counts
from softset.counting.kernels.multiclass import MulticlassKernel, added
from softset.counting.kernels.scratch import (
    Room,
    affine,
    axpy,
    chunks,
    exact_products,
    room_for_gradient,
    store,
    untracked,
)
from softset.counting.numerics import as_dtype, wide
from softset.counting.steps import LinearStep
from softset.counting.values import check_rows

# Rows of which everything is known at a time, which is some 40 numbers for each.
ROWS = 2**16
# Fewer classes than this are laid out class by class: reductions then run over whole rows.
CLASS_MAJOR_BELOW = 64


class MulticlassLinearKernel(MulticlassKernel):
    """The linear step on logits, in closed form.

    Write ``e_j = exp(z_j - max z)``, so that the largest is 1, and ``t = (1 + e_2)/2`` for the mean
    of the two largest: ``p/tau = e/t``. As ``tau <= 1/2``, the step below its upper corner is
    ``H = alpha u + (beta - alpha) max(u - a, 0)`` with ``u = e/t``, ``a = 1 - width/2``,
    ``alpha = delta/a`` and ``beta = (1 - 2 delta)/width``; and only the largest can lie above that
    corner. So a row needs ``e``, the place of its two largest, and a correction for one of them.
    """

    step: LinearStep
    closed_form = True

    def __init__(self, step: LinearStep, dtype: torch.dtype) -> None:
        super().__init__(step, True, dtype)
        # Numbers, or tensors ``[*lead, 1]`` with one for each problem.
        delta, width = (
            x.to(dtype).squeeze(-1) if isinstance(x, Tensor) else x
            for x in (step.delta, step.width)
        )
        self.delta, self.reach, self.a = delta, 1 + width / 2, 1 - width / 2
        self.alpha, self.beta = delta / self.a, (1 - 2 * delta) / width
        self.steep = self.beta - self.alpha
        # As tensors, because turning a number into one takes as long as the rest of a small call.
        self.half, self.one, self.minus_beta, self.shallow = (
            x if isinstance(x, Tensor) else torch.scalar_tensor(x, dtype=dtype, device="cpu")
            for x in (0.5, 1.0, -self.beta, self.alpha)
        )

    def th_sum(self, rows: Any, excess: Tensor) -> Tensor:
        """``t sum H`` from ``z_sum`` and ``t`` in ``rows``, where its parts are left, and from the
        steep part of it, ``excess``.

        What the largest has above its corner is ``past turn / t``: ``past = max(1 - b t, 0)`` with
        ``b = 1 + width/2``, and ``turn / t`` is how much steeper it is there (paper 002 eq. 4).
        """
        # In place, as a chunk has few rows and each call costs more than they do.
        _, z_sum, t, past, turn, th_sum = rows
        affine(t, -self.reach, self.one, past).clamp_(min=0)
        torch.div(t, affine(t, -self.reach, z_sum, turn), out=turn)
        affine(turn, self.delta, self.minus_beta, turn)
        return torch.addcmul(axpy(excess, z_sum, self.alpha), past, turn, out=th_sum)

    def layout(self, z: Tensor) -> int:
        return -2 if z.shape[-1] < CLASS_MAJOR_BELOW else -1

    def count(
        self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False
    ) -> tuple[Counts, list[Any]]:
        size = self.block(z)
        # With few classes what is known of a row is larger than the row, and is made again.
        keep = keep and (z.shape[-2] <= size or self.layout(z) == -1)
        exps = torch.empty(z.shape, dtype=self.dtype, device=z.device) if keep else None
        parts, left = [], []
        with untracked(), exact_products(z):
            pieces = zip(self.pieces(z, y, w, size), chunks(size, -2, z, exps), strict=True)
            for (zb, yb, wb), (_, to) in pieces:
                counts, known = self.count_block(zb, yb, wb, to)
                parts.append(counts)
                left += [known] if keep else []
            counts = added(parts)
        check_rows(z, counts[1])
        return counts, [exps, *left] if keep else []

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        size = self.block(z)
        out = room_for_gradient(z, left[0] if left and self.layout(z) == -1 else None)
        known = left[1:] if left else repeat(None)
        with untracked(), exact_products(z):
            d_tp, d_pred = d_tp.to(self.dtype), d_pred.to(self.dtype)
            pieces = zip(self.pieces(z, y, w, size), chunks(size, -2, out), strict=True)
            for ((zb, yb, wb), (to,)), block in zip(pieces, known, strict=False):
                block = self.count_block(zb, yb, wb)[1] if block is None else block
                self.gradient_block(zb, yb, wb, block, d_tp, d_pred, to)
        return out

    def block(self, z: Tensor) -> int:
        """Rows of which all is known at a time."""
        return max(1, ROWS // math.prod(z.shape[:-2]))

    def count_block(
        self,
        z: Tensor,
        y: Tensor,
        w: Tensor | None,
        room_for_exps: Tensor | None = None,
        ties: bool = False,
    ) -> tuple[Counts, list[Tensor]]:
        """Counts, and what ``gradient_block`` needs."""
        f, dtype, dim = self.dtype, wide(z.device), self.layout(z)
        ties = ties or z.dtype != f or not z.is_cpu  # in half precision there are always some
        z_rows = z.detach() if dim == -1 else z.detach().mT
        if room_for_exps is None:
            room_for_exps = torch.empty(z.shape, dtype=f, device=z.device)
        exps = room_for_exps if dim == -1 else room_for_exps.view(z_rows.shape)
        wf = None if w is None else w.to(f)
        rows, sums = exps.new_empty(6, *y.shape), exps.new_empty(*y.shape[:-1], 2, y.shape[-1])
        every, size, parts = exps.new_ones(z.shape[-1]), self.size(z), self.parts(z)
        steeply, room = every * self.steep, Room(parts, -3 - dim)
        columns = exps.new_empty(parts, 2, *z.shape[:-2], z.shape[-1])
        of_scores = chunks(size, -3 - dim, z_rows, exps)
        of_rows = chunks(size, -1, wf, rows, sums)
        for (zc, ec), (wc, row, pair), column in zip(of_scores, of_rows, columns, strict=True):
            zc = as_dtype(zc, f) if dim == -1 else zc.to(f).contiguous()
            e2, z_sum, t, *_ = each = row.unbind()
            e = torch.sub(zc, zc.amax(dim, keepdim=True), out=ec).exp_()
            work = room.make("wide", e)
            (_top_two_by_sorting if ties else _top_two)(e, dim, e2, pair, work)
            _over_classes(e, every, dim, z_sum)
            corner = affine(e2, 0.5, self.half, t) * self.a
            over = torch.sub(e, corner.unsqueeze(dim), out=work).clamp_(min=0)
            th_sum = self.th_sum(each, _over_classes(over, steeply, dim))
            share = th_sum.reciprocal() if wc is None else wc / th_sum
            of_e, of_over = column.unbind()
            _over_rows(e, share, dim, of_e)
            _over_rows(over, share, dim, of_over)
        if not (ties or _are_pairs(sums, z.shape[-1])):
            return self.count_block(z, y, w, room_for_exps, ties=True)
        predicted, above = columns.sum(0, dtype=dtype)
        predicted = axpy(predicted.mul_(self.alpha), above, self.steep)

        i1, i2 = _places(exps, dim, sums)
        _, _, t, past, turn, th_sum = rows.unbind()
        lift, y_is_1 = past * turn / th_sum, torch.eq(i1, y, out=torch.empty_like(t))
        th_y, slope_y = self.of_y(exps, y, t, dim)
        gy = th_y.div_(th_sum).addcmul_(lift, y_is_1)
        ones = torch.ones_like(gy, dtype=dtype) if w is None else w.to(dtype).expand(y.shape)
        tp, support = torch.zeros_like(predicted), torch.zeros_like(predicted)
        predicted.scatter_add_(-1, i1, lift * ones)
        tp.scatter_add_(-1, y, gy * ones)
        support.scatter_add_(-1, y, ones)
        total = support.sum(-1, keepdim=True).expand_as(support)
        return (tp, predicted, support, total), [exps, rows, i1, i2, lift, y_is_1, gy, slope_y]

    def of_y(self, exps: Tensor, y: Tensor, t: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """``t H`` and ``t h'`` of the true class, but for what lies above the upper corner."""
        e = exps.gather(dim, y.unsqueeze(dim)).squeeze(dim)
        over = e - self.a * t
        slope = affine(torch.ge(over, 0, out=torch.empty_like(e)), self.steep, self.shallow).mul_(e)
        return axpy(over.clamp_(min=0).mul_(self.steep), e, self.alpha), slope

    def gradient_block(
        self,
        z: Tensor,
        y: Tensor,
        w: Tensor | None,
        known: list[Tensor],
        d_tp: Tensor,
        d_pred: Tensor,
        out: Tensor,
    ) -> None:
        # With L_j = dL/d predicted_j, r = (L + [j = y] dL/d tp_y - mean) / sum H the derivative
        # by H, and h' = u dH/du: dL/dz_j = w (h'_j r_j - kappa p_j + lambda p_j [j in top two]),
        # where kappa = r_1 bend and lambda = (kappa - sum h' r) / (p_1 + p_2) carry what depends
        # on tau. The upper corner changes h' of the largest by "tilt".
        exps, rows, i1, i2, lift, y_is_1, gy, slope_y = known
        f, dim = self.dtype, self.layout(z)
        e2, z_sum, t, past, turn, th_sum = rows.unbind()
        inv_t, per_th = t.reciprocal(), th_sum.reciprocal()
        per_h = t * per_th
        tilt = torch.sign(past).mul_(turn).mul_(inv_t)
        bend = past * z_sum * self.delta / affine(t, -self.reach, z_sum).square_()
        slope_y = (slope_y * inv_t).addcmul_(tilt, y_is_1)
        by_y, by_1 = d_tp.gather(-1, y), d_pred.gather(-1, i1)
        weight = None if w is None else w.to(f)
        scale, per_row, half_weight, w_p1 = (
            x if weight is None else x * weight
            for x in (per_th, per_h, inv_t * 0.5, z_sum.reciprocal())
        )
        # What a row contributes whatever its chunk finds, all rows at once: a chunk has few rows,
        # and a call costs as much as they do. The last rows are for three places and, with L and
        # 1, for all; the mean and lambda are filled in by the chunk.
        all_rows = torch.stack(
            [
                self.a * t,
                (gy * by_y).addcmul_(lift, by_1),  # of mean
                per_th,
                self.steep * self.a * per_h,
                tilt,
                inv_t,
                (slope_y * by_y).addcmul_(tilt, by_1),  # of sum h' r
                torch.addcmul(by_1, by_y, y_is_1),
                bend * per_h,
                per_h,
                half_weight,
                w_p1,
                per_row * tilt,
                per_row * slope_y * by_y,
                per_row * tilt * by_1,
                e2,
                scale,
                -scale,
            ]
        )
        threes, twos = all_rows[13:16].movedim(0, dim), all_rows[16:].movedim(0, dim)
        index = torch.stack([y, i1, i2], dim)
        columns = torch.stack([d_pred, torch.ones_like(d_pred)], -2)
        size, room = self.size(z), Room(self.parts(z), -3 - dim)
        out = out if dim == -1 else out.mT
        of_scores = chunks(size, -3 - dim, exps, index, threes, twos, out)
        of_rows = chunks(size, -1, all_rows)
        for (e, at, three, two, here), (row,) in zip(of_scores, of_rows, strict=True):
            (corner, own_mean, per_th, offset, tilt, inv_t, own_drift, r_1, bend, per_h,
             half_weight, w_p1, per_mean, _, at_1, at_2, _, of_mean) = row.unbind()  # fmt: skip
            # 1 in the middle piece, or 0, as floats: a comparison that makes booleans is slow.
            over = torch.ge(e, corner.unsqueeze(dim), out=room.make("wide", e))
            over_l = _over_classes(over, d_pred, dim)
            slope = self.slope(over, e)  # t h'
            slope_l, slope_1 = _product(columns, slope if dim == -2 else slope.mT).unbind(-2)
            mean = torch.addcmul(own_mean, slope_l, per_th).addcmul_(over_l, offset, value=-1)
            slope_1 = torch.addcmul(tilt, slope_1, inv_t)
            drift = torch.addcmul(own_drift, slope_l, inv_t).addcmul_(mean, slope_1, value=-1)
            kappa = torch.sub(r_1, mean).mul_(bend)
            lam = torch.addcmul(kappa, drift, per_h, value=-1).mul_(half_weight)
            of_mean.mul_(mean)
            at_1.add_(lam).addcmul_(mean, per_mean, value=-1)
            at_2.mul_(lam)
            a, b = (two, columns) if dim == -1 else (columns.mT, two)
            g = _product(a, b, room("g", e)).mul_(slope)
            kappa_p = kappa.mul_(w_p1).unsqueeze(dim)
            g = torch.addcmul(g, e, kappa_p, value=-1, out=here if here.dtype == f else g)
            g.scatter_add_(dim, at, three)
            if g is not here:
                store(here, g)

    def slope(self, over: Tensor, e: Tensor) -> Tensor:
        """``t h'``, in the place of ``over``."""
        steep, shallow = self.steep, self.shallow
        if isinstance(steep, Tensor) and steep.dim():
            steep, shallow = steep.unsqueeze(-1), shallow.unsqueeze(-1)
        return affine(over, steep, shallow, over).mul_(e)


def _top_two(e: Tensor, dim: int, e2: Tensor, sums: Tensor, work: Tensor) -> None:
    """The second largest of ``e``, whose largest is 1, in ``e2``, and ``sums`` for ``_places``.

    ``topk`` costs more than the rest of the forward pass. A maximum without its place is cheap. So
    is a comparison that makes floats, whose product with numbers for the classes says which two
    are the largest; in case of a tie, or NaN, it is out of range (``_are_pairs``). ``work`` is
    scratch space.
    """
    classes = e.shape[dim]
    numbers = _numbers(classes, e.dtype)
    if classes == 2:  # a tie of two does not show in the sum
        torch.amin(e, dim, out=e2)
    else:
        torch.amax(torch.frac(e, out=work), dim, out=e2)  # the largest becomes 0
    torch.ge(e, e2.unsqueeze(dim), out=work)
    if classes <= _PAIRS_BELOW:
        _product(numbers, work if dim == -2 else work.mT, sums)
    else:
        _over_classes(work, numbers[0], dim, sums[..., 0, :])
        _over_classes(torch.eq(e, 1, out=work), numbers[1], dim, sums[..., 1, :])


def _top_two_by_sorting(e: Tensor, dim: int, e2: Tensor, sums: Tensor, _: Tensor) -> None:
    """The same, slowly, where there are ties."""
    classes = e.shape[dim]
    values, index = (x.unbind(dim) for x in e.topk(2, dim))
    e2.copy_(values[1])
    sums[..., 0, :] = index[0] + index[1] + 4 * classes
    squares = index[0].square() + index[1].square()
    sums[..., 1, :] = index[0] if classes > _PAIRS_BELOW else squares


def _are_pairs(sums: Tensor, classes: int) -> bool:
    """Whether each is a sum of two numbers."""
    low, high = torch.aminmax(sums[..., 0, :])
    return 4 * classes <= float(low) and float(high) < 6 * classes


_PAIRS_BELOW = 2048  # the squares of sums of two places below it are exact in float32


@lru_cache(maxsize=16)
def _numbers(classes: int, dtype: torch.dtype) -> Tensor:
    """Numbers for the classes of which two add up to at least 4 and three to 6 times the classes,
    and others that tell which two: squares, or places to be used on the largest alone."""
    place = torch.arange(classes, dtype=dtype, device="cpu")  # elsewhere two are found by sorting
    other = place if classes > _PAIRS_BELOW else place.square()
    return torch.stack([place + 2 * classes, other])


def _places(e: Tensor, dim: int, sums: Tensor) -> tuple[Tensor, Tensor]:
    """Of the largest and of the second largest in every row."""
    both, other = sums.unbind(-2)
    both -= 4 * e.shape[dim]
    if e.shape[dim] > _PAIRS_BELOW:
        return other.long(), both.sub_(other).long()
    apart = torch.addcmul(other.mul_(2), both, both, value=-1).sqrt_()
    later = torch.add(both, apart).mul_(0.5)
    found = e.gather(dim, later.long().unsqueeze(dim)).squeeze(dim)
    first = later.addcmul_(torch.ne(found, 1, out=other), apart, value=-1)
    return first.long(), both.sub_(first).long()


def _over_classes(x: Tensor, v: Tensor, dim: int, out: Tensor | None = None) -> Tensor:
    """``sum_j x_j v_j`` over the class dimension, for every row."""
    x = x if dim == -1 else x.mT
    if x.dim() == 2:
        return torch.mv(x, v, out=out)
    sums = torch.matmul(x, v.unsqueeze(-1)).squeeze(-1)
    return sums if out is None else out.copy_(sums)


def _over_rows(x: Tensor, r: Tensor, dim: int, out: Tensor) -> None:
    """``sum_i x_ij r_i`` over the rows."""
    x = x.mT if dim == -1 else x
    if x.dim() == 2:
        torch.mv(x, r, out=out)
    else:
        torch.matmul(x, r.unsqueeze(-1), out=out.unsqueeze(-1))


def _product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """``a @ b``."""
    if a.dim() == b.dim():
        return (torch.mm if a.dim() == 2 else torch.matmul)(a, b, out=out)
    # Between different dimensions PyTorch 2.13 cannot write to every part of a tensor.
    product = torch.matmul(a, b)
    return product if out is None else out.copy_(product)
