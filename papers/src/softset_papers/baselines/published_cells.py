"""The soft metrics of paper 000 with the cells that its published code counts.

The text has one step at the threshold (equation 6): of a positive row, H(p, τ) is a true positive
and 1 - H(p, τ) a false negative. The published code takes the step at 1 - τ instead of τ for two of
the cells of rows on the far side of τ, so that the cells of a positive do not add up to one, and
enters the rows of the other class into every cell with a probability of 0, which the linear step
maps to 0 and the sigmoid does not. It trains the mean over nine thresholds; its area under the ROC
curve is that between the outermost of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.training.recipes import GRID
from softset_papers.baselines.batch import BatchLoss

_EPS = 1e-7  # in the denominators of the published code


class Cells(NamedTuple):
    """Soft counts ``[*batch, thresholds]``."""

    tp: Tensor
    fn: Tensor
    fp: Tensor
    tn: Tensor


class PublishedMetricLoss(BatchLoss):
    """One minus ``"f1"``, ``"accuracy"`` or ``"auroc"`` as the published code computes it.

    Args:
        metric: ``"f1"`` and ``"accuracy"`` are means over the thresholds, ``"auroc"`` the area
            under the points of the thresholds, without (0, 0) and (1, 1).
        step: symmetric, ``H(1 - p, 1 - tau) = 1 - H(p, tau)``, as those of the paper are.
        thresholds: ascending, each with its ``1 - tau``.

    >>> from softset.counting.steps import LinearStep
    >>> loss = PublishedMetricLoss("f1", LinearStep(0.2))
    >>> cells = loss.cells(torch.tensor([0.3]), torch.ones(1), torch.ones(1))
    >>> [round(float(cell[-1]), 3) for cell in cells]  # at 0.9; equation 6: 0.071, 0.929
    [0.835, 0.929, 0.0, 0.0]
    """

    def __init__(self, metric: str, step: Step, thresholds: Sequence[float] = GRID) -> None:
        super().__init__()
        check_choice("metric", metric, ("f1", "accuracy", "auroc"))
        mirrored = [1 - tau for tau in reversed(thresholds)]
        if any(abs(a - b) > 1e-9 for a, b in zip(thresholds, mirrored, strict=True)):
            raise ValueError(
                f"thresholds must be symmetric about 0.5, got {list(thresholds)}. "
                "Pass tau and 1 - tau together."
            )
        self.metric, self.step, self.thresholds = metric, step, tuple(thresholds)

    def value(self, problem: Problem) -> Tensor:
        z, y = problem.z, problem.y.to(problem.z.dtype)
        w = torch.ones_like(z) if problem.w is None else problem.w.to(z.dtype).expand_as(z)
        c = self.cells(torch.sigmoid(z), y.expand_as(z), w)
        if self.metric == "accuracy":
            return 1 - ((c.tp + c.tn) / (c.tp + c.tn + c.fp + c.fn)).mean(-1)
        recall = c.tp / (c.tp + c.fn + _EPS)
        if self.metric == "f1":
            precision = c.tp / (c.tp + c.fp + _EPS)
            return 1 - (2 * precision * recall / (precision + recall + _EPS)).mean(-1)
        fpr, order = (c.fp / (c.fp + c.tn + _EPS)).sort(-1)
        area = torch.trapezoid(recall.gather(-1, order), fpr, dim=-1)
        # An area of 0 is left out, without a gradient.
        return 1 - torch.where(area > 0, area, 0.0)

    def cells(self, p: Tensor, y: Tensor, w: Tensor) -> Cells:
        """The published cells of probabilities, targets and weights ``[*batch, N]``."""
        tau = torch.tensor(self.thresholds, dtype=p.dtype, device=p.device)
        h, over = self.step(p.unsqueeze(-1), tau), p.unsqueeze(-1) > tau
        # The thresholds are symmetric: the step at 1 - tau is the one at the mirrored index.
        near = torch.where(over, h, h.flip(-1))
        far = torch.where(over, h.flip(-1), h)
        nothing = self.step(torch.zeros_like(tau), tau)  # of the rows of the other class
        near_nothing = torch.where(over, nothing, nothing.flip(-1))
        far_nothing = torch.where(over, nothing.flip(-1), nothing)
        positive, negative = (w * y).unsqueeze(-2), (w * (1 - y)).unsqueeze(-2)

        def count(own: Tensor, h: Tensor, other: Tensor, rest: Tensor) -> Tensor:
            return (own @ h + other @ rest).squeeze(-2)

        return Cells(
            tp=count(positive, near, negative, near_nothing),
            fn=count(positive, 1 - far, negative, near_nothing),
            fp=count(negative, far, positive, far_nothing),
            tn=count(negative, 1 - far, positive, near_nothing),
        )
