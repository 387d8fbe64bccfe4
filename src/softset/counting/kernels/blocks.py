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


def _parts(z: Tensor) -> int:
    """How many chunks."""
    return max(1, min(round(z.numel() / CHUNK), z.shape[-1]))


def _size(z: Tensor) -> int:
    """Columns in a chunk: whole blocks, where there are so many."""
    size = -(-z.shape[-1] // _parts(z))
    return size if size < BLOCK else -(-size // BLOCK) * BLOCK


def _blocks(x: Tensor) -> Tensor:
    """A column as rows of a block each; the last one is filled up with zeros."""
    missing = -len(x) % BLOCK
    return (torch.nn.functional.pad(x, (0, missing)) if missing else x).reshape(-1, BLOCK)


def _pieces(z: Tensor, *others: Tensor | None) -> Iterator[Any]:
    """The chunks of scores and what belongs to them, side by side; nothing stays nothing."""
    if _parts(z) == 1:  # to find that out again shows in the time of a small batch
        return iter([(z, *others)])
    return chunks(_size(z), -1, z, *others)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a, b) if a.dim() == 1 and b.dim() == 1 else (a * b).sum(-1)


def _sum(x: Tensor, w: Tensor | None) -> Tensor:
    return x.sum(-1) if w is None else _dot(x, w)


def _total(w: Tensor | None, n: int, like: Tensor) -> Tensor:
    if w is None and like.dim() == 0 and like.device.type == "cpu":
        return torch.scalar_tensor(n, dtype=like.dtype)
    return torch.full_like(like, n) if w is None else w.sum(-1).expand_as(like)
