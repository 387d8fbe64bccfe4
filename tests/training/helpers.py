"""Small problems that many tests share."""

from __future__ import annotations

import torch
from torch import Tensor


def make_binary(
    rows: int = 400, features: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """A noisy problem with about one in five positive."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=g, dtype=dtype)
    noise = torch.randn(rows, generator=g, dtype=dtype)
    return x, (x[:, 0] + x[:, 1] ** 2 + 0.5 * noise > 2).long()


def make_multiclass(rows: int = 400) -> tuple[Tensor, Tensor]:
    x, _ = make_binary(rows)
    return x, (x[:, 0] > 0.5).long() + (x[:, 1] > 0.5).long()


def split(x: Tensor, y: Tensor, at: int = 300) -> tuple[tuple[Tensor, Tensor], ...]:
    return (x[:at], y[:at]), (x[at:], y[at:])
