"""The best threshold for a metric, exactly, over all cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.problem import arrange, probabilities
from softset.counting.values import check_labels, refuse_rows
from softset.decisions.cuts import EQUAL, Cuts, all_cuts, pick
from softset.decisions.evaluation import warn_of_probabilities
from softset.decisions.shrinking import shrunk_cuts
from softset.metrics.base import Metric
from softset.metrics.custom import Custom
from softset.metrics.registry import MetricLike, decided_elsewhere, one_number

MAX_PASSES = 20
# Confusions looked at together in a search over several labels or classes: bounds memory.
BLOCK = 2**20


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
    shrink: bool = False,
) -> Any:
    """The threshold in (0, 1) with the highest ``metric``: a float, or a list of one a label.

    Every cut is tried, "predict all" and "predict none" included, by one sort. Of equally good
    cuts the one in the widest gap between two scores is taken, at its middle, both in logits; the
    gaps outside of all scores count as two logits wide. Labels are tuned each on its own where
    the average allows it (macro, weighted, none), else in turn until nothing improves.

    With ``shrink``, thresholds of labels that are tuned each on its own are then drawn towards one
    that all labels share, the more the fewer positives a label has: the best threshold of five
    positives is luck.

    >>> import torch
    >>> p = torch.tensor([0.2, 0.8, 0.9, 0.95])
    >>> round(best_threshold(p, torch.tensor([0, 1, 1, 1]), "f1", from_logits=False), 6)
    0.5
    """
    m = thresholded(metric)
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
    warn_of_probabilities(problem)
    # Probabilities as `evaluate` sees them: what is equal there cannot be told apart.
    p = probabilities(problem.z, task, from_logits).double()
    if torch.isnan(p).any():
        refuse_rows(torch.isnan(p))
    check_labels(problem.y)
    s = torch.logit(p)
    cuts = all_cuts(s, problem.y, problem.w, task)
    chosen = best_cuts(m, cuts)
    if shrink and task == "multilabel" and alone(m):
        chosen = shrunk_cuts(m, s, problem.y, cuts, chosen)
    taus = [
        _between(own, float(at))
        for own, at in zip(p.reshape(-1, p.shape[-1]), chosen.reshape(-1), strict=True)
    ]
    return taus[0] if task == "binary" else taus


def best_cuts(m: Metric, cuts: Cuts) -> Tensor:
    """The logit to cut at, ``[]``, or that of each label ``[labels]``."""
    place, width, counts = cuts
    if counts.task == "binary":
        return place[pick(m(counts), place, width)]
    if not alone(m):
        return _tune_in_turn(m, cuts)
    values = replace(m, both_classes=False)(replace(counts, task="binary"))
    each = zip(values, place, width, strict=True)
    return torch.stack([own[pick(v, own, wide)] for v, own, wide in each])


def alone(m: Metric) -> bool:
    """Whether the best cut of a label does not depend on the others'."""
    per_label = isinstance(getattr(m, "beta", None), tuple)
    return not (isinstance(m, Custom) or m.average == "micro" or per_label)


def thresholded(metric: MetricLike) -> Metric:
    """The metric, if there is a threshold to choose for it."""
    m = one_number(decided_elsewhere(metric))
    if m.curve:
        raise ValueError(f"metric {m.name!r} is over all thresholds: there is none to choose.")
    return m


def _between(p: Tensor, logit: float) -> float:
    """The cut as a probability that separates the same probabilities, despite rounding."""
    s = torch.logit(p)
    low = float(p[s < logit].max()) if (s < logit).any() else 0.0
    high = float(p[s >= logit].min()) if (s >= logit).any() else 1.0
    tau = float(torch.sigmoid(torch.tensor(logit, dtype=torch.float64)))
    if not low < tau <= high:
        tau = low + (high - low) / 2
    return tau if low < tau < 1 else high if high < 1 else (low + 1) / 2


def _tune_in_turn(m: Metric, cuts: Cuts) -> Tensor:
    """Labels share one number: improve them in turn, each exactly, the others held."""
    place, width, counts = cuts
    labels = place.shape[0]
    near = torch.where(width > 0, place.abs(), float("inf"))
    chosen, best = near.argmin(-1), float("-inf")
    for _ in range(MAX_PASSES):
        before = best
        for label in range(labels):
            at = chosen.unsqueeze(-1)
            now = counts.map(lambda t, at=at: t.gather(-1, at).squeeze(-1))
            blocks = torch.split(torch.arange(place.shape[-1]), max(1, BLOCK // labels))
            values = torch.cat([m(_with_label(now, counts, label, part)) for part in blocks])
            k = pick(values, place[label], width[label])
            if float(values[k]) > best + EQUAL:
                best, chosen[label] = float(values[k]), k
        if best <= before:
            break
    return place.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def _with_label(now: Confusion, counts: Confusion, label: int, part: Tensor) -> Confusion:
    """``now`` with one label at each of some cuts: ``[cuts, labels]``."""

    def moved(t: Tensor, at_cuts: Tensor) -> Tensor:
        rows = t.expand(len(part), len(t)).clone()
        rows[:, label] = at_cuts[label, part]
        return rows

    return Confusion(
        moved(now.tp, counts.tp),
        moved(now.predicted, counts.predicted),
        moved(now.support, counts.support),
        moved(now.total, counts.total),
        "multilabel",
    )
