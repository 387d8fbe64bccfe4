"""Cuts of rare labels and offsets of rare classes, drawn towards what all of them share.

The best cut of a label with five positives is luck (Lin and Lin, CIKM 2023). What the labels share
is ``a + b logit(prior)``: with ``b = 0`` one threshold for all of them, with ``b = 1`` one by how
rare a label is. What classes share is ``-t log(prior)``. Both are few numbers, tuned on all rows.
``benchmarks/labels.py`` has what it is worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.cuts import Cuts
from softset.metrics.base import Metric
from softset.tasks import BINARY

# What is shared counts as much as so many positives of a label, or rows of a class.
OF_LABEL, OF_CLASS = 20.0, 50.0
# b, and t.
BY_PRIOR = (0.0, 0.5, 1.0)
BY_LOG_PRIOR = tuple(i / 10 for i in range(21))
# Values of a that are tried, at quantiles of all scores and of the positives'.
_QUANTILES = 64


def shrunk_cuts(
    metric: Metric,
    s: Tensor,
    y: Tensor,
    cuts: Cuts,
    own: Tensor,
    strength: float = OF_LABEL,
    there: Tensor | None = None,
) -> Tensor:
    """``own`` cuts ``[labels]`` of scores and labels ``[labels, n]``, drawn towards shared ones.
    Scores that are not ``there`` weigh nothing, and are out of the way of the others.

    A label keeps its own if both decide its rows alike, or if the metric of its rows speaks clearly
    for it: by more than ``1 / sqrt(positives)``.
    """
    there = torch.ones_like(y, dtype=torch.bool) if there is None else there
    if there.sum() < 2:
        return own  # there is nothing between scores
    order = s.sort(-1).values.contiguous()
    counts = cuts.counts
    support, total = counts.support[:, 0], counts.total[:, 0]
    rows = there.sum(-1)
    positives = rows * support / total

    def at(places: Tensor) -> Confusion:
        """The counts at cuts ``[labels, k]``, as ``[k, labels]``."""
        number = torch.searchsorted(order, places.contiguous())
        return counts.map(lambda t: t.gather(-1, number).mT)

    prior = torch.logit((positives + 1) / (rows + 2))
    best, shared = -float("inf"), torch.zeros_like(prior)
    for b in BY_PRIOR:
        places = _places(s - b * prior[:, None], y, there) + b * prior[:, None]
        values = metric(at(places))
        k = int(values.argmax())
        if values[k] > best:
            best, shared = float(values[k]), places[:, k]
    drawn = (positives * own + strength * shared) / (positives + strength)
    both = torch.stack([own, drawn], -1)
    each = replace(metric, both_classes=False)(replace(at(both), task=BINARY))
    alike = torch.searchsorted(order, both).diff(dim=-1).squeeze(-1) == 0
    clearly = each[0] - each[1] > positives.clamp(min=1).rsqrt()
    return torch.where(alike | clearly | ~drawn.isfinite(), own, drawn)


def shrunk_offsets(
    y: Tensor,
    w: Tensor,
    own: Tensor,
    value: Callable[[Tensor], float],
    strength: float = OF_CLASS,
) -> Tensor:
    """``own`` offsets of classes, drawn towards shared ones; ``value`` is the metric by offsets.

    They stay if the metric speaks clearly for them: by more than ``1 / sqrt(rows of a class)`` in
    the mean over classes.
    """
    rows = torch.zeros_like(own).scatter_add(0, y, w.to(own)) * len(w) / w.sum()
    log_prior = ((rows + 1) / (rows + 1).sum()).log()
    shared = max((-t * log_prior for t in BY_LOG_PRIOR), key=value)
    # Offsets are up to a constant: both are taken from their mean over rows.
    own, shared = (offsets - offsets @ rows / rows.sum() for offsets in (own, shared))
    drawn = (rows * own + strength * shared) / (rows + strength)
    clearly = value(own) - value(drawn) > float(rows.clamp(min=1).rsqrt().mean())
    found = own if clearly else drawn
    return found - found[-1]


def _places(s: Tensor, y: Tensor, there: Tensor) -> Tensor:
    """Values to cut at, ``[1, k]``: in the middle between two scores, of any labels."""
    known = s[there].sort().values
    at = torch.linspace(0, 1, _QUANTILES, dtype=known.dtype)
    positive = s[there & (y > 0)].sort().values
    wanted = [part[(at * (len(part) - 1)).long()] for part in (known, positive) if len(part)]
    number = torch.searchsorted(known, torch.cat(wanted).sort().values).clamp(min=1)
    return ((known[number - 1] + known[number]) / 2).unsqueeze(0)
