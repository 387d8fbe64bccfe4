"""Long columns in pieces: chunks that fit the cache, float32 sums of blocks, float64 beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.scratch import chunks

# Elements in a chunk: small enough for the cache, large enough to hide the cost of a call.
CHUNK = 2**16
# Rows that are summed in float32, in a long column of it; from there on it is float64.
BLOCK = 256


def parts_of(z: Tensor) -> int:
    """How many chunks."""
    return max(1, min(round(z.numel() / CHUNK), z.shape[-1]))


def _size(z: Tensor) -> int:
    """Columns in a chunk: whole blocks, where there are so many."""
    size = -(-z.shape[-1] // parts_of(z))
    return size if size < BLOCK else -(-size // BLOCK) * BLOCK


def in_blocks(x: Tensor) -> Tensor:
    """A column as rows of a block each; the last one is filled up with zeros."""
    missing = -len(x) % BLOCK
    return (torch.nn.functional.pad(x, (0, missing)) if missing else x).reshape(-1, BLOCK)


def pieces_of(z: Tensor, *others: Tensor | None) -> Iterator[Any]:
    """The chunks of scores and what belongs to them, side by side; nothing stays nothing."""
    if parts_of(z) == 1:  # to find that out again shows in the time of a small batch
        return iter([(z, *others)])
    return chunks(_size(z), -1, z, *others)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """``sum a b`` over the rows."""
    return torch.dot(a, b) if a.dim() == 1 and b.dim() == 1 else (a * b).sum(-1)


def weighted_sum(x: Tensor, w: Tensor | None) -> Tensor:
    """``sum w x`` over the rows; all weights are 1 where there are none."""
    return x.sum(-1) if w is None else dot(x, w)


def total_of(w: Tensor | None, n: int, like: Tensor) -> Tensor:
    """The weight of all ``n`` rows, in the shape of ``like``."""
    if w is None and like.dim() == 0 and like.device.type == "cpu":
        return torch.scalar_tensor(n, dtype=like.dtype, device=like.device)
    return torch.full_like(like, n) if w is None else w.sum(-1).expand_as(like)
