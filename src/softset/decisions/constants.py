"""The best decision that looks at no input: what every model must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softset.decisions.decision import Decision
from softset.decisions.evaluation import evaluate
from softset.typing import Array

if TYPE_CHECKING:
    from softset.decisions.tuner import Tuner


class ConstantWarning(UserWarning):
    """A model is no better than a constant on rows that training has not seen."""


class Against(NamedTuple):
    """The metric of a decision, and of the best constant: a class, or 0 and 1 for each label;
    ``None`` of goals that judge scores, where it is equal scores."""

    value: float
    constant: float
    decided: Any


def against_constant(
    tuner: Tuner, decision: Decision, scores: Array, y: Array, w: Array
) -> Against | None:
    """How a decision about rows that training has not seen compares with the best constant one;
    ``None`` where rows are too few to tell. Of labels, the constants are none, all, and for each
    what most rows have.

    >>> from softset.decisions.tuner import Tuner
    >>> from softset.metrics.registry import get_metric
    >>> y, tuner = np.repeat([0, 1], [30, 10]), Tuner(get_metric("f1"), "binary")
    >>> against_constant(tuner, Decision.plain("binary"), y - 2.0, y, np.ones(40))
    Against(value=0.0, constant=0.4, decided=1)
    """
    kinds, number = np.unique(y, axis=None if y.ndim == 1 else 0, return_inverse=True)
    if len(y) < tuner.fewest or len(kinds) < 2:
        return None
    if tuner.goal.by_scores:
        value, equal = (
            float(evaluate(z, y, tuner.goal, task=tuner.task, sample_weight=w, from_logits=True))
            for z in (scores, np.zeros_like(scores))
        )
        return Against(value, equal, None)
    # Rows of equal labels count alike here.
    weight = np.bincount(number.ravel(), weights=w).astype(float)
    if tuner.task.independent:
        count = y.shape[1]
        tried = [np.zeros(count), np.ones(count), (w @ y > w.sum() / 2).astype(float)]
    else:
        tried = list(np.eye(scores.shape[1]) if tuner.task.exclusive else np.arange(2.0))
    shape = (len(kinds), *scores.shape[1:])
    values = [tuner.values(np.full(shape, t), kinds, weight[None])[0] for t in tried]
    best = int(np.nanargmax(values)) if np.isfinite(values).any() else 0
    value = tuner.values(decision.one_hot(scores), y, w[None])[0]
    decided = tried[best] if tuner.task.independent else best
    return Against(float(value), float(values[best]), decided)
