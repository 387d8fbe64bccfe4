"""Which kernel counts fastest, and in which dtype no digit that matters is lost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.binary_grid import grid_kernel
from softset.counting.kernels.binary_linear import LinearKernel
from softset.counting.kernels.careful import CarefulKernel, MulticlassRestKernel, RestKernel
from softset.counting.kernels.interface import Kernel
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.multiclass_linear import MulticlassLinearKernel
from softset.counting.numerics import under_transform, wide, working
from softset.counting.problem import Problem
from softset.counting.steps import SHORTEST, LinearStep, SigmoidStep, Step

# Slopes above which the rounding of a float32 probability shows in the step.
STEEP = 1000
# Shorter outer pieces of a wide step (``1 - width/2``) need float64, or the careful kernels.
NARROW, NARROWEST = 1 / 32, 1e-8
# Closer to 0 a threshold leaves float32, closer to 1 a probability has too few digits of 1 - p.
LOWEST, NEXT_TO_ONE = 1e-30, 1e-6


@lru_cache(maxsize=16)
def _is_uniform(grid: tuple[float, ...]) -> bool:
    """Whether it is ``1/K, 2/K, … (K-1)/K``."""
    size = len(grid) + 1
    return size > 2 and all(abs(t - i / size) < 1e-12 for i, t in enumerate(grid, 1))


def binary_kernel(problem: Problem, step: Step, taus: Sequence[Any], grid: bool) -> Kernel:
    """The fastest kernel for a step and its thresholds."""
    z, from_logits = problem.z, problem.from_logits
    if not isinstance(step, LinearStep):
        dtype = _resolving(z, step.k / 4) if isinstance(step, SigmoidStep) else working(z)
        taus = [tau.to(dtype) if isinstance(tau, Tensor) else tau for tau in taus]
        return BinaryKernel(step, taus, grid, from_logits, dtype)
    plain = isinstance(step.delta, int | float) and isinstance(step.width, int | float)
    plain = plain and not torch.compiler.is_compiling()  # which sees the composition only
    if grid and plain and step.width == 1 and _is_uniform(tuple(taus)):
        size = len(taus) + 1
        return grid_kernel(step, size, from_logits, _resolving(z, size - 1))
    low = high = step.pieces(taus[0])
    if grid:
        low, high = step.pieces(min(taus)), step.pieces(max(taus))
    if _below(low.a, LOWEST) or _below(high.beyond, NEXT_TO_ONE):
        if _below(low.a, SHORTEST) or _below(high.beyond, SHORTEST):
            raise ValueError(
                f"threshold must leave room for the pieces of {step!r}, got {taus!r}. Move it away "
                "from 0 and 1."
            )
        return CarefulKernel(step, taus, grid, from_logits, z.device)
    dtype = _resolving(z, high.m2 * high.b, high.m3)
    return LinearKernel(step, taus, grid, from_logits, dtype)


def multiclass_kernel(problem: Problem, step: Step) -> Kernel:
    """The fastest kernel for a step."""
    z, from_logits = problem.z, problem.from_logits
    if not isinstance(step, LinearStep):
        dtype = _resolving(z, step.k / 4) if isinstance(step, SigmoidStep) else working(z)
        return MulticlassKernel(step, from_logits, dtype)
    narrow = 1 - step.width / 2
    dtype = _resolving(z, (1 - 2 * step.delta) / step.width)
    dtype = wide(z.device) if _below(narrow, NARROW) else dtype
    if not from_logits or _below(narrow, NARROWEST):
        return MulticlassKernel(step, from_logits, dtype)
    return MulticlassLinearKernel(step, dtype)


def rest_kernel(problem: Problem, step: Step, taus: Sequence[Any], grid: bool) -> Kernel:
    """The kernel that counts ``tn``, ``rejected`` and ``negatives`` instead."""
    z, from_logits = problem.z, problem.from_logits
    if problem.task == "multiclass":
        return MulticlassRestKernel(step, from_logits, z.device)
    return RestKernel(step, taus, grid, from_logits, z.device)


def _below(x: Any, limit: float) -> bool:
    """Whether a number, or one of a tensor, is below a limit; no where it cannot be looked at."""
    if isinstance(x, Tensor):
        return not under_transform(x) and float(x.detach().min()) < limit
    return x < limit


def _resolving(z: Tensor, *slopes: Any) -> torch.dtype:
    """The dtype of work, which is float64 where a step is so steep that the rounding of float32
    shows in its value."""
    if z.dtype == torch.float64:
        return z.dtype
    for slope in slopes:
        if isinstance(slope, Tensor):
            slope = 0.0 if under_transform(slope) else float(slope.detach().max())
        if slope > STEEP:
            return wide(z.device)
    return working(z)
