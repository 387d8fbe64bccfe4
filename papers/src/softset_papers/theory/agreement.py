"""Do soft and hard metrics agree for many examples? Papers 000 (section 4.2) and 003 (section 5.2).

Memberships are drawn with the same mean as the hard decisions, as the papers assume.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softset.counting.cells import Confusion, confusion
from softset.counting.steps import HardStep, LinearStep
from softset.metrics.base import Metric
from softset.metrics.formulas import Accuracy, FBeta
from softset_papers.theory.findings import Finding, falls, near

SIZES = (100, 1_000, 10_000, 100_000)


def beta_draws(
    mean: float, size: tuple[int, ...], g: torch.Generator, strength: float = 3
) -> Tensor:
    """Memberships Beta(α, β) with ``α / (α + β) = mean``, ``α + β = strength``."""
    a, b = (_gamma(strength * m, size, g) for m in (mean, 1 - mean))
    return a / (a + b)


def _gamma(shape: float, size: tuple[int, ...], g: torch.Generator) -> Tensor:
    return torch._standard_gamma(torch.full(size, shape, dtype=torch.float64), generator=g)


def _rates(
    n: int, trials: int, r: float, u: float, v: float, g: torch.Generator
) -> tuple[Confusion, Confusion]:
    """Soft and hard confusions ``[trials]`` of n examples, rn of them positive."""
    positives = round(r * n)
    support, total = (torch.full((trials,), float(k), dtype=torch.float64) for k in (positives, n))
    found = []
    for soft in (True, False):
        tp = _sums(u, positives, trials, soft, g)
        fp = _sums(v, n - positives, trials, soft, g)
        found.append(Confusion(tp, fp, support - tp, total - support - fp))
    return found[0], found[1]


def _sums(mean: float, m: int, trials: int, soft: bool, g: torch.Generator) -> Tensor:
    """``trials`` sums of m memberships or decisions, a million numbers at a time."""
    sums = []
    for start in range(0, trials, max(1, 1_000_000 // max(m, 1))):
        size = (min(max(1, 1_000_000 // max(m, 1)), trials - start), m)
        if soft:
            sums.append(beta_draws(mean, size, g).sum(-1))
        else:
            decided = torch.rand(size, dtype=torch.float64, generator=g) < mean
            sums.append(decided.double().sum(-1))
    return torch.cat(sums)


def f1_limit(r: float, u: float, v: float) -> float:
    """``2ru / (r + ru + v - rv)`` (paper 000 eq. 10 and 12).

    >>> round(f1_limit(0.3, 0.8, 0.1), 6)
    0.786885
    """
    return 2 * r * u / (r + r * u + v - r * v)


def check_beta(seed: int = 0, sizes: tuple[int, ...] = SIZES, trials: int = 100) -> list[Finding]:
    """000 section 4.2 and supplement 1.2.1: soft and hard F1 and accuracy meet as n grows."""
    g = torch.Generator().manual_seed(seed)
    findings = []
    for r, u, v in ((0.3, 0.8, 0.1), (0.02, 0.7, 0.005)):
        draws = [_rates(n, trials, r, u, v, g) for n in sizes]
        limits: list[tuple[str, Metric, float]] = [
            ("F1", FBeta(1.0), f1_limit(r, u, v)),
            ("accuracy", Accuracy(), r * u + (1 - r) * (1 - v)),
        ]
        for name, metric, limit in limits:
            apart = [float((metric(s) - metric(h)).abs().mean()) for s, h in draws]
            label = f"{name}, {r:.0%} positives, n = {sizes[-1]:,}"
            findings.append(
                falls(f"{label}: mean |soft - hard|", apart, to=3 * apart[0] / _grown(sizes))
            )
            for kind, c in zip(("soft", "hard"), draws[-1], strict=True):
                values = metric(c)
                error = 4 * float(values.std()) / math.sqrt(trials) + 5 / sizes[-1]
                findings.append(
                    near(f"{label}: mean {kind} value", limit, float(values.mean()), error)
                )
    findings += _bias(g)
    findings.append(_without_the_assumption(g, sizes[-1]))
    return findings


def _grown(sizes: tuple[int, ...]) -> float:
    """How much smaller a mean deviation should be at the last size than at the first."""
    return math.sqrt(sizes[-1] / sizes[0])


def _bias(g: torch.Generator, n: int = 4, trials: int = 20_000) -> list[Finding]:
    """At finite n the soft F1 is biased, as the paper says (eq. 12 and after)."""
    r, u, v = 0.5, 0.6, 0.2
    soft, hard = _rates(n, trials, r, u, v, g)
    difference = FBeta(1.0)(soft) - FBeta(1.0)(hard)
    mean = float(difference.mean())
    error = float(difference.std()) / math.sqrt(len(difference))
    what = f"F1, n = {n}: mean soft minus mean hard ({abs(mean) / error:.0f} standard errors)"
    return [Finding(what, "≠ 0 (biased)", mean, abs(mean) > 3 * error)]


def _without_the_assumption(g: torch.Generator, n: int) -> Finding:
    """Decisions and memberships of the *same* probabilities: their means differ, so do metrics."""
    y = (torch.arange(n) < 0.3 * n).long()
    sure = beta_draws(0.8, (n,), g, strength=10)
    p = torch.where(y == 1, sure, 1 - sure)
    soft, hard = (
        float(FBeta(1.0)(confusion(p, y, step=step, from_logits=False)))
        for step in (LinearStep(0.1), HardStep())
    )
    what = f"F1, p ~ Beta(8, 2), both from the same p, n = {n:,}: |soft - hard|"
    return Finding(what, "→ 0", abs(soft - hard), abs(soft - hard) < 0.01, why="E H(p) ≠ P(p ≥ τ)")


# --- AUROC ------------------------------------------------------------------------------------


def check_auroc(
    seed: int = 0, sizes: tuple[int, ...] = SIZES[:-1], trials: int = 50, k: int = 10
) -> list[Finding]:
    """000 supplement 1.2.2: soft and hard AUROC over k thresholds meet as n grows.

    ``u(τ) = 1 - τ³`` and ``v(τ) = (1 - τ)³``; Beta(1, β(τ)) memberships, coupled over τ by their
    percentile so that the curves fall.
    """
    g = torch.Generator().manual_seed(seed)
    tau = torch.linspace(0, 1, k + 1, dtype=torch.float64)
    u, v = 1 - tau**3, (1 - tau) ** 3
    limit = float(_trapezoid(u, v))
    apart, last = [], {}
    for n in sizes:
        positives = round(0.3 * n)
        areas: dict[str, list[Tensor]] = {"soft": [], "hard": []}
        for _ in range(trials):
            x = torch.rand(n, dtype=torch.float64, generator=g)
            x2 = torch.rand(n, dtype=torch.float64, generator=g)
            for kind, draw in (("hard", _hard_draw), ("soft", _soft_draw)):
                source = x if kind == "hard" else x2
                tpr = draw(source[:positives], u).mean(0)
                fpr = draw(source[positives:], v).mean(0)
                areas[kind].append(_trapezoid(tpr, fpr))
        last = {kind: torch.stack(values) for kind, values in areas.items()}
        apart.append(float((last["soft"] - last["hard"]).abs().mean()))
    label = f"AUROC, {k} thresholds, n = {sizes[-1]:,}"
    findings = [falls(f"{label}: mean |soft - hard|", apart, to=3 * apart[0] / _grown(sizes))]
    for kind, values in last.items():
        error = 4 * float(values.std()) / math.sqrt(trials) + 5 / sizes[-1]
        findings.append(near(f"{label}: mean {kind} value", limit, float(values.mean()), error))
    findings += [_many_thresholds(), _dominance()]
    return findings


def _hard_draw(x: Tensor, mean: Tensor) -> Tensor:
    """Eq. 19: 1 where ``x <= mean(τ)``, ``[n, thresholds]``."""
    return (x.unsqueeze(-1) <= mean).double()


def _soft_draw(x: Tensor, mean: Tensor) -> Tensor:
    """The x-th percentile of Beta(1, β) with mean ``1/(1 + β) = mean(τ)``."""
    inverse = mean / (1 - mean)  # 1 / β: infinite at mean 1, where the membership is 1
    return 1 - (1 - x).unsqueeze(-1) ** inverse


def _trapezoid(tpr: Tensor, fpr: Tensor) -> Tensor:
    """Eq. 18."""
    return ((fpr[:-1] - fpr[1:]) * (tpr[:-1] + tpr[1:])).sum() / 2


def _many_thresholds() -> Finding:
    """With many thresholds the sum of eq. 18 is the integral of u dv."""
    tau = torch.linspace(0, 1, 10_001, dtype=torch.float64)
    exact = 1 - 3 * math.gamma(4) * math.gamma(3) / math.gamma(7)  # ∫ (1 - τ³) 3 (1 - τ)² dτ
    return near("eq. 18 with k = 10,000 against the integral", exact,
                float(_trapezoid(1 - tau**3, (1 - tau) ** 3)), 1e-6)  # fmt: skip


def _dominance() -> Finding:
    """The supplement's sentence has the direction the wrong way round; its use is right."""
    x = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    larger, smaller = 1 - (1 - x) ** (1 / 4.0), 1 - (1 - x) ** (1 / 2.0)  # percentiles, β = 4, 2
    share = float((larger > smaller).double().mean())
    what = "share of percentiles where Beta(1, 4) lies above Beta(1, 2) (“dominates” if β > β′)"
    return Finding(what, "1", share, share == 1.0, why="it is the other way round")


# --- several classes --------------------------------------------------------------------------


def macro_limit(q: Tensor, p: Tensor, beta: float) -> float:
    """``1/d Σ (1 + β²) p_kk q_k / (β² q_k + Σ_j p_jk q_j)`` (paper 003 eq. 10 and 14)."""
    square = beta**2
    by_class = (1 + square) * p.diagonal() * q / (square * q + q @ p)
    return float(by_class.mean())


def check_dirichlet(
    seed: int = 0, sizes: tuple[int, ...] = SIZES, trials: int = 40
) -> list[Finding]:
    """003 section 5.2: soft and hard macro F-beta meet for Dirichlet memberships as n grows."""
    g = torch.Generator().manual_seed(seed)
    q = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    d = len(q)
    p = 0.7 * torch.eye(d, dtype=torch.float64) + 0.3 * q  # 70 % right, the rest by frequency
    findings = []
    pairs = [_class_matrices(n, trials, q, p, g) for n in sizes]
    for beta in (0.5, 1.0, 2.0):
        metric, limit = FBeta(beta), macro_limit(q, p, beta)
        values = [[metric(Confusion.from_matrix(m)) for m in pair] for pair in pairs]
        apart = [float((s - h).abs().mean()) for s, h in values]
        label = f"macro F{beta:g}, 4 classes, n = {sizes[-1]:,}"
        findings.append(
            falls(f"{label}: mean |soft - hard|", apart, to=3 * apart[0] / _grown(sizes))
        )
        for kind, v in zip(("soft", "hard"), values[-1], strict=True):
            error = 4 * float(v.std()) / math.sqrt(trials) + 20 / sizes[-1]
            findings.append(near(f"{label}: mean {kind} value", limit, float(v.mean()), error))
    return findings


def _class_matrices(
    n: int, trials: int, q: Tensor, p: Tensor, g: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Soft and hard matrices ``[trials, d, d]``: row k is the sum of n q_k draws."""
    d = len(q)
    soft, hard = (torch.zeros(trials, d, d, dtype=torch.float64) for _ in range(2))
    for t in range(trials):
        for k in range(d):
            m = round(float(q[k]) * n)
            gammas = torch._standard_gamma((3 * p[k]).expand(m, d).contiguous(), generator=g)
            soft[t, k] = (gammas / gammas.sum(-1, keepdim=True)).sum(0)
            chosen = torch.multinomial(p[k], m, replacement=True, generator=g)
            hard[t, k] = torch.bincount(chosen, minlength=d).double()
    return soft, hard
