"""Random binary problems for the losses of a batch."""

from __future__ import annotations

import torch


def problem(n=23, seed=0, positives=0.4):
    g = torch.Generator().manual_seed(seed)
    z = 2 * torch.randn(n, generator=g, dtype=torch.float64)
    y = (torch.rand(n, generator=g) < positives).long()
    w = torch.rand(n, generator=g, dtype=torch.float64) + 0.1
    return z, y, w
