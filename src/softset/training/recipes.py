"""Recipes: what a network is trained for, first and next; and the loss of every member at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from softset.checks import check_choice, check_number
from softset.counting.cells import Confusion, confusion
from softset.counting.numerics import working
from softset.counting.problem import arrange
from softset.counting.steps import LinearStep
from softset.decisions.evaluation import evaluate
from softset.losses.pointwise import CrossEntropyLoss, MeanLoss
from softset.losses.soft_metric import MetricLoss, metric_loss
from softset.metrics.base import Metric
from softset.metrics.custom import Custom
from softset.metrics.registry import MetricLike

RECIPES = ("cross-entropy", "metric", "metric-grid", "anneal", "warm")
GRID = tuple(i / 10 for i in range(1, 10))

Loss = Callable[..., Tensor]
RecipeLike = str | Loss | Sequence["Phase"]


@dataclass(frozen=True)
class Phase:
    """Train for ``loss`` until early stopping, with the learning rate times ``rate``.

    ``cooling`` are arguments of ``Annealing``: the temperature falls at each early stop.
    """

    loss: Loss
    rate: float = 1.0
    cooling: dict[str, Any] | None = field(default=None)

    def __post_init__(self) -> None:
        check_number("rate", self.rate, 0, float("inf"))
        if self.cooling is not None and not (
            isinstance(self.loss, MetricLoss) and isinstance(self.loss.step, LinearStep)
        ):
            raise ValueError(f"cooling needs a MetricLoss with a linear step, got {self.loss!r}.")


def make_phases(
    recipe: RecipeLike, metric: MetricLike, task: str, class_weight: Any = None
) -> list[Phase]:
    """The phases of a recipe: a name in ``RECIPES``, any loss, or phases of your own.

    - ``"cross-entropy"``
    - ``"metric"``: the soft metric from scratch, at threshold 1/2 (text of paper 000).
    - ``"metric-grid"``: averaged over thresholds 0.1 to 0.9 with ``delta = 0.2`` (its code).
    - ``"anneal"``: the soft metric, its temperature falling from 0.2 (paper 002 section 4.3).
    - ``"warm"``: cross-entropy, then the soft metric from the best point, at a tenth of the rate.

    >>> [phase.rate for phase in make_phases("warm", "f1", "binary")]
    [1.0, 0.1]
    """
    given: dict[str, Any] = {"task": task, "class_weight": class_weight}
    if isinstance(recipe, str):
        check_choice("recipe", recipe, RECIPES)
        soft = MetricLoss(metric, **given)
        entropy = Phase(CrossEntropyLoss(**given))
        if recipe == "cross-entropy":
            return [entropy]
        if recipe == "metric":
            return [Phase(soft)]
        if recipe == "warm":
            return [entropy, Phase(soft, rate=0.1)]
        if recipe == "anneal":
            step = LinearStep.at_temperature(0.2)
            return [Phase(MetricLoss(metric, step=step, **given), cooling={})]
        if task == "multiclass":
            raise ValueError(
                "recipe='metric-grid' averages over thresholds, which task='multiclass' has not. "
                "Use 'metric'."
            )
        grid = MetricLoss(metric, step=LinearStep(0.2), thresholds=GRID, **given)
        return [Phase(grid)]
    if class_weight is not None:
        raise ValueError("class_weight goes into the loss when recipe is a loss or phases.")
    if isinstance(recipe, list | tuple):
        if not recipe or not all(isinstance(phase, Phase) for phase in recipe):
            raise ValueError(f"recipe must hold Phase objects, got {recipe!r}.")
        return list(recipe)
    if callable(recipe):
        return [Phase(recipe)]
    raise ValueError(
        f"recipe must be one of {', '.join(RECIPES)}, a loss or a list of Phase, got {recipe!r}."
    )


def member_losses(
    loss: Loss, scores: Tensor, target: Tensor, weight: Tensor | None, step: Any = None
) -> Tensor:
    """One loss for each member ``[K]`` of scores ``[K, N, ...]``.

    ``target`` and ``weight`` are shared ``[N, ...]`` or ``[K, N, ...]``; ``step`` takes the place
    of the loss's own. Losses of ours, and those with ``of_members(scores, target, weight)``, go
    through in one pass, others member by member.
    """
    if isinstance(loss, MetricLoss):
        settings = loss._settings() | {"batch_dims": 1}
        settings["step"] = settings["step"] if step is None else step
        return metric_loss(scores, target, loss.metric, sample_weight=weight, **settings)
    if isinstance(loss, MeanLoss):
        return _mean_losses(loss, scores, target, weight)
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


def _mean_losses(loss: MeanLoss, scores: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """``MeanLoss.forward`` with a leading dimension of members."""
    problem = arrange(
        scores,
        target,
        task=loss.task,
        from_logits=True,
        sample_weight=weight,
        ignore_index=loss.ignore_index,
        batch_dims=1,
    )
    losses = loss.each(problem._replace(z=problem.z.to(working(problem.z))))
    by_class = loss.class_weights(problem)
    if by_class is not None:
        losses = losses * by_class.to(losses.dtype)
    if problem.w is None:
        return losses.flatten(1).mean(1)
    w = problem.w.to(losses.dtype).expand_as(losses)
    return (losses * w).flatten(1).sum(1) / w.flatten(1).sum(1)


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
        matrix=isinstance(metric, Custom) and task == "multiclass",
    )
    return metric(c)
