"""Metrics of a decision that takes the k largest: recall@k, F1@k."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from softset.checks import check_whole
from softset.counting.cells import Confusion
from softset.counting.numerics import ratio
from softset.counting.problem import Problem
from softset.metrics.base import Metric
from softset.metrics.formulas import Fraction, Recall


@dataclass(frozen=True)
class AtK(Metric):
    """A metric of the decision that says yes to the ``k`` most probable labels of each row,
    whatever their probabilities; of several classes, to the ``k`` most probable ones.

    The micro recall of several classes is top-k accuracy. ``"recall@5"`` and ``"f1@3_micro"`` are
    its names. For training, the threshold of a row lies between its k-th and (k+1)-th largest
    probability, as for k = 1 in paper 002.

    >>> from softset import evaluate
    >>> scores, target = [[2.0, 1.0, 0.0], [0.5, 0.0, 0.2]], [[0, 1, 0], [1, 0, 1]]
    >>> evaluate(scores, target, AtK(Recall(average="micro"), 2), task="multilabel")
    1.0
    """

    metric: Metric = field(default_factory=Recall)
    k: int = 1

    own_cut = True
    of_positives = True

    def __init__(self, metric: Metric, k: int) -> None:
        check_whole("k", k, 1)
        if not isinstance(metric, Fraction):
            raise ValueError(
                "metric at k must be recall, precision, F-beta, Jaccard or Tversky, got "
                f"{metric.name!r}."
            )
        values = {"average": metric.average, "both_classes": metric.both_classes}
        for key, value in {**values, "metric": metric, "k": int(k)}.items():
            object.__setattr__(self, key, value)

    @property
    def key(self) -> str:
        return f"{self.metric.key}@{self.k}"

    def score(self, c: Confusion) -> Tensor:
        return self.metric.score(c)

    def prepare(self, problem: Problem) -> Problem:
        """With probabilities of which the k largest of each row, and no others, are at least 1/2:
        the row's own threshold is moved there, evenly on both sides."""
        if problem.task.single:
            raise ValueError(
                f"metric {self.name!r} is for task='multilabel' and 'multiclass': there is one "
                "score in a row."
            )
        if self.k >= problem.classes:
            raise ValueError(
                f"k must be less than the number of classes or labels, {problem.classes}, got "
                f"{self.k}: all would be taken."
            )
        exclusive = problem.task.exclusive
        z = problem.z.mT if exclusive else problem.z
        problem = problem.one_against_rest()
        p = problem.probabilities()
        if problem.w is not None:  # what is left out takes no place
            p = torch.where(problem.w > 0, p, torch.zeros_like(p))
            z = torch.where(problem.w > 0, z, float("-inf"))
        first = p.topk(self.k + 1, dim=-2).values
        tau = (first[..., self.k - 1 : self.k, :] + first[..., self.k :, :]) / 2
        below, above = ratio(p, 2 * tau), 0.5 + ratio(p - tau, 2 * (1 - tau))
        chosen = k_largest(z, self.k)  # where probabilities are all 1, too
        half = torch.tensor(0.5, dtype=p.dtype, device=p.device)
        under = torch.nextafter(half, torch.zeros_like(half))
        p = torch.where(chosen, above.maximum(half), below.minimum(under).clamp(min=0))
        return replace(problem, z=p.clamp(max=1), from_logits=False, exclusive=exclusive)

    def of_label(self, label: int) -> Metric:
        raise ValueError(f"metric {self.name!r} has no value for one label alone.")


def k_largest(p: Tensor, k: int, dim: int = -2) -> Tensor:
    """True for the ``k`` largest along a dimension; of equal ones for the first.

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


def check_cut(metric: Metric, threshold: Any, thresholds: Any = None) -> None:
    """Refuse a threshold where the metric has its own."""
    default = isinstance(threshold, int | float) and threshold == 0.5
    if metric.own_cut and not (default and thresholds is None):
        raise ValueError(f"threshold does not apply to {metric.name!r}, which takes the largest.")
