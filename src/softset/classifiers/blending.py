"""Weights of classifiers that are blended, optimized together with the threshold, on the soft
metric."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from softset.classifiers.export import averaged
from softset.counting.problem import arrange
from softset.counting.steps import IdentityStep
from softset.decisions.tuner import Tuner
from softset.tables.rows import Examples, strata_of
from softset.typing import Floats, Ints

# How strongly weights are held near equal ones: see ``blend_weights`` and docs/efficacy.md.
SHRINKAGE = 1.0
# On more rows than this weights are searched on a sample.
MOST_ROWS = 20_000
_STEPS = 60


def blend_weights(
    scores: Floats, y: Ints, w: Floats, tuner: Tuner, shrinkage: float = SHRINKAGE
) -> Floats:
    """The weights ``(parts,)`` of the parts' probabilities, which add up to 1.

    ``scores`` are those of rows that no part was trained on: logits ``(parts, n)`` or
    ``(parts, n, labels)``, log-probabilities ``(parts, n, classes)``. With the soft counts of
    ``decisions/smoothing.py`` (temperature ``T``, ``m`` rows of the rarest class), L-BFGS minimizes
    over weights ``v`` and threshold ``b``

        1 - metric(soft counts of (score(v) - b) / T) + shrinkage / sqrt(m) sum v log(v parts)

    from equal weights and the best threshold of their blend. The last term, the divergence from
    equal weights, vanishes as data grows.

    >>> from softset.metrics.registry import get_metric
    >>> random = np.random.RandomState(0)
    >>> y = random.randint(0, 2, 400)
    >>> scores = np.stack([random.randn(400) + 3 * y - 1.5, random.randn(400)])
    >>> weights = blend_weights(scores, y, np.ones(400), Tuner(get_metric("f1"), "binary"))
    >>> bool(weights[0] > 0.7), round(float(weights.sum()), 6)
    (True, 1.0)
    """
    models = len(scores)
    if models == 1 or not tuner.goal.tunes or not tuner.can_tune(y):
        return np.full(models, 1 / models)
    step = -(-len(y) // MOST_ROWS)
    z, y, w = torch.from_numpy(scores[:, ::step].copy()), y[::step], w[::step]
    equal = averaged(z, tuner.task)
    rarest = max(1, int(np.unique(strata_of(y), return_counts=True)[1].min()))
    temperature = max(min(2.0, float(equal.std())) * rarest ** (-1 / 3), 1e-9)
    penalty = shrinkage / math.sqrt(rarest)
    sign = 1.0 if tuner.task.exclusive else -1.0  # offsets are added, thresholds subtracted
    shift = np.array(tuner.best(equal.numpy(), y, w).logit)

    def loss(flat: Tensor) -> Tensor:
        """One minus the smoothed metric of the blend, and the penalty for unequal weights."""
        logs, shifts = torch.log_softmax(flat[:models], 0), flat[models:].reshape(shift.shape)
        moved = averaged(z, tuner.task, logs.exp()) + sign * shifts
        problem = arrange(
            moved / temperature, y, task=tuner.task, from_logits=True, sample_weight=w
        )
        counts = tuner.goal.soft_cells(problem, IdentityStep())
        divergence = (logs.exp() * (logs + math.log(models))).sum()
        return 1 - tuner.goal.soft_value(counts, None) + penalty * divergence

    def value_and_gradient(flat: Floats) -> tuple[float, Floats]:
        """The loss with its gradient, as L-BFGS asks for it."""
        leaf = torch.from_numpy(flat.copy()).requires_grad_()
        value = loss(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.item(), gradient.numpy()

    # Not that of torch.optim, which imports PyTorch's compiler: three seconds in each process.
    search = minimize(
        value_and_gradient,
        np.append(np.zeros(models), shift),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "ftol": 1e-12, "gtol": 1e-7},
    )
    weights = torch.softmax(torch.from_numpy(search.x[:models]), 0).numpy()
    return weights if np.isfinite(weights).all() else np.full(models, 1 / models)


def few_of_each(rows: Examples, count: int) -> Examples:
    """About ``count`` of the rows, the same fraction of each class, at least 10 of each."""
    if len(rows.y) <= count:
        return rows
    strata = strata_of(rows.y)
    number = np.empty(len(strata), dtype=np.int64)
    size = np.empty(len(strata))
    for stratum in np.unique(strata):
        in_stratum = np.flatnonzero(strata == stratum)
        number[in_stratum], size[in_stratum] = np.arange(len(in_stratum)), len(in_stratum)
    return rows.take(number < np.maximum(10, size * count / len(strata)))
