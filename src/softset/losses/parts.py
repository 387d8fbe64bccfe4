"""Batches that are parts of a whole may have no rows."""

from __future__ import annotations

import torch
from torch import Tensor

from softset.counting.arguments import as_numbers
from softset.counting.numerics import readable
from softset.tasks import Task
from softset.typing import Weights


def no_rows(scores: Tensor, sample_weight: Weights) -> bool:
    """Whether there is nothing to count: no rows, or none with a weight."""
    if scores.numel() == 0:
        return True
    if sample_weight is None:
        return False
    w = as_numbers("sample_weight", sample_weight)
    return readable(w) and not w.any()


def row_in_their_place(
    scores: Tensor, task: Task, batch_dims: int, from_logits: bool
) -> tuple[Tensor, Tensor, None]:
    """Scores and target of one row, of the same classes, and no weight: for the shape of counts."""
    shape = list(scores.shape)
    shape[batch_dims : batch_dims + 1] = [1]
    z = torch.full(shape, 0.0 if from_logits else 0.5, device=scores.device)
    y = torch.zeros(shape, dtype=torch.long, device=scores.device)
    if task.exclusive:
        y = y.select(batch_dims + 1, 0)
        z = z if from_logits else z * 2 / shape[batch_dims + 1]
    return z, y, None
