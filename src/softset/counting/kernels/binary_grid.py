"""Binary and multilabel counts at a grid of thresholds, in bins."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.binary_linear import LinearKernel
from softset.counting.kernels.blocks import parts_of, pieces_of
from softset.counting.kernels.interface import Counts
from softset.counting.kernels.scratch import Room, room_for_gradient, untracked
from softset.counting.numerics import wide
from softset.counting.steps import LinearStep
from softset.counting.values import check_binary, off_labels

# Up to this many scores their bins are kept for the backward pass.
KEEP = 2**21


class GridKernel(LinearKernel):
    """A linear step of width 1 at thresholds ``i/K``, ``i = 1 … K-1``, in O(n + K).

    Every corner of every step is a multiple of ``1/(2K)``. So count and sum of ``p`` per class in
    ``2K`` bins determine all sums, by prefix sums; and the derivative by ``p`` is constant in a
    bin, so that the backward pass is one look-up per example.
    """

    def __init__(self, step: LinearStep, size: int, from_logits: bool, dtype: torch.dtype) -> None:
        super().__init__(step, [i / size for i in range(1, size)], True, from_logits, dtype)
        self.bins = 2 * size

    @cached_property
    def table(self) -> Tensor:
        """Corners ``a, b``, slopes ``m1, m2, m3`` and ``tau``: a row each, a column a threshold.

        Made when something is counted: a kernel may be made where tensors have no values.
        """
        pieces = [(*self.step.pieces(tau)[:5], tau) for tau in self.taus]
        return torch.tensor(pieces, dtype=torch.float64, device="cpu").T.contiguous()

    @cached_property
    def corners(self) -> Tensor:
        """The bins that the corners begin."""
        return (self.table[:2] * self.bins).round().long()

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
        room, cells, pairs = Room(parts_of(z)), torch.view_as_complex(both), None
        for zc, yc, wc, kc, ac in pieces_of(z, y, w, kept, places):
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
        room = Room(parts_of(z))
        with untracked():
            of_both = torch.cat([self.slopes(d_pred), self.slopes(d_pred + d_tp)], -1)
            of_both = of_both.to(self.dtype)
            for zc, yc, wc, kc, at, to in pieces_of(z, y, w, kept, places, out):
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
