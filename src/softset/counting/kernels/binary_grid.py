"""Binary and multilabel counts at a uniform grid of thresholds, in bins: docs/kernels.md."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.interface import Counted, Separate
from softset.counting.numerics import lowered, readable, wide
from softset.counting.steps import LinearStep
from softset.counting.values import check_binary, off_labels

# Positions that are added up in the dtype of the work, before float64.
BLOCK = 4096


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

    def places(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The bin of each score, as a float, and ``min(p, 1 - p)`` in units of a bin, from its
        outer edge on."""
        z = z.to(self.dtype)
        if self.from_logits:
            upper, least = z > 0, torch.sigmoid(-z.abs())
        else:
            upper, least = z > 0.5, torch.minimum(z, 1 - z)
        least = least * self.bins
        outer = least.floor()
        return outer + upper * torch.rsub(outer, self.bins - 1, alpha=2), least - outer

    def indices(self, place: Tensor, y: Tensor) -> Tensor:
        """Positives after all bins of the negatives; a NaN, whose bin is none, goes anywhere."""
        at = place.long() + (self.bins + 1) * y.long()
        return at.clamp_(0, 2 * self.bins + 1)

    def counted(self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False) -> Counted:
        return Separate(self, z, y, w)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        if readable(z, y, w):
            bad = None if y.dtype == torch.bool else off_labels(y.to(torch.float32))
            check_binary(z, y, bad, z.detach().sum() * 0)
        return self.from_bins(self.into_bins(z, y, w))

    def into_bins(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """Mass and moment ``[*lead, 2, bins + 1, 2]`` of negatives and positives.

        A moment is the mass times the outer edge of the bin, and what is beyond: so small a number
        that blocks of it may be added in float32.
        """
        place, beyond = self.places(z)
        lead, n, size = z.shape[:-1], z.shape[-1], 2 * (self.bins + 1)
        blocks = -(-n // BLOCK)
        block = torch.arange(n, device=z.device).div_(BLOCK, rounding_mode="floor")
        at = self.indices(place, y).add_(block, alpha=size)
        if w is None:
            mass = torch.ones((), dtype=beyond.dtype, device=z.device).expand(place.shape)
        else:
            mass = w.to(beyond.dtype).expand(place.shape)
            beyond = beyond * mass
        both = torch.zeros(2, *lead, blocks * size, dtype=beyond.dtype, device=z.device)
        both[0].scatter_add_(-1, at, mass)
        both[1].scatter_add_(-1, at, beyond)
        both = both.view(2, *lead, blocks, 2, -1).sum(-3, dtype=wide(z.device))
        edges = torch.arange(self.bins + 1, device=z.device)
        edges = edges.minimum(self.bins - 1 - edges).clamp_(min=0)
        moment = (both[1] + both[0] * edges) / self.bins
        return torch.stack([both[0], moment], -1)

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
        place, _ = self.places(z)
        g = torch.gather(of_both, -1, self.indices(place, y))
        g = g if w is None else g * w.to(g.dtype)
        if self.from_logits:
            p, q = self.probabilities(z)
            g = g * p * q
        return lowered(g, z.dtype)
