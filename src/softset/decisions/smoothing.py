"""A threshold from smoothed counts: with few positives, the best hard one is mostly chance."""

from __future__ import annotations

import numpy as np
import torch

from softset.counting.cells import confusion
from softset.counting.problem import arrange
from softset.counting.steps import IdentityStep
from softset.counting.thresholds import all_thresholds, gaps, pick
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, get_goal
from softset.tasks import BINARY
from softset.typing import Floats, Ints

# Rows of each class that are searched; more are merged into so many groups.
GROUPS = 512
# Thresholds to try: at quantiles of all scores and of the positives', and in the widest gaps.
_QUANTILES, _WIDEST = 64, 16


def smooth_threshold(z: Floats, y: Ints, w: Floats, metric: MetricLike) -> tuple[float, float]:
    """The threshold of logits ``(n,)`` with the best smoothed ``metric``, and that metric.

    Counts at a threshold ``b`` are soft, ``sigmoid((z - b) / T)``, with ``T = s m^(-1/3)`` for
    ``m`` (effective) rows of the rarer class and the spread ``s`` of the scores, at most 2: the
    bandwidth of a kernel estimate, which vanishes as data grows. Thresholds lie in the middle of
    gaps between scores. For a goal whose rows determine the threshold, that one and its value.
    """
    goal = get_goal(metric)
    if goal.where.exact:
        return _exact_threshold(z, y, w, goal)
    fraction = w / w.sum()
    spread = float(np.sqrt(fraction @ (z - fraction @ z) ** 2))
    order = np.argsort(z, kind="stable")  # the only sort: of many rows it is most of the time
    z, y, w = z[order], y[order], w[order]
    groups = [_grouped(z[y == k], w[y == k]) for k in (0, 1)]
    scores, weights = (np.concatenate(pair) for pair in zip(*groups, strict=True))
    target = np.repeat([0, 1], [len(groups[0][0]), len(groups[1][0])])
    rarer = max(1.0, min(effective_rows(w[y == k]) for k in (0, 1)))
    temperature = max(min(2.0, spread) * rarer ** (-1 / 3), 1e-9)
    distinct = z[np.append(True, z[1:] != z[:-1])]
    place, width = gaps(torch.from_numpy(distinct))
    tried = _tried(z, z[y == 1], distinct, width)
    place, width = place[tried], width[tried]
    c = confusion(
        (scores - place.numpy()[:, None]) / temperature,
        target,
        step=IdentityStep(),
        sample_weight=weights,
        batch_dims=1,
        from_logits=True,
    )
    values = goal(c)
    best = pick(values, place, width)
    return float(place[best]), float(values[best])


def _exact_threshold(z: Floats, y: Ints, w: Floats, goal: Goal) -> tuple[float, float]:
    s, target, weight = (torch.from_numpy(np.ascontiguousarray(a)) for a in (z, y, w))
    problem = arrange(s, target, task=BINARY, from_logits=True, sample_weight=weight)
    place, width, counts = all_thresholds(s, target, weight, BINARY)
    best = pick(goal.at_thresholds(counts, width > 0), place, width)
    return float(place[best]), float(goal.hard_value(problem))


def effective_rows(w: Floats) -> float:
    """Effective number of rows: ``(sum w)^2 / sum w^2`` (Kish 1965).

    >>> effective_rows(np.array([2.0, 2.0, 2.0])), effective_rows(np.array([3.0, 1.0, 0.0]))
    (3.0, 1.6)
    """
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares > 0 else 0.0


def _tried(z: Floats, positives: Floats, distinct: Floats, width: torch.Tensor) -> torch.Tensor:
    """Indices of the gaps below ``distinct`` scores (the last is above all) to try."""
    at = np.linspace(0, 1, _QUANTILES)
    quantiles = [np.quantile(s, at) for s in (z, positives) if len(s)]
    near = np.searchsorted(distinct, np.concatenate(quantiles))
    widest = width.argsort(descending=True)[:_WIDEST].numpy()
    # Of a quantile that is a score, the gaps on both of its sides.
    return torch.from_numpy(np.unique([0, *near, *np.minimum(near + 1, len(distinct)), *widest]))


def _grouped(z: Floats, w: Floats) -> tuple[Floats, Floats]:
    """At most ``GROUPS`` neighboring groups of sorted scores: their means and their weights."""
    if len(z) <= GROUPS:
        return z, w
    first = np.linspace(0, len(z), GROUPS, endpoint=False).astype(int)
    weight = np.add.reduceat(w, first)
    return np.add.reduceat(z * w, first) / weight, weight
