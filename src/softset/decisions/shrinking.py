"""Thresholds of rare labels and offsets of rare classes, shrunk towards what all of them share.

The best threshold of a label with five positives is mostly chance (Lin and Lin, CIKM 2023).
What the labels share is ``a + b logit(prior)``: with ``b = 0`` one threshold for all of them, with
``b = 1`` one by how rare a label is. What classes share is ``-t log(prior)``. Both are few numbers,
tuned on all rows. ``benchmarks/labels.py`` measures the gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.thresholds import Thresholds
from softset.metrics.base import Metric
from softset.tasks import BINARY

# The weight of what is shared, in positives of a label, or rows of a class.
OF_LABEL, OF_CLASS = 20.0, 50.0
# b, and t.
BY_PRIOR = (0.0, 0.5, 1.0)
BY_LOG_PRIOR = tuple(i / 10 for i in range(21))
# Values of a that are tried, at quantiles of all scores and of the positives'.
_QUANTILES = 64


def shrunk_thresholds(
    metric: Metric,
    s: Tensor,
    y: Tensor,
    thresholds: Thresholds,
    tuned: Tensor,
    strength: float = OF_LABEL,
    counts: Tensor | None = None,
) -> Tensor:
    """``tuned`` thresholds ``[labels]`` of scores and labels ``[labels, n]``, shrunk towards shared
    ones. Only scores where ``counts`` have a weight; the others lie beyond them.

    A label keeps its tuned one if both decide its rows alike, or if the metric of its rows is
    better with it by more than ``1 / sqrt(positives)``.
    """
    counts = torch.ones_like(y, dtype=torch.bool) if counts is None else counts
    if counts.sum() < 2:
        return tuned  # no threshold lies between scores
    order = s.sort(-1).values.contiguous()
    cells = thresholds.counts
    support, total = cells.support[:, 0], cells.total[:, 0]
    rows = counts.sum(-1)
    positives = rows * support / total

    def at(places: Tensor) -> Confusion:
        """The counts at thresholds ``[labels, k]``, as ``[k, labels]``."""
        number = torch.searchsorted(order, places.contiguous())
        return cells.map(lambda t: t.gather(-1, number).mT)

    prior = torch.logit((positives + 1) / (rows + 2))
    best, shared = -float("inf"), torch.zeros_like(prior)
    for b in BY_PRIOR:
        places = _places(s - b * prior[:, None], y, counts) + b * prior[:, None]
        values = metric(at(places))
        k = int(values.argmax())
        if values[k] > best:
            best, shared = float(values[k]), places[:, k]
    shrunk = (positives * tuned + strength * shared) / (positives + strength)
    both = torch.stack([tuned, shrunk], -1)
    each = replace(metric, both_classes=False)(replace(at(both), task=BINARY))
    alike = torch.searchsorted(order, both).diff(dim=-1).squeeze(-1) == 0
    better = each[0] - each[1] > positives.clamp(min=1).rsqrt()
    return torch.where(alike | better | ~shrunk.isfinite(), tuned, shrunk)


def shrunk_offsets(
    y: Tensor,
    w: Tensor,
    tuned: Tensor,
    value: Callable[[Tensor], float],
    strength: float = OF_CLASS,
) -> Tensor:
    """``tuned`` offsets of classes, shrunk towards shared ones; ``value`` is the metric by offsets.

    They stay if the metric is better with them by more than ``1 / sqrt(rows of a class)`` in the
    mean over classes.
    """
    rows = torch.zeros_like(tuned).scatter_add(0, y, w.to(tuned)) * len(w) / w.sum()
    log_prior = ((rows + 1) / (rows + 1).sum()).log()
    shared = max((-t * log_prior for t in BY_LOG_PRIOR), key=value)
    # Offsets are up to a constant: both are centered over rows.
    tuned, shared = (offsets - offsets @ rows / rows.sum() for offsets in (tuned, shared))
    shrunk = (rows * tuned + strength * shared) / (rows + strength)
    better = value(tuned) - value(shrunk) > float(rows.clamp(min=1).rsqrt().mean())
    offsets = tuned if better else shrunk
    return offsets - offsets[-1]


def _places(s: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """Thresholds to try, ``[1, k]``: in the middle between two scores, of any labels."""
    ordered = s[counts].sort().values
    at = torch.linspace(0, 1, _QUANTILES, dtype=ordered.dtype)
    positive = s[counts & (y > 0)].sort().values
    quantiles = [z[(at * (len(z) - 1)).long()] for z in (ordered, positive) if len(z)]
    number = torch.searchsorted(ordered, torch.cat(quantiles).sort().values).clamp(min=1)
    return ((ordered[number - 1] + ordered[number]) / 2).unsqueeze(0)
