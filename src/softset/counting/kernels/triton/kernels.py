"""The kernels in Triton behind the interface of the others; ``compose`` is the reference."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from softset.counting.steps import LinearStep, SigmoidStep, Step


def levels_of(step: Step, tau: Any, exclusive: bool) -> list[float] | None:
    """The numbers of a step at a threshold, as the kernels take them; none if they differ from one
    problem or label to the next."""
    numbers: tuple[Any, ...]
    if exclusive:
        k = step.k if isinstance(step, SigmoidStep) else 0.0
        numbers = (step.delta, step.width) if isinstance(step, LinearStep) else (k, 1.0)
    elif isinstance(step, LinearStep):
        a, b, m1, m2, m3, beyond = step.pieces(tau)
        numbers = (a, m1, m2, m3, beyond, tau, b)
    else:
        k = step.k if isinstance(step, SigmoidStep) else 0.0
        numbers = (k, 0.0, 0.0, 0.0, 0.0, tau, 0.0)
    if any(isinstance(n, Tensor) for n in numbers):
        return None
    return [float(n) for n in numbers]
