"""Binary and multilabel kernels: any step, the linear one, and a grid of thresholds in bins.

Scores ``[*lead, N]``, see ``fused``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from softset.fused import (
    Counts,
    Room,
    affine,
    as_dtype,
    axpy,
    check_binary,
    chunks,
    off_labels,
    room_for_gradient,
    store,
    untracked,
    vjp,
    wide,
)
from softset.steps import LinearStep, Step

# Elements in a chunk: small enough for the cache, large enough to hide the cost of a call.
CHUNK = 2**16
# Rows that are summed in float32, in a long column of it; from there on it is float64.
BLOCK = 256
# Up to this many scores their bins are kept for the backward pass.
KEEP = 2**21

# Kernels of PyTorch's own backward passes: g where a < p < b, g where p > b, g p (1 - p). Masks of
# bool cost several times as much on a CPU.
_inside = torch.ops.aten.hardtanh_backward.default
_inside_out = torch.ops.aten.hardtanh_backward.grad_input
_above = torch.ops.aten.threshold_backward.default
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input


class BinaryKernel:
    """``tp = sum w y H(p, tau)`` and ``predicted = sum w H(p, tau)``, for any step, by chunks.

    ``taus`` holds one threshold, or a grid of them (``grid=True``: sums get a last dimension for
    it). A threshold is a number or a tensor that broadcasts with ``[*lead, 1]``.
    """

    closed_form = False  # else ``value`` is a user's, who may return p itself

    def __init__(
        self, step: Step, taus: Sequence[Any], grid: bool, from_logits: bool, dtype: torch.dtype
    ) -> None:
        self.step, self.taus, self.grid, self.from_logits = step, taus, grid, from_logits
        self.dtype = dtype  # of elementwise work
        self.levels: Sequence[Any] = taus  # what ``value`` needs to know of each threshold

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
        z = z.to(self.dtype)
        p = torch.sigmoid(z) if self.from_logits else z
        w = None if w is None else w.to(dtype)
        wy = y.to(dtype) if w is None else y.to(dtype) * w
        tp, predicted = [], []
        for tau in self.taus:
            h = self.step(p, tau).to(dtype)
            tp.append((h * wy).sum(-1))
            predicted.append(h.sum(-1) if w is None else (h * w).sum(-1))
        return tp, predicted, (p, wy, w)

    def count(
        self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False
    ) -> tuple[Counts, list[Tensor]]:
        parts = _parts(z)
        room, kept = Room(parts), self.kept(z, keep and parts > 1)
        long = parts > 1 and z.dim() == 1 and w is None and z.device.type == "cpu"
        with untracked(parts > 1 and self.closed_form):
            if long and self.dtype is torch.float32:
                sums, bad, p = self.long_sums(z, y, room, kept)
            else:
                sums, bad, p = self.sums(z, y, w, room, kept)
        support, tp, predicted = sums[0], self.stack(sums[1::2]), self.stack(sums[2::2])
        check_binary(z, y, bad, predicted)
        total = _total(w, z.shape[-1], support)
        if self.grid:
            support, total = (m.unsqueeze(-1).expand(tp.shape) for m in (support, total))
        left = p if keep and parts == 1 and self.from_logits else kept
        return (tp, predicted, support, total), [] if left is None else [left]

    def sums(self, z: Tensor, y: Tensor, w: Tensor | None, room: Room, kept: Any) -> Any:
        """Support, then tp and predicted at each threshold; what is off with the labels; the last
        probabilities."""
        f, dtype = self.dtype, wide(z.device)
        sums: list[Tensor] = []
        bad: Any = None
        for zc, yc, wc, kc in _pieces(z, y, w, kept):
            yf = room.cast("y", yc, f)
            if yc.dtype != torch.bool:
                off = off_labels(yf, room("h", yf))
                bad = off if bad is None else bad + off
            wy = room.cast("wide y", yf, dtype)
            if wc is not None:
                wc = room.cast("w", wc, dtype)
                wy = torch.mul(wy, wc, out=room("wy", wy))
            p = self.probabilities(zc, room("p", zc, self.dtype) if kc is None else kc)
            here = [wy.sum(-1)]
            for level in self.levels:
                h, unit = self.value(p, level, room)
                h = room.cast("wide h", h, dtype)
                here += [_dot(h, wy), _sum(h, wc)]
                if unit is not None:
                    here[-2:] = [s.mul_(unit) for s in here[-2:]]
            sums = [s.add_(t) for s, t in zip(sums, here, strict=True)] if sums else here
        return sums, bad, p

    def long_sums(self, z: Tensor, y: Tensor, room: Room, kept: Any) -> Any:
        """The same for a long column of float32, by blocks of its rows.

        Turning every row into float64 would take twice as long and is no more exact: 0 and 1 have
        exact sums, and within a block the sums of other values are as good as the values.
        """
        found: list[list[Tensor]] = [[] for _ in range(2 * len(self.levels))]
        support, bad = [], []
        for zc, yc, kc in _pieces(z, y, kept):
            yf = room.cast("y", yc, torch.float32)
            if yc.dtype != torch.bool:
                bad.append(off_labels(yf, room("h", yf)))
            support.append(yf.sum())
            p = self.probabilities(zc, room("p", zc, self.dtype) if kc is None else kc)
            units = []
            for k, level in enumerate(self.levels):
                h, unit = self.value(p, level, room)
                h = room.cast("float h", h, torch.float32)
                found[2 * k + 1].append(_blocks(h).sum(-1))
                # A product made afresh would leave a hole in the heap for each chunk.
                product = torch.mul(h, yf, out=h if self.closed_form else room("hy", h))
                found[2 * k].append(_blocks(product).sum(-1))
                units += [1.0 if unit is None else unit] * 2
        sums = [torch.stack(support), *map(torch.cat, found)]
        units = [1.0, *units]
        off = torch.stack(bad).sum() if bad else None
        return [s.sum(dtype=torch.float64) * u for s, u in zip(sums, units, strict=True)], off, p

    def kept(self, z: Tensor, keep: bool) -> Tensor | None:
        """Where the probabilities of all chunks are left for the backward pass."""
        return None  # which here goes through autograd

    def probabilities(self, zc: Tensor, out: Tensor | None) -> Tensor:
        zc = as_dtype(zc, self.dtype)
        return torch.sigmoid(zc, out=out) if self.from_logits else zc

    def again(self, zc: Tensor, room: Room, kc: Tensor | None) -> Tensor:
        """The probabilities once more, in the backward pass."""
        return self.probabilities(zc, room("p", zc, self.dtype)) if kc is None else kc

    def value(self, p: Tensor, level: Any, room: Room) -> tuple[Tensor, float | None]:
        """The step, in units of a number if that saves a pass."""
        return self.step(p, level), None

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = room_for_gradient(z, None)
        for zc, yc, wc, to in _pieces(z, y, w, out):
            with torch.enable_grad():
                leaf = zc.detach().to(self.dtype).requires_grad_()
                tp, predicted, _ = self._soft_sums(leaf, yc, wc)
                sums = (self.stack(tp), self.stack(predicted))
            store(to, vjp(sums, leaf, (d_tp, d_pred)))
        return out


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
        self.levels = [step.pieces(tau) for tau in taus]

    def kept(self, z: Tensor, keep: bool) -> Tensor | None:
        return z.new_empty(z.shape, dtype=self.dtype) if keep and self.from_logits else None

    def value(self, p: Tensor, level: Any, room: Room) -> tuple[Tensor, float | None]:
        # m1 min(p, a) + m2 (clip(p, a, b) - a) + m3 max(p - b, 0): nothing cancels, however steep
        # a piece is. At tau = 1/2, where m1 = m3, as p + (m2/m1 - 1) (clip(p, a, b) - a).
        a, b, m1, m2, m3 = level
        middle = torch.clamp(p, a, b, out=room("h", p)).sub_(a)
        if isinstance(m1, float) and m1 == m3 > 0:
            return torch.add(p, middle, alpha=m2 / m1 - 1, out=middle), m1
        h = axpy(middle.mul_(m2), torch.clamp(p, max=a, out=room("outer", p)), m1)
        return axpy(h, torch.sub(p, b, out=room("outer", p)).clamp_(min=0), m3), None

    def pull(
        self, y: Tensor, by_tp: Any, by_predicted: Any, p: Tensor, level: Any, room: Room
    ) -> Tensor:
        """``(y L_tp + L_predicted) H'(p)``."""
        a, b, m1, m2, m3 = level
        if isinstance(m1, Tensor) or isinstance(by_tp, Tensor) or m1 == 0:
            above = (p - b).sign_()
            inside = (p - a).sign_().sub_(above)
            slope = inside.mul_((m2 - m1) / 2).add_((m1 + m3) / 2)
            return axpy(slope, above, (m3 - m1) / 2).mul_(affine(y, by_tp, by_predicted))
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
        parts = _parts(z)
        room = Room(parts)
        with untracked(parts > 1):
            for zc, yc, wc, kc, to in _pieces(z, y, w, kept, out):
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


class GridKernel(LinearKernel):
    """A linear step of width 1 at thresholds ``i/K``, ``i = 1 … K-1``, in O(n + K).

    Every corner of every step is a multiple of ``1/(2K)``. So count and sum of ``p`` per class in
    ``2K`` bins determine all sums, by prefix sums; and the derivative by ``p`` is constant in a
    bin, so that the backward pass is one look-up per example.
    """

    def __init__(self, step: LinearStep, size: int, from_logits: bool, dtype: torch.dtype) -> None:
        super().__init__(step, [i / size for i in range(1, size)], True, from_logits, dtype)
        self.bins = 2 * size
        pieces = [(*level, tau) for level, tau in zip(self.levels, self.taus, strict=True)]
        self.table = torch.tensor(pieces, dtype=torch.float64).T.contiguous()
        self.corners = (self.table[:2] * self.bins).round().long()

    def where(self, p: Tensor, yf: Tensor, room: Room, out: Tensor | None) -> Tensor:
        """The bin of each example, positives after all bins of the negatives."""
        bins = torch.mul(p, self.bins, out=room("h", p)).add_(yf, alpha=self.bins + 1)
        return room.cast("bins", bins, torch.int32) if out is None else out.copy_(bins)

    def count(
        self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False
    ) -> tuple[Counts, list[Tensor]]:
        kept = self.kept(z, keep)
        few = kept is not None and z.numel() <= KEEP
        places = z.new_empty(z.shape, dtype=torch.int32) if few else None
        with untracked():
            counts = self.from_bins(self.into_bins(z, y, w, kept, places))
        return counts, [x for x in (kept, places) if x is not None]

    def into_bins(self, z: Tensor, y: Tensor, w: Tensor | None, kept: Any, places: Any) -> Tensor:
        """Mass and moment ``[*lead, 2, bins, 2]`` of negatives and positives."""
        dtype, lead = wide(z.device), z.shape[:-1]
        # As one complex number: one scatter instead of two.
        both = torch.zeros(*lead, 2 * (self.bins + 1), 2, dtype=dtype, device=z.device)
        room, cells, pairs = Room(_parts(z)), torch.view_as_complex(both), None
        for zc, yc, wc, kc, ac in _pieces(z, y, w, kept, places):
            p = self.probabilities(zc, room("p", zc, self.dtype) if kc is None else kc)
            yf = room.cast("y", yc, self.dtype)
            # Before an index is made of them: a NaN or a stray label is no place in a table.
            check_binary(z, y, off_labels(yf, room("h", yf)), p.sum())
            at = self.where(p, yf, room, ac)
            if pairs is None:
                pairs = torch.ones(*p.shape, 2, dtype=dtype, device=z.device)
            pair = pairs.narrow(-2, 0, p.shape[-1])  # the last chunk may be shorter
            mass, moment = pair.unbind(-1)
            moment.copy_(p)
            if wc is not None:
                mass.copy_(wc)
                moment.mul_(wc)
            wide_at = room.cast("wide bins", at, torch.int64)
            cells.scatter_add_(-1, wide_at, torch.view_as_complex(pair))
        return both.view(*lead, 2, -1, 2)

    def from_bins(self, bins: Tensor) -> Counts:
        """The counts at all thresholds, from mass and moment of the first 0, 1, 2, … bins."""
        n, s = torch.nn.functional.pad(bins.cumsum(-2), (0, 0, 1, 0)).unbind(-1)
        i, j = self.corners.to(bins.device).unbind()
        _, _, m1, m2, m3, tau = self.table.to(bins).unbind()
        (n_i, n_j), (s_i, s_j) = ([x.index_select(-1, k) for k in (i, j)] for x in (n, s))
        n_all, s_all = n[..., -1:], s[..., -1:]
        h = m1 * s_i + m2 * (s_j - s_i) + (0.5 - m2 * tau) * (n_j - n_i)
        h += m3 * (s_all - s_j) + (1 - m3) * (n_all - n_j)
        negative, tp = h.unbind(-2)
        return tp, tp + negative, n_all[..., 1, :].expand_as(tp), n_all.sum(-2).expand_as(tp)

    def slopes(self, adjoint: Tensor) -> Tensor:
        """The slope of the sum over thresholds in each bin: a threshold adds m1 below its corner a,
        m2 up to b and m3 above, so that differences at the corners, summed up, give it."""
        _, _, m1, m2, m3, _ = self.table.to(adjoint).unbind()
        i, j = (k.expand(adjoint.shape) for k in self.corners.to(adjoint.device).unbind())
        steps = adjoint.new_zeros(*adjoint.shape[:-1], self.bins + 1)
        steps[..., 0] = (adjoint * m1).sum(-1)
        steps.scatter_add_(-1, i, adjoint * (m2 - m1))
        steps.scatter_add_(-1, j, adjoint * (m3 - m2))
        return steps.cumsum(-1)

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        kept, places = (*left, None, None)[:2]
        out = room_for_gradient(z, kept)
        room = Room(_parts(z))
        with untracked():
            of_both = torch.cat([self.slopes(d_pred), self.slopes(d_pred + d_tp)], -1)
            of_both = of_both.to(self.dtype)
            for zc, yc, wc, kc, at, to in _pieces(z, y, w, kept, places, out):
                p = self.again(zc, room, kc)
                if at is None:
                    at = self.where(p, room.cast("y", yc, p.dtype), room, None)
                if at.dim() == 1:  # five times as fast as gather
                    g = torch.index_select(of_both, 0, at, out=room("g", p))
                else:
                    g = torch.gather(of_both, -1, at.long(), out=room("g", p))
                self.through(g, p, zc, wc, to)
        return out


@lru_cache(maxsize=16)
def grid_kernel(step: LinearStep, size: int, from_logits: bool, dtype: torch.dtype) -> GridKernel:
    """A kernel that is made once for each grid."""
    return GridKernel(step, size, from_logits, dtype)


def _parts(z: Tensor) -> int:
    """How many chunks."""
    return max(1, min(round(z.numel() / CHUNK), z.shape[-1]))


def _size(z: Tensor) -> int:
    """Columns in a chunk: whole blocks, where there are so many."""
    size = -(-z.shape[-1] // _parts(z))
    return size if size < BLOCK else -(-size // BLOCK) * BLOCK


def _blocks(x: Tensor) -> Tensor:
    """A column as rows of a block each; the last one is filled up with zeros."""
    missing = -len(x) % BLOCK
    return (torch.nn.functional.pad(x, (0, missing)) if missing else x).reshape(-1, BLOCK)


def _pieces(z: Tensor, *others: Tensor | None) -> Iterator[Any]:
    """The chunks of scores and what belongs to them, side by side; nothing stays nothing."""
    if _parts(z) == 1:  # to find that out again shows in the time of a small batch
        return iter([(z, *others)])
    return chunks(_size(z), -1, z, *others)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a, b) if a.dim() == 1 and b.dim() == 1 else (a * b).sum(-1)


def _sum(x: Tensor, w: Tensor | None) -> Tensor:
    return x.sum(-1) if w is None else _dot(x, w)


def _total(w: Tensor | None, n: int, like: Tensor) -> Tensor:
    if w is None and like.dim() == 0 and like.device.type == "cpu":
        return torch.scalar_tensor(n, dtype=like.dtype)
    return torch.full_like(like, n) if w is None else w.sum(-1).expand_as(like)
