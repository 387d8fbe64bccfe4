"""Which kernel counts fastest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.binary_grid import grid_kernel
from softset.counting.kernels.binary_linear import LinearKernel
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.multiclass_linear import MulticlassLinearKernel
from softset.counting.numerics import under_transform, wide, working
from softset.counting.steps import LinearStep, Step


@lru_cache(maxsize=16)
def _is_uniform(grid: tuple[float, ...]) -> bool:
    """Whether it is ``1/K, 2/K, … (K-1)/K``."""
    size = len(grid) + 1
    return size > 2 and all(abs(t - i / size) < 1e-12 for i, t in enumerate(grid, 1))


def binary_kernel(
    z: Tensor, step: Step, taus: Sequence[Any], grid: bool, from_logits: bool
) -> BinaryKernel:
    """The fastest kernel for a step and its thresholds."""
    if isinstance(taus[0], Tensor):
        taus = [tau.to(working(z)) for tau in taus]
    if not isinstance(step, LinearStep):
        return BinaryKernel(step, taus, grid, from_logits, working(z))
    plain = isinstance(step.delta, int | float) and isinstance(step.width, int | float)
    if grid and plain and step.width == 1 and _is_uniform(tuple(taus)):
        return grid_kernel(step, len(taus) + 1, from_logits, working(z))
    _, b, _, m2, m3 = step.pieces(max(taus) if grid else taus[0])  # the steepest
    return LinearKernel(step, taus, grid, from_logits, _resolving(z, m2 * b, m3))


def multiclass_kernel(z: Tensor, step: Step, from_logits: bool) -> MulticlassKernel:
    """The fastest kernel for a step."""
    if isinstance(step, LinearStep) and from_logits:
        steepest = (1 - 2 * step.delta) / step.width
        return MulticlassLinearKernel(step, _resolving(z, steepest))
    return MulticlassKernel(step, from_logits, working(z))


def _resolving(z: Tensor, *slopes: Any) -> torch.dtype:
    """The dtype of work, which is float64 where a step is so steep that the rounding of float32
    shows in its value."""
    if z.dtype == torch.float64:
        return z.dtype
    for slope in slopes:
        if isinstance(slope, Tensor):
            slope = 0.0 if under_transform(slope) else float(slope.max())
        if slope > 1000:
            return wide(z.device)
    return working(z)
