"""Binary and multilabel counts for any step, in PyTorch: scores ``[*lead, N]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softset.counting.numerics import lowered, readable, summed, wide
from softset.counting.steps import Step, both_degrees, degrees, slope
from softset.counting.values import check_binary, off_labels

if TYPE_CHECKING:
    from softset.counting.kernels.interface import Counted
    from softset.counting.problem import Problem

Tau = float | Tensor  # a threshold: a number, or a tensor that broadcasts with ``[*lead, 1]``


class BinaryKernel:
    """``tp = sum w y H(p, tau)``, ``fn = sum w y (1 - H)`` and so on, for any step, in one pass.

    ``taus`` holds one threshold, or a grid of them (``grid=True``: sums get a last dimension for
    it). ``soft`` labels are fractions in [0, 1], in which all counts are linear.
    """

    def __init__(
        self,
        step: Step,
        taus: Sequence[Tau],
        grid: bool,
        from_logits: bool,
        dtype: torch.dtype,
        soft: bool = False,
    ) -> None:
        self.step, self.taus, self.grid, self.from_logits = step, taus, grid, from_logits
        self.dtype = dtype  # of elementwise work
        self.soft = soft

    def stack(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values, -1) if self.grid else values[0]

    def probabilities(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """``p``, and ``1 - p`` with digits that the subtraction would lose where ``p`` is next to
        1."""
        z = z.to(self.dtype)
        return (torch.sigmoid(z), torch.sigmoid(-z)) if self.from_logits else (z, 1 - z)

    def both(self, z: Tensor) -> Tensor:
        """The same as one tensor ``[2, ...]``, without a graph."""
        z = z.to(self.dtype)
        return torch.stack([z, -z]).sigmoid_() if self.from_logits else torch.stack([z, 1 - z])

    def decided(self, z: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The step ``H`` and ``1 - H`` at each threshold, in float64."""
        p, q = self.probabilities(z)
        return (both_degrees(self.step, p, q, tau) for tau in self.taus)

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        dtype = wide(z.device)
        y = y.to(dtype)
        wy, wn = (y, 1 - y) if w is None else (y * w.to(dtype), (1 - y) * w.to(dtype))
        each = []
        for h, rest in self.decided(z):
            sums = [(a * b).sum(-1) for a in (h, rest) for b in (wy, wn)]
            each.append(torch.stack(sums))
        return self.stack(each)

    def in_place(self, problem: Problem) -> Counted | None:
        """Nothing: it needs arguments laid out."""
        return None

    def counted(self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False) -> Counted:
        return _Binary(self, z, y, w, keep)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        return _Binary(self, z, y, w, False).cells

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        return _Binary(self, z, y, w, False).gradient(positive, negative)


class _Binary:
    """The cells in one pass, and their gradient; ``keep``: with what the gradient needs."""

    def __init__(
        self, kernel: BinaryKernel, z: Tensor, y: Tensor, w: Tensor | None, keep: bool
    ) -> None:
        self.kernel, self.z, self.w = kernel, z, w
        self.y = y.to(kernel.dtype)
        self.slope: Tensor | None = None
        pq = kernel.both(z)
        self.cells = kernel.stack([self._cells(pq, tau, keep) for tau in kernel.taus])
        if readable(z, y, w):
            bad = None if kernel.soft or y.dtype == torch.bool else off_labels(self.y)
            check_binary(z, y, bad, self.cells, kernel.soft)

    def _cells(self, pq: Tensor, tau: Tau, keep: bool) -> Tensor:
        y, w = self.y, self.w
        both, by = degrees(self.kernel.step, pq, tau)
        if keep and not self.kernel.grid:
            self.slope = self._slope(pq, tau, by)
        # A difference of two dtypes would leave rounding where there is nothing.
        both = both.to(pq.dtype)
        both = both if w is None else both.mul_(w.to(both.dtype))
        terms = pq.new_empty(2, *pq.shape)
        torch.mul(both, y, out=terms[:, 0])
        if self.kernel.soft:
            torch.mul(both, 1 - y, out=terms[:, 1])
        else:  # exactly the one or the other
            torch.sub(both, terms[:, 0], out=terms[:, 1])
        return summed(terms).flatten(0, 1)

    def _slope(self, pq: Tensor, tau: Tau, by: Tensor | None = None) -> Tensor:
        """The derivative of the degree by the score, times the weight."""
        p, q = pq
        by = slope(self.kernel.step, p, q, tau) if by is None else by
        by = by * p * q if self.kernel.from_logits else by
        return by if self.w is None else by * self.w.to(by.dtype)

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores."""
        kernel = self.kernel
        positive, negative = (x.to(kernel.dtype).unsqueeze(-1) for x in (positive, negative))
        if not kernel.grid:
            at = self.slope
            at = self._slope(kernel.both(self.z), kernel.taus[0]) if at is None else at
            return lowered(torch.lerp(negative, positive, self.y).mul_(at), self.z.dtype)
        pq = kernel.both(self.z)
        out = torch.zeros_like(pq[0])
        for k, tau in enumerate(kernel.taus):
            by = torch.lerp(negative[..., k, :], positive[..., k, :], self.y)
            out.addcmul_(by, self._slope(pq, tau))
        return lowered(out, self.z.dtype)
