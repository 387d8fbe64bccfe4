"""Counts of several classes as operators of PyTorch: ``softset::count`` and ``softset::gradient``.

``torch.compile`` and ``torch.export`` pass over them: they know the shape of what comes out, and
its derivative, and the fastest kernel for the device counts when they are called. What the compiler
would make of the plain composition is slower: it can't fuse the search for the two largest classes
with what follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softset.counting.numerics import checked, wide
from softset.counting.steps import IdentityStep, LinearStep, SigmoidStep, Step

if TYPE_CHECKING:
    from softset.counting.kernels.interface import Kernel

STEPS: tuple[type, ...] = (LinearStep, SigmoidStep, IdentityStep)


def describable(step: Step) -> bool:
    """Whether a step is one of ours, of numbers: operators take numbers and tensors."""
    numbers = getattr(step, "__dict__", {}).values()
    return type(step) in STEPS and all(isinstance(v, int | float) for v in numbers)


def count(z: Tensor, y: Tensor, w: Tensor | None, step: Step, soft: bool) -> Tensor:
    """The cells ``[4, *lead, C]`` of logits ``[*lead, N, C]``."""
    numbers = [float(v) for v in vars(step).values()]
    return _count(z, y, w, STEPS.index(type(step)), numbers, soft)


def _kernel(z: Tensor, step: int, numbers: list[float], soft: bool) -> Kernel:
    from softset.counting.kernels.choice import Scores, multiclass_kernel  # noqa: PLC0415

    scores = Scores.reading(z, from_logits=True, soft=soft)
    return multiclass_kernel(scores, STEPS[step](*numbers))


@torch.library.custom_op("softset::count", mutates_args=())
def _count(
    z: Tensor,
    y: Tensor,
    w: Tensor | None,
    step: int,
    numbers: list[float],
    soft: bool,
) -> Tensor:
    with checked("auto"):
        return _kernel(z, step, numbers, soft).count(z.detach(), y, w).clone()


@_count.register_fake
def _(z: Tensor, y: Tensor, w: Tensor | None, *settings: object) -> Tensor:
    return z.new_empty((4, *z.shape[:-2], z.shape[-1]), dtype=wide(z.device))


@torch.library.custom_op("softset::gradient", mutates_args=())
def _gradient(
    z: Tensor,
    y: Tensor,
    w: Tensor | None,
    adjoint: Tensor,
    step: int,
    numbers: list[float],
    soft: bool,
) -> Tensor:
    tp, fp, fn, tn = adjoint
    kernel = _kernel(z, step, numbers, soft)
    with checked("device"):
        return kernel.gradient(z.detach(), y, w, tp - fn, fp - tn).contiguous()


@_gradient.register_fake
def _(z: Tensor, *settings: object) -> Tensor:
    return torch.empty_like(z, memory_format=torch.contiguous_format)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.settings = inputs[3:]


def _backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor | None, ...]:
    return _gradient(*ctx.saved_tensors, adjoint, *ctx.settings), *[None] * 5


_count.register_autograd(_backward, setup_context=_remember)
