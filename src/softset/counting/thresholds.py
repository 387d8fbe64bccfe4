"""All thresholds of a column of scores: the counts at each, and where between two scores it lies.

A threshold never lies on a score. Of equally good thresholds the one in the widest gap between two
scores is taken, at its middle: there new rows have the largest margin on either side.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softset.counting.confusion import Confusion
from softset.tasks import Task

# A threshold below or above all scores lies one logit away from them: its gap counts as two logits.
OUTER = 2.0
# Values of a metric that differ by less are equal: they are rounding.
EQUAL = 1e-12


class Thresholds(NamedTuple):
    """Every threshold of scores ``[*lead, N]``: by number k, the k-th smallest score and all larger
    ones are positive (equal ones together); by the last one, none. Tensors are ``[*lead, N + 1]``.
    """

    logit: Tensor  # of the threshold
    width: Tensor  # of the gap it lies in; 0 between equal scores, where there is no threshold
    counts: Confusion


def all_thresholds(s: Tensor, y: Tensor, w: Tensor | None, task: Task) -> Thresholds:
    """The thresholds of logits ``s`` with labels ``y`` of 0 and 1, by one sort."""
    s, order = s.sort(dim=-1, stable=True)
    y = y.to(torch.float64).gather(-1, order)
    w = torch.ones_like(y) if w is None else w.to(torch.float64).expand_as(y).gather(-1, order)
    position = torch.arange(s.shape[-1], device=s.device)
    fresh = torch.ones_like(s, dtype=torch.bool)
    fresh[..., 1:] = s[..., 1:] != s[..., :-1]
    start = torch.where(fresh, position, 0).cummax(-1).values

    def from_threshold_on(x: Tensor) -> tuple[Tensor, Tensor]:
        below = torch.nn.functional.pad(x.cumsum(-1), (1, 0))
        total = below[..., -1:]
        at = (total - below[..., :-1]).gather(-1, start)
        return torch.cat([at, torch.zeros_like(total)], -1), total

    tp, support = from_threshold_on(w * y)
    predicted, total = from_threshold_on(w)
    counts = Confusion.from_sums(tp, predicted, support, total, task)
    return Thresholds(*gaps(s), counts)


def gaps(s: Tensor) -> tuple[Tensor, Tensor]:
    """The middle and the width of the gap below each sorted score, and of the one above all."""
    return gaps_between(*gap_ends(s))


def gap_ends(s: Tensor) -> tuple[Tensor, Tensor]:
    """The sorted scores below and above each gap; the outer ones are infinite."""
    end = torch.full_like(s[..., :1], float("inf"))
    return torch.cat([-end, s], -1), torch.cat([s, end], -1)


def gaps_between(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The middle and the width of each gap from ``low`` to ``high``."""
    inner = low.isfinite() & high.isfinite()
    middle = torch.where(inner, low / 2 + high / 2, 0.0)
    # Between two neighboring numbers there is none: then the threshold is the higher score itself.
    middle = torch.where(middle > low, middle, high)
    middle = torch.where(inner, middle, _outside(low, high))
    width = torch.where(inner, (high - low).clamp(max=torch.finfo(low.dtype).max), OUTER)
    return middle, torch.where(low < high, width, 0.0)


def _outside(low: Tensor, high: Tensor) -> Tensor:
    """One logit beyond the only finite end; 0 if neither is."""
    beyond = torch.where(low.isfinite(), low + OUTER / 2, high - OUTER / 2)
    return torch.where(low.isfinite() | high.isfinite(), beyond, 0.0)


def pick(values: Tensor, logit: Tensor, width: Tensor) -> int:
    """The number of the threshold with the largest value; of equally good ones that in the widest
    gap, then that nearest to 0. Between equal scores there is none, and the width is 0."""
    values = torch.where((width > 0) & ~values.isnan(), values, float("-inf"))
    good = values >= values.max() - EQUAL
    widest = torch.where(good, width, -1.0)
    good = good & (widest >= widest.max() * (1 - EQUAL))
    return int(torch.where(good, logit.abs(), float("inf")).argmin())
