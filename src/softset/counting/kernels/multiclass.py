"""Counts of several classes for any step, in PyTorch: scores ``[*lead, N, C]``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.chunks import CHUNK, added, chunks, store, vjp
from softset.counting.numerics import wide
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.counting.values import check_rows


def memberships(p: Tensor, step: Step) -> Tensor:
    """``g = H(p, tau) / sum H`` with ``tau`` the mean of the two largest (paper 002 eq. 3 to 5)."""
    tau = p.topk(2, dim=-1).values.mean(-1, keepdim=True)
    h = step(p, tau)
    return h / h.sum(-1, keepdim=True)


def all_but(g: Tensor) -> Tensor:
    """``1 - g``: what a row gives to all classes but one. Only the largest can be next to 1, and
    for it the others are added up."""
    top = g.detach().argmax(-1, keepdim=True)
    others = g.scatter(-1, top, 0.0).sum(-1, keepdim=True)
    return (1 - g).scatter(-1, top, others)


class MulticlassKernel:
    """``tp[y] += w g[y]``, ``fp += w g`` of the other classes, and so on, for any step, by chunks
    of rows.

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

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        dtype = wide(z.device)
        g = self.members(z).to(dtype)
        rest = all_but(g)
        ones = torch.ones_like(g[..., 0]) if w is None else w.to(dtype).expand(g.shape[:-1])
        if self.soft:
            wy = y.to(dtype) * ones.unsqueeze(-1)
            wn = ones.unsqueeze(-1) - wy
            return torch.stack([(a * b).sum(-2) for a in (g, rest) for b in (wy, wn)])
        own = y.unsqueeze(-1)

        def split(x: Tensor) -> tuple[Tensor, Tensor]:
            """Of the rows of each class, and of the others."""
            of_own = x.gather(-1, own).squeeze(-1) * ones
            others = (x.scatter(-1, own, 0.0) * ones.unsqueeze(-1)).sum(-2)
            return torch.zeros_like(others).scatter_add(-1, y, of_own), others

        return torch.stack([*split(g), *split(rest)])

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

    def in_place(self, problem: Problem) -> Any:
        """Nothing: it wants arguments laid out."""
        return None

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        cells = added([self.compose(*part) for part in self.pieces(z, y, w, self.size(z))])
        check_rows(z, cells)
        return cells

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        size = self.size(z)
        pieces = zip(self.pieces(z, y, w, size), chunks(size, -2, out), strict=True)
        for (zc, yc, wc), (to,) in pieces:
            with torch.enable_grad():
                leaf = zc.detach().to(self.dtype).requires_grad_()
                predicted = self.compose(leaf, yc, wc)[:2]
            store(to, vjp(predicted, leaf, torch.stack([positive, negative])))
        return out
