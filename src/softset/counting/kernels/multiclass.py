"""Counts of several classes for any step, in PyTorch: scores ``[*lead, N, C]``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.chunks import CHUNK, added, chunks, store, total_of, vjp
from softset.counting.kernels.interface import Counts
from softset.counting.numerics import wide
from softset.counting.steps import Step
from softset.counting.values import check_rows


def memberships(p: Tensor, step: Step) -> Tensor:
    """``g = H(p, tau) / sum H`` with ``tau`` the mean of the two largest (paper 002 eq. 3 to 5)."""
    tau = p.topk(2, dim=-1).values.mean(-1, keepdim=True)
    h = step(p, tau)
    return h / h.sum(-1, keepdim=True)


class MulticlassKernel:
    """``predicted += w g`` and ``tp[y] += w g[y]``, for any step, by chunks of rows.

    ``soft`` targets are shares of the classes ``[*lead, N, C]``: ``tp += w y g``.
    """

    def __init__(
        self, step: Step, from_logits: bool, dtype: torch.dtype, soft: bool = False
    ) -> None:
        self.step, self.from_logits = step, from_logits
        self.dtype = dtype  # of elementwise work
        self.soft = soft

    def members(self, z: Tensor) -> Tensor:
        z = z.to(self.dtype)
        return memberships(torch.softmax(z, -1) if self.from_logits else z, self.step)

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        g, dtype = self.members(z), wide(z.device)
        w = None if w is None else w.to(dtype)
        if self.soft:
            y, g = y.to(dtype), g.to(dtype)
            wy, wg = (y, g) if w is None else (y * w.unsqueeze(-1), g * w.unsqueeze(-1))
            support = wy.sum(-2)
            total = total_of(w, z.shape[-2], support[..., 0]).unsqueeze(-1).expand_as(support)
            return (g * wy).sum(-2), wg.sum(-2), support, total
        gy = g.gather(-1, y.unsqueeze(-1)).squeeze(-1).to(dtype)
        g = g.to(dtype)
        predicted = (g if w is None else g * w.unsqueeze(-1)).sum(-2)
        zeros = torch.zeros_like(predicted)
        ones = torch.ones_like(gy) if w is None else w.expand_as(gy)
        tp = zeros.scatter_add(-1, y, gy * ones)
        support = zeros.scatter_add(-1, y, ones)
        return tp, predicted, support, ones.sum(-1, keepdim=True).expand_as(support)

    def size(self, z: Tensor) -> int:
        """Rows in a chunk."""
        return max(1, CHUNK * z.shape[-2] // z.numel())

    def pieces(self, z: Tensor, y: Tensor, w: Tensor | None, size: int) -> Iterator[Any]:
        """Scores, classes and weights of so many rows at a time."""
        if self.soft:
            both = zip(chunks(size, -2, z, y), chunks(size, -1, y[..., 0], w), strict=True)
            return ((zc, yc, wc) for (zc, yc), (_, wc) in both)
        rows = zip(chunks(size, -2, z), chunks(size, -1, y, w), strict=True)
        return ((zc, yc, wc) for (zc,), (yc, wc) in rows)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        counts = added([self.compose(*part) for part in self.pieces(z, y, w, self.size(z))])
        check_rows(z, counts[1])
        return counts

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        size = self.size(z)
        pieces = zip(self.pieces(z, y, w, size), chunks(size, -2, out), strict=True)
        for (zc, yc, wc), (to,) in pieces:
            with torch.enable_grad():
                leaf = zc.detach().to(self.dtype).requires_grad_()
                sums = self.compose(leaf, yc, wc)[:2]
            store(to, vjp(sums, leaf, (d_tp, d_pred)))
        return out
