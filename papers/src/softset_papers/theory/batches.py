"""How much does a batch tell of the population? Paper 002, theorems 5.7, 5.8 and 5.9."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.kernels.multiclass import memberships
from softset.counting.steps import LinearStep
from softset.losses.batch_size import confusion_error_bound
from softset.metrics.base import Metric
from softset.metrics.formulas import MCC, Accuracy, FBeta
from softset_papers.theory.cooling import draw_scores
from softset_papers.theory.findings import Finding, at_most, falls

SIZES = (32, 128, 512, 2048, 8192)


class Population:
    """Many examples with memberships, soft or hard; batches are drawn from it with replacement."""

    def __init__(self, classes: int, *, soft: bool, size: int = 50_000, seed: int = 0) -> None:
        z, self.y = draw_scores(size, classes, seed)
        p = torch.softmax(z, -1)
        decided = torch.nn.functional.one_hot(p.argmax(-1), classes).double()
        self.g = memberships(p, LinearStep.at_temperature(0.2)) if soft else decided
        self.classes = classes
        self.matrix = self._count(self.g, self.y)
        self.shares = torch.bincount(self.y, minlength=classes).double() / size

    def _count(self, g: Tensor, y: Tensor) -> Tensor:
        """Definition 5.6: the matrix as shares of the examples."""
        rows = torch.zeros(self.classes, self.classes, dtype=torch.float64)
        return rows.index_add_(0, y, g) / len(y)

    def batches(self, n: int, trials: int, generator: torch.Generator) -> Tensor:
        """``trials`` matrices ``[trials, d, d]`` of n examples each."""
        found = []
        for _ in range(trials):
            rows = torch.randint(len(self.y), (n,), generator=generator)
            found.append(self._count(self.g.index_select(0, rows), self.y.index_select(0, rows)))
        return torch.stack(found)


def check_bound(seed: int = 0, trials: int = 400) -> list[Finding]:
    """002 theorem 5.8: ``|Ĉ - C|max <= sqrt(log(2d²/δ) / (2n))`` with probability ``1 - δ``."""
    findings = []
    for classes, soft in ((2, False), (5, False), (5, True), (10, True)):
        people = Population(classes, soft=soft, seed=seed)
        g = torch.Generator().manual_seed(seed)
        for n in (64, 1024):
            off = (people.batches(n, trials, g) - people.matrix).abs().amax((-2, -1))
            label = f"{classes} classes, {'soft' if soft else 'hard'}, n = {n}"
            for delta in (0.05, 0.5):
                bound = confusion_error_bound(n, classes, delta)
                share = float((off > bound).double().mean())
                what = f"{label}: share of batches beyond {bound:.3f}, δ = {delta}"
                findings.append(at_most(what, delta, share))
            usual = float(off.quantile(0.95)) / confusion_error_bound(n, classes, 0.05)
            findings.append(at_most(f"{label}: 95 % quantile of the deviation / bound", 1.0, usual))
    return findings


def check_convergence(seed: int = 0, trials: int = 300) -> list[Finding]:
    """002 theorem 5.7: ``M(Ĉ_n)`` and its mean tend to ``M(C)``; soft memberships, 5 classes."""
    people = Population(5, soft=True, seed=seed)
    truth = Confusion.from_matrix(people.matrix)
    findings = []
    for name, metric in _metrics():
        bias, spread = [], []
        for n in SIZES:
            g = torch.Generator().manual_seed(seed)
            values = metric(Confusion.from_matrix(people.batches(n, trials, g)))
            bias.append(abs(float(values.mean()) - float(metric(truth))))
            spread.append(float((values - float(metric(truth))).abs().mean()))
        label = f"{name}, n = {SIZES[-1]:,} (n = {SIZES[0]}"
        findings.append(falls(f"{label}: {spread[0]:.4f}): mean |M(Ĉ) - M(C)|", spread, to=0.01))
        noise = 4 * spread[-1] / math.sqrt(trials)
        findings.append(at_most(f"{label}: {bias[0]:.4f}): |mean M(Ĉ) - M(C)|",
                                noise + 5 / SIZES[-1], bias[-1]))  # fmt: skip
    return findings


def _metrics() -> list[tuple[str, Metric]]:
    return [("macro F1", FBeta(1.0)), ("accuracy", Accuracy()), ("MCC", MCC())]


def chebyshev_constant(metric: Metric, matrix: Tensor) -> float:
    """The local Lipschitz constant by the largest change of a cell: ``Σ |∂M/∂c_ij|``."""
    leaf = matrix.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(metric(Confusion.from_matrix(leaf)).sum(), leaf)
    return float(slopes.abs().sum())


def check_rate(seed: int = 0, trials: int = 300) -> list[Finding]:
    """002 theorem 5.9: ``|M(Ĉ) - M(C)| = O_p(L / √n)`` for a metric with Lipschitz constant L."""
    people = Population(5, soft=True, seed=seed)
    truth = Confusion.from_matrix(people.matrix)
    findings = []
    logs = torch.tensor(SIZES, dtype=torch.float64).log()
    for name, metric in _metrics():
        constant = chebyshev_constant(metric, people.matrix)
        off = []
        for n in SIZES:
            g = torch.Generator().manual_seed(seed + n)
            values = metric(Confusion.from_matrix(people.batches(n, trials, g)))
            off.append((values - metric(truth)).abs().quantile(0.95))
        typical = torch.stack(off).log()
        slope = float(
            ((logs - logs.mean()) * (typical - typical.mean())).sum()
            / (logs - logs.mean()).square().sum()
        )
        findings.append(Finding(f"{name}: slope of log deviation by log n (n = 32 … 8192)",
                                "-0.5 ± 0.06", slope, abs(slope + 0.5) <= 0.06))  # fmt: skip
        worst = max(
            float(o) / (constant * confusion_error_bound(n, 5, 0.05))
            for n, o in zip(SIZES, off, strict=True)
        )
        what = (
            f"{name}: 95 % quantile / (L · bound of 5.8), L = {constant:.1f} at C, largest over n"
        )
        findings.append(at_most(what, 1.0, worst))
    rare = 1e-4 * people.matrix
    rare[0, 0] = people.matrix[0, 0]
    steep = chebyshev_constant(FBeta(1.0), rare / rare.sum())
    what = "L of macro F1 where all classes but one are 1e4 times as rare"
    findings.append(
        Finding(
            what, "bounded", steep, steep < 100, why="it grows as 1 / share of the rarest class"
        )
    )
    return findings
