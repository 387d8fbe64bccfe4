"""The gradient conditions of paper 004 (eq. 12, 17, 19, 22) at trained optima.

Each says that at a critical point two vectors are equal, made of the gradients of the share of
false negatives ``q0`` and of false positives ``q1``. ``residual`` is ``|a - b| / (|a| + |b|)``:
0 where it holds, about 0.7 for unrelated vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from softset.counting.steps import IdentityStep
from softset.losses.pointwise import CrossEntropyLoss, MeanAbsoluteErrorLoss
from softset.losses.soft_metric import MetricLoss
from softset.losses.surrogate import SurrogateFBetaLoss
from softset.metrics.formulas import FBeta
from softset_papers.theory.findings import Finding, at_most

Model = Callable[[Tensor, Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
EXACT = 1e-4


def draw_classes(n: int, prevalence: float, seed: int, apart: float = 2.0) -> tuple[Tensor, Tensor]:
    """Two Gaussian classes ``[n, 2]``, positives ``apart`` to the right and of another shape."""
    g = torch.Generator().manual_seed(seed)
    y = (torch.arange(n) < prevalence * n).long()
    x = torch.randn(n, 2, dtype=torch.float64, generator=g)
    x = torch.where(
        y.unsqueeze(-1) == 1, x * torch.tensor([1.0, 0.5]) + torch.tensor([apart, 0.5]), x
    )
    return x, y


def free_line(theta: Tensor, x: Tensor) -> Tensor:
    """Logits ``w x + b``."""
    return x @ theta[:2] + theta[2]


def fixed_slope(theta: Tensor, x: Tensor) -> Tensor:
    """Logits ``3 (cos φ, sin φ) x + b``: the direction is free, the slope is not."""
    return 3 * (x[:, 0] * torch.cos(theta[0]) + x[:, 1] * torch.sin(theta[0])) + theta[1]


def random_features(theta: Tensor, x: Tensor) -> Tensor:
    """Logits of a network 2-8-1 with tanh, of which the last layer is trained.

    Training all of it has no optimum at finite weights on data that it can separate in places.
    """
    g = torch.Generator().manual_seed(0)
    into = torch.randn(3, 8, dtype=torch.float64, generator=g)
    return torch.tanh(x @ into[:2] + into[2]) @ theta[:8] + theta[8]


def start(model: Model, seed: int) -> Tensor:
    """Parameters to begin with."""
    size = {"free_line": 3, "fixed_slope": 2, "random_features": 9}[model.__name__]
    g = torch.Generator().manual_seed(seed)
    return 0.5 * torch.randn(size, dtype=torch.float64, generator=g)


def minimize(function: Callable[[Tensor], Tensor], theta: Tensor, rounds: int = 60) -> Tensor:
    """A critical point of a smooth function, by L-BFGS on all data at once."""
    theta = theta.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [theta],
        max_iter=50,
        tolerance_grad=1e-10,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = function(theta)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    for _ in range(rounds):
        optimizer.step(closure)  # type: ignore[no-untyped-call]
        if theta.grad is not None and float(theta.grad.abs().max()) < 1e-9:
            break
    return theta.detach()


def smoothed_rates(theta: Tensor, model: Model, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``q̃0`` and ``q̃1`` (eq. 7)."""
    f = torch.sigmoid(model(theta, x))
    return (1 - f)[y == 1].mean(), f[y == 0].mean()


def _slope(function: Callable[[Tensor], Tensor], theta: Tensor) -> float:
    """The largest derivative at ``theta``."""
    leaf = theta.clone().requires_grad_()
    return float(torch.autograd.grad(function(leaf), leaf)[0].abs().max())


def residual(
    rates: Callable[[Tensor], tuple[Tensor, Tensor]],
    theta: Tensor,
    scale: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> float:
    """How unequal ``-q0' / s0`` and ``q1' / s1`` are, with ``(s0, s1) = scale(q0, q1)``."""
    theta = theta.clone().requires_grad_()
    q0, q1 = rates(theta)
    by_q0 = torch.autograd.grad(q0, theta, retain_graph=True)[0]
    by_q1 = torch.autograd.grad(q1, theta)[0]
    s0, s1 = scale(q0.detach(), q1.detach())
    a, b = -by_q0 / s0, by_q1 / s1
    return float((a - b).norm() / (a.norm() + b.norm()))


def _scales(
    odds: float, beta: float
) -> dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """The denominators of eq. 17, 19 and 22 (= 12); ``odds`` is ``p / (1 - p)``."""
    one = torch.ones((), dtype=torch.float64)
    return {
        "17": lambda q0, q1: (1 - q0, 1 - q1),
        "19": lambda q0, q1: (one, one),
        "22": lambda q0, q1: (1 - q0, beta**2 * odds + q1),
    }


def check_true_rates(seed: int = 0) -> list[Finding]:
    """Eq. 12 with the true proportions: Gaussian classes, a line with free direction and place.

    There ``q0`` and ``q1`` are normal integrals, F-beta is smooth, and its maximum can be found.
    """
    findings = []
    for prevalence in (0.5, 0.1):
        for beta in (0.5, 1.0, 2.0):
            odds = prevalence / (1 - prevalence)
            lost = partial(_true_loss, p=prevalence, beta=beta)
            theta = minimize(lost, start(fixed_slope, seed))
            off = residual(_true_rates, theta, _scales(odds, beta)["22"])
            place = f"where F-beta is largest, {prevalence:.0%} positives"
            what = f"eq. 12 {place}, β = {beta:g}: residual"
            findings.append(Finding(what, "0", off, off < EXACT))
            wrong = residual(_true_rates, theta, _scales(odds, 2 * beta)["22"])
            what = what.replace("β =", "2β in place of β =")
            findings.append(Finding(what, "0", wrong, wrong < EXACT, why="the wrong β"))
    return findings


def _true_rates(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Positives N((2, 0.5), diag(1, 0.25)), negatives N(0, 1); positive where ``w x + b >= 0``."""
    c, s, b = torch.cos(theta[0]), torch.sin(theta[0]), theta[1]
    q0 = torch.special.ndtr(-(2 * c + 0.5 * s + b) / torch.sqrt(c**2 + 0.25 * s**2))
    return q0, torch.special.ndtr(b)


def _true_loss(theta: Tensor, p: float, beta: float) -> Tensor:
    """Minus the limit of F-beta (eq. 10)."""
    q0, q1 = _true_rates(theta)
    return -(1 + beta**2) * p * (1 - q0) / (p * (beta**2 + 1 - q0 - q1) + q1)


def _loss_of(theta: Tensor, loss: Loss, model: Model, x: Tensor, y: Tensor) -> Tensor:
    return loss(model(theta, x), y)


def check_trained(seed: int = 0, n: int = 2000, prevalence: float = 0.1) -> list[Finding]:
    """Eq. 17, 19, 22 for networks trained on the class-balanced losses, smoothed proportions.

    Exact for the MAE and for smoothed F-beta (whose condition is that of eq. 12); up to Jensen's
    inequality for cross-entropy and the surrogate.
    """
    x, y = draw_classes(n, prevalence, seed)
    weight = [1 / (1 - prevalence), 1 / prevalence]
    odds = prevalence / (1 - prevalence)
    losses: list[tuple[str, str, Loss, bool]] = [
        ("MAE", "19", MeanAbsoluteErrorLoss(class_weight=weight), True),
        ("smoothed F1", "22", MetricLoss(FBeta(1.0), step=IdentityStep()), True),
        ("cross-entropy", "17", CrossEntropyLoss(class_weight=weight), False),
        ("surrogate F1", "22", SurrogateFBetaLoss(prevalence, 1.0), False),
    ]
    findings = []
    for name, equation, loss, exact in losses:
        models: list[Model] = [fixed_slope] if exact else [fixed_slope, free_line, random_features]
        for model in models:
            begin = start(model, seed)
            of_theta = partial(_loss_of, loss=loss, model=model, x=x, y=y)
            theta = minimize(of_theta, begin)
            rates = partial(smoothed_rates, model=model, x=x, y=y)
            scale = _scales(odds, 1.0)[equation]
            off, before = (residual(rates, at, scale) for at in (theta, begin))
            shape = model.__name__.replace("_", " ")
            slope = _slope(of_theta, theta)
            label = f"optimum of {name}, {shape}"
            findings.append(at_most(f"{label}: gradient of the loss", 1e-5, slope))
            what = f"eq. {equation} at the {label}: residual (at the start {before:.2f})"
            why = "" if exact else "up to Jensen's inequality only"
            findings.append(Finding(what, "0" if exact else "≈ 0", off, off < EXACT, why))
    return findings


def check_jensen(seed: int = 0, n: int = 2000, prevalence: float = 0.1) -> list[Finding]:
    """The approximations of eq. 16 and 21: how large is Jensen's gap at the optimum?"""
    weight = [1 / (1 - prevalence), 1 / prevalence]
    odds = prevalence / (1 - prevalence)
    findings = []
    for apart in (1.0, 2.0, 4.0):
        x, y = draw_classes(n, prevalence, seed, apart)
        pair: list[tuple[str, Loss, bool]] = [
            ("eq. 15, cross-entropy", CrossEntropyLoss(class_weight=weight), True),
            ("eq. 21, surrogate F1", SurrogateFBetaLoss(prevalence, 1.0), False),
        ]
        for name, loss, bounded in pair:
            of_theta = partial(_loss_of, loss=loss, model=free_line, x=x, y=y)
            theta = minimize(of_theta, start(free_line, seed))
            q0, q1 = (float(q) for q in smoothed_rates(theta, free_line, x, y))
            value = float(loss(free_line(theta, x), y))
            second = -math.log(1 - q1) if bounded else math.log(odds + q1)
            gap = value - (-math.log(1 - q0) + second)
            what = f"{name}, classes {apart:g} apart: loss {value:.3f} minus its approximation"
            if bounded:
                findings.append(Finding(what, "≥ 0", gap, gap >= 0))
            else:  # one term is convex, the other concave: no sign is promised
                why = "Jensen, of a convex and a concave term"
                findings.append(Finding(what, "≈ 0", gap, abs(gap) < 0.01, why))
    return findings
