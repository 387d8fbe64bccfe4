"""Binary and multilabel counts at a uniform grid of thresholds, in bins: docs/kernels.md."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.interface import Counted, Separate
from softset.counting.numerics import Constants, lowered, readable, wide
from softset.counting.steps import LinearStep
from softset.counting.values import check_binary, off_labels

# More bins are added up by prefix sums, fewer by one product of matrices.
MOST_BINS = 1024
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

    def places(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The bin of each score, as a float; ``min(p, 1 - p)`` in units of a bin, from its outer
        edge on; and itself."""
        z = z.to(self.dtype)
        if self.from_logits:
            upper, least = z > 0, torch.sigmoid(torch.copysign(z, -1))
        else:
            upper, least = z > 0.5, torch.minimum(z, 1 - z)
        scaled = least * self.bins
        outer = scaled.floor()
        return torch.where(upper, self.bins - 1 - outer, outer), scaled - outer, least

    def indices(self, place: Tensor, y: Tensor) -> Tensor:
        """Positives after all bins of the negatives; a NaN, whose bin is none, goes anywhere."""
        at = torch.add(place.long(), y.long(), alpha=self.bins + 1)
        return at.clamp_(0, 2 * self.bins + 1)

    def counted(self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False) -> Counted:
        if readable(z, y, w) or self.bins > MOST_BINS:
            return Separate(self, z, y, w)
        return _Grid(self, z, y, w)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        if readable(z, y, w):
            bad = None if y.dtype == torch.bool else off_labels(y.to(torch.float32))
            check_binary(z, y, bad, z.detach().amax().clamp(0, 1))  # NaN where any score is
        return self.from_bins(self.into_bins(z, y, w))

    def into_bins(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """Mass and moment ``[*lead, 2, bins + 1, 2]`` of negatives and positives."""
        place, beyond, _ = self.places(z)
        mass, beyond = self.sums(self.indices(place, y), beyond, w)
        edges = torch.arange(self.bins + 1, device=z.device)
        edges = edges.minimum(self.bins - 1 - edges).clamp_(min=0)
        return torch.stack([mass, (beyond + mass * edges) / self.bins], -1)

    def sums(self, at: Tensor, beyond: Tensor, w: Tensor | None) -> Tensor:
        """The mass of each bin, and what is beyond its outer edge: ``[2, *lead, 2, bins + 1]``.

        This is so small a number that blocks of it may be added in float32.
        """
        lead, n, size = at.shape[:-1], at.shape[-1], 2 * (self.bins + 1)
        blocks = -(-n // BLOCK)
        block = torch.arange(n, device=at.device).div_(BLOCK, rounding_mode="floor")
        at = torch.add(at, block, alpha=size)
        if w is None:
            mass = torch.ones((), dtype=beyond.dtype, device=at.device).expand(at.shape)
        else:
            mass = w.to(beyond.dtype).expand(at.shape)
            beyond = beyond * mass
        both = torch.zeros(2, *lead, blocks * size, dtype=beyond.dtype, device=at.device)
        for sums, terms in zip(both, (mass, beyond), strict=True):
            sums.scatter_add_(-1, at, terms)
        return both.view(2, *lead, blocks, 2, -1).sum(-3, dtype=wide(at.device))

    @cached_property
    def maps(self) -> Constants:
        """From the sums of the bins to the cells, and from derivatives by the cells to those in the
        bins, as matrices: few launches for what ``from_bins`` and ``slopes`` do in many."""
        bins, table = self.bins, np.array([(*self.step.pieces(t)[:5], t) for t in self.taus]).T
        _, _, m1, m2, m3, tau = table
        i, j = (table[:2] * bins).round()
        bin_ = np.arange(bins + 1)[:, None]
        below, above = bin_ < i, bin_ >= j
        between = ~below & ~above
        slope = m1 * below + m2 * between + m3 * above  # of the degree, by p
        upper = bin_ >= bins // 2
        edge = np.minimum(bin_, bins - 1 - bin_).clip(0) / bins
        # The degree is at_zero + slope p, and the rest of it at_one + slope (1 - p).
        at_zero = between * (0.5 - m2 * tau) + above * (1 - m3)
        at_one = between * (0.5 - m2 * (1 - tau)) + below * (1 - m1)
        yes, no = np.where(upper, 1 - at_one, at_zero), np.where(upper, at_one, 1 - at_zero)
        sign = np.where(upper, -1.0, 1.0)
        yes = np.concatenate([yes + sign * slope * edge, sign * slope / bins])
        no = np.concatenate([no - sign * slope * edge, -sign * slope / bins])
        to_cells = np.concatenate([yes, no], 1)
        to_cells[bins] = to_cells[-1] = 0  # nothing is there but what fills a block
        return Constants(to_cells, np.pad(slope.T, ((0, 0), (0, bins + 1))))

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
        place, _, _ = self.places(z)
        g = torch.gather(of_both, -1, self.indices(place, y))
        g = g if w is None else g * w.to(g.dtype)
        if self.from_logits:
            p, q = self.probabilities(z)
            g = g * p * q
        return lowered(g, z.dtype)


class _Grid:
    """The cells in one pass, and their gradient, in a number of operations that does not depend on
    that of thresholds."""

    def __init__(self, kernel: GridKernel, z: Tensor, y: Tensor, w: Tensor | None) -> None:
        self.kernel, self.dtype, self.w = kernel, z.dtype, w
        place, beyond, self.least = kernel.places(z)
        # In a row: mass and beyond of the bins of negatives, then of positives.
        size = 2 * (kernel.bins + 1)
        at = torch.add(place.long(), y.long(), alpha=size)
        self.at = at.clamp_(0, size + kernel.bins)
        mass = None if w is None else w.to(beyond.dtype).expand(at.shape)
        beyond = beyond if mass is None else beyond * mass
        lead, n = at.shape[:-1], at.shape[-1]
        block = min(n, BLOCK)
        if missing := -n % block:
            at = torch.nn.functional.pad(at, (0, missing), value=kernel.bins)
            beyond = torch.nn.functional.pad(beyond, (0, missing))
            mass = None if mass is None else torch.nn.functional.pad(mass, (0, missing))
        mass = beyond.new_ones(()).expand(at.shape) if mass is None else mass
        at, mass, beyond = (t.reshape(*lead, -1, block) for t in (at, mass, beyond))
        sums = beyond.new_zeros(*at.shape[:-1], 2 * size)
        sums.scatter_add_(-1, at, mass)
        sums[..., kernel.bins + 1 :].scatter_add_(-1, at, beyond)
        to_cells, self.slopes = kernel.maps.beside(z)
        sums = sums.sum(-2, dtype=to_cells.dtype).view(*lead, 2, size)
        tn_fp, tp_fn = (sums @ to_cells).view(*lead, 2, 2, -1).unbind(-3)
        self.cells = torch.stack(
            [tp_fn[..., 0, :], tn_fp[..., 0, :], tp_fn[..., 1, :], tn_fp[..., 1, :]]
        )

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores."""
        kernel = self.kernel
        both = torch.stack([negative, positive], -2).to(self.slopes.dtype)
        g = (both @ self.slopes).flatten(-2).to(kernel.dtype).gather(-1, self.at)
        g = g if self.w is None else g * self.w.to(g.dtype)
        if kernel.from_logits:  # p (1 - p), of the smaller of the two
            g = torch.ops.aten.sigmoid_backward(g, self.least)
        return lowered(g, self.dtype)
