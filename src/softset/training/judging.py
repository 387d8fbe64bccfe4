"""Losses and metrics of a stack of networks: scores ``[K, N, ...]`` in, a number for each out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softset.counting.problem import arrange
from softset.counting.steps import Step
from softset.decisions.evaluation import evaluate, evaluate_problem
from softset.losses.loss import Mixture
from softset.losses.soft_metric import MetricLoss
from softset.metrics.registry import MetricLike, get_goal
from softset.tasks import Task
from softset.typing import Settings

if TYPE_CHECKING:
    from softset.training.phases import Loss


def member_losses(
    loss: Loss, scores: Tensor, target: Tensor, weight: Tensor | None, step: Step | None = None
) -> Tensor:
    """One loss for each member ``[K]`` of scores ``[K, N, ...]``.

    ``target`` and ``weight`` are shared ``[N, ...]`` or ``[K, N, ...]``; ``step`` takes the place
    of the loss's own. Losses of ours, and those with ``of_members(scores, target, weight)``, go
    through in one pass, others member by member.
    """
    if isinstance(loss, MetricLoss):
        return loss.of_members(scores, target, weight, step)
    if isinstance(loss, Mixture):
        parts = [member_losses(one, scores, target, weight, step) for one in loss.losses]
        return loss.weighted(parts)
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


def batch_loss(
    loss: Loss,
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    per: Tensor | None = None,
) -> Tensor:
    """The loss of one network's batch; set numbers go to a loss that takes them."""
    if per is not None and getattr(loss, "takes_sets", False):
        value = loss(scores, target, weight, per)
    else:
        value = loss(scores, target) if weight is None else loss(scores, target, weight)
    if value.dim() != 0:
        raise ValueError(
            f"loss must give one number, got shape {list(value.shape)}. For the mean over images "
            "use per='image' instead of batch_dims."
        )
    return value


def member_metrics(
    metric: MetricLike,
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    task: Task,
    **settings: Any,
) -> Tensor:
    """The metric of hard decisions for each member, ``[K]``, of a shared target; ``settings`` as
    for ``evaluate``."""
    goal = get_goal(metric)
    if goal.by_scores:  # one at a time: a sort of all scores takes memory
        arguments: Settings = {
            "task": task,
            "from_logits": True,
            "sample_weight": weight,
            **settings,
        }
        each = [evaluate(s, target, goal, **arguments) for s in scores]
        return torch.tensor(each, dtype=torch.float64)
    problem = arrange(
        scores,
        target,
        task=task,
        from_logits=True,
        sample_weight=weight,
        batch_dims=1,
        **settings,
    )
    return evaluate_problem(problem, goal)


def soft_metric(metric: MetricLike, task: Task, **settings: Any) -> MetricLoss | None:
    """To watch the soft metric while training for another loss; some metrics have none."""
    try:
        return MetricLoss(metric, task=task, from_logits=True, **settings)
    except ValueError:
        return None
