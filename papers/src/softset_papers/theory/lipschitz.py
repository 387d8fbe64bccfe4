"""How steep can it be? Papers 000 (theorems 4.1 and 4.2) and 003 (theorem 5.1)."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from softset.counting.cells import Confusion, confusion
from softset.counting.kernels.multiclass import memberships
from softset.counting.steps import LinearStep, SigmoidStep, Step
from softset.metrics.base import Metric
from softset.metrics.formulas import MCC, Accuracy, BalancedAccuracy, FBeta, GMean, Jaccard
from softset_papers.theory.findings import Finding, at_most, near

TAUS = tuple(i / 10 for i in range(1, 10))


def step_constant(step: Step, tau: float) -> float:
    """The Lipschitz constant of a step: ``max(m1, m2, m3)`` (paper 000 theorem 4.1), or ``k/4``.

    >>> round(step_constant(LinearStep(0.1), 0.5), 6), step_constant(SigmoidStep(10), 0.5)
    (1.6, 2.5)
    """
    if isinstance(step, LinearStep):
        return float(max(step.pieces(tau)[2:]))
    if isinstance(step, SigmoidStep):
        return float(step.k) / 4
    raise ValueError(f"step must be a LinearStep or a SigmoidStep, got {step!r}.")


def steepest_secant(step: Step, tau: float, points: int = 400) -> float:
    """The largest ``|H(a) - H(b)| / |a - b|`` over all pairs of a grid with the corners in it."""
    p = torch.linspace(0, 1, points, dtype=torch.float64)
    if isinstance(step, LinearStep):
        p = torch.cat([p, torch.tensor([float(c) for c in step.pieces(tau)[:2]])])
    p = torch.cat([p, torch.tensor([tau, tau + 1e-6])]).double().sort().values
    p = torch.unique_consecutive(p)
    h = step(p, tau)
    i, j = torch.triu_indices(len(p), len(p), 1)
    return float(((h[j] - h[i]).abs() / (p[j] - p[i])).max())


def check_step_constants(seed: int = 0) -> list[Finding]:
    """000 theorem 4.1: the linear step has Lipschitz constant max(m1, m2, m3); 4.1 also says that
    the sigmoid is Lipschitz (its constant is k/4)."""
    findings = []
    for name, step in (
        ("linear, δ = 0.1", LinearStep(0.1)),
        ("linear, δ = 0.2", LinearStep(0.2)),
        ("sigmoid, k = 10", SigmoidStep(10)),
    ):
        shares = [steepest_secant(step, tau) / step_constant(step, tau) for tau in TAUS]
        what = f"{name}: steepest secant as a share of the constant, τ = 0.1 … 0.9"
        findings.append(at_most(what, 1.0, max(shares), slack=1e-6))
        low = f"{name}: the same, smallest over τ (is the constant the best one?)"
        findings.append(near(low, 1.0, min(shares), 1e-3))
    for tau in (0.5, 0.1, 0.01):
        constant = step_constant(LinearStep(0.1), tau)
        what = f"the constant itself at τ = {tau}, δ = 0.1 (grows as 0.8/τ)"
        findings.append(near(what, 0.8 / tau, constant, 1e-9))
    return findings


def check_cells(seed: int = 0, n: int = 60, pairs: int = 400) -> list[Finding]:
    """000 theorem 4.2: each cell of the soft confusion is Lipschitz in the probabilities, and
    metrics that are Lipschitz in the cells stay so.

    With ``|p - q|`` summed over examples a cell has the constant of the step.
    """
    g = torch.Generator().manual_seed(seed)
    step = LinearStep(0.1)
    y = (torch.rand(n, generator=g) < 0.3).long()
    worst = dict.fromkeys(("tp", "fn", "fp", "tn"), 0.0)
    for i in range(pairs):
        p = torch.rand(n, dtype=torch.float64, generator=g)
        moved = torch.randn(n, dtype=torch.float64, generator=g) * 10 ** -(i % 6)
        q = (p + moved).clamp(0, 1)
        if i % 2:  # move one example only: that is where the constant is reached
            q = torch.where(torch.arange(n) == i % n, q, p)
            if bool((q == p).all()):
                continue
        a, b = (confusion(s, y, step=step, from_logits=False) for s in (p, q))
        for cell in worst:
            change = float((getattr(a, cell) - getattr(b, cell)).abs())
            worst[cell] = max(worst[cell], change / float((p - q).abs().sum()))
    constant = step_constant(step, 0.5)
    return [
        at_most(f"{c}: largest change / Σ|Δp|", constant, v, slack=1e-6) for c, v in worst.items()
    ]


def metric_slope(metric: Metric, prevalence: float, points: int = 41, edge: float = 0.0) -> float:
    """The largest slope of a metric by ``tp/n`` or ``fp/n``, over a grid of all confusions.

    ``edge`` keeps the grid that far (in rates) from the degenerate confusions.
    """
    rates = torch.linspace(edge, 1 - edge, points, dtype=torch.float64)
    tpr, fpr = torch.meshgrid(rates, rates, indexing="ij")
    tp = (prevalence * tpr).flatten().requires_grad_()
    fp = ((1 - prevalence) * fpr).flatten().requires_grad_()
    support = torch.full_like(tp, prevalence)
    value = metric(Confusion(tp, fp, support - tp, 1 - support - fp))
    slopes = torch.autograd.grad(value.sum(), (tp, fp))
    return max(float(s.abs().max()) for s in slopes)


def check_metrics(seed: int = 0, prevalence: float = 0.1) -> list[Finding]:
    """000 section 4.1: accuracy, balanced accuracy, F-beta, Jaccard (and G-mean) are Lipschitz."""
    r = prevalence
    known: list[tuple[str, Metric, float]] = [
        ("accuracy", Accuracy(), 1.0),
        ("balanced accuracy", BalancedAccuracy(), 1 / (2 * r)),
        ("F1", FBeta(1.0), 2 / r),
        ("F2", FBeta(2.0), 1.25 / r),
        ("Jaccard", Jaccard(), 1 / r),
    ]
    findings = [
        near(f"{name}: steepest slope by tp/n or fp/n, {r:.0%} positives", constant,
             metric_slope(metric, r), 1e-6 * constant)
        for name, metric, constant in known
    ]  # fmt: skip
    steep = metric_slope(FBeta(1.0), r / 100)
    findings.append(near(f"F1 with {r / 100:.1%} positives (2/r: no bound over all data sets)",
                         200 / r, steep, 1e-6 * 200 / r))  # fmt: skip
    for name, metric in (("G-mean", GMean()), ("MCC", MCC())):
        findings += _not_lipschitz(name, metric, r)
    return findings


def _not_lipschitz(name: str, metric: Metric, r: float) -> list[Finding]:
    """Its slope within 1e-2, 1e-4, 1e-6 of a degenerate matrix: growth means no constant."""
    slopes = [metric_slope(metric, r, edge=10.0**-k) for k in (2, 4, 6)]
    growth = min(b / a for a, b in pairwise(slopes))
    bounded = growth < 1.5
    what = f"{name}: steepest slope, 1e-6 from a degenerate matrix (×{growth:.1f} for each /100)"
    safe = f"{name}: steepest slope, 0.1 from any degenerate matrix"
    inside = metric_slope(metric, r, edge=0.1)
    return [
        Finding(what, "bounded", slopes[-1], bounded, why="a square root at 0"),
        Finding(safe, "bounded", inside, math.isfinite(inside)),
    ]


# --- several classes ------------------------------------------------------------------------------


def membership_constant(classes: int, delta: float = 0.2, width: float = 1.0) -> float:
    """A Lipschitz constant of ``g_j(p)`` with ``|p - q|`` summed over the classes.

    From the proof of 003 theorem 5.1 with numbers: the dynamic threshold lies in ``[1/d, 1/2]``
    and moves at most half of ``|p - q|``; the slopes of the step by p and by τ are bounded there;
    the memberships are divided by a sum of at least 1/2.
    """
    d, far = classes, 1 - (1 + width / 2) / 2
    by_p = max(delta * d / (1 - width / 2), (1 - 2 * delta) * d / width, delta / far)
    middle = (1 - 2 * delta) * (1 + width / 2) * d / width
    by_tau = max(delta * d, middle, delta * (1 + width / 2) / far)
    return 2 * (by_p + by_tau / 2 + by_p + d * by_tau / 2)


def _awkward(classes: int, rows: int, g: torch.Generator) -> Tensor:
    """Probabilities of all kinds: spread, sure, nearly tied at the top, nearly uniform."""
    spread = -torch.rand(rows, classes, dtype=torch.float64, generator=g).log()
    sure = spread**8
    tied = spread.clone()
    tied[:, :3] = 2 + 1e-6 * torch.randn(rows, min(3, classes), dtype=torch.float64, generator=g)
    flat = 1 + 1e-6 * spread
    p = torch.cat([spread, sure, tied, flat]).clamp(min=1e-300)
    return p / p.sum(-1, keepdim=True)


def membership_slope(classes: int, step: Step, *, rows: int = 500, seed: int = 0) -> float:
    """The largest ``|g_j(p) - g_j(q)| / sum |p - q|`` found.

    Over near and far pairs (which see jumps), and by the derivative along every edge ``e_i - e_k``
    of the simplex (which is the steepest way).
    """
    g = torch.Generator().manual_seed(seed)
    p = _awkward(classes, rows, g)
    few = p[:: max(1, len(p) * classes // 4000)]
    slopes = torch.func.vmap(torch.func.jacrev(lambda q: memberships(q, step)))(few)
    worst = float((slopes.amax(-1) - slopes.amin(-1)).max()) / 2
    for size in (1.0, 1e-2, 1e-4, 1e-7):
        q = (p + size * torch.randn(p.shape, dtype=torch.float64, generator=g) * p).clamp(min=0)
        q = q / q.sum(-1, keepdim=True).clamp(min=1e-300)
        change = (memberships(p, step) - memberships(q, step)).abs().amax(-1)
        distance = (p - q).abs().sum(-1)
        fair = distance > 1e-10  # below that, rounding is what is measured
        worst = max(worst, float((change[fair] / distance[fair]).max()))
    return worst


def check_memberships(seed: int = 0, rows: int = 500) -> list[Finding]:
    """003 theorem 5.1: every cell of the d × d soft confusion is Lipschitz in the probabilities."""
    findings = []
    for d in (2, 3, 10, 100):
        found = membership_slope(d, LinearStep(0.2), rows=rows, seed=seed)
        what = f"{d} classes, δ = 0.2: largest change of a membership / Σ|Δp|"
        findings.append(at_most(what, membership_constant(d), found))
    exact = step_constant(LinearStep(0.2), 0.5) / 2
    findings.append(near("2 classes: the same against m2 / 2", exact, findings[0].measured, 1e-3))
    cooled = [
        membership_slope(10, LinearStep.at_temperature(t), rows=rows, seed=seed)
        for t in (0.2, 0.02, 0.002)
    ]
    bounded = cooled[-1] < 2 * cooled[0]
    what = f"10 classes, T = 0.002 (T = 0.2: {cooled[0]:.2f}, T = 0.02: {cooled[1]:.2f}): the same"
    findings.append(Finding(what, "bounded as T falls", cooled[-1], bounded, why="it grows as 1/T"))
    return findings
