"""All cuts of a column of scores: the counts at each, and where in its gap a cut lies.

A cut never lies on a score. Of equally good cuts the one in the widest gap between two scores is
taken, at its middle: there new rows have most room on either side.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softset.counting.confusion import Confusion
from softset.tasks import Task

# A cut below or above all scores lies one logit away from them: its gap counts as two logits.
OUTER = 2.0
# Values of a metric that differ by less are equal: they are rounding.
EQUAL = 1e-12


class Cuts(NamedTuple):
    """Every cut of scores ``[*lead, N]``: cut k says positive from the k-th smallest score on
    (equal ones together), the last one never. All tensors are ``[*lead, N + 1]``."""

    place: Tensor  # the logit to cut at
    width: Tensor  # of the gap it lies in; 0 where two scores are equal and there is no cut
    counts: Confusion


def all_cuts(s: Tensor, y: Tensor, w: Tensor | None, task: Task) -> Cuts:
    """The cuts of logits ``s`` with labels ``y`` of 0 and 1, by one sort and cumulative sums."""
    s, order = s.sort(dim=-1, stable=True)
    y = y.to(torch.float64).gather(-1, order)
    w = torch.ones_like(y) if w is None else w.to(torch.float64).expand_as(y).gather(-1, order)
    position = torch.arange(s.shape[-1], device=s.device)
    fresh = torch.ones_like(s, dtype=torch.bool)
    fresh[..., 1:] = s[..., 1:] != s[..., :-1]
    start = torch.where(fresh, position, 0).cummax(-1).values

    def from_cut_on(x: Tensor) -> tuple[Tensor, Tensor]:
        below = torch.nn.functional.pad(x.cumsum(-1), (1, 0))
        total = below[..., -1:]
        at = (total - below[..., :-1]).gather(-1, start)
        return torch.cat([at, torch.zeros_like(total)], -1), total

    tp, support = from_cut_on(w * y)
    predicted, total = from_cut_on(w)
    counts = Confusion.from_sums(tp, predicted, support, total, task)
    return Cuts(*gaps(s), counts)


def gaps(s: Tensor) -> tuple[Tensor, Tensor]:
    """The middle and the width of the gap below each sorted score, and of the one above all."""
    end = torch.full_like(s[..., :1], float("inf"))
    low, high = torch.cat([-end, s], -1), torch.cat([s, end], -1)
    inner = low.isfinite() & high.isfinite()
    middle = torch.where(inner, low / 2 + high / 2, 0.0)
    # Between two neighboring numbers there is none: then the cut is the higher score itself.
    middle = torch.where(middle > low, middle, high)
    middle = torch.where(inner, middle, _outside(low, high))
    width = torch.where(inner, (high - low).clamp(max=torch.finfo(s.dtype).max), OUTER)
    return middle, torch.where(low < high, width, 0.0)


def _outside(low: Tensor, high: Tensor) -> Tensor:
    """One logit beyond the only finite end; 0 if neither is."""
    beyond = torch.where(low.isfinite(), low + OUTER / 2, high - OUTER / 2)
    return torch.where(low.isfinite() | high.isfinite(), beyond, 0.0)


def pick(values: Tensor, place: Tensor, width: Tensor) -> int:
    """The cut with the largest value; of equally good ones that in the widest gap, then that
    nearest to 0. Where two scores are equal there is none, and the width of the gap is 0."""
    values = torch.where((width > 0) & ~values.isnan(), values, float("-inf"))
    good = values >= values.max() - EQUAL
    widest = torch.where(good, width, -1.0)
    good = good & (widest >= widest.max() * (1 - EQUAL))
    return int(torch.where(good, place.abs(), float("inf")).argmin())
