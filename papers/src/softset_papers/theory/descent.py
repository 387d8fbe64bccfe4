"""How much may the loss change in a step of training? Paper 000, end of section 4.1.

``|ℓ(w') - ℓ(w)| <= K α |ℓ'(w)|`` for a step of gradient descent with rate α, where K is a Lipschitz
constant of the loss in the weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softset.counting.steps import LinearStep
from softset.losses.soft_metric import MetricLoss
from softset.metrics.base import Metric
from softset.metrics.formulas import MCC, Accuracy, FBeta
from softset_papers.theory.findings import Finding, at_most
from softset_papers.theory.gradients import draw_classes, free_line
from softset_papers.theory.lipschitz import metric_slope, step_constant

STEP = LinearStep(0.1)
RATES = (0.1, 1.0, 10.0)


def loss_constant(metric: Metric, prevalence: float, x: Tensor) -> float:
    """A Lipschitz constant K of ``1 - soft metric`` in the weights of a linear model.

    The metric changes by at most its slope times the change of tp/n and fp/n together, a membership
    by at most the step's constant times that of p, p by a quarter of the logit's, and a logit by
    the length of its row ``(x, 1)`` times the change of the weights.
    """
    rows = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1).norm(dim=1).mean()
    return metric_slope(metric, prevalence) * step_constant(STEP, 0.5) / 4 * float(rows)


def slope_at(metric: Metric, theta: Tensor, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """The loss of weights ``theta`` and its gradient."""
    leaf = theta.clone().requires_grad_()
    value = MetricLoss(metric, step=STEP)(free_line(leaf, x), y)
    return float(value.detach()), torch.autograd.grad(value, leaf)[0]


def largest_change(metric: Metric, rate: float, x: Tensor, y: Tensor, steps: int) -> float:
    """The largest ``|ℓ(w') - ℓ(w)| / (α |ℓ'(w)|)`` over steps of gradient descent."""
    theta = torch.tensor([0.3, -0.2, -1.0], dtype=torch.float64)
    value, slope = slope_at(metric, theta, x, y)
    worst = 0.0
    for _ in range(steps):
        length = rate * float(slope.norm())
        if length < 1e-12:
            break
        theta = theta - rate * slope
        before, (value, slope) = value, slope_at(metric, theta, x, y)
        worst = max(worst, abs(value - before) / length)
    return worst


def check_steps(seed: int = 0, n: int = 500, steps: int = 200) -> list[Finding]:
    """000 section 4.1: the change of the loss in a step is bounded by ``K α |ℓ'|``."""
    prevalence = 0.1
    x, y = draw_classes(n, prevalence, seed)
    findings = []
    metrics: list[tuple[str, Metric]] = [("F1", FBeta(1.0)), ("accuracy", Accuracy())]
    for name, metric in metrics:
        constant = loss_constant(metric, prevalence, x)
        for rate in RATES:
            change = largest_change(metric, rate, x, y, steps)
            what = f"{name}, rate {rate:g}: largest change of the loss in a step / (α |gradient|)"
            findings.append(at_most(what, constant, change))
    far = [torch.tensor([0.3, -0.2, -b], dtype=torch.float64) for b in (1.0, 5.0, 10.0, 20.0)]
    slopes = [float(slope_at(MCC(), theta, x, y)[1].norm()) for theta in far]
    what = "MCC: gradient by the weights where hardly anything is called positive (b = -20)"
    findings.append(Finding(what, "bounded", slopes[-1], max(slopes) <= 10 * slopes[0]))
    return findings
