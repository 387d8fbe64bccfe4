"""Binary and multilabel counts for any step, in PyTorch: scores ``[*lead, N]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.chunks import CHUNK, added, chunks, store, vjp
from softset.counting.numerics import wide
from softset.counting.problem import Problem
from softset.counting.steps import Step, both_degrees
from softset.counting.values import check_binary, off_labels


class BinaryKernel:
    """``tp = sum w y H(p, tau)``, ``fn = sum w y (1 - H)`` and so on, for any step, by chunks.

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

    def degrees(self, z: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The step ``H`` and ``1 - H`` at each threshold, in float64."""
        p, q = self.probabilities(z), self.others(z)
        return (both_degrees(self.step, p, q, tau) for tau in self.taus)

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        dtype = wide(z.device)
        y = y.to(dtype)
        wy, wn = (y, 1 - y) if w is None else (y * w.to(dtype), (1 - y) * w.to(dtype))
        each = []
        for h, rest in self.degrees(z):
            sums = [(a * b).sum(-1) for a in (h, rest) for b in (wy, wn)]
            each.append(torch.stack(sums))
        return self.stack(each)

    def pieces(self, z: Tensor, *others: Tensor | None) -> Iterator[Any]:
        """The chunks of scores and what belongs to them, side by side; nothing stays nothing."""
        size = max(1, CHUNK * z.shape[-1] // z.numel())
        return chunks(size, -1, z, *others)

    def in_place(self, problem: Problem) -> Any:
        """Nothing: it wants arguments laid out."""
        return None

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        cells = added([self.compose(*piece) for piece in self.pieces(z, y, w)])
        bad = None if self.soft or y.dtype == torch.bool else off_labels(y.to(torch.float32))
        check_binary(z, y, bad, cells, self.soft)
        return cells

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        out = torch.empty_like(z, memory_format=torch.contiguous_format)
        for zc, yc, wc, to in self.pieces(z, y, w, out):
            with torch.enable_grad():
                leaf = zc.detach().to(self.dtype).requires_grad_()
                predicted = self.compose(leaf, yc, wc)[:2]
            store(to, vjp(predicted, leaf, torch.stack([positive, negative])))
        return out
