"""The best threshold for a metric, exactly, over all cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.counting.problem import arrange
from softset.decisions.evaluation import all_cuts
from softset.metrics.base import Metric
from softset.metrics.custom import Custom
from softset.metrics.registry import MetricLike, one_number

_MAX_PASSES = 20
# Confusions looked at together in a search over several classes: bounds memory.
_BLOCK = 2**20


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


def _thresholded(metric: MetricLike) -> Metric:
    m = one_number(metric)
    if m.curve:
        raise ValueError(f"metric {m.name!r} is over all thresholds: there is none to choose.")
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
