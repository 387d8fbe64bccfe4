"""The metric with the hard step: what a classifier is judged by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.checks import check_choice, warn_user
from softset.counting.problem import Problem, arrange
from softset.decisions.expected import DECIDE, expected_dice_mask
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, get_goal

EMPTY = (None, "penalize", "ignore")
FEW = 20  # scores of so few rows say nothing about what they are


@torch.no_grad()
def evaluate(
    scores: Any,
    target: Any,
    metric: MetricLike,
    *,
    task: str = "binary",
    threshold: Any = 0.5,
    offsets: Any = None,
    from_logits: bool = True,
    sample_weight: Any = None,
    class_weight: Any = None,
    ignore_index: int | None = None,
    per: Any = "batch",
    empty: str | None = None,
    soft_targets: bool = False,
    decide: str = "threshold",
) -> Any:
    """``metric`` of the hard decisions, as scikit-learn has it: a float (a list if not averaged).

    Arguments as for ``confusion``; ``scores`` and ``target`` may be arrays. The areas (AUROC,
    average precision) are exact, by sorting; of several classes they are one against the rest.

    With ``per`` it is the mean of each set's metric. ``empty`` says what a set without positives
    is: ``None``, what scikit-learn has for it; or as in ``metric_loss``: ``"ignore"`` leaves it out
    of the mean, ``"penalize"`` is the share of positions that are not called positive.

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
    if decide == "expected-dice":
        _check_decide(goal, threshold)
        masks = expected_dice_mask(scores, task=task, from_logits=from_logits)
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
    if not goal.by_scores:
        warn_of_probabilities(problem)
    settings = {"threshold": threshold, "offsets": offsets, "empty": empty}
    value = evaluate_problem(problem, goal, **settings)
    return value.item() if value.dim() == 0 else value.tolist()


def warn_of_probabilities(problem: Problem) -> None:
    """Scores that all lie in [0, 1] and take up half of it are hardly ever logits. Those of a few
    rows, or of a network at its start, which are close together, may be so by chance."""
    z = problem.z
    if not problem.from_logits or problem.task.exclusive or z.numel() < FEW:
        return
    low, high = torch.aminmax(z.detach())
    if low >= 0 and high <= 1 and high - low >= 0.5:
        warn_user(
            "all scores lie in [0, 1], and are taken for logits. Pass from_logits=False if they "
            "are probabilities or decisions.",
        )


@torch.no_grad()
def evaluate_problem(
    problem: Problem,
    goal: Goal,
    *,
    threshold: Any = 0.5,
    offsets: Any = None,
    empty: str | None = None,
) -> Tensor:
    """``evaluate`` of a problem that is arranged already, as a tensor."""
    check_choice("empty", empty, EMPTY)
    return goal.hard_value(problem, threshold, offsets, empty)


def _check_decide(goal: Goal, threshold: Any) -> None:
    """Refuse two decisions at once."""
    if goal.by_scores:
        raise ValueError(f"decide='expected-dice' does not apply to {goal.name!r}.")
    if not isinstance(threshold, int | float) or threshold != 0.5:
        raise ValueError("threshold does not apply with decide='expected-dice'. Leave it out.")
