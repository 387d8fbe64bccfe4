"""The best threshold for a metric, exactly: every threshold between two scores is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softset.checks import warn_user
from softset.counting.cells import Confusion
from softset.counting.problem import arrange
from softset.counting.thresholds import EQUAL, Thresholds, pick
from softset.decisions.candidates import Candidates
from softset.decisions.shrinking import shrunk_thresholds
from softset.metrics.goals import Goal
from softset.metrics.meeting import Meeting
from softset.metrics.registry import MetricLike, get_goal, thresholded
from softset.tasks import BINARY, MULTILABEL, get_task
from softset.typing import TensorLike, Weights

MAX_PASSES = 20
# Confusions evaluated together in a search over labels: bounds memory.
BLOCK = 2**20


@torch.no_grad()
def best_threshold(
    scores: TensorLike,
    target: TensorLike,
    metric: MetricLike,
    *,
    task: str = "binary",
    from_logits: bool | None = None,
    sample_weight: Weights = None,
    class_weight: Weights = None,
    ignore_index: int | None = None,
    shrink: bool = False,
) -> Any:
    """The threshold in (0, 1) with the highest ``metric``: a float, or a list of one a label.

    Every threshold between two scores is tried, also "predict all" and "predict none", by one sort.
    Of equally good ones the middle of the widest gap between two scores is taken, both in logits;
    the gaps outside of all scores count as two logits wide. Labels are tuned independently where
    the average allows it (macro, weighted, none), else in turn until nothing improves.

    A threshold that no probability can express is not tried: the largest one below 1 is a logit of
    36.7, and between 30 and 30.001 there is none. Classifiers threshold logits, which can.

    With ``shrink``, thresholds of labels that are tuned independently are then shrunk towards one
    that all labels share, the more the fewer positives a label has: the best threshold of five
    positives is mostly chance.

    >>> import torch
    >>> p = torch.tensor([0.2, 0.8, 0.9, 0.95])
    >>> round(best_threshold(p, torch.tensor([0, 1, 1, 1]), "f1", from_logits=False), 6)
    0.5
    """
    task = get_task(task)
    if task.exclusive:
        raise ValueError("best_threshold is for task='binary' and 'multilabel'. Use best_offsets.")
    goal = thresholded(metric).check(task)
    problem = arrange(
        scores,
        target,
        task=task,
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
    )
    rows = Candidates.of(problem)
    chosen = best_logits(goal, rows.thresholds)
    warn_of_violation(goal, rows.thresholds, chosen)
    if shrink and task.independent and goal.metric.separable and not goal.where.exact:
        s = rows.logits
        chosen = shrunk_thresholds(
            goal.metric, s, problem.y, rows.thresholds, chosen, counts=problem.weights() > 0
        )
    return rows.probabilities(chosen).tolist()


class ConstraintWarning(UserWarning):
    """No threshold meets the constraint of a goal on these rows."""


def warn_of_violation(goal: Goal, thresholds: Thresholds, logits: Tensor) -> None:
    """Warn if the chosen thresholds, ``[]`` or ``[labels]``, miss a constraint."""
    if not isinstance(goal.where, Meeting):
        return
    at = (thresholds.logit == logits.unsqueeze(-1)).int().argmax(-1, keepdim=True)
    counts = thresholds.counts.map(
        lambda t: t.expand_as(thresholds.logit).gather(-1, at).squeeze(-1)
    )
    each = counts.tp.reshape(-1)
    for label in range(len(each)):
        c = replace(counts.map(lambda t, k=label: t.reshape(-1)[k]), task=BINARY)
        words = goal.where.violation(goal.of_label(label).metric, c)
        if words:
            where = "" if counts.task.single else f"label {label}: "
            warn_user(f"{where}{words}. The threshold is the nearest to it.", ConstraintWarning)


def best_logits(metric: MetricLike, thresholds: Thresholds) -> Tensor:
    """The best threshold in logits, ``[]``, or that of each label ``[labels]``."""
    goal = get_goal(metric)
    logits, width, counts = thresholds
    if not counts.task.single and not goal.metric.separable:
        return _tune_in_turn(goal, thresholds)
    values = goal.at_thresholds(counts, width > 0)
    if counts.task.single:
        return logits[pick(values, logits, width)]
    each = zip(values, logits, width, strict=True)
    return torch.stack([gap[pick(v, gap, wide)] for v, gap, wide in each])


def _tune_in_turn(m: Goal, thresholds: Thresholds) -> Tensor:
    """Coordinate ascent for a metric of all labels: each in turn, exactly, the others fixed."""
    logits, width, counts = thresholds
    labels = logits.shape[0]
    near = torch.where(width > 0, logits.abs(), float("inf"))
    chosen, best = near.argmin(-1), float("-inf")
    for _ in range(MAX_PASSES):
        before = best
        for label in range(labels):
            at = chosen.unsqueeze(-1)
            now = counts.map(lambda t, at=at: t.gather(-1, at).squeeze(-1))
            blocks = torch.split(torch.arange(logits.shape[-1]), max(1, BLOCK // labels))
            values = torch.cat([m(_with_label(now, counts, label, block)) for block in blocks])
            k = pick(values, logits[label], width[label])
            if float(values[k]) > best + EQUAL:
                best, chosen[label] = float(values[k]), k
        if best <= before:
            break
    return logits.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def _with_label(now: Confusion, counts: Confusion, label: int, block: Tensor) -> Confusion:
    """``now`` with one label at each of some thresholds: ``[thresholds, labels]``."""

    def moved(t: Tensor, at_thresholds: Tensor) -> Tensor:
        """Cells of all labels, with one label at each of its thresholds in turn."""
        rows = t.expand(len(block), len(t)).clone()
        rows[:, label] = at_thresholds[label, block]
        return rows

    cells = ("tp", "fp", "fn", "tn")
    each = (moved(getattr(now, name), getattr(counts, name)) for name in cells)
    return Confusion.of(each, MULTILABEL)
