"""How soft is the threshold: functions ``H(p, tau)`` from a probability to a degree in [0, 1].

A step is any callable ``step(p, tau)`` of two broadcastable tensors (or a tensor and a number)
that returns a tensor of the broadcast shape. The ones here follow the papers; a differentiable
callable of your own works everywhere too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softset.checks import check_number
from softset.counting.numerics import wide

Step = Callable[[Tensor, Any], Tensor]
Number = float | Tensor
# Steeper than this a step is hard in every float.
STEEPEST = 1e10


@dataclass(frozen=True)
class HardStep:
    """``H = 1 if p >= tau else 0`` (paper 000 eq. 1): what evaluation does. It has no gradient.

    >>> import torch
    >>> HardStep()(torch.tensor([0.2, 0.5, 0.9]), 0.5).tolist()
    [0.0, 1.0, 1.0]
    """

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        return (p >= tau).to(p.dtype)


class Pieces(NamedTuple):
    """A linear step at a threshold: ``H = m1 p`` below ``a``, ``1 - m3 (1 - p)`` above ``b``, and
    slope ``m2`` between them; ``beyond = 1 - b``. Numbers, or tensors."""

    a: Number
    b: Number
    m1: Number
    m2: Number
    m3: Number
    beyond: Number


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

    delta: Number = 0.1
    width: Number = 1.0

    def __post_init__(self) -> None:
        check_number("delta", self.delta, 0, 0.5, closed="both")
        hint = "At 2 an outer piece has no length."
        check_number("width", self.width, 1 / STEEPEST, 2, closed="low", hint=hint)

    @classmethod
    def at_temperature(cls, temperature: Number) -> LinearStep:
        """The step of paper 002 at temperature T: ``delta = T``, ``width = 5 T``, sharp as T falls.

        >>> LinearStep.at_temperature(0.2)
        LinearStep(delta=0.2, width=1.0)
        """
        hint = "At 0.4 an outer piece has no length (paper 002 eq. 4)."
        check_number("temperature", temperature, 1 / STEEPEST, 0.4, closed="low", hint=hint)
        return cls(delta=temperature, width=5 * temperature)

    def pieces(self, tau: Number) -> Pieces:
        """The corners and slopes at a threshold; numbers stay numbers."""
        # 1 - tau is exact from 1/2 on, and so is 1 - width/2 from width 1 on: next to 0 and 1, and
        # for wide steps, lengths are made of these two, as differences would lose their digits.
        rest, narrow = 1 - tau, 1 - self.width / 2
        left = tau <= 0.5
        if not isinstance(left, Tensor):
            m = self.width * (tau if left else rest)
            a = tau * narrow if left else tau - m / 2
            beyond = rest - m / 2 if left else rest * narrow
            b = tau + m / 2 if left else 1 - beyond
        else:
            m = self.width * torch.where(left, tau, rest)
            a = torch.where(left, tau * narrow, tau - m / 2)
            beyond = torch.where(left, rest - m / 2, rest * narrow)
            b = torch.where(left, tau + m / 2, 1 - beyond)
        return Pieces(a, b, self.delta / a, (1 - 2 * self.delta) / m, self.delta / beyond, beyond)

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        return self.degree(p, 1 - p, tau)

    def degree(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``H`` from ``p`` and ``q = 1 - p``, exact also where one of the two is next to 0."""
        a, b, m1, m2, m3, beyond = self.pieces(tau)
        middle, past = 0.5 + m2 * _above(p, q, tau), _past(p, q, tau, b, beyond)
        return torch.where(p < a, m1 * p, torch.where(past, 1 - m3 * q, middle))

    def rest(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``1 - H``, without cancellation."""
        a, b, m1, m2, m3, beyond = self.pieces(tau)
        middle, past = 0.5 - m2 * _above(p, q, tau), _past(p, q, tau, b, beyond)
        return torch.where(past, m3 * q, torch.where(p < a, 1 - m1 * p, middle))

    def slope(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``dH/dp``."""
        a, b, m1, m2, m3, beyond = self.pieces(tau)
        low, high = (p < a).to(p.dtype), _past(p, q, tau, b, beyond).to(p.dtype)
        return m1 * low + m3 * high + m2 * (1 - low - high)

    def clamped(self, pq: Tensor, tau: float) -> tuple[Tensor, Tensor]:
        """``H`` and ``1 - H`` as one tensor ``[2, ...]``, each with its digits, and ``dH/dp``.

        Without a comparison: CPUs have vector instructions for clamping, and none for choosing.
        """
        a, b, m1, m2, m3, beyond = map(float, self.pieces(tau))
        if tau == 0.5:  # one side is the mirror image of the other
            low, middle = pq.clamp(max=a), pq.clamp(a, b)
            slope = torch.full_like(pq[0], m1).masked_fill_(middle[0] == pq[0], m2)
            short = a - low
            h = low.mul_(m1).add_(middle.sub_(a), alpha=m2)
            h[0].add_(short[1], alpha=m1)
            h[1].add_(short[0], alpha=m1)
            return h, slope
        p, q = pq
        low, high = p.clamp(max=a), q.clamp(max=beyond)
        # Corners are compared with the one of p and q that has the digits there.
        if tau < 0.5:
            middle = p.clamp(a, b)
            over, under = middle - a, b - middle
            left, right = a - low, (p - b).clamp_(min=0)
        else:
            c = beyond + self.width * (1 - tau)  # 1 - a
            middle = q.clamp(beyond, c)
            over, under = c - middle, middle - beyond
            left, right = (q - c).clamp_(min=0), beyond - high
        h = (m1 * low).add_(over, alpha=m2).add_(right, alpha=m3)
        rest = (m3 * high).add_(under, alpha=m2).add_(left, alpha=m1)
        left, right = left.sign_(), right.sign_()
        slope = (1 - left - right).mul_(m2).add_(left, alpha=m1).add_(right, alpha=m3)
        return torch.stack([h, rest]), slope


def _above(p: Tensor, q: Tensor, tau: Number) -> Tensor:
    """``p - tau``, of the two that are smaller."""
    if isinstance(tau, Tensor):
        return torch.where(tau <= 0.5, p - tau, (1 - tau) - q)
    return p - tau if tau <= 0.5 else (1 - tau) - q


def _past(p: Tensor, q: Tensor, tau: Number, b: Number, beyond: Number) -> Tensor:
    """Whether ``p`` is above ``b = 1 - beyond``, by the one of ``p`` and ``q`` with the digits."""
    if isinstance(tau, Tensor):
        return torch.where(tau <= 0.5, p > b, q < beyond)
    return p > b if tau <= 0.5 else q < beyond


@dataclass(frozen=True)
class SigmoidStep:
    """``H = 1 / (1 + exp(-k (p - tau)))`` (paper 000 section 3.1); sharp as ``k`` grows.

    >>> import torch
    >>> SigmoidStep(10)(torch.tensor([0.5]), 0.5).item()
    0.5
    """

    k: Number = 10.0

    def __post_init__(self) -> None:
        check_number("k", self.k, 0, STEEPEST, closed="high")

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        return torch.sigmoid(self.k * (p - tau))

    def degree(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``H`` from ``p`` and ``q = 1 - p``."""
        return torch.sigmoid(self.k * _above(p, q, tau))

    def rest(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``1 - H``, without cancellation."""
        return torch.sigmoid(-self.k * _above(p, q, tau))

    def slope(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``dH/dp``."""
        scaled = self.k * _above(p, q, tau)
        return self.k * torch.sigmoid(scaled) * torch.sigmoid(-scaled)


@dataclass(frozen=True)
class IdentityStep:
    """``H = p``: the probability is the degree (smoothed F-beta, paper 004 eq. 7 and 24).

    >>> import torch
    >>> IdentityStep()(torch.tensor([0.25]), 0.5).item()
    0.25
    """

    def __call__(self, p: Tensor, tau: Number) -> Tensor:
        return p if not isinstance(tau, Tensor) else p + torch.zeros_like(tau)

    def rest(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``1 - H``, without cancellation."""
        return self(q, tau)

    def slope(self, p: Tensor, q: Tensor, tau: Number) -> Tensor:
        """``dH/dp``."""
        return torch.ones_like(self(p, tau))


STEPS: dict[str, Callable[..., Step]] = {
    "hard": HardStep,
    "linear": LinearStep,
    "sigmoid": SigmoidStep,
    "identity": IdentityStep,
}
"""Every step by name.

>>> from softset.counting import STEPS
>>> STEPS["sigmoid"](k=20)
SigmoidStep(k=20)
"""


def check_step(step: object) -> None:
    """Refuse what cannot be called."""
    if not callable(step):
        raise ValueError(
            f"step must be a step such as LinearStep() or a callable step(p, tau), got {step!r}."
        )


def both_degrees(step: Step, p: Tensor, q: Tensor, tau: Number) -> tuple[Tensor, Tensor]:
    """``H(p, tau)`` and ``1 - H`` in float64, from ``p`` and ``q = 1 - p``: the smaller has the
    digits of the step, and the larger is one minus it, so that they add up."""
    rest = getattr(step, "rest", None)
    if rest is None:
        h = step(p, tau).to(wide(p.device))
        return h, 1 - h
    h = getattr(step, "degree", lambda p, q, tau: step(p, tau))(p, q, tau)
    mostly, h = h > 0.5, h.to(wide(p.device))
    rest = rest(p, q, tau).to(wide(p.device))
    return torch.where(mostly, 1 - rest, h), torch.where(mostly, rest, 1 - h)


def degrees(step: Step, pq: Tensor, tau: Number) -> tuple[Tensor, Tensor | None]:
    """``H`` and ``1 - H`` as one tensor ``[2, ...]``, from ``p`` and ``q = 1 - p``, and ``dH/dp``
    if it was found on the way."""
    plain = type(step) is LinearStep and not any(isinstance(v, Tensor) for v in vars(step).values())
    if plain and not isinstance(tau, Tensor):
        return step.clamped(pq, tau)  # type: ignore[attr-defined]
    p, q = pq
    rest = getattr(step, "rest", None)
    if rest is None:
        h = step(p, tau)
        return torch.stack([h, 1 - h]), None
    h = getattr(step, "degree", lambda p, q, tau: step(p, tau))(p, q, tau)
    return torch.stack([h, rest(p, q, tau)]), None


def slope(step: Step, p: Tensor, q: Tensor, tau: Number) -> Tensor:
    """``dH/dp``: that of a step of the user's own by autograd."""
    if type(step) in (LinearStep, SigmoidStep, IdentityStep):
        return step.slope(p, q, tau)  # type: ignore[attr-defined]
    with torch.enable_grad():
        leaf = p.detach().requires_grad_()
        h = step(leaf, tau).sum()
    if not h.requires_grad:
        return torch.zeros_like(p)
    (by,) = torch.autograd.grad(h, leaf, allow_unused=True, materialize_grads=True)
    return by


def is_learned(step: Step, like: Tensor) -> bool:
    """Whether a step has parameters that want a gradient; one of the user's own is tried."""
    if isinstance(step, LinearStep | SigmoidStep | IdentityStep):
        return any(isinstance(v, Tensor) and v.requires_grad for v in vars(step).values())
    half = torch.full((1, 1), 0.5, dtype=like.dtype, device=like.device)
    with torch.enable_grad():
        value = step(half, half)
    return isinstance(value, Tensor) and value.requires_grad


def is_hard(step: object) -> bool:
    """No step, or the hard one: count decisions."""
    return step is None or isinstance(step, HardStep)
