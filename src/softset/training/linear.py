"""Logistic regression fine-tuned for the soft metric, by full-batch L-BFGS.

Log-loss first; then ``1 - metric`` of soft counts with the identity step (``H = p``, paper 004
eq. 24) plus a penalty on the distance from the logistic solution. The penalty falls along a path
whose points start from each other, so that "not at all", "a little" and "far" can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax
from torch import Tensor

from softset.counting.flat import Form, flatten
from softset.counting.problem import Problem, arrange
from softset.counting.steps import IdentityStep
from softset.decisions.decision import Decision
from softset.losses.soft_metric import problem_loss
from softset.metrics.goals import Goal
from softset.tasks import BINARY, MULTICLASS
from softset.typing import Array, ArrayLike, Bools, Ints, Matrix

# Weights of the squared distance from the logistic solution, in standardized units.
Bounds = list[tuple[float | None, float | None]]
PATH = (0.03, 0.003, 0.0003, 0.00003)
_STEPS = 60  # of L-BFGS at each point of the path
_LOGISTIC_STEPS = 500


class LinearRows:
    """Rows that a linear model is trained on, wherever they are.

    Coefficients are one flat vector: ``[outputs, features]``, then ``[outputs]`` intercepts, with
    one output for two classes. ``monotonic_cst`` is ``(features,)`` of -1, 0 and 1: a coefficient
    must not have the other sign.
    """

    classes: int
    monotonic_cst: Array | None

    @property
    def features(self) -> int:
        """How many inputs there are."""
        raise NotImplementedError

    def log_loss(self, flat: Array) -> tuple[float, Array]:
        """The sum of the weighted log-losses, and its gradient."""
        raise NotImplementedError

    def soft_loss(self, goal: Goal, flat: Array) -> tuple[float, Array]:
        """``1 - goal`` of soft counts, and its gradient."""
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        """Scores of each row: one for two classes."""
        return outputs_of(self.classes)

    def bounds(self, free: Array | None) -> Bounds | None:
        """For L-BFGS-B: monotonic_cst, and zero for what is not ``free``."""
        if self.monotonic_cst is None and free is None:
            return None
        features = self.features
        monotonic_cst = np.zeros(features) if self.monotonic_cst is None else self.monotonic_cst
        ranges = {-1: (None, 0.0), 0: (None, None), 1: (0.0, None)}
        both: Bounds = []
        for k in range(self.outputs):
            for j in range(features):
                fixed = free is not None and not free[k * features + j]
                both.append((0.0, 0.0) if fixed else ranges[int(monotonic_cst[j])])
        return both + [(None, None)] * self.outputs


@dataclass(frozen=True)
class LinearProblem(LinearRows):
    """Rows in memory: standardized inputs ``x (n, features)``, dense or sparse, class numbers and
    weights."""

    x: Matrix
    y: Ints
    w: Array
    classes: int
    monotonic_cst: Array | None = None

    @property
    def features(self) -> int:
        return int(self.x.shape[1])

    def take(self, which: Array) -> LinearProblem:
        """Some of the rows, by number or mask."""
        return replace(self, x=self.x[which], y=self.y[which], w=self.w[which])

    @cached_property
    def counted(self) -> Problem:
        """Labels and weights as losses take them, with scores of 0."""
        task = BINARY if self.outputs == 1 else MULTICLASS
        z = np.zeros((len(self.y), *task.shape(self.classes)))
        return arrange(z, self.y, task=task, from_logits=True, sample_weight=self.w)

    def scores(self, flat: Array) -> Array:
        """``(n,)`` for two classes, else ``(n, classes)``."""
        return scores_of(self.x, flat, self.outputs)

    def pull_back(self, by_score: Array) -> Array:
        """The gradient by the coefficients from that by the scores."""
        g = by_score[:, None] if self.outputs == 1 else by_score
        return np.concatenate([np.asarray(self.x.T @ g).T.ravel(), g.sum(0)])

    def log_loss(self, flat: Array) -> tuple[float, Array]:
        """The weighted sum of the logistic loss, and its gradient."""
        z, y, w = self.scores(flat), self.y, self.w
        if self.outputs == 1:
            loss = -(w * log_expit(np.where(y == 1, z, -z))).sum()
            by_score = w * (expit(z) - y)
        else:
            logs = log_softmax(z, 1)
            loss = -(w * logs[np.arange(len(y)), y]).sum()
            by_score = w[:, None] * (np.exp(logs) - np.eye(self.classes)[y])
        return float(loss), self.pull_back(by_score)

    def soft_loss(self, goal: Goal, flat: Array) -> tuple[float, Array]:
        """The loss of the metric, and its gradient by the coefficients."""
        loss, by_score = self.by_scores(goal, self.scores(flat))
        return loss, self.pull_back(by_score)

    def by_scores(self, goal: Goal, scores: Array) -> tuple[float, Array]:
        """``1 - goal`` of soft counts, and its gradient by the scores."""
        z = torch.from_numpy(scores).requires_grad_()
        loss = problem_loss(replace(self.counted, z=z), goal, step=IdentityStep())
        (by_score,) = torch.autograd.grad(loss, z)
        return float(loss.detach()), by_score.numpy()

    def soft_cells(self, goal: Goal, z: Tensor) -> tuple[Tensor, Form]:
        """The soft counts of scores, as one vector, with their graph."""
        return flatten(goal.soft_cells(replace(self.counted, z=z), IdentityStep()))


def scores_of(x: Matrix, flat: Array, outputs: int) -> Array:
    """The linear scores of standardized inputs."""
    coef = flat[:-outputs].reshape(outputs, -1)
    z = np.asarray(x @ coef.T) + flat[-outputs:]
    return z[:, 0] if outputs == 1 else z


def widened(flat: Array, some: Bools, outputs: int) -> Array:
    """The coefficients of ``some`` columns among those of all, the others 0.

    >>> widened(np.array([2.0, 3.0, -1.0]), np.array([True, False, True]), 1).tolist()
    [2.0, 0.0, 3.0, -1.0]
    """
    coef = np.zeros((outputs, len(some)))
    coef[:, some] = flat[:-outputs].reshape(outputs, -1)
    return np.concatenate([coef.ravel(), flat[-outputs:]])


def logistic(problem: LinearRows, c: float, l1_ratio: float, start: Array | None) -> Array:
    """Logistic regression: ``C sum w loss + (1 - r)/2 |b|^2 + r |b|_1``, as scikit-learn has it.

    The absolute values are made smooth by writing a coefficient as the difference of two that are
    not negative.
    """
    size = problem.outputs * (problem.features + 1)
    penalized = size - problem.outputs
    first = np.zeros(size) if start is None else start

    def value(flat: Array) -> tuple[float, Array]:
        """The penalized loss and its gradient, without absolute values."""
        loss, grad = problem.log_loss(flat)
        b = flat[:penalized]
        grad = c * grad
        grad[:penalized] += (1 - l1_ratio) * b
        return c * loss + (1 - l1_ratio) / 2 * float(b @ b), grad

    if not l1_ratio:
        return _minimized(value, first, problem.bounds(None), _LOGISTIC_STEPS)

    def parted(both: Array) -> tuple[float, Array]:
        """The same with coefficients as differences of two, whose sum is penalized."""
        up, down, rest = both[:penalized], both[penalized : 2 * penalized], both[2 * penalized :]
        objective, grad = value(np.concatenate([up - down, rest]))
        g = grad[:penalized]
        total = objective + l1_ratio * (up.sum() + down.sum())
        return total, np.concatenate([g + l1_ratio, l1_ratio - g, grad[penalized:]])

    signed = problem.bounds(None) or [(None, None)] * size
    up = [(0.0, 0.0) if high == 0 else (0.0, None) for _, high in signed[:penalized]]
    down = [(0.0, 0.0) if low == 0 else (0.0, None) for low, _ in signed[:penalized]]
    b = first[:penalized]
    both = np.concatenate([np.maximum(b, 0), np.maximum(-b, 0), first[penalized:]])
    solution = _minimized(parted, both, [*up, *down, *signed[penalized:]], _LOGISTIC_STEPS)
    b = solution[:penalized] - solution[penalized : 2 * penalized]
    return np.concatenate([b, solution[2 * penalized :]])


def move(problem: LinearRows, goal: Goal, start: Array, penalty: float, at: Array) -> Array:
    """From ``at``, towards the soft metric, at a ``penalty`` on the distance from ``start``."""
    return _minimized(
        lambda flat: soft_loss(problem, goal, flat, start, penalty),
        at,
        problem.bounds(start[: -problem.outputs] != 0 if (start == 0).any() else None),
        _STEPS,
    )


def soft_loss(
    problem: LinearRows, goal: Goal, flat: Array, start: Array, penalty: float
) -> tuple[float, Array]:
    """``1 - goal + penalty/2 |flat - start|^2`` and its gradient."""
    loss, grad = problem.soft_loss(goal, flat)
    away = flat - start
    return loss + penalty / 2 * float(away @ away), grad + penalty * away


def _minimized(
    function: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Bounds | None,
    steps: int,
) -> Array:
    result = minimize(
        function, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}
    )
    better = np.isfinite(result.fun) and np.isfinite(result.x).all()
    return result.x if better else start


def shifted(flat: Array, decision: Decision, classes: int) -> Array:
    """With the intercept moved so that decisions change at 0."""
    moved = flat.copy()
    outputs = outputs_of(classes)
    moved[-outputs:] += -decision.logit if classes == 2 else decision.logit
    return moved


def outputs_of(classes: int) -> int:
    """Scores of a row: one for two classes, else one for each."""
    return 1 if classes == 2 else classes


def checked_monotonic_cst(monotonic_cst: ArrayLike | None, features: int) -> Array | None:
    """The signs of coefficients as numbers; raises ValueError unless each is -1, 0 or 1."""
    if monotonic_cst is None:
        return None
    signs = np.asarray(monotonic_cst, dtype=float)
    if signs.shape != (features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(
            f"monotonic_cst must hold -1, 0 or 1 for each of {features} features, got "
            f"{monotonic_cst!r}."
        )
    return signs
