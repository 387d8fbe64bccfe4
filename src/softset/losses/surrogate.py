"""The surrogate of F-beta (paper 004)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from softset.checks import check_number
from softset.counting.arguments import as_numbers
from softset.counting.problem import Problem
from softset.losses.pointwise import MeanLoss
from softset.metrics.formulas import BETAS
from softset.typing import TensorLike

# A class that is rarer has a balanced weight that leaves float32.
RAREST = 1e-30


class SurrogateFBetaLoss(MeanLoss):
    """``-y log f + (1 - y) log(c + f)`` with ``c = beta^2 p / (1 - p)`` (paper 004 eq. 20).

    ``q > 0`` gives its generalization for noisy labels, ``y (1 - f^q)/q + (1 - y) ((c+f)^q - 1)/q``
    (eq. 25), of which ``q -> 0`` is the limit above. At a critical point its class-balanced mean
    has the gradient condition of F-beta (eq. 12 and 22).

    Args:
        prevalence: fraction ``p`` of positives in the *training set*, never the batch; a list for
            several labels.
        class_balanced: weigh examples by ``n / n_y``: ``1/p`` for positives, ``1/(1-p)`` else.

    >>> import torch
    >>> loss = SurrogateFBetaLoss(0.5, class_balanced=False)
    >>> round(loss(torch.tensor([0.0]), torch.tensor([0])).item(), 4)  # log(1 + 0.5)
    0.4055
    """

    def __init__(
        self,
        prevalence: TensorLike,
        beta: float = 1.0,
        q: float = 0.0,
        class_balanced: bool = True,
        *,
        ignore_index: int | None = None,
    ) -> None:
        p = as_numbers("prevalence", prevalence).double()
        if p.requires_grad:
            raise ValueError("prevalence is a constant of the training set. Pass its detach().")
        check_number("prevalence", p, RAREST, 1)
        check_number("beta", beta, *BETAS, closed="both")
        check_number("q", q, 0, 1, closed="both")
        super().__init__(task="binary" if p.dim() == 0 else "multilabel", ignore_index=ignore_index)
        self.beta, self.q, self.class_balanced = beta, q, class_balanced
        self.prevalence: Tensor
        self.register_buffer("prevalence", p, persistent=False)

    def _shares(self, problem: Problem) -> Tensor:
        """The prevalence, to broadcast with scores ``[*batch, N]`` or ``[*batch, labels, N]``."""
        p = self.prevalence.to(problem.z.device)
        return p if p.dim() == 0 else p.unsqueeze(-1)

    def class_weights(self, problem: Problem) -> Tensor | None:
        """``1/p`` for positives and ``1/(1-p)`` for negatives, if balanced."""
        if not self.class_balanced:
            return None
        p = self._shares(problem)
        return torch.where(problem.y > 0, 1 / p, 1 / (1 - p))

    def each(self, problem: Problem) -> Tensor:
        """The surrogate of each row: ``-log s`` or ``log(c + s)``, or their powers for ``q >
        0``."""
        z, y = problem.z, problem.y
        p = self._shares(problem)
        c = (self.beta**2 * p / (1 - p)).to(z.dtype)
        log_f, log_cf = F.logsigmoid(z), torch.log(c + torch.sigmoid(z))
        if self.q == 0:
            return torch.where(y > 0, -log_f, log_cf)
        positive = -torch.expm1(self.q * log_f) / self.q
        return torch.where(y > 0, positive, torch.expm1(self.q * log_cf) / self.q)


def balanced_class_weight(target: TensorLike, classes: int = 2) -> Tensor:
    """``n / n_y`` for each class of a *training set* (paper 004 eq. 2), for ``class_weight``.

    >>> import torch
    >>> balanced_class_weight(torch.tensor([0, 0, 0, 1])).tolist()
    [1.3333333333333333, 4.0]
    """
    y = as_numbers("target", target).flatten().to(torch.long)
    counts = torch.bincount(y, minlength=classes)
    if len(counts) != classes or (counts == 0).any():
        raise ValueError(f"target must hold every class 0 to {classes - 1}, got {counts.tolist()}.")
    return len(y) / counts.double()
