"""For the Trainer of Hugging Face: ``compute_loss_func`` and ``compute_metrics``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from torch import Tensor

from softset.counting.arguments import as_numbers
from softset.decisions.evaluation import evaluate
from softset.losses.soft_metric import MetricLoss
from softset.metrics.registry import MetricLike, one_number
from softset.tasks import get_task
from softset.typing import Array

# What a model returns, and what the Trainer gives of all rows: scores, and labels.
Outputs: TypeAlias = "Tensor | Mapping[str, Tensor] | Sequence[Tensor]"
Predictions: TypeAlias = "tuple[Array | tuple[Array, ...], Array]"


def compute_loss(loss: MetricLoss) -> Callable[..., Tensor]:
    """``Trainer(..., compute_loss_func=compute_loss(MetricLoss("f1")))``.

    The Trainer adds up the micro-batches of a step without dividing by their number, and passes the
    number of labels in the step (``num_items_in_batch``): each micro-batch is weighted by its
    fraction of them, so that a step's loss is their mean. That is not the loss of all rows of the
    step: for rare positives give the loss an ``ema_decay``.

    Two columns of scores for ``task="binary"`` become their difference. Labels of -100 are left
    out with ``ignore_index=-100`` in the loss.

    >>> import torch
    >>> of = compute_loss(MetricLoss("f1"))
    >>> outputs = {"logits": torch.tensor([[0.0, 2.0], [1.0, -1.0]])}
    >>> whole = of(outputs, torch.tensor([1, 0]))
    >>> torch.allclose(of(outputs, torch.tensor([1, 0]), num_items_in_batch=8), whole / 4)
    True
    """

    def of(
        outputs: Outputs, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """As ``Trainer`` calls it: the mean over accumulated batches if it names their rows."""
        value: Tensor = loss(_scores(_logits(outputs), loss.task), labels)
        if num_items_in_batch is None:
            return value
        return value * (labels != -100).sum().to(value) / num_items_in_batch

    return of


def compute_metrics(
    metric: MetricLike = "f1", *, task: str = "binary"
) -> Callable[[Predictions], dict[str, float]]:
    """``Trainer(..., compute_metrics=compute_metrics("f1"))``: the metric of all rows together.

    >>> import numpy as np
    >>> judge = compute_metrics("f1")
    >>> judge((np.array([[0.0, 2.0], [1.0, 3.0]]), np.array([1, 0])))
    {'f1': 0.6666666666666666}
    """
    name = one_number(metric).name

    def judge(predictions: Predictions) -> dict[str, float]:
        """As ``Trainer`` calls it, on all rows of the evaluation."""
        scores, labels = predictions
        logits = as_numbers("scores", scores[0] if isinstance(scores, tuple) else scores)
        return {
            name: float(
                evaluate(_scores(logits, task), labels, metric, task=task, from_logits=True)
            )
        }

    return judge


def _logits(outputs: Outputs) -> Tensor:
    if isinstance(outputs, Tensor):
        return outputs
    return outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]


def _scores(logits: Tensor, task: str) -> Tensor:
    if get_task(task).single and logits.dim() == 2 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    return logits
