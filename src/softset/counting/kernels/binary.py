"""Binary and multilabel counts for any step. Scores ``[*lead, N]``, see ``interface``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.blocks import (
    dot,
    in_blocks,
    parts_of,
    pieces_of,
    total_of,
    weighted_sum,
)
from softset.counting.kernels.interface import Counts
from softset.counting.kernels.scratch import Room, room_for_gradient, store, untracked, vjp
from softset.counting.numerics import as_dtype, wide
from softset.counting.steps import Step
from softset.counting.values import check_binary, off_labels


class BinaryKernel:
    """``tp = sum w y H(p, tau)`` and ``predicted = sum w H(p, tau)``, for any step, by chunks.

    ``taus`` holds one threshold, or a grid of them (``grid=True``: sums get a last dimension for
    it). A threshold is a number or a tensor that broadcasts with ``[*lead, 1]``. ``soft`` labels
    are fractions in [0, 1], in which all counts are linear.
    """

    closed_form = False  # else ``value`` is a user's, who may return p itself

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

    @cached_property
    def levels(self) -> Sequence[Any]:
        """What ``value`` needs to know of each threshold."""
        return self.taus

    def stack(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values, -1) if self.grid else values[0]

    def unstack(self, adjoint: Tensor | float, dtype: torch.dtype) -> list[Any]:
        """The derivative by the sums at each threshold: numbers where there is one problem."""
        if isinstance(adjoint, float):
            return [adjoint]
        parts = adjoint.unbind(-1) if self.grid else (adjoint,)
        if parts[0].dim() == 0 and adjoint.device.type == "cpu":
            return [float(part) for part in parts]
        return [part.to(dtype).unsqueeze(-1) for part in parts]

    def degrees(self, z: Tensor) -> Iterator[Tensor]:
        """The step at each threshold."""
        p = self.probabilities(z, None)
        return (self.step(p, tau) for tau in self.taus)

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

    def count(
        self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False
    ) -> tuple[Counts, list[Tensor]]:
        parts = parts_of(z)
        room, kept = Room(parts), self.kept(z, keep and parts > 1)
        long = parts > 1 and z.dim() == 1 and w is None and z.device.type == "cpu"
        long = long and not self.soft  # else sums of labels are not exact
        with untracked(parts > 1 and self.closed_form):
            if long and self.dtype is torch.float32:
                sums, bad, p = self.long_sums(z, y, room, kept)
            else:
                sums, bad, p = self.sums(z, y, w, room, kept)
        support, tp, predicted = sums[0], self.stack(sums[1::2]), self.stack(sums[2::2])
        check_binary(z, y, bad, predicted, self.soft)
        total = total_of(w, z.shape[-1], support)
        if self.grid:
            support, total = (m.unsqueeze(-1).expand(tp.shape) for m in (support, total))
        left = p if keep and parts == 1 and self.from_logits else kept
        return (tp, predicted, support, total), [] if left is None else [left]

    def sums(self, z: Tensor, y: Tensor, w: Tensor | None, room: Room, kept: Any) -> Any:
        """Support, then tp and predicted at each threshold; what is off with the labels; the last
        probabilities."""
        f, dtype = self.dtype, wide(z.device)
        sums: list[Tensor] = []
        bad: Any = None
        for zc, yc, wc, kc in pieces_of(z, y, w, kept):
            yf = room.cast("y", yc, f)
            if yc.dtype != torch.bool and not self.soft:
                off = off_labels(yf, room("h", yf))
                bad = off if bad is None else bad + off
            wy = room.cast("wide y", yf, dtype)
            if wc is not None:
                wc = room.cast("w", wc, dtype)
                wy = torch.mul(wy, wc, out=room("wy", wy))
            p = self.probabilities(zc, room("p", zc, self.dtype) if kc is None else kc)
            here = [wy.sum(-1)]
            for level in self.levels:
                h, unit = self.value(p, level, room)
                h = room.cast("wide h", h, dtype)
                here += [dot(h, wy), weighted_sum(h, wc)]
                if unit is not None:
                    here[-2:] = [s.mul_(unit) for s in here[-2:]]
            sums = [s.add_(t) for s, t in zip(sums, here, strict=True)] if sums else here
        return sums, bad, p

    def long_sums(self, z: Tensor, y: Tensor, room: Room, kept: Any) -> Any:
        """The same for a long column of float32, by blocks of its rows.

        Turning every row into float64 would take twice as long and is no more exact: 0 and 1 have
        exact sums, and within a block the sums of other values are as good as the values.
        """
        found: list[list[Tensor]] = [[] for _ in range(2 * len(self.levels))]
        support, bad = [], []
        for zc, yc, kc in pieces_of(z, y, kept):
            yf = room.cast("y", yc, torch.float32)
            if yc.dtype != torch.bool:
                bad.append(off_labels(yf, room("h", yf)))
            support.append(yf.sum())
            p = self.probabilities(zc, room("p", zc, self.dtype) if kc is None else kc)
            units = []
            for k, level in enumerate(self.levels):
                h, unit = self.value(p, level, room)
                h = room.cast("float h", h, torch.float32)
                found[2 * k + 1].append(in_blocks(h).sum(-1))
                # A product made afresh would leave a hole in the heap for each chunk.
                product = torch.mul(h, yf, out=h if self.closed_form else room("hy", h))
                found[2 * k].append(in_blocks(product).sum(-1))
                units += [1.0 if unit is None else unit] * 2
        sums = [torch.stack(support), *map(torch.cat, found)]
        units = [1.0, *units]
        off = torch.stack(bad).sum() if bad else None
        return [s.sum(dtype=torch.float64) * u for s, u in zip(sums, units, strict=True)], off, p

    def kept(self, z: Tensor, keep: bool) -> Tensor | None:
        """Where the probabilities of all chunks are left for the backward pass."""
        return None  # which here goes through autograd

    def probabilities(self, zc: Tensor, out: Tensor | None) -> Tensor:
        zc = as_dtype(zc, self.dtype)
        return torch.sigmoid(zc, out=out) if self.from_logits else zc

    def again(self, zc: Tensor, room: Room, kc: Tensor | None) -> Tensor:
        """The probabilities once more, in the backward pass."""
        return self.probabilities(zc, room("p", zc, self.dtype)) if kc is None else kc

    def value(self, p: Tensor, level: Any, room: Room) -> tuple[Tensor, float | None]:
        """The step, in units of a number if that saves a pass."""
        return self.step(p, level), None

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, left: Any, d_tp: Tensor, d_pred: Tensor
    ) -> Tensor:
        out = room_for_gradient(z, None)
        for zc, yc, wc, to in pieces_of(z, y, w, out):
            with torch.enable_grad():
                leaf = zc.detach().to(self.dtype).requires_grad_()
                sums = self.compose(leaf, yc, wc)[:2]
            store(to, vjp(sums, leaf, (d_tp, d_pred)))
        return out
