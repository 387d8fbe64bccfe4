"""The best cut for a metric, exactly, over all cuts; offsets for several classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softset.counting import Confusion, arrange, confusion, to_logits
from softset.evaluation import all_cuts
from softset.metrics import Custom, Metric, MetricLike, get_metric
from softset.steps import IdentityStep

_MAX_PASSES = 20
# Confusions looked at together in a search over several classes: bounds memory.
_BLOCK = 2**20
# Rows of each class that a cut is searched over; more are merged into so many groups.
GROUPS = 512


@torch.no_grad()
def best_threshold(
    scores: Any,
    target: Any,
    metric: MetricLike,
    *,
    task: str = "binary",
    from_logits: bool = True,
    sample_weight: Any = None,
    class_weight: Any = None,
    ignore_index: int | None = None,
) -> Any:
    """The threshold in (0, 1) with the highest ``metric``: a float, or a list of one a label.

    Every cut is tried, "predict all" and "predict none" included, by one sort; a threshold lies
    half-way between two neighbouring probabilities. Of equally good ones the nearest to 1/2 is
    taken. Labels are tuned each on its own where the average allows it (macro, weighted, none),
    else in turn until nothing improves.

    >>> import torch
    >>> p = torch.tensor([0.25, 0.5, 0.625, 0.75])
    >>> best_threshold(p, torch.tensor([0, 1, 1, 1]), "f1", from_logits=False)
    0.375
    """
    m = _thresholded(metric)
    if task == "multiclass":
        raise ValueError("best_threshold is for task='binary' and 'multilabel'. Use best_offsets.")
    problem = arrange(
        scores,
        target,
        task=task,
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
    )
    p, cuts = all_cuts(problem, from_logits)
    taus, valid = _between(p)
    if task == "binary":
        return float(taus[_pick(m(cuts), taus, valid)])
    per_label = isinstance(getattr(m, "beta", None), tuple)
    if isinstance(m, Custom) or m.average == "micro" or per_label:
        return _tune_in_turn(m, cuts, taus, valid)
    values = replace(m, both_classes=False)(replace(cuts, task="binary"))
    return [float(t[_pick(v, t, ok)]) for v, t, ok in zip(values, taus, valid, strict=True)]


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


def _thresholded(metric: MetricLike) -> Metric:
    m = get_metric(metric)
    if m.curve:
        raise ValueError(f"metric {m.name!r} is over all thresholds: there is none to choose.")
    if m.average is None:
        raise ValueError("average=None gives several numbers, there is no best. Use 'macro'.")
    return m


def _between(p: Tensor) -> tuple[Tensor, Tensor]:
    """A threshold for each cut, half-way to the next lower probability, and whether it exists."""
    edge = torch.zeros_like(p[..., :1])
    low, high = torch.cat([edge, p], -1), torch.cat([p, edge + 1], -1)
    middle = (low + high) / 2
    taus = torch.where(middle > low, middle, high)
    return taus, (taus > low) & (taus < 1)


def _pick(values: Tensor, taus: Tensor, valid: Tensor) -> int:
    """The best cut; of equal ones that nearest to 1/2."""
    values = torch.where(valid, values, float("-inf"))
    good = values >= values.max() - 1e-12
    return int(torch.where(good, (taus - 0.5).abs(), float("inf")).argmin())


def _tune_in_turn(m: Metric, cuts: Confusion, taus: Tensor, valid: Tensor) -> list[float]:
    """Labels share one number: improve them in turn, each exactly, the others held."""
    labels = taus.shape[0]
    start = [_pick(-(t - 0.5).abs(), t, ok) for t, ok in zip(taus, valid, strict=True)]
    chosen, best = torch.tensor(start, device=taus.device), float("-inf")
    for _ in range(_MAX_PASSES):
        before = best
        for label in range(labels):
            at = chosen.unsqueeze(-1)
            now = cuts.map(lambda t, at=at: t.gather(-1, at).squeeze(-1))
            blocks = torch.split(torch.arange(taus.shape[-1]), max(1, _BLOCK // labels))
            values = [m(_with_label(now, cuts, label, part)) for part in blocks]
            scores = torch.cat(values)
            pick = _pick(scores, taus[label], valid[label])
            if float(scores[pick]) > best + 1e-12:
                best, chosen[label] = float(scores[pick]), pick
        if best <= before:
            break
    return taus.gather(-1, chosen.unsqueeze(-1)).squeeze(-1).tolist()


def _with_label(now: Confusion, cuts: Confusion, label: int, part: Tensor) -> Confusion:
    """``now`` with one label at each of some cuts: ``[cuts, labels]``."""

    def moved(t: Tensor, at_cuts: Tensor) -> Tensor:
        rows = t.expand(len(part), len(t)).clone()
        rows[:, label] = at_cuts[label, part]
        return rows

    return Confusion(
        moved(now.tp, cuts.tp),
        moved(now.predicted, cuts.predicted),
        moved(now.support, cuts.support),
        moved(now.total, cuts.total),
        "multilabel",
    )


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


def smooth_cut(
    z: np.ndarray, y: np.ndarray, w: np.ndarray | None, metric: Metric
) -> tuple[float, float]:
    """The score to cut at for the best ``metric``, and that metric, smoothed; ``z`` is ``(N,)``.

    A few positives make the metric of hard cuts so jagged that its highest peak is luck. So counts
    at a cut ``b`` are soft here, ``sigmoid((z - b) / T)``, with ``T = 2 m^(-1/3)`` for ``m`` rows
    of the rarer class: the bandwidth of a kernel estimate, which vanishes as data grows.
    """
    w = np.ones(len(z)) if w is None else w
    parts = [_grouped(z[y == k], w[y == k]) for k in (0, 1)]
    scores, weights = (np.concatenate(pair) for pair in zip(*parts, strict=True))
    target = np.repeat([0, 1], [len(parts[0][0]), len(parts[1][0])])
    rarer = min(np.bincount(y, minlength=2))
    temperature = 2 * rarer ** (-1 / 3)
    at = np.linspace(0, 1, 64)
    cuts = np.unique([np.quantile(s, at) for s in (scores, parts[1][0])])
    c = confusion(
        (scores - cuts[:, None]) / temperature,
        target,
        step=IdentityStep(),
        sample_weight=weights,
        batch_dims=1,
    )
    values = metric(c)
    best = int(values.argmax())
    return float(cuts[best]), float(values[best])


def _grouped(z: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most ``GROUPS`` neighbouring groups: their mean scores and their weights."""
    order = np.argsort(z, kind="stable")
    z, w = z[order], w[order]
    if len(z) <= GROUPS:
        return z, w
    first = np.linspace(0, len(z), GROUPS, endpoint=False).astype(int)
    weight = np.add.reduceat(w, first)
    return np.add.reduceat(z * w, first) / weight, weight
