"""Soft F-beta as the papers' formulas have it where a class is missing from the batch.

softset departs from them on purpose: of a batch without positives the formula is 0 whatever is
predicted, so that the loss is 1 and says nothing; and a mean over classes counts one that no row
has as 0. ``empty="as-published"`` in the settings of a row brings that back, for comparison.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.losses.loss import Loss
from softset.losses.soft_metric import MetricLoss

EMPTY = ("as-published",)


class LiteralLoss(Loss):
    """A soft metric of two classes or several, literal where a class is missing.

    >>> from softset.counting.steps import LinearStep
    >>> scores, nobody = torch.tensor([-1.0, 0.5]), torch.tensor([0, 0])
    >>> loss = MetricLoss("f1", step=LinearStep(0.1))
    >>> LiteralLoss(loss)(scores, nobody).item(), loss(scores, nobody).item() < 1
    (1.0, True)
    """

    def __init__(self, loss: MetricLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, scores: Tensor, target: Tensor, sample_weight: Any = None) -> Tensor:
        value = self.loss(scores, target, sample_weight)
        if self.loss.task == "multiclass":
            classes = scores.shape[-1]
            present = torch.bincount(target, minlength=classes).gt(0).sum()
            # The mean over present classes becomes one over all, of which the others have 0.
            return 1 - (1 - value) * present / classes
        return torch.where((target > 0).any(), value, torch.ones_like(value))

    def of_members(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """One loss for each member: scores ``[K, N]``, target ``[N]`` or ``[K, N]``."""
        value = self.loss.of_members(scores, target, weight)
        return torch.where((target > 0).any(-1), value, torch.ones_like(value))
