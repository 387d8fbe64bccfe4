"""Losses and metrics of a stack of networks: scores ``[K, N, ...]`` in, a number for each out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import Confusion, confusion
from softset.decisions.evaluation import evaluate
from softset.losses.soft_metric import MetricLoss
from softset.metrics.base import Metric
from softset.metrics.registry import MetricLike
from softset.training.phases import Loss


def member_losses(
    loss: Loss, scores: Tensor, target: Tensor, weight: Tensor | None, step: Any = None
) -> Tensor:
    """One loss for each member ``[K]`` of scores ``[K, N, ...]``.

    ``target`` and ``weight`` are shared ``[N, ...]`` or ``[K, N, ...]``; ``step`` takes the place
    of the loss's own. Losses of ours, and those with ``of_members(scores, target, weight)``, go
    through in one pass, others member by member.
    """
    if isinstance(loss, MetricLoss):
        return loss.of_members(scores, target, weight, step)
    if hasattr(loss, "of_members"):
        values: Tensor = loss.of_members(scores, target, weight)
        return values
    own_target = target.dim() == scores.dim() - (1 if _is_multiclass(target, scores) else 0)
    own_weight = weight is not None and weight.dim() == 2
    each = []
    for k, member in enumerate(scores):
        y = target[k] if own_target else target
        if weight is None:
            each.append(loss(member, y))
        else:
            each.append(loss(member, y, weight[k] if own_weight else weight))
    return torch.stack(each)


def _is_multiclass(target: Tensor, scores: Tensor) -> bool:
    return scores.dim() == 3 and not target.is_floating_point()


def member_metrics(
    metric: Metric, scores: Tensor, target: Tensor, weight: Tensor | None, task: str
) -> Tensor:
    """The metric of hard decisions for each member, ``[K]``, of a shared target."""
    if metric.curve:
        values = [evaluate(s, target, metric, task=task, sample_weight=weight) for s in scores]
        return torch.tensor(values, dtype=torch.float64)
    c: Confusion = confusion(
        scores,
        target,
        task=task,
        sample_weight=weight,
        batch_dims=1,
        matrix=metric.wants_matrix(task, scores.shape[-1]),
    )
    return metric(c)


def soft_metric(metric: MetricLike, task: str) -> MetricLoss | None:
    """To watch the soft metric while training for another loss; some metrics have none."""
    try:
        return MetricLoss(metric, task=task)
    except ValueError:
        return None
