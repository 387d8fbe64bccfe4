"""The mask with the best expected Dice, from the probabilities of its positions (RankSEG).

If positions are independent given the image, the best mask takes the most probable ones, and how
many is found by the expected Dice of each number of them (Dai and Li 2023).
"""

from __future__ import annotations

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.arguments import as_numbers
from softset.counting.values import check_not_nan
from softset.tasks import TASKS, get_task
from softset.typing import TensorLike

# Up to so many positions the expectation is exact, in quadratic time; for more, the number of
# positives is approximated as normal.
EXACT = 256
# Standard deviations of that number that the sum covers.
REACH = 8.0
DECIDE = ("threshold", "expected-dice")


@torch.no_grad()
def expected_dice_mask(
    scores: TensorLike, *, task: str = "binary", from_logits: bool = True
) -> Tensor:
    """The mask of each image with the best expected Dice: True and False, in the shape of scores.

    Args:
        scores: ``(N, *)``, ``(N, 1, *)``, or for each label its own mask ``(N, L, *)``; calibrated
            logits, or probabilities.
        task: ``"binary"`` or ``"multilabel"``.

    An empty mask is one of the choices, and counts 1 where there is nothing. Up to 256 positions
    the expectation is exact; beyond, the number of positives is approximated as normal.

    >>> expected_dice_mask([[0.4, 0.3, 0.3, 0.02]], from_logits=False).tolist()
    [[True, True, True, False]]
    """
    check_choice("task", task, [t for t in TASKS.values() if not t.exclusive])
    task = get_task(task)
    z = as_numbers("scores", scores)
    s = z.to("cpu", torch.float64)
    p = torch.sigmoid(s) if from_logits else s
    check_not_nan(p, torch.isnan(p))
    if not from_logits and p.numel() and not (p.min() >= 0 and p.max() <= 1):
        raise ValueError("scores must be probabilities in [0, 1] with from_logits=False.")
    lead = 1 if task.single else 2
    if p.dim() < lead + 1:
        expected = "(N, ...) or (N, 1, ...)" if task.single else "(N, L, ...)"
        raise ValueError(f"scores must be {expected}, of positions of images, got {list(z.shape)}.")
    rows, ranked = (t.reshape(p.shape[:lead].numel(), -1) for t in (p, s))
    masks = torch.zeros_like(rows, dtype=torch.bool)
    for row, by, mask in zip(rows, ranked, masks, strict=True):
        order = by.argsort(descending=True, stable=True)
        mask[order[: best_size(row[order])]] = True
    return masks.reshape(p.shape).to(z.device)


def best_size(p: Tensor) -> int:
    """Number of the largest probabilities with the best expected Dice, ``p`` descending.

    >>> best_size(torch.tensor([0.9, 0.6, 0.1], dtype=torch.float64))
    2
    """
    values = _exact(p) if len(p) <= EXACT else _normal(p)
    return int(torch.cat([(1 - p).prod().reshape(1), values]).argmax())


def _exact(p: Tensor) -> Tensor:
    """``E[2 S_t / (t + S_t + R_t)]`` for t = 1 … n, where ``S_t`` counts the positives among the
    first t and ``R_t`` those among the others, in quadratic time (Ye et al. 2012): ``s(t, a) =
    E[1 / (a + R_t)]`` goes back to t - 1 by ``p_t s(t, a + 1) + (1 - p_t) s(t, a)``."""
    n = len(p)
    first = torch.zeros(n + 1, n + 1, dtype=p.dtype)  # row t: the distribution of S_t
    first[0, 0] = 1
    for t in range(1, n + 1):
        first[t] = (1 - p[t - 1]) * first[t - 1]
        first[t, 1:] += p[t - 1] * first[t - 1, :-1]
    s = 1 / torch.arange(1, 2 * n + 1, dtype=p.dtype)  # at a = 1 … 2n
    values = torch.empty(n, dtype=p.dtype)
    number = torch.arange(n + 1, dtype=p.dtype)
    for t in range(n, 0, -1):
        values[t - 1] = 2 * (number[: t + 1] * first[t, : t + 1] * s[t - 1 : 2 * t]).sum()
        s = p[t - 1] * s[1:] + (1 - p[t - 1]) * s[:-1]
    return values


def _normal(p: Tensor) -> Tensor:
    """``sum_{j <= t} p_j E[2 / (t + 1 + G)]`` for t = 1 … n, where the number ``G`` of positives is
    normal, and position j is not taken out of it (RankSEG's blind approximation)."""
    n = len(p)
    mean, spread = p.sum(), (p * (1 - p)).sum().sqrt().clamp(min=1e-9)
    low = max(0, int(mean - REACH * spread))
    g = torch.arange(low, min(n, int(mean + REACH * spread) + 1) + 1, dtype=p.dtype)
    below = torch.special.ndtr((torch.cat([g[:1] - 1, g]) + 0.5 - mean) / spread)
    mass = below.diff() / below.diff().sum()
    # sum_g mass_g / (t + 1 + g) for all t: a correlation with 1/x, in one product of spectra.
    inverse = 1 / torch.arange(2 + low, 2 + low + n + len(g) - 1, dtype=p.dtype)
    size = len(inverse) + len(g)
    spectrum = torch.fft.rfft(inverse, size) * torch.fft.rfft(mass, size).conj()
    mean_inverse = torch.fft.irfft(spectrum, size)[:n]
    return 2 * p.cumsum(0) * mean_inverse
