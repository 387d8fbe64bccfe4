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

    def degrees(self, p: Tensor, q: Tensor, tau: Tau) -> tuple[Tensor, Tensor]:
        """The step ``H`` and ``1 - H``."""
        return degrees(self.step, p, q, tau)

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
        p, q = kernel.probabilities(z)
        self.cells = kernel.stack([self._cells(p, q, tau) for tau in kernel.taus])
        if keep and not kernel.grid:
            self.slope = self._slope(p, q, kernel.taus[0])
        if readable(z, y, w):
            bad = None if kernel.soft or y.dtype == torch.bool else off_labels(self.y)
            check_binary(z, y, bad, self.cells, kernel.soft)

    def _cells(self, p: Tensor, q: Tensor, tau: Tau) -> Tensor:
        y, w = self.y, self.w
        both = self.kernel.degrees(p, q, tau)
        terms = p.new_empty(2, 2, *p.shape)
        for degree, (positives, negatives) in zip(both, terms, strict=True):
            weighted = degree if w is None else degree * w.to(degree.dtype)
            torch.mul(weighted, y, out=positives)
            if self.kernel.soft:
                torch.mul(weighted, 1 - y, out=negatives)
            else:  # exactly the one or the other
                torch.sub(weighted, positives, out=negatives)
        return summed(terms).flatten(0, 1)

    def _slope(self, p: Tensor, q: Tensor, tau: Tau) -> Tensor:
        """The derivative of the degree by the score, times the weight."""
        by = slope(self.kernel.step, p, q, tau)
        by = by * p * q if self.kernel.from_logits else by
        return by if self.w is None else by * self.w.to(by.dtype)

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores."""
        dtype, kernel = self.kernel.dtype, self.kernel
        change, negative = (positive - negative).to(dtype), negative.to(dtype)
        if kernel.grid:
            p, q = kernel.probabilities(self.z)
            out = torch.zeros_like(p)
            pairs = zip(change.unbind(-1), negative.unbind(-1), kernel.taus, strict=True)
            for c, n, tau in pairs:
                by = torch.addcmul(n.unsqueeze(-1), self.y, c.unsqueeze(-1))
                out.addcmul_(by, self._slope(p, q, tau))
        else:
            at = self.slope
            if at is None:
                at = self._slope(*kernel.probabilities(self.z), kernel.taus[0])
            out = torch.addcmul(negative.unsqueeze(-1), self.y, change.unsqueeze(-1)) * at
        return lowered(out, self.z.dtype)
