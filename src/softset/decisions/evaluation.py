"""The metric with the hard step: what a classifier is judged by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import Confusion, confusion
from softset.counting.problem import Problem, arrange, probabilities
from softset.counting.values import check_labels, refuse_rows
from softset.metrics.base import Metric
from softset.metrics.custom import Custom
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
    m = get_metric(metric)
    settings = {
        "from_logits": from_logits,
        "sample_weight": sample_weight,
        "class_weight": class_weight,
        "ignore_index": ignore_index,
    }
    if m.curve:
        if task == "multiclass":
            if offsets is not None:
                raise ValueError("offsets do not apply to a metric over all thresholds.")
            p, y, w = one_against_rest(scores, target, **settings)
            problem = arrange(p, y, task="multilabel", from_logits=False, sample_weight=w)
            return _plain(_area(m, problem, from_logits=False))
        problem = arrange(scores, target, task=task, **settings)
        return _plain(_area(m, problem, from_logits))
    needs_matrix = isinstance(m, Custom) and task == "multiclass"
    c = confusion(
        scores,
        target,
        task=task,
        threshold=threshold,
        offsets=offsets,
        matrix=needs_matrix,
        **settings,
    )
    return _plain(m(c))


def one_against_rest(
    scores: Any, target: Any, *, from_logits: bool, **settings: Any
) -> tuple[Tensor, Tensor, Tensor | None]:
    """A multiclass problem as one of labels, for areas under curves.

    Probabilities and labels ``[*batch, N, C]``, and weights with all of ``settings`` in them.
    """
    problem = arrange(scores, target, task="multiclass", from_logits=from_logits, **settings)
    p = probabilities(problem.z, "multiclass", from_logits).clamp(0, 1)
    y = problem.y.unsqueeze(-1) == torch.arange(p.shape[-1], device=p.device)
    return p, y, problem.w


def _plain(value: Tensor) -> Any:
    return value.item() if value.dim() == 0 else value.tolist()


def _area(m: Metric, problem: Problem, from_logits: bool) -> Tensor:
    c = all_cuts(problem, from_logits)[1]
    if problem.task == "binary":
        return m(c)
    if m.average == "micro":
        z, y, w, _, _ = problem
        w = None if w is None else w.expand_as(y).flatten()
        return m(all_cuts(Problem(z.flatten(), y.flatten(), w, "binary", 0), from_logits)[1])
    return m(c.map(lambda t: t.mT))


@torch.no_grad()
def all_cuts(problem: Problem, from_logits: bool) -> tuple[Tensor, Confusion]:
    """The sorted probabilities ``[*lead, N]`` and the counts ``[*lead, N + 1]`` at every cut.

    Cut k says positive from the k-th smallest probability on (equal ones together), the last cut
    says positive never: one sort and cumulative sums.
    """
    z, y, w, task, _ = problem
    p = probabilities(z, task, from_logits).double()
    if torch.isnan(p).any():
        refuse_rows(torch.isnan(p))
    check_labels(y)
    p, order = p.sort(dim=-1, stable=True)
    y = y.double().gather(-1, order)
    w = torch.ones_like(p) if w is None else w.expand_as(p).gather(-1, order)
    position = torch.arange(p.shape[-1], device=p.device)
    fresh = torch.ones_like(p, dtype=torch.bool)
    fresh[..., 1:] = p[..., 1:] != p[..., :-1]
    start = torch.where(fresh, position, 0).cummax(-1).values

    def from_cut_on(x: Tensor) -> tuple[Tensor, Tensor]:
        below = torch.nn.functional.pad(x.cumsum(-1), (1, 0))
        total = below[..., -1:]
        at = (total - below[..., :-1]).gather(-1, start)
        return torch.cat([at, torch.zeros_like(total)], -1), total

    tp, support = from_cut_on(w * y)
    predicted, total = from_cut_on(w)
    return p, Confusion(tp, predicted, support.expand_as(tp), total.expand_as(tp), task)
