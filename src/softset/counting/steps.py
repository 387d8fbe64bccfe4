"""How hard is the decision: functions ``H(p, tau)`` from a probability to a degree in [0, 1].

A step is any callable ``step(p, tau)`` of two broadcastable tensors (or a tensor and a number)
that returns a tensor of the broadcast shape. The ones here follow the papers; a differentiable
callable of your own works everywhere too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softset.checks import check_number

Step = Callable[[Tensor, Any], Tensor]
Number = float | Tensor


@dataclass(frozen=True)
class HardStep:
    """``H = 1 if p >= tau else 0`` (paper 000 eq. 1): what evaluation does. It has no gradient.

    >>> import torch
    >>> HardStep()(torch.tensor([0.2, 0.5, 0.9]), 0.5).tolist()
    [0.0, 1.0, 1.0]
    """

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        return (p >= tau).to(p.dtype)


@dataclass(frozen=True)
class LinearStep:
    """Three straight pieces through ``(0,0) (tau-m/2, delta) (tau, 1/2) (tau+m/2, 1-delta) (1,1)``.

    ``m = width * min(tau, 1 - tau)`` (paper 000 eq. 5 with ``width=1``, paper 002 eq. 4). The outer
    pieces have slope ``delta / (tau - m/2)`` and ``delta / (1 - tau - m/2)``, so that even a
    confident mistake has a gradient.

    ``delta`` in [0, 0.5] and ``width`` in (0, 2) may be tensors of the batch shape, one value for
    each independent problem (see ``batch_dims``).

    >>> import torch
    >>> p = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    >>> [round(h, 6) for h in LinearStep(0.1)(p, 0.5).tolist()]
    [0.0, 0.1, 0.5, 0.9, 1.0]
    """

    delta: Any = 0.1
    width: Any = 1.0

    def __post_init__(self) -> None:
        check_number("delta", self.delta, 0, 0.5, closed="both")
        check_number("width", self.width, 0, 2, hint="At 2 an outer piece has no length.")

    @classmethod
    def at_temperature(cls, temperature: Number) -> LinearStep:
        """The step of paper 002 at temperature T: ``delta = T``, ``width = 5 T``, sharp as T falls.

        >>> LinearStep.at_temperature(0.2)
        LinearStep(delta=0.2, width=1.0)
        """
        hint = "At 0.4 an outer piece has no length (paper 002 eq. 4)."
        check_number("temperature", temperature, 0, 0.4, hint=hint)
        return cls(delta=temperature, width=5 * temperature)

    def pieces(self, tau: Number) -> tuple[Any, Any, Any, Any, Any]:
        """The two corners ``a < b`` and the three slopes ``m1, m2, m3``; numbers stay numbers."""
        if isinstance(tau, Tensor):
            m = self.width * torch.minimum(tau, 1 - tau)
        else:
            m = self.width * min(tau, 1 - tau)
        a, b = tau - m / 2, tau + m / 2
        return a, b, self.delta / a, (1 - 2 * self.delta) / m, self.delta / (1 - b)

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        a, b, m1, m2, m3 = self.pieces(tau)
        outer = torch.where(p < a, m1 * p, 1 - m3 * (1 - p))
        return torch.where((p < a) | (p > b), outer, 0.5 + m2 * (p - tau))


@dataclass(frozen=True)
class SigmoidStep:
    """``H = 1 / (1 + exp(-k (p - tau)))`` (paper 000 section 3.1); sharp as ``k`` grows.

    >>> import torch
    >>> SigmoidStep(10)(torch.tensor([0.5]), 0.5).item()
    0.5
    """

    k: Any = 10.0

    def __post_init__(self) -> None:
        check_number("k", self.k, 0, float("inf"))

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        return torch.sigmoid(self.k * (p - tau))


@dataclass(frozen=True)
class IdentityStep:
    """``H = p``: the probability is the degree (smoothed F-beta, paper 004 eq. 7 and 24).

    >>> import torch
    >>> IdentityStep()(torch.tensor([0.25]), 0.5).item()
    0.25
    """

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        return p if not isinstance(tau, Tensor) else p + torch.zeros_like(tau)


@dataclass(frozen=True)
class LookupStep:
    """``step`` read from a table over ``p`` truncated to ``decimals`` (paper 000 supplement, 3).

    The gradient is that of the step it tabulates. Kept for reproducing the paper: computing the
    linear step is faster than looking it up.

    >>> import torch
    >>> LookupStep(SigmoidStep(10), decimals=1)(torch.tensor([0.59]), 0.5).item()
    0.5
    """

    step: Step
    decimals: int = 2

    def __post_init__(self) -> None:
        check_number("decimals", self.decimals, 1, 6, closed="both")
        if not callable(self.step):
            raise ValueError(f"step must be callable as step(p, tau), got {self.step!r}.")

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        # Half an ulp is added before truncating: 0.29 is stored as 0.28999999165534973.
        size = 10**self.decimals
        nudge = torch.finfo(p.dtype).eps
        truncated = ((p.detach() * size * (1 + nudge)).floor() / size).clamp(max=1)
        exact = self.step(p, tau)
        return exact + (self.step(truncated, tau) - exact).detach()


STEPS: dict[str, Callable[..., Step]] = {
    "hard": HardStep,
    "linear": LinearStep,
    "sigmoid": SigmoidStep,
    "identity": IdentityStep,
    "lookup": LookupStep,
}
"""Every step by name; ``LookupStep`` needs the step it tabulates."""


def check_step(step: object) -> None:
    """Refuse what cannot be called."""
    if not callable(step):
        raise ValueError(
            f"step must be a step such as LinearStep() or a callable step(p, tau), got {step!r}."
        )


def is_hard(step: object) -> bool:
    """No step, or the hard one: count decisions."""
    return step is None or isinstance(step, HardStep)
