"""Are the weights that are best for the soft metric best for the metric? Paper 002, theorem 5.4.

The proof assumes that the two largest probabilities stay apart by more than some constant for all
weights, that the weights form a compact set, and that the best of them is unique. Here the weight
is an offset θ of one class, over a finite set and over a line.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softset.counting.cells import confusion
from softset.counting.steps import LinearStep
from softset.metrics.formulas import FBeta
from softset_papers.theory.cooling import draw_scores
from softset_papers.theory.findings import Finding, at_most, falls

TEMPERATURES = (0.2, 0.1, 0.05, 0.01, 1e-3, 1e-4, 1e-6, 1e-9)


def shifted(z: Tensor, theta: Tensor) -> Tensor:
    """Logits ``[θ, n, d]`` with each θ added to those of the first class."""
    offsets = torch.zeros(len(theta), 1, z.shape[1], dtype=z.dtype)
    offsets[:, 0, 0] = theta
    return z + offsets


def soft_values(z: Tensor, y: Tensor, theta: Tensor, temperature: float | None) -> Tensor:
    """Macro F1 for every θ: of memberships at a temperature, or of decisions."""
    step = None if temperature is None else LinearStep.at_temperature(temperature)
    many = shifted(z, theta)
    return FBeta(1.0)(
        confusion(many, y, task="multiclass", step=step, batch_dims=1, from_logits=True)
    )


def check_optima(seed: int = 0, n: int = 300, points: int = 61) -> list[Finding]:
    """002 theorem 5.4: the weights that are best for ``M(C_T)`` tend to those best for ``M(C)``."""
    z, y = draw_scores(n, 10, seed)
    theta = torch.linspace(-3, 3, points, dtype=torch.float64)
    hard = soft_values(z, y, theta, None)
    best = hard.max()
    apart, regret, away = [], [], []
    for temperature in TEMPERATURES:
        soft = soft_values(z, y, theta, temperature)
        found = theta[soft.argmax()]
        apart.append(float((soft - hard).abs().max()))
        regret.append(float(best - hard[soft.argmax()]))
        away.append(float((theta[hard >= best - 1e-12] - found).abs().min()))
    label = f"{points} values of θ"
    at = f"at T = 0.2: {apart[0]:.3f}"
    findings = [
        falls(f"{label}, T = 1e-9: largest |soft - hard macro F1| ({at})", apart, to=1e-6),
        at_most(f"{label}, T = 1e-9: how far the soft optimum is from the hard one (at T = 0.2: "
                f"{away[0]:.2f})", 0.0, away[-1]),
        at_most(f"{label}, T = 1e-9: macro F1 lost at the soft optimum (at T = 0.2: "
                f"{regret[0]:.4f})", 0.0, regret[-1]),
    ]  # fmt: skip
    return [*findings, *_on_a_line(z, y)]


def _on_a_line(z: Tensor, y: Tensor) -> list[Finding]:
    """All θ between -3 and 3: a decision changes only where two probabilities are equal."""
    others = z[:, 1:].amax(1)
    ties = (others - z[:, 0]).sort().values  # where the first class draws level
    ties = ties[(ties > -3) & (ties < 3)]
    top = torch.softmax(shifted(z, ties), -1).topk(2, dim=-1).values
    margin = float((top[..., 0] - top[..., 1]).amin())
    gap = (soft_values(z, y, ties, 1e-9) - soft_values(z, y, ties, None)).abs().max()
    between = "every θ from -3 to 3"
    return [
        Finding(f"{between}: smallest difference of the two largest probabilities", "> 0", margin,
                margin > 1e-9, why="a decision changes only through a tie"),
        Finding(f"{between}, T = 1e-9: largest |soft - hard macro F1|", "→ 0", float(gap),
                float(gap) < 1e-6, why="at a tie half an example is missing"),
    ]  # fmt: skip
