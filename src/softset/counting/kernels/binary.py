"""Binary and multilabel counts for any step, in PyTorch: scores ``[*lead, N]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.chunks import CHUNK, added, chunks, store, total_of, vjp
from softset.counting.kernels.interface import Counts
from softset.counting.numerics import wide
from softset.counting.steps import Step
from softset.counting.values import check_binary, off_labels


class BinaryKernel:
    """``tp = sum w y H(p, tau)`` and ``predicted = sum w H(p, tau)``, for any step, by chunks.

    ``taus`` holds one threshold, or a grid of them (``grid=True``: sums get a last dimension for
    it). A threshold is a number or a tensor that broadcasts with ``[*lead, 1]``. ``soft`` labels
    are fractions in [0, 1], in which all counts are linear.
    """

    def __init__(
        self,
        step: Step,
        taus: Sequence[Any],
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

    def probabilities(self, z: Tensor) -> Tensor:
        z = z.to(self.dtype)
        return torch.sigmoid(z) if self.from_logits else z

    def others(self, z: Tensor) -> Tensor:
        """``1 - p``, with digits that the subtraction would lose where ``p`` is next to 1."""
        z = z.to(self.dtype)
        return torch.sigmoid(-z) if self.from_logits else 1 - z

    def degrees(self, z: Tensor) -> Iterator[Tensor]:
        """The step at each threshold."""
        p, exact = self.probabilities(z), getattr(self.step, "degree", None)
        if exact is None:
            return (self.step(p, tau) for tau in self.taus)
        q = self.others(z)
        return (exact(p, q, tau) for tau in self.taus)

    def labels(self, y: Tensor) -> Tensor:
        """1 for what is counted as positive, in float64."""
        return y.to(wide(y.device))

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        dtype, n = wide(z.device), z.shape[-1]
        w = None if w is None else w.to(dtype)
        wy = self.labels(y) if w is None else self.labels(y) * w
        found, decided = [], []
        for h in self.degrees(z):
            h = h.to(dtype)
            found.append((h * wy).sum(-1))
            decided.append(h.sum(-1) if w is None else (h * w).sum(-1))
        tp, predicted = self.stack(found), self.stack(decided)
        support, total = wy.sum(-1), total_of(w, n, wy[..., 0])
        if self.grid:
            support, total = support.unsqueeze(-1), total.unsqueeze(-1)
        return tp, predicted, support.expand_as(tp), total.expand_as(tp)

    def pieces(self, z: Tensor, *others: Tensor | None) -> Iterator[Any]:
        """The chunks of scores and what belongs to them, side by side; nothing stays nothing."""
        size = max(1, CHUNK * z.shape[-1] // z.numel())
        return chunks(size, -1, z, *others)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        counts = added([self.compose(*piece) for piece in self.pieces(z, y, w)])
        bad = None if self.soft or y.dtype == torch.bool else off_labels(y.to(torch.float32))
        check_binary(z, y, bad, counts[1], self.soft)
        return counts

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for zc, yc, wc, to in self.pieces(z, y, w, out):
            with torch.enable_grad():
                leaf = zc.detach().to(self.dtype).requires_grad_()
                sums = self.compose(leaf, yc, wc)[:2]
            store(to, vjp(sums, leaf, (d_tp, d_pred)))
        return out
