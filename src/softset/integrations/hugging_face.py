"""For the Trainer of Hugging Face: ``compute_loss_func`` and ``compute_metrics``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from softset.counting.arguments import as_numbers
from softset.decisions.evaluation import evaluate
from softset.losses.soft_metric import MetricLoss
from softset.metrics.registry import MetricLike, one_number
from softset.tasks import get_task


def compute_loss(loss: MetricLoss) -> Callable[..., Tensor]:
    """``Trainer(..., compute_loss_func=compute_loss(MetricLoss("f1")))``.

    The Trainer adds up the micro-batches of a step without dividing by their number, and says how
    many labels the step has (``num_items_in_batch``): each is weighted by its share of them, so
    that a step's loss is their mean. That is not the loss of all rows of the step: for rare
    positives give the loss a ``ema_decay``.

    Two columns of scores for ``task="binary"`` become their difference. Labels of -100 are left
    out with ``ignore_index=-100`` in the loss.

    >>> import torch
    >>> of = compute_loss(MetricLoss("f1"))
    >>> outputs = {"logits": torch.tensor([[0.0, 2.0], [1.0, -1.0]])}
    >>> whole = of(outputs, torch.tensor([1, 0]))
    >>> torch.allclose(of(outputs, torch.tensor([1, 0]), num_items_in_batch=8), whole / 4)
    True
    """

    def of(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        value: Tensor = loss(_scores(_logits(outputs), loss.task), labels)
        if num_items_in_batch is None:
            return value
        return value * (labels != -100).sum().to(value) / num_items_in_batch

    return of


def compute_metrics(metric: MetricLike = "f1", *, task: str = "binary") -> Callable[..., Any]:
    """``Trainer(..., compute_metrics=compute_metrics("f1"))``: the metric of all rows together.

    >>> import numpy as np
    >>> judge = compute_metrics("f1")
    >>> judge((np.array([[0.0, 2.0], [1.0, 3.0]]), np.array([1, 0])))
    {'f1': 0.6666666666666666}
    """
    name = one_number(metric).name

    def judge(predictions: Any) -> dict[str, float]:
        scores, labels = predictions
        scores = scores[0] if isinstance(scores, tuple) else scores
        scores = _scores(as_numbers("scores", scores), task)
        return {name: float(evaluate(scores, labels, metric, task=task, from_logits=True))}

    return judge


def _logits(outputs: Any) -> Tensor:
    if isinstance(outputs, Tensor):
        return outputs
    return outputs["logits"] if isinstance(outputs, dict) else outputs[0]


def _scores(logits: Tensor, task: str) -> Tensor:
    if get_task(task).single and logits.dim() == 2 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    return logits
