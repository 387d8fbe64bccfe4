"""The metric with the hard step: what a classifier is judged by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import count_cells
from softset.counting.problem import Problem, arrange
from softset.counting.values import check_labels, check_not_nan
from softset.decisions.cuts import all_cuts
from softset.metrics.base import Metric
from softset.metrics.registry import MetricLike, get_metric


@torch.no_grad()
def evaluate(
    scores: Any,
    target: Any,
    metric: MetricLike,
    *,
    task: str = "binary",
    threshold: Any = 0.5,
    offsets: Any = None,
    from_logits: bool = True,
    sample_weight: Any = None,
    class_weight: Any = None,
    ignore_index: int | None = None,
) -> Any:
    """``metric`` of the hard decisions, as scikit-learn has it: a float (a list if not averaged).

    Arguments as for ``confusion``; ``scores`` and ``target`` may be arrays. The areas (AUROC,
    average precision) are exact, by sorting; of several classes they are one against the rest.

    >>> import torch
    >>> evaluate(torch.tensor([2.0, -1.0, 0.5, 1.0]), torch.tensor([1, 1, 0, 1]), "f1")
    0.6666666666666666
    >>> evaluate([0.9, 0.2, 0.6], [1, 1, 0], "auroc", from_logits=False)
    0.5
    """
    problem = arrange(
        scores,
        target,
        task=task,
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
    )
    value = evaluate_problem(problem, get_metric(metric), threshold=threshold, offsets=offsets)
    return value.item() if value.dim() == 0 else value.tolist()


@torch.no_grad()
def evaluate_problem(
    problem: Problem, metric: Metric, *, threshold: Any = 0.5, offsets: Any = None
) -> Tensor:
    """``evaluate`` of a problem that is arranged already, as a tensor."""
    if metric.curve:
        if offsets is not None:
            raise ValueError("offsets do not apply to a metric over all thresholds.")
        return _area(metric, metric.prepare(problem))
    matrix = metric.wants_matrix(problem.task, problem.classes)
    return metric(count_cells(problem, threshold=threshold, offsets=offsets, matrix=matrix))


def _area(m: Metric, problem: Problem) -> Tensor:
    """Exactly, at every cut: by a sort instead of a grid of thresholds."""
    pooled = problem.task == "multilabel" and m.average == "micro"
    problem = problem.pooled() if pooled else problem
    p = problem.probabilities().double()
    check_not_nan(problem.z, torch.isnan(p))
    check_labels(problem.y)
    c = all_cuts(p, problem.y, problem.w, problem.task).counts
    return m(c if problem.task == "binary" else c.map(lambda t: t.mT))
