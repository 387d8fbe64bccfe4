"""Which kernel counts fastest, and in which dtype no digit that matters is lost."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.kernels.binary import BinaryKernel, Tau
from softset.counting.kernels.binary_grid import GridKernel
from softset.counting.kernels.interface import Kernel
from softset.counting.kernels.layout import STEPS
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.native.kernels import (
    NativeBinary,
    NativeGrid,
    NativeMulticlass,
    is_native,
)
from softset.counting.kernels.native.library import native
from softset.counting.kernels.triton.kernels import TritonBinary, TritonMulticlass
from softset.counting.kernels.triton.operators import INSTALLED
from softset.counting.numerics import readable, wide
from softset.counting.steps import LinearStep, SigmoidStep, Step
from softset.tasks import Task

if TYPE_CHECKING:
    from softset.counting.problem import Problem

# A slope above which the rounding of float32 probabilities shows in the step.
STEEP = 1e3
# Shorter outer pieces of a wide step (``1 - width/2``) need float64, then the kernels in PyTorch.
NARROW, NARROWEST = 1 / 8, 1e-3
# A shorter outer piece leaves float32.
SHORTEST = 1e-30


# In the environment: which kernels count. "auto" takes those in C for tensors on the CPU, those in
# Triton on a GPU, and PyTorch's where there is no other.
VARIABLE = "SOFTSET_KERNELS"
KERNELS = ("auto", "c", "torch", "triton")


class _Switch:
    """Which kernels are to count: one of ``KERNELS``."""

    def __init__(self, kernels: str) -> None:
        check_choice(VARIABLE, kernels, KERNELS)
        self.kernels = kernels


SWITCH = _Switch(os.environ.get(VARIABLE, "auto"))


@contextmanager
def using(kernels: str) -> Iterator[None]:
    """Count with these kernels: for tests, benchmarks, and to see whether a fault is theirs."""
    before, SWITCH.kernels = SWITCH.kernels, _Switch(kernels).kernels
    try:
        yield
    finally:
        SWITCH.kernels = before


@lru_cache(maxsize=16)
def _is_uniform(grid: tuple[float, ...]) -> bool:
    """Whether it is ``1/K, 2/K, … (K-1)/K``."""
    size = len(grid) + 1
    return size > 2 and all(abs(t - i / size) < 1e-12 for i, t in enumerate(grid, 1))


class Scores(NamedTuple):
    """What matters of the scores."""

    dtype: torch.dtype
    device: torch.device
    from_logits: bool
    soft: bool  # whether targets are fractions
    kernels: str  # which count: "c", "torch" or "triton"

    @classmethod
    def of(cls, problem: Problem) -> Scores:
        return cls.reading(problem.scores, problem.from_logits, problem.soft)

    @classmethod
    def reading(cls, z: Tensor, from_logits: bool, soft: bool) -> Scores:
        """Those of a tensor."""
        return cls(z.dtype, z.device, from_logits, soft, kernels_for(z))

    def resolving(self, steepness: float) -> torch.dtype:
        """The dtype of work, which is float64 where a step is so steep that the rounding of float32
        shows in its value."""
        if self.dtype == torch.float64:
            return self.dtype
        return wide(self.device) if steepness > STEEP else torch.float32

    def native(self, step: Step) -> bool:
        """Whether there is a kernel in C for them."""
        return self.kernels == "c" and is_native(step)

    def binary(self, step: Step) -> type[BinaryKernel]:
        """The fastest kernel of one class or several labels."""
        kernels = {"c": NativeBinary, "triton": TritonBinary}
        return kernels.get(self.kernels, BinaryKernel) if is_native(step) else BinaryKernel

    def multiclass(self, step: Step) -> type[MulticlassKernel]:
        """The fastest kernel of several classes."""
        kernels = {"c": NativeMulticlass, "triton": TritonMulticlass}
        usual = is_native(step) and self.from_logits and not self.soft
        return kernels.get(self.kernels, MulticlassKernel) if usual else MulticlassKernel


def kernels_for(z: Tensor) -> str:
    """Which kernels count scores, where they are: "c", "torch" or "triton"."""
    wanted = SWITCH.kernels
    if wanted in ("auto", "c") and z.is_cpu and readable(z) and native() is not None:
        return "c"
    if wanted == "c":
        why = "they are not built" if native() is None else "tensors are on the CPU, and checked"
        if z.is_cpu and not torch.compiler.is_compiling() and native() is None:
            raise ValueError(f"{VARIABLE}=c asks for kernels in C: {why}. Use auto.")
    if wanted == "triton":
        if not INSTALLED:
            raise ValueError(f"{VARIABLE}=triton: Triton is not installed. Use auto.")
        if z.is_cpu and os.environ.get("TRITON_INTERPRET") != "1":
            raise ValueError(
                f"{VARIABLE}=triton needs tensors on a GPU, got {z.device}. Use auto, or Triton's "
                "interpreter: TRITON_INTERPRET=1 in the environment."
            )
        return "triton"
    return "triton" if wanted == "auto" and z.is_cuda and INSTALLED else "torch"


def usual_kernel(problem: Problem, step: Step | None, threshold: float) -> Kernel | None:
    """The kernel of a step made of numbers at one threshold: checked and chosen once, as that takes
    as long as a small batch. None where there is more to be looked at."""
    if type(step) not in STEPS or torch.compiler.is_compiling():
        return None
    for value in vars(step).values():
        if type(value) is not float and type(value) is not int:
            return None
    return _usual(problem.task, Scores.of(problem), step, threshold)


@lru_cache(maxsize=64)
def _usual(task: Task, scores: Scores, step: Step, threshold: float) -> Kernel | None:
    if not 0 < threshold < 1 or (task.exclusive and threshold != 0.5):
        return None  # it will be refused
    if task.exclusive:
        return multiclass_kernel(scores, step)
    return binary_kernel(scores, step, (threshold,), False)


def kernel_for(problem: Problem, step: Step, taus: Sequence[Tau], grid: bool) -> Kernel:
    """The fastest kernel for a problem."""
    if problem.task.exclusive:
        return multiclass_kernel(Scores.of(problem), step)
    return binary_kernel(Scores.of(problem), step, taus, grid)


def binary_kernel(scores: Scores, step: Step, taus: Sequence[Tau], grid: bool) -> Kernel:
    """The fastest kernel for a step and its thresholds."""
    from_logits, soft = scores.from_logits, scores.soft
    fastest = scores.binary(step)
    if not isinstance(step, LinearStep):
        dtype = scores.resolving(_largest(step.k) / 4 if isinstance(step, SigmoidStep) else 0.0)
        taus = [tau.to(dtype) if isinstance(tau, Tensor) else tau for tau in taus]
        return fastest(step, taus, grid, from_logits, dtype, soft)
    plain = isinstance(step.delta, int | float) and isinstance(step.width, int | float)
    # The compiler sees the composition only; fractions are in no bin.
    plain = plain and not torch.compiler.is_compiling() and not soft
    if grid and plain and step.width == 1 and _is_uniform(tuple(taus)):
        size = len(taus) + 1
        dtype = scores.resolving(size - 1)
        return grid_kernel(step, size, from_logits, dtype, scores.native(step))
    low, high = (min(taus), max(taus)) if grid else (taus[0], taus[0])
    if min(_least(low), _least(1 - high)) * _least(1 - step.width / 2) < SHORTEST:
        raise ValueError(
            f"threshold must leave room for the pieces of {step!r}, got {taus!r}. Move it away "
            "from 0 and 1."
        )
    pieces = step.pieces(high)
    dtype = scores.resolving(max(_largest(pieces.m2 * pieces.b), _largest(pieces.m3)))
    return fastest(step, taus, grid, from_logits, dtype, soft)


@lru_cache(maxsize=16)
def grid_kernel(
    step: LinearStep, size: int, from_logits: bool, dtype: torch.dtype, in_c: bool
) -> GridKernel:
    """A kernel that is made once for each grid."""
    return (NativeGrid if in_c else GridKernel)(step, size, from_logits, dtype)


def multiclass_kernel(scores: Scores, step: Step) -> Kernel:
    """The fastest kernel for a step."""
    from_logits, soft = scores.from_logits, scores.soft
    fastest = scores.multiclass(step)
    if not isinstance(step, LinearStep):
        dtype = scores.resolving(_largest(step.k) / 4 if isinstance(step, SigmoidStep) else 0.0)
        return fastest(step, from_logits, dtype, soft)
    narrow = _least(1 - step.width / 2)
    steepness = _largest((1 - 2 * step.delta) / step.width)
    dtype = wide(scores.device) if narrow < NARROW else scores.resolving(steepness)
    fastest = fastest if narrow >= NARROWEST and steepness <= STEEP else MulticlassKernel
    return fastest(step, from_logits, dtype, soft)


def _least(x: Tau) -> float:
    """A number, or the least of a tensor; infinite where it cannot be looked at."""
    if not isinstance(x, Tensor):
        return float(x)
    return float(x.detach().min()) if readable(x) else math.inf


def _largest(x: Tau) -> float:
    """A number, or the largest of a tensor; 0 where it cannot be looked at."""
    if not isinstance(x, Tensor):
        return float(x)
    return float(x.detach().max()) if readable(x) else 0.0
