"""The papers' formulas written again, plainly and independently, and random problems to try."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

import softset as ss
from softset.metrics.registry import get_goal

TASKS = ("binary", "multiclass", "multilabel")
SOFT_STEPS = {
    "linear": ss.LinearStep(),
    "linear 0.2": ss.LinearStep(0.2, 1.3),
    "temperature": ss.LinearStep.at_temperature(0.05),
    "sigmoid": ss.SigmoidStep(),
    "identity": ss.IdentityStep(),
    "own": lambda p, tau: torch.sigmoid(20 * (p - tau)) ** 2,
}


def random_problem(
    task: str, n: int = 60, classes: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Logits and labels in which every class has support and not everything is right."""
    g = torch.Generator().manual_seed(seed)
    if task == "binary":
        y = torch.arange(n) % 3 == 0
        z = torch.randn(n, generator=g, dtype=torch.float64) * 2 + y
    elif task == "multilabel":
        y = torch.randint(0, 2, (n, classes), generator=g)
        y[0], y[1] = 0, 1
        z = torch.randn(n, classes, generator=g, dtype=torch.float64) * 2 + y
    else:
        y = torch.arange(n) % classes
        z = torch.randn(n, classes, generator=g, dtype=torch.float64) * 2
        z = z + torch.nn.functional.one_hot(y, classes)
    order = torch.randperm(n, generator=g)
    return z[order].to(dtype), y[order].to(torch.long)


def linear_step(p: float, tau: float, delta: float, width: float) -> float:
    """Through the five points, by interpolation (paper 000 eq. 26)."""
    m = width * min(tau, 1 - tau)
    xs, ys = [0, tau - m / 2, tau, tau + m / 2, 1], [0, delta, 0.5, 1 - delta, 1]
    return float(np.interp(p, xs, ys))


def soft_matrix(z: Tensor, y: Tensor, step) -> Tensor:
    """The multiclass soft confusion matrix, row by row (paper 002 section 4.2)."""
    classes = z.shape[1]
    rows = [torch.zeros(classes, dtype=z.dtype) for _ in range(classes)]
    for zi, yi in zip(z, y.tolist(), strict=True):
        p = torch.softmax(zi, 0)
        tau = p.sort(descending=True).values[:2].mean()
        h = step(p, tau)
        rows[yi] = rows[yi] + h / h.sum()
    return torch.stack(rows)


def soft_cells(z: Tensor, y: Tensor, step, tau: float) -> dict[str, Tensor]:
    """The four binary sums of paper 000 eq. 6."""
    h = step(torch.sigmoid(z), tau)
    y = y.to(h.dtype)
    cells = {"tp": h * y, "fn": (1 - h) * y, "fp": h * (1 - y), "tn": (1 - h) * (1 - y)}
    return {key: value.sum(0) for key, value in cells.items()}


def brute_force(name: str, true: np.ndarray, said: np.ndarray, weight: np.ndarray) -> float:
    """Metrics of one positive class that scikit-learn does not have."""

    def share(of: np.ndarray, among: np.ndarray) -> float:
        total = weight[among].sum()
        return float(weight[of & among].sum() / total) if total else 0.0

    true, said = true.astype(bool), said.astype(bool)
    tpr, tnr = share(said, true), share(~said, ~true)
    ppv, npv = share(true, said), share(~true, ~said)
    return {
        "specificity": tnr,
        "gmean": math.sqrt(tpr * tnr),
        "informedness": tpr + tnr - 1,
        "markedness": ppv + npv - 1,
        "fowlkes_mallows": math.sqrt(ppv * tpr),
    }[name]


def is_area(metric: object) -> bool:
    """Whether a metric, or what is called so, is over a grid of thresholds."""
    return get_goal(metric).where.grid  # type: ignore[arg-type]
