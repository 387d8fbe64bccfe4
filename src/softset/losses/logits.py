"""The door of losses that take logits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from softset.counting.numerics import raised, under_transform, working
from softset.counting.problem import Problem, arrange
from softset.counting.values import check_labels


def arrange_logits(
    scores: Tensor, target: Tensor, weight: Any, batch_dims: int, task: str, **settings: Any
) -> Problem:
    """Logits, labels and weights, arranged and checked, in the precision to compute a loss in.

    ``settings`` are further ones of ``arrange``.

    >>> import torch
    >>> found = arrange_logits(torch.tensor([2.0]).half(), torch.tensor([1]), None, 0, "binary")
    >>> found.z
    tensor([2.])
    """
    given = {"sample_weight": weight, "batch_dims": batch_dims, **settings}
    problem = arrange(scores, target, task=task, from_logits=True, **given)
    labels = not problem.task.exclusive and not problem.soft
    if labels and not under_transform(problem.z, problem.y):
        check_labels(problem.y)
    return replace(problem, z=raised(problem.z, working(problem.z)))
