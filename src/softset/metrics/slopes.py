"""Values and slopes of metrics that are functions of two sums per class, ``tp`` and ``predicted``.

In small batches autograd takes longer on these few numbers than a kernel on the rows. So each
formula stands here once more, with its derivatives, in NumPy. Where a denominator is next to
nothing, or a metric is not in the tables, the answer is none, and autograd serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from softset.metrics.base import REACH, Metric
from softset.metrics.formulas import (
    MCC,
    Accuracy,
    BalancedAccuracy,
    CohenKappa,
    FBeta,
    FowlkesMallows,
    Fraction,
    GMean,
    Informedness,
    Jaccard,
    Markedness,
    Precision,
    Recall,
    Specificity,
    Tversky,
)
from softset.tasks import Task

Array = Any  # of float64, one for each class
# Counts that are a smaller share of the rows have corners of their own in the formulas.
LITTLE = 1e-12


class Sums(NamedTuple):
    """Counts, one for each class: ``x`` is ``tp``, ``q`` is ``predicted``, ``s`` is ``support`` and
    ``n`` is the total."""

    x: Array
    q: Array
    s: Array
    n: Array

    @property
    def negatives(self) -> Array:
        return self.n - self.s

    @property
    def rejected(self) -> Array:
        return self.n - self.q

    @property
    def tn(self) -> Array:
        return self.negatives - self.q + self.x

    def of(self, classes: Array) -> Sums:
        """Of some classes only."""
        return Sums(*(v[classes] for v in self))


class Slopes(NamedTuple):
    """A value and its derivatives by ``tp`` and ``predicted``."""

    value: Array
    by_tp: Array
    by_predicted: Array


def slopes(m: Metric, task: Task, sums: Sums, empty: str) -> Slopes | None:
    """The metric that ``m`` is in training, and its slopes; ``empty`` as in ``MetricLoss``."""
    n = float(sums.n[0])
    if not REACH[0] <= n <= REACH[1] or isinstance(getattr(m, "beta", None), tuple):
        return None
    with np.errstate(all="ignore"):
        found = _of_task(m, task, sums, empty)
        if found is None:
            return None
        both = np.add(found.by_tp, found.by_predicted).sum() * 0 + found.value.item()
    return found if math.isfinite(both) else None


def _of_task(m: Metric, task: Task, sums: Sums, empty: str) -> Slopes | None:
    one, joint = _ONE.get(type(m)), _JOINT.get(type(m))
    if isinstance(m, Fraction) and type(m) in _FRACTIONS:
        one = _of_fraction(m)
    if task.single:
        if one is None or not _is_between(sums) or (m.both_classes and m.average != "macro"):
            return None
        return _of_both(one, sums) if m.both_classes else one(sums)
    if task.exclusive and m.joint:
        return None if joint is None or m.average != "macro" else joint(sums)
    if one is None or m.average is None:
        return None
    if m.average == "micro":
        return _of_all_together(one, sums)
    return _average(m, one, task, sums, empty)


def _is_between(sums: Sums) -> bool:
    """Whether every class has rows, and not all of them."""
    low = LITTLE * sums.n
    return bool(((sums.s > low) & (sums.negatives > low)).all())


def _of_both(one: _Function, c: Sums) -> Slopes:
    """The mean over the positive and the negative class."""
    positive, negative = one(c), one(Sums(c.tn, c.rejected, c.negatives, c.n))
    return Slopes(
        (positive.value + negative.value) / 2,
        (positive.by_tp + negative.by_tp) / 2,
        (positive.by_predicted - negative.by_tp - negative.by_predicted) / 2,
    )


def _of_all_together(one: _Function, c: Sums) -> Slopes | None:
    summed = Sums(*(v.sum(keepdims=True) for v in c))
    if not _is_between(summed):
        return None
    found = one(summed)
    like = np.ones_like(c.x)
    return Slopes(found.value, found.by_tp * like, found.by_predicted * like)


def _average(m: Metric, one: _Function, task: Task, c: Sums, empty: str) -> Slopes | None:
    """Over the classes: those that are defined, and labels without positives by ``empty``."""
    defined = c.s > 0
    if m.needs_negatives:
        defined &= c.negatives > 0
    every = False not in defined  # quicker than all()
    if m.average == "weighted":
        shares = c.s / c.s.sum()
    elif every or (task.independent and empty != "ignore"):
        shares = 1 / len(c.s)
    elif defined.any():
        shares = defined / defined.sum()
    else:
        return None
    if every:
        value, by_tp, by_predicted = one(c)
    else:
        value, by_tp, by_predicted = np.zeros((3, len(c.s)))
        value[defined], by_tp[defined], by_predicted[defined] = one(c.of(defined))
        if task.independent:  # the share of right decisions
            sign = np.where(c.s > 0, 1.0, -1.0)
            share = np.where(c.s > 0, c.q, c.n - c.q) / c.n
            value = np.where(defined, value, 1.0 if empty == "ignore" else share)
            push = 0.0 if empty == "ignore" else sign / c.n
            by_predicted = np.where(defined, by_predicted, push)
    return Slopes((value * shares).sum(), by_tp * shares, by_predicted * shares)


# --- formulas of one class, each as in ``formulas`` -----------------------------------------------

_Function = Callable[[Sums], Slopes]


def _divided(a: Array, b: Array) -> Array:
    """``a / b``, and not a number where that would be a corner."""
    return np.where(b > LITTLE, a / b, np.nan)


def _of_fraction(m: Fraction) -> _Function:
    def of_sums(c: Sums) -> Slopes:
        value, by_tp, by_predicted = m.parts(c.x, c.q, c.s)
        return Slopes(value, by_tp, by_predicted)

    return of_sums


def _accuracy(c: Sums) -> Slopes:
    return Slopes((c.x + c.tn) / c.n, 2 / c.n, -1 / c.n)


def _specificity(c: Sums) -> Slopes:
    per = _divided(1.0, c.negatives)
    return Slopes(c.tn * per, per, -per)


def _balanced(c: Sums) -> Slopes:
    recall, other = _divided(0.5, c.s), _divided(0.5, c.negatives)
    return Slopes(c.x * recall + c.tn * other, recall + other, -other)


def _informedness(c: Sums) -> Slopes:
    value, by_tp, by_predicted = _balanced(c)
    return Slopes(2 * value - 1, 2 * by_tp, 2 * by_predicted)


def _markedness(c: Sums) -> Slopes:
    precision, other = _divided(1.0, c.q), _divided(1.0, c.rejected)
    fn = c.s - c.x
    by_predicted = -c.x * precision**2 - fn * other**2
    return Slopes(c.x * precision + c.tn * other - 1, precision + other, by_predicted)


def _fowlkes_mallows(c: Sums) -> Slopes:
    per = _divided(1.0, np.sqrt(c.q * c.s))
    value = c.x * per
    return Slopes(np.where(c.x > LITTLE * c.n, value, np.nan), per, -value * _divided(0.5, c.q))


def _gmean(c: Sums) -> Slopes:
    value = np.sqrt(_divided(c.x * c.tn, c.s * c.negatives))
    low = LITTLE * c.n
    value = np.where((c.x > low) & (c.tn > low), value, np.nan)
    half = value / 2
    return Slopes(value, half / c.x + half / c.tn, -half / c.tn)


def _mcc(c: Sums) -> Slopes:
    per = _divided(1.0, np.sqrt(c.q * c.rejected * c.s * c.negatives))
    value = (c.n * c.x - c.q * c.s) * per
    bend = value * _divided(c.rejected - c.q, 2 * c.q * c.rejected)
    return Slopes(value, c.n * per, -c.s * per - bend)


def _kappa(c: Sums) -> Slopes:
    per = _divided(1.0, c.q * c.negatives + c.s * c.rejected)
    value = 2 * (c.n * c.x - c.q * c.s) * per
    return Slopes(value, 2 * c.n * per, (-2 * c.s - value * (c.negatives - c.s)) * per)


_FRACTIONS = (FBeta, Jaccard, Tversky, Precision, Recall)
_ONE: dict[type, _Function] = {
    Accuracy: _accuracy,
    Specificity: _specificity,
    BalancedAccuracy: _balanced,
    Informedness: _informedness,
    Markedness: _markedness,
    FowlkesMallows: _fowlkes_mallows,
    GMean: _gmean,
    MCC: _mcc,
    CohenKappa: _kappa,
}


# --- formulas of several classes at once ----------------------------------------------------------


def _joint_accuracy(c: Sums) -> Slopes:
    return Slopes(c.x.sum() / c.n[0], 1 / c.n, np.zeros_like(c.x))


def _joint_balanced(c: Sums) -> Slopes:
    there = c.s > 0
    per = np.where(there, 1 / c.s, 0.0) / there.sum()
    return Slopes((c.x * per).sum(), per, np.zeros_like(c.x))


def _joint_gmean(c: Sums) -> Slopes:
    there = c.s > 0
    value = np.exp(np.log(c.x[there] / c.s[there]).mean())
    value = np.where((c.x > LITTLE * c.n)[there].all(), value, np.nan)
    return Slopes(value, np.where(there, value / (there.sum() * c.x), 0.0), np.zeros_like(c.x))


def _joint_mcc(c: Sums) -> Slopes:
    decided, true = (c.q * c.rejected).sum(), (c.s * c.negatives).sum()
    per = _divided(1.0, np.sqrt(decided * true))
    value = (c.n * c.x - c.q * c.s).sum() * per
    return Slopes(value, c.n * per, -c.s * per - value * _divided(c.n - 2 * c.q, 2 * decided))


def _joint_kappa(c: Sums) -> Slopes:
    per = _divided(1.0, (c.q * c.negatives).sum())
    value = (c.n * c.x - c.q * c.s).sum() * per
    return Slopes(value, c.n * per, -(c.s + value * c.negatives) * per)


_JOINT: dict[type, _Function] = {
    Accuracy: _joint_accuracy,
    BalancedAccuracy: _joint_balanced,
    GMean: _joint_gmean,
    MCC: _joint_mcc,
    CohenKappa: _joint_kappa,
}
