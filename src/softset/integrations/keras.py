"""For Keras 3 on torch, where the target comes first."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from softset.losses.soft_metric import MetricLoss


def keras_loss(loss: MetricLoss) -> Callable[[Tensor, Tensor], Tensor]:
    """``model.compile(loss=keras_loss(MetricLoss("f1")))``, for a model that ends in logits.

    Keras multiplies the losses of rows by their weights, and here there is one loss of all rows:
    give weights of classes to the loss (``class_weight``), not to ``fit``.

    >>> import torch
    >>> z, y = torch.tensor([[2.0], [-1.0]]), torch.tensor([[1.0], [0.0]])
    >>> bool(keras_loss(MetricLoss("f1"))(y, z) == MetricLoss("f1")(z, y))
    True
    """

    def of(y_true: Tensor, y_pred: Tensor) -> Tensor:
        """As Keras calls it: target first, class numbers in one column."""
        several = loss.task.exclusive and y_true.dim() == y_pred.dim()
        if several and y_true.shape[-1] == 1:
            y_true = y_true.squeeze(-1)
        return loss(y_pred, y_true)

    of.__name__ = f"soft_{loss.goal.name}"
    return of
