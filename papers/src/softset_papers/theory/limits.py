"""What texts state in passing: cross-entropy and accuracy (001), equation 25 (004)."""

from __future__ import annotations

import torch
from torch import Tensor

from softset.losses.pointwise import CrossEntropyLoss, MeanAbsoluteErrorLoss
from softset.losses.surrogate import SurrogateFBetaLoss
from softset_papers.theory.findings import Finding, at_most, near
from softset_papers.theory.gradients import draw_classes, free_line

BETAS = (0.5, 1.0, 2.0, 3.0)
_NOISE = 0.2  # of the labels are flipped
_SMALL = 1e-6  # a q next to 0


def entropy_and_errors(n: int, strength: float, seed: int) -> tuple[float, float]:
    """Cross-entropy and share of errors of ``n`` calibrated probabilities."""
    g = torch.Generator().manual_seed(seed)
    z = strength * torch.randn(n, dtype=torch.float64, generator=g)
    y = (torch.rand(n, dtype=torch.float64, generator=g) < torch.sigmoid(z)).long()
    return float(CrossEntropyLoss()(z, y)), float(((z > 0).long() != y).double().mean())


def check_entropy(
    seed: int = 0, sizes: tuple[int, ...] = (1_000, 100_000, 1_000_000)
) -> list[Finding]:
    """001 section 5.1: cross-entropy and accuracy have different limits as n grows.

    Their difference stays, and it is not one number: it depends on how sure the network is.
    """
    found, limits = [], []
    for strength in (1.0, 4.0):
        for n in sizes:
            entropy, errors = entropy_and_errors(n, strength, seed)
            what = f"n = {n:,}, logits of spread {strength:g}: cross-entropy minus share of errors"
            found.append(Finding(what, "not → 0", entropy - errors, abs(entropy - errors) > 0.05))
        limits.append(entropy - errors)
    apart = abs(limits[0] - limits[1])
    return [*found, Finding("the two limits differ by", "not → 0", apart, apart > 0.05)]


def _losses(loss: object) -> Tensor:
    """Of a positive and of a negative, each at probabilities from 0.01 to 0.99."""
    z = torch.logit(torch.linspace(0.01, 0.99, 99, dtype=torch.float64))
    each = [loss(one.unsqueeze(0), torch.tensor([y])) for y in (1, 0) for one in z]  # type: ignore[operator]
    return torch.stack(each).double()


def check_small_q(seed: int = 0) -> list[Finding]:
    """004 equation 25: the generalized surrogate is the surrogate as q → 0."""
    del seed
    found = []
    for beta in BETAS:
        exact, limit = (
            _losses(SurrogateFBetaLoss(0.5, beta, q, class_balanced=False)) for q in (0.0, _SMALL)
        )
        apart = float((exact - limit).abs().max())
        found.append(at_most(f"β = {beta:g}, q = {_SMALL:g}: largest difference", 1e-4, apart))
    return found


def check_mae(seed: int = 0) -> list[Finding]:
    """004 equation 25: at q = 1, β = 1 and p = 0.5 it is the MAE of equation 14."""
    del seed
    one = _losses(SurrogateFBetaLoss(0.5, 1.0, 1.0, class_balanced=False))
    ratios = one / _losses(MeanAbsoluteErrorLoss())
    least, most = float(ratios.min()), float(ratios.max())
    wrong = Finding("ratio to the MAE of eq. 14, 2 - 2 f_y", "1", most, abs(most - 1) < 1e-9,
                    "eq. 14 has a factor of 2 that eq. 25 has not")  # fmt: skip
    return [wrong, near("smallest ratio to half of that MAE", 1.0, 2 * least, 1e-9)]


def f1_on_clean_rows(q: float, noise: float, seed: int, n: int = 2_000, steps: int = 200) -> float:
    """F1 at 0.5, on clean rows, of a linear model trained by equation 25 on flipped labels."""
    x, y = draw_classes(n, 0.2, seed)
    g = torch.Generator().manual_seed(seed)
    noisy = torch.where(torch.rand(n, generator=g) < noise, 1 - y, y)
    loss = SurrogateFBetaLoss(float(noisy.double().mean()), 1.0, q)
    theta = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(free_line(theta, x), noisy).backward()
        optimizer.step()
    x, y = draw_classes(10 * n, 0.2, seed + 1_000)
    called = (free_line(theta.detach(), x) > 0).long()
    return float(2 * (called * y).sum() / (called.sum() + y.sum()))


def check_noise(seed: int = 0, seeds: int = 3) -> list[Finding]:
    """004 equation 25: q controls how robust the loss is to noise in the labels."""
    lost, found = [], []
    for q in (0.0, 0.5, 1.0):
        clean, noisy = (
            sum(f1_on_clean_rows(q, noise, seed + s) for s in range(seeds)) / seeds
            for noise in (0.0, _NOISE)
        )
        lost.append(clean - noisy)
        less = len(lost) == 1 or lost[-1] < lost[-2]
        what = f"q = {q:g}: F1 lost by {_NOISE:.0%} of the labels flipped (without: {clean:.3f})"
        found.append(Finding(what, "less as q grows" if q else "some", lost[-1], less))
    return [
        *found,
        at_most("the same at q = 1, as a share of that at q = 0", 0.1, lost[-1] / lost[0]),
    ]
