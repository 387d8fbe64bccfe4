"""Binary and multilabel counts at a uniform grid of thresholds, in bins: docs/kernels.md."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.chunks import store
from softset.counting.numerics import wide
from softset.counting.steps import LinearStep
from softset.counting.values import check_binary, off_labels


class GridKernel(BinaryKernel):
    """A linear step of width 1 at thresholds ``i/K``, ``i = 1 … K-1``, in O(n + K).

    Every corner of every step is a multiple of ``1/(2K)``. So count and sum of ``p`` per class in
    ``2K`` bins determine all sums, by prefix sums; and the derivative by ``p`` is constant in a
    bin, so that the backward pass is one look-up per example. In the upper half of the bins it is
    ``1 - p`` that is summed: there it has the digits.
    """

    step: LinearStep

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

    def where(self, p: Tensor, y: Tensor) -> Tensor:
        """The bin of each example, positives after all bins of the negatives."""
        return (p * self.bins).long() + (self.bins + 1) * y.long()

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        return self.from_bins(self.into_bins(z, y, w))

    def into_bins(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """Mass and moment ``[*lead, 2, bins + 1, 2]`` of negatives and positives."""
        dtype, lead = wide(z.device), z.shape[:-1]
        both = torch.zeros(*lead, 2 * (self.bins + 1), 2, dtype=dtype, device=z.device)
        mass, moment = both.unbind(-1)
        for zc, yc, wc in self.pieces(z, y, w):
            p = self.probabilities(zc)
            # Before an index is made of them: a NaN or a stray label is no place in a table.
            check_binary(z, y, off_labels(yc.to(torch.float32)), p.sum())
            at = self.where(p, yc)
            weight = torch.ones_like(p, dtype=dtype) if wc is None else wc.to(dtype).expand(p.shape)
            mass.scatter_add_(-1, at, weight)
            upper = at - (self.bins + 1) * yc.long() >= self.bins // 2
            moment.scatter_add_(-1, at, weight * torch.where(upper, self.others(zc), p))
        return both.view(*lead, 2, -1, 2)

    def from_bins(self, bins: Tensor) -> Tensor:
        """The cells at all thresholds, from sums over the bins below each corner, and above."""
        n, moment = bins.unbind(-1)
        upper = torch.arange(self.bins + 1, device=bins.device) >= self.bins // 2
        p, q = torch.where(upper, n - moment, moment), torch.where(upper, moment, n - moment)
        i, j = self.corners.to(bins.device).unbind()
        _, _, m1, m2, m3, tau = self.table.to(bins).unbind()

        def below(x: Tensor, k: Tensor) -> Tensor:
            return torch.nn.functional.pad(x.cumsum(-1), (1, 0)).index_select(-1, k)

        def above(x: Tensor, k: Tensor) -> Tensor:
            sums = torch.nn.functional.pad(x.flip(-1).cumsum(-1), (1, 0)).flip(-1)
            return sums.index_select(-1, k)

        between = below(n, j) - below(n, i)
        over_tau = m2 * (below(p, j) - below(p, i) - tau * between)
        low, high = m1 * below(p, i), m3 * above(q, j)
        yes = low + 0.5 * between + over_tau + (above(n, j) - high)
        no = (below(n, i) - low) + 0.5 * between - over_tau + high
        fp, tp = yes.unbind(-2)
        tn, fn = no.unbind(-2)
        return torch.stack([tp, fp, fn, tn])

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
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        of_both = torch.cat([self.slopes(negative), self.slopes(positive)], -1).to(self.dtype)
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for zc, yc, wc, to in self.pieces(z, y, w, out):
            p = self.probabilities(zc)
            g = torch.gather(of_both, -1, self.where(p, yc))
            g = g if wc is None else g * wc.to(g.dtype)
            if self.from_logits:
                # 1 - p would lose its digits, in float32 it is exactly 0 from z = 17 on.
                g = g * p * torch.sigmoid(-zc.to(self.dtype))
            store(to, g)
        return out
