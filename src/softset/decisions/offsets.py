"""The best offsets of several classes for a metric."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import Confusion, confusion
from softset.counting.problem import arrange, to_logits
from softset.decisions.thresholds import _BLOCK, _MAX_PASSES, _thresholded
from softset.metrics.base import Metric
from softset.metrics.registry import MetricLike


@torch.no_grad()
def best_offsets(
    scores: Any,
    target: Any,
    metric: MetricLike,
    *,
    from_logits: bool = True,
    sample_weight: Any = None,
    class_weight: Any = None,
    ignore_index: int | None = None,
) -> list[float]:
    """Offsets of the classes' log-probabilities with a high ``metric``, by coordinate ascent.

    In turn, each class gets the best offset of all, exactly (every row changes its class at one
    value, one sort), until no class improves: a local optimum, never worse than no offsets.

    >>> import torch
    >>> z = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    >>> best_offsets(z, torch.tensor([0, 1, 1]), "accuracy")
    [-1.5, 0.0]
    """
    m = _thresholded(metric)
    problem = arrange(
        scores,
        target,
        task="multiclass",
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
    )
    z, y, w, _, _ = problem
    s = to_logits(z, from_logits)
    best = float(m(confusion(s, y, task="multiclass", sample_weight=w)))  # refuses NaN, too
    w = torch.ones_like(y, dtype=torch.float64) if w is None else w
    offsets = torch.zeros(s.shape[-1], dtype=torch.float64)
    for _ in range(_MAX_PASSES):
        before = best
        for k in range(len(offsets)):
            value, offset = _best_offset(m, s + offsets, y, w, k)
            if value > best + 1e-12:
                best, offsets[k] = value, offsets[k] + offset
        if best <= before:
            break
    return (offsets - offsets[-1]).tolist()


def _best_offset(m: Metric, s: Tensor, y: Tensor, w: Tensor, k: int) -> tuple[float, float]:
    """The best shift of class k and its metric."""
    n, classes = s.shape
    others = s.clone()
    others[:, k] = float("-inf")
    rival, other = others.max(-1)
    flip = rival - s[:, k]  # shifted by more, the row goes to class k; infinite: always or never
    flip = torch.where(torch.isnan(flip), 0.0, flip)  # a row without any class
    flip, order = flip.sort(stable=True)
    y, w, other = y[order], w[order], other[order]
    zeros = torch.zeros(classes, dtype=torch.float64, device=s.device)
    support = zeros.scatter_add(0, y, w)
    predicted = zeros.scatter_add(0, other, w)
    tp = zeros.scatter_add(0, y, w * (other == y))
    # Shifts between neighbouring flips, and one beyond each end. Some rows never change.
    end = torch.full_like(flip[:1], float("inf"))
    low, high = torch.cat([-end, flip]), torch.cat([flip, end])
    shifts = torch.where(
        high.isinf(), low + 1, torch.where(low.isinf(), high - 1, (low + high) / 2)
    )
    real = (low < high) & shifts.isfinite()
    best, shift = float("-inf"), 0.0
    block = max(1, _BLOCK // classes)
    for first in range(0, n + 1, block):
        # Row i of this block: the first `first + i` rows have gone over to class k.
        last = min(first + block, n + 1)
        moved = slice(max(first, 1) - 1, last - 1)
        delta_pred = torch.zeros(last - first, classes, dtype=torch.float64, device=s.device)
        delta_tp = torch.zeros_like(delta_pred)
        row = torch.arange(max(first, 1) - first, last - first, device=s.device)
        delta_pred[row, other[moved]] -= w[moved]
        delta_pred[row, k] += w[moved]
        delta_tp[row, other[moved]] -= w[moved] * (other[moved] == y[moved])
        delta_tp[row, k] += w[moved] * (y[moved] == k)
        block_pred, block_tp = predicted + delta_pred.cumsum(0), tp + delta_tp.cumsum(0)
        predicted, tp = block_pred[-1], block_tp[-1]
        shape = block_tp.shape
        total = support.sum().expand(shape)
        c = Confusion(block_tp, block_pred, support.expand(shape), total, "multiclass")
        values = torch.where(real[first:last], m(c), float("-inf"))
        i = int(values.argmax())
        if float(values[i]) > best:
            best, shift = float(values[i]), float(shifts[first + i])
    return best, shift
