"""Goals at the top k: recall@k, F1@k."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from softset.checks import check_integer
from softset.counting.cells import count_cells
from softset.counting.confusion import Confusion
from softset.counting.numerics import ratio
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.metrics.base import Fraction, Metric
from softset.metrics.goals import Where, prepared
from softset.tasks import Task
from softset.typing import Threshold


@dataclass(frozen=True)
class Top(Where):
    """Where the ``k`` most probable labels (or classes) of each row are predicted, whatever their
    probabilities.

    Multiclass micro recall is then top-k accuracy. For training, the threshold of a row lies
    between its k-th and (k+1)-th largest probability, as for k = 1 in paper 002.

    >>> from softset import At, evaluate
    >>> scores, target = [[2.0, 1.0, 0.0], [0.5, 0.0, 0.2]], [[0, 1, 0], [1, 0, 1]]
    >>> evaluate(scores, target, At("recall_micro", k=2), task="multilabel")
    1.0
    """

    k: int

    tunes = False
    by_scores = True

    def __post_init__(self) -> None:
        check_integer("k", self.k, 1)
        object.__setattr__(self, "k", int(self.k))

    @property
    def suffix(self) -> str:  # type: ignore[override]
        return f"@{self.k}"

    def check_metric(self, metric: Metric) -> None:
        """Refuse a metric that reads true negatives."""
        if not isinstance(metric, Fraction):
            raise ValueError(
                "metric at k must be recall, precision, F-beta, Jaccard or Tversky, got "
                f"{metric.name!r}."
            )

    def check(self, metric: Metric, task: Task) -> None:
        if task.single:
            raise ValueError(
                f"metric '{metric.key}@{self.k}' is for task='multilabel' and 'multiclass': there "
                "is one score in a row."
            )

    def soft_cells(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Confusion:
        problem = prepared(problem, self.prepare, step)
        return count_cells(problem, step)

    def hard_cells(
        self,
        metric: Metric,
        problem: Problem,
        threshold: Threshold = 0.5,
        offsets: Threshold | None = None,
    ) -> list[Confusion]:
        return [count_cells(self.prepare(problem))]

    def prepare(self, problem: Problem) -> Problem:
        """The problem with probabilities of which exactly the k largest of each row are at least
        1/2: the threshold of the row is mapped to 1/2, linearly on both sides."""
        if self.k >= problem.classes:
            raise ValueError(
                f"k must be less than the number of classes or labels, {problem.classes}, got "
                f"{self.k}: all would be predicted."
            )
        exclusive = problem.task.exclusive
        z = problem.z.mT if exclusive else problem.z
        problem = problem.one_against_rest()
        p = problem.probabilities()
        if problem.w is not None:  # a score without weight is never among the largest
            p = torch.where(problem.w > 0, p, torch.zeros_like(p))
            z = torch.where(problem.w > 0, z, float("-inf"))
        first = p.topk(self.k + 1, dim=-2).values
        tau = (first[..., self.k - 1 : self.k, :] + first[..., self.k :, :]) / 2
        below, above = ratio(p, 2 * tau), 0.5 + ratio(p - tau, 2 * (1 - tau))
        chosen = k_largest(z, self.k)  # also where all probabilities round to 1
        half = torch.tensor(0.5, dtype=p.dtype, device=p.device)
        under = torch.nextafter(half, torch.zeros_like(half))
        p = torch.where(chosen, above.maximum(half), below.minimum(under).clamp(min=0))
        return replace(problem, z=p.clamp(max=1), from_logits=False, exclusive=exclusive)


def k_largest(p: Tensor, k: int, dim: int = -2) -> Tensor:
    """Mask of the ``k`` largest along a dimension; of equal ones, the first.

    >>> k_largest(torch.tensor([1.0, 3.0, 3.0, 0.0]), 1, dim=0).tolist()
    [False, True, False, False]
    """
    order = p.detach().argsort(dim=dim, descending=True, stable=True)
    ranks = torch.arange(p.shape[dim], device=p.device)
    shape = [1] * p.dim()
    shape[dim] = -1
    return torch.zeros_like(p, dtype=torch.bool).scatter(
        dim, order, (ranks < k).reshape(shape).expand_as(order)
    )
