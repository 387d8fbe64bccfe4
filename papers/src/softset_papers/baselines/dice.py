"""Dice losses: the V-Net form over a batch, and the per-example forms of paper 000's table 12."""

from __future__ import annotations

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.numerics import ratio
from softset.counting.problem import Problem
from softset.losses.pointwise import MeanLoss
from softset_papers.baselines.batch import BatchLoss

OUTPUTS = ("probability", "logit")


class DiceLoss(BatchLoss):
    """``1 - 2 sum w p y / (sum w p^2 + sum w y^2)`` over the batch (Milletari et al. 2016).

    The square in the denominator is V-Net's; without it this is soft F1 with the identity step.
    Without positives the value is 1, without a gradient.

    >>> import torch
    >>> round(DiceLoss()(torch.tensor([0.0, 0.0]), torch.tensor([1, 0])).item(), 4)  # 1 - 1/1.5
    0.3333
    """

    def value(self, problem: Problem) -> Tensor:
        z, y = problem.z, problem.y.to(problem.z.dtype)
        p = torch.sigmoid(z)
        w = torch.ones_like(z) if problem.w is None else problem.w.to(z.dtype).expand_as(z)
        overlap = (w * p * y).sum(-1)
        return 1 - ratio(2 * overlap, (w * p * p).sum(-1) + (w * y * y).sum(-1))


class ExampleDiceLoss(MeanLoss):
    """V-Net's Dice of each example alone, the mean of ``1 - 2 f y / (f^2 + y^2)``.

    ``f`` is the probability ("Dice^s" in paper 000's table 12) or the logit itself ("Dice"). The
    published code of 000 has it without the factor 2, which changes the scale only. Negatives give
    the constant 1 and no gradient. The best ``f`` of a positive is 1: as a logit, a probability of
    0.73.

    >>> import torch
    >>> ExampleDiceLoss("logit")(torch.tensor([1.0, -3.0]), torch.tensor([1, 0])).item()
    0.5
    """

    def __init__(self, output: str = "probability") -> None:
        super().__init__(task="binary")
        check_choice("output", output, OUTPUTS)
        self.output = output

    def each(self, problem: Problem) -> Tensor:
        z, y = problem.z, problem.y.to(problem.z.dtype)
        f = torch.sigmoid(z) if self.output == "probability" else z
        return 1 - ratio(2 * f * y, f * f + y)
