"""The metric of hard decisions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.problem import Problem, arrange
from softset.decisions.expected import DECIDE, expected_dice_mask
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, get_goal
from softset.tasks import get_task
from softset.typing import Groups, TensorLike, Threshold, Weights

EMPTY = (None, "penalize", "ignore")


@torch.no_grad()
def evaluate(
    scores: TensorLike,
    target: TensorLike,
    metric: MetricLike,
    *,
    task: str = "binary",
    threshold: Threshold = 0.5,
    offsets: Threshold | None = None,
    from_logits: bool | None = None,
    sample_weight: Weights = None,
    class_weight: Weights = None,
    ignore_index: int | None = None,
    per: Groups = "batch",
    empty: str | None = None,
    soft_targets: bool = False,
    decide: str = "threshold",
) -> Any:
    """``metric`` of the hard decisions, as scikit-learn has it: a float (a list if not averaged).

    Arguments as for ``confusion``; ``scores`` and ``target`` may be arrays. The areas (AUROC,
    average precision) are exact, by sorting; multiclass ones are one against the rest.

    ``from_logits`` is for you to say: by default scores are logits, and an error where all of them
    lie in [0, 1] (areas go by their order, and take both).

    With ``per`` it is the mean of the metric over groups. ``empty`` is how a group without
    positives counts: ``None``, as in scikit-learn; or as in ``metric_loss``: ``"ignore"`` omits it
    from the mean, ``"penalize"`` is the fraction of positions that are not predicted positive.

    ``decide="expected-dice"`` takes the mask of each image that ``expected_dice_mask`` gives,
    instead of a threshold.

    >>> import torch
    >>> evaluate(torch.tensor([2.0, -1.0, 0.5, 1.0]), torch.tensor([1, 1, 0, 1]), "f1")
    0.6666666666666666
    >>> evaluate([0.9, 0.2, 0.6], [1, 1, 0], "auroc", from_logits=False)
    0.5
    """
    check_choice("decide", decide, DECIDE)
    goal = get_goal(metric)
    if goal.by_scores and not get_task(task).exclusive and from_logits is None:
        from_logits = True  # the order of scores decides, and is the same either way
    if decide == "expected-dice":
        _check_decide(goal, threshold)
        masks = expected_dice_mask(scores, task=task, from_logits=from_logits is not False)
        scores, from_logits = masks.double(), False
    problem = arrange(
        scores,
        target,
        task=task,
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
        per=per,
        soft_targets=soft_targets,
    )
    value = evaluate_problem(problem, goal, threshold=threshold, offsets=offsets, empty=empty)
    return value.item() if value.dim() == 0 else value.tolist()


@torch.no_grad()
def evaluate_problem(
    problem: Problem,
    goal: Goal,
    *,
    threshold: Threshold = 0.5,
    offsets: Threshold | None = None,
    empty: str | None = None,
) -> Tensor:
    """``evaluate`` of a ``Problem``, as a tensor."""
    check_choice("empty", empty, EMPTY)
    return goal.hard_value(problem, threshold, offsets, empty)


def _check_decide(goal: Goal, threshold: Threshold) -> None:
    """Raise ValueError if a threshold or a goal of its own competes with ``decide``."""
    if goal.by_scores:
        raise ValueError(f"decide='expected-dice' does not apply to {goal.name!r}.")
    if not isinstance(threshold, int | float) or threshold != 0.5:
        raise ValueError("threshold does not apply with decide='expected-dice'. Omit it.")
