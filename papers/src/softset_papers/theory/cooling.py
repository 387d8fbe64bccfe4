"""Does the soft confusion become the hard one as T falls? Paper 002, 5.2 and 5.3."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softset.counting.cells import confusion
from softset.counting.kernels.multiclass import memberships
from softset.counting.steps import LinearStep
from softset.metrics.formulas import MCC, Accuracy, FBeta
from softset_papers.theory.findings import Finding, at_most, falls

TEMPERATURES = tuple(0.2 * 0.9**k for k in range(0, 61, 5))


def draw_scores(n: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits ``[n, classes]`` of a middling classifier and labels, the classes of unequal size."""
    g = torch.Generator().manual_seed(seed)
    shares = 0.6 ** torch.arange(classes, dtype=torch.float64)
    y = torch.multinomial(shares, n, replacement=True, generator=g)
    z = torch.randn(n, classes, dtype=torch.float64, generator=g)
    z[torch.arange(n), y] += 1.5
    return z, y


def distance_bound(classes: int, temperature: float) -> float:
    """``(d - 1) T / (1 + (d - 2) T)``: how far ``g_T`` may be from the decision, for rows whose two
    largest probabilities are more than ``5T/2`` apart (from the proof of 002 proposition 5.2).

    There the largest has ``H >= 1 - T`` and every other one ``H <= T``.
    """
    others = (classes - 1) * temperature
    return others / (1 - temperature + others)


def check_memberships_cool(seed: int = 0, n: int = 2000, classes: int = 5) -> list[Finding]:
    """002 proposition 5.2: ``g_T(p)`` becomes the one-hot decision, for every p."""
    p = torch.softmax(draw_scores(n, classes, seed)[0], -1)
    top = p.topk(2, dim=-1).values
    margin = top[:, 0] - top[:, 1]
    decided = torch.nn.functional.one_hot(p.argmax(-1), classes).double()
    findings = []
    for t in (0.2, 0.05, 0.01, 0.001):
        off = (memberships(p, LinearStep.at_temperature(t)) - decided).abs().amax(-1)
        clear = margin > 2.5 * t
        share = float(clear.double().mean())
        what = f"T = {t}: largest |g_T - decision|, {share:.0%} of rows (margin > 5T/2)"
        findings.append(at_most(what, distance_bound(classes, t), float(off[clear].max())))
    off = (memberships(p, LinearStep.at_temperature(1e-9)) - decided).abs().amax(-1)
    findings.append(
        at_most(f"T = 1e-9: largest |g_T - decision|, all {n:,} rows", 1e-6, float(off.max()))
    )
    tie = torch.tensor([[0.4, 0.4, 0.2]], dtype=torch.float64)
    half = float(memberships(tie, LinearStep.at_temperature(1e-9))[0, 0])
    what = "T = 1e-9, p = (0.4, 0.4, 0.2): membership of the first class"
    findings.append(Finding(what, "→ 1", half, half > 0.99, why="a tie"))
    return findings


def check_confusions_cool(seed: int = 0, n: int = 2000, classes: int = 5) -> list[Finding]:
    """002 theorem 5.3: ``C_T → C`` and ``M(C_T) → M(C)`` along the cooling schedule 0.2 · 0.9^k."""
    z, y = draw_scores(n, classes, seed)
    soft = [
        confusion(
            z,
            y,
            task="multiclass",
            step=LinearStep.at_temperature(t),
            matrix=True,
            from_logits=True,
        )
        for t in TEMPERATURES
    ]
    hard = confusion(z, y, task="multiclass", matrix=True, from_logits=True)
    cells = [float((c.matrix - hard.matrix).abs().max()) / n for c in soft]
    last = f"T = 0.2 · 0.9^60 = {TEMPERATURES[-1]:.1e}"
    findings = [falls(f"{last}: largest |C_T - C| / n (at 0.2: {cells[0]:.3f})", cells, to=1e-3)]
    for name, metric in (("macro F1", FBeta(1.0)), ("accuracy", Accuracy()), ("MCC", MCC())):
        gaps = [abs(float(metric(c)) - float(metric(hard))) for c in soft]
        findings.append(
            falls(f"{last}: |{name} soft - hard| (at 0.2: {gaps[0]:.3f})", gaps, to=2e-3)
        )
        enough = [5 * i for i, gap in enumerate(gaps) if gap < 0.01]
        what = f"coolings by 0.9 until |{name} soft - hard| < 0.01"
        findings.append(Finding(what, "finite", min(enough, default=math.inf), bool(enough)))
    tie, first = torch.tensor([[0.4, 0.4, 0.2]], dtype=torch.float64).log(), torch.tensor([0])
    still, decided = (
        confusion(tie, first, task="multiclass", step=step, matrix=True, from_logits=True)
        for step in (LinearStep.at_temperature(1e-9), None)
    )
    off = float((still.matrix - decided.matrix).abs().max())
    what = "T = 1e-9, one row with p = (0.4, 0.4, 0.2): largest |C_T - C| / n"
    findings.append(Finding(what, "→ 0", off, off < 0.01, why="a tie"))
    return findings
