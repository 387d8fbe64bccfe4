"""For skorch: from scores to probabilities, which it cannot guess for a loss of ours."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from softset.tasks import get_task


def probabilities(task: str = "binary") -> Callable[[Tensor], Tensor]:
    """``NeuralNetClassifier(..., criterion=MetricLoss, predict_nonlinearity=probabilities())``.

    Without it skorch takes logits for probabilities. For ``task="binary"`` a module of one output
    gives two columns; for several classes also set ``criterion__task="multiclass"``.

    >>> probabilities()(torch.tensor([[0.0]])).tolist()
    [[0.5, 0.5]]
    """
    task = get_task(task)
    if task.exclusive:
        return _softmax
    return _two_columns if task.single else torch.sigmoid


def _softmax(scores: Tensor) -> Tensor:  # not a lambda: nets are pickled
    return torch.softmax(scores, -1)


def _two_columns(scores: Tensor) -> Tensor:
    p = torch.sigmoid(scores.reshape(-1))
    return torch.stack([1 - p, p], 1)
