"""The same metrics as objectives of XGBoost and LightGBM.

Boosting computes its gradient over the whole data set at once, which is what a metric that does
not decompose over examples needs. The gradient is the core's, in closed form and in float64. The
two libraries are imported only where they are used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softset.checks import check_choice, check_number
from softset.counting.cells import Confusion, count_cells
from softset.counting.problem import Problem, arrange
from softset.counting.steps import Step, check_step, is_hard
from softset.decisions.evaluation import evaluate_problem
from softset.losses.soft_metric import default_step
from softset.metrics.registry import MetricLike, decided_elsewhere, one_number
from softset.tasks import BINARY, MULTICLASS
from softset.typing import Array, ArrayLike

# Added to every curvature: a leaf of settled examples stays where it is instead of dividing by 0.
FLOOR = 1e-6

# From this score on no row has a gradient. XGBoost starts at -13.8 for a probability of 0.
SETTLED = 13.0

# The counts of a confusion that depend on the scores.
DIFFERENTIATED = ("tp", "fp", "fn", "tn", "counted_matrix")


Sum = Callable[[Confusion], Confusion]


def xgboost_objective(
    metric: MetricLike = "f1", *, step: Step | None = None, threshold: float = 0.5
) -> MetricObjective:
    """``1 - metric`` as an objective of XGBoost, with the metric itself to watch: ``.evaluate``.

    The gradient of row i is ``w_i e_i H'(p_i) p_i (1 - p_i)``, where ``e_i`` is what it does to the
    metric to decide positively on that row, divided by ``|e_positive| + |e_negative|``; the
    curvature is its absolute value, so that no leaf moves a score by more than the learning rate
    (docs/boosting.md says why). Scores are ``(N,)``, or ``(N, C)`` with ``num_class=C``.

    One object serves ``xgboost.train(settings, data, obj=objective)``, Dask's ``train`` and
    ``XGBClassifier(objective=objective)``. Sample weights come from the ``DMatrix``. On several
    workers the counts are summed over all of them, so that the gradient is that of all rows.

    Set ``base_score=0.5``, which is a score of 0 where XGBoost knows that it is a probability: in
    ``XGBClassifier``, and in ``train`` with ``"objective": "binary:logistic"`` beside ``obj`` (with
    ``"multi:softprob"`` and ``num_class`` for more than two classes); ``predict`` then gives
    probabilities. Set ``min_child_weight=1e-3``: curvature is no count of rows here.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        step: how soft the decision is; as for ``metric_loss``.
        threshold: the probability from which ``predict`` will say positive (binary).

    >>> import numpy as np, xgboost
    >>> x = np.arange(100.0).reshape(-1, 1)
    >>> data = xgboost.DMatrix(x, label=x[:, 0] >= 90)
    >>> objective = xgboost_objective("f1")
    >>> settings = {"base_score": 0.5, "min_child_weight": 1e-3, "max_depth": 2}
    >>> model = xgboost.XGBClassifier(objective=objective, n_estimators=10, **settings)
    >>> model.fit(x, x[:, 0] >= 90).predict(x).sum().item()
    10
    >>> settings["objective"] = "binary:logistic"
    >>> booster = xgboost.train(settings, data, num_boost_round=10, obj=objective)
    >>> (booster.predict(data) >= 0.5).sum().item()
    10
    >>> objective.evaluate(booster.predict(data, output_margin=True), data)
    ('f1', 1.0)
    """
    return MetricObjective("xgboost", metric, step, threshold)


def lightgbm_objective(
    metric: MetricLike = "f1", *, step: Step | None = None, threshold: float = 0.5
) -> MetricObjective:
    """``1 - metric`` as an objective of LightGBM, with the metric itself to watch: ``.evaluate``.

    Gradient, curvature and arguments as for ``xgboost_objective``. One object serves
    ``lightgbm.train({"objective": objective}, data, feval=objective.evaluate)`` and
    ``LGBMClassifier(objective=objective)``, which has raw scores only, ``predict(x,
    raw_score=True)``: positive means at least ``log(threshold / (1 - threshold))``.

    >>> import numpy as np, lightgbm
    >>> x = np.arange(1000.0).reshape(-1, 1) // 10
    >>> data = lightgbm.Dataset(x, label=x[:, 0] >= 90)
    >>> objective = lightgbm_objective("f1")
    >>> settings = {"objective": objective, "verbosity": -1}
    >>> booster = lightgbm.train(settings, data, num_boost_round=10)
    >>> objective.evaluate(booster.predict(x), data)
    ('f1', 1.0, True)
    """
    return MetricObjective("lightgbm", metric, step, threshold)


class MetricObjective:
    """What ``xgboost_objective`` and ``lightgbm_objective`` return.

    Called as the native interfaces do, ``objective(scores, data)``, or as their scikit-learn
    wrappers do, ``objective(target, scores, sample_weight)``, it returns gradient and curvature,
    each of the shape of ``scores``. ``objective.evaluate`` takes the same arguments.
    """

    def __init__(self, library: str, metric: MetricLike, step: Step | None, threshold: float):
        self.library, self.goal = library, one_number(decided_elsewhere(metric))
        if step is not None:
            check_step(step)
            if is_hard(step):
                raise ValueError("step must have a gradient, got HardStep(). Use LinearStep().")
        check_number("threshold", threshold, 0, 1)
        self.step, self.threshold = step, threshold
        self.evaluate = Evaluation(self)

    def __call__(
        self, first: ArrayLike, second: Any, sample_weight: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        scores, target, weight = _arguments(first, second, sample_weight)
        self._check_start(scores)
        gradient, _ = metric_gradient(
            scores,
            target,
            self.goal,
            step=self.step,
            threshold=self.threshold,
            sample_weight=weight,
            over_workers=self.over_workers(),
        )
        return gradient, curvature(gradient)

    def _check_start(self, scores: ArrayLike) -> None:
        """Refuse rounds that start where no row has a gradient: nothing would be learned."""
        z = np.asarray(scores)
        alike = len(z) > 1 and z.min() == z.max()
        if self.library == "xgboost" and alike and abs(z.flat[0]) > SETTLED:
            raise ValueError(
                f"base_score makes XGBoost start at a score of {z.flat[0]:.4g} for every row; "
                "there the metric has no gradient. XGBClassifier and 'binary:logistic' read it as "
                "a probability. Set base_score=0.5 there."
            )

    def over_workers(self) -> Sum | None:
        """How to sum counts over the workers of a distributed XGBoost, if there are any. LightGBM
        has no sum that Python can call, so that its workers are refused."""
        if self.library != "xgboost":
            if _on_lightgbm_workers():
                raise ValueError(
                    f"lightgbm_objective({self.goal.name!r}) sees the rows of one worker only: "
                    "LightGBM on Dask has no sum over workers that an objective can call, so that "
                    "it would train for the metric of each part. Use xgboost_objective with "
                    "xgboost.dask, or LightGBM on one machine."
                )
            return None
        from xgboost import collective

        return _sum_over_workers if collective.is_distributed() else None

    def __repr__(self) -> str:
        return f"{self.library}_objective({self.goal.name!r}, threshold={self.threshold})"


class Evaluation:
    """The metric with hard decisions, in the form each library wants from an evaluation function.

    Larger is better, which LightGBM is told; tell XGBoost with ``maximize=True``. Scores are raw,
    as both libraries pass them next to a custom objective.
    """

    def __init__(self, objective: MetricObjective) -> None:
        self.objective = objective
        self.__name__ = objective.goal.name

    def __call__(
        self, first: ArrayLike, second: Any, sample_weight: ArrayLike | None = None
    ) -> tuple[str, float, bool] | tuple[str, float] | float:
        scores, target, weight = _arguments(first, second, sample_weight)
        value = self.value(scores, target, weight)
        if self.objective.library == "lightgbm":
            return self.__name__, value, True
        return (self.__name__, value) if hasattr(second, "get_label") else value

    def value(self, scores: ArrayLike, target: ArrayLike, weight: ArrayLike | None) -> float:
        o = self.objective
        sum_up = o.over_workers()
        z = _scores(scores)
        problem, there = _arranged(z, target, weight, may_be_empty=sum_up is not None)
        threshold = o.threshold if problem.task.single else 0.5
        if o.goal.by_scores or sum_up is None:
            # An area needs all scores, not counts: of several workers XGBoost takes the mean.
            return float(evaluate_problem(problem, o.goal, threshold=threshold))
        matrix = o.goal.wants_matrix(problem.task, problem.classes)
        c = count_cells(problem, threshold=threshold, matrix=matrix)
        return float(o.goal(sum_up(c if there else c.map(torch.zeros_like))))


def metric_gradient(
    scores: ArrayLike,
    target: ArrayLike,
    metric: MetricLike,
    *,
    step: Step | None = None,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    over_workers: Sum | None = None,
) -> tuple[Array, float]:
    """The gradient of ``metric_loss`` by the scores, scaled, and the scale; float64.

    The loss depends on the scores only through a few counts. So it is differentiated by the counts
    (of all workers), and these few derivatives, scaled, are pushed back through the counts of the
    rows at hand.

    >>> gradient, scale = metric_gradient([2.0, -1.0, 0.5], [1, 1, 0], "f1")
    >>> (gradient / scale).round(4).tolist()
    [-0.0159, -0.1188, 0.057]
    """
    goal = one_number(decided_elsewhere(metric))
    if not goal.where.adds_up and over_workers is not None:
        raise ValueError(
            f"metric {goal.name!r} determines its threshold from all scores, which no worker has."
        )
    z = _scores(scores).requires_grad_()
    problem, there = _arranged(z, target, sample_weight, may_be_empty=over_workers is not None)
    if not problem.task.single:
        threshold = 0.5  # of more than two classes the largest score decides
    c = goal.soft_cells(problem, default_step(problem.task) if step is None else step, threshold)
    c = c if there else c.map(torch.zeros_like)
    with torch.no_grad():
        everywhere = c.detach() if over_workers is None else over_workers(c.detach())
    names = [n for n in DIFFERENTIATED if getattr(everywhere, n) is not None]
    leaves = [getattr(everywhere, n).clone().requires_grad_() for n in names]
    everywhere_leaf = replace(everywhere, **dict(zip(names, leaves, strict=True)))
    value = goal.soft_value(everywhere_leaf, "penalize")
    if not torch.isfinite(value):
        raise ValueError(f"metric {goal.name} of the soft counts is {value.item()}.")
    by_counts = torch.autograd.grad(-value, leaves, allow_unused=True, materialize_grads=True)
    scale = 1 / (_size(dict(zip(names, by_counts, strict=True)), everywhere) or 1.0)
    if not there:
        return z.detach().numpy(), scale
    # One number: gradients of several tensors make PyTorch import sympy, which takes a second.
    local = sum(
        ((getattr(c, n) * d).sum() * scale for n, d in zip(names, by_counts, strict=True)),
        torch.zeros((), dtype=z.dtype),
    )
    (gradient,) = torch.autograd.grad(local, z)
    return gradient.numpy(), scale


def curvature(gradient: Array) -> Array:
    """``|gradient|``: a leaf's step ``-sum g / sum h`` is then a vote of its rows, in [-1, 1].

    >>> curvature(np.array([-0.5, 0.25])).round(3).tolist()
    [0.5, 0.25]
    """
    h = np.abs(gradient)
    h += FLOOR
    return h


def _size(by: dict[str, Tensor], c: Confusion) -> float:
    """What a positive decision costs or earns: ``|e_positive| + |e_negative|``.

    Summed over a grid of thresholds, and averaged over the classes of the rows.
    """
    size = (by["tp"] - by["fn"]).abs() + (by["fp"] - by["tn"]).abs()
    if "counted_matrix" in by:
        size = size + by["counted_matrix"].amax(-1) - by["counted_matrix"].amin(-1)
    inner = c.task.class_dims
    if size.dim() > inner:
        size, c = size.sum(0), c.map(lambda t: t[0])
    if not c.task.single:
        size = (size * c.support).sum() / c.support.sum().clamp(min=1e-300)
    return float(size)


def _on_lightgbm_workers() -> bool:
    """Whether LightGBM's Dask interface is training: nothing that it passes says so."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") == "lightgbm.dask":
            return True
    return False


def _sum_over_workers(c: Confusion) -> Confusion:
    from xgboost import collective

    def summed(t: Tensor) -> Tensor:
        """The sum over workers, by one all-reduce."""
        flat = collective.allreduce(t.reshape(-1).contiguous().numpy(), collective.Op.SUM)
        return torch.from_numpy(np.asarray(flat)).reshape(t.shape)

    return c.map(summed)


def _arguments(
    first: ArrayLike, second: Any, weight: ArrayLike | None
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """Scores, target and weights from what a native interface or a wrapper passes."""
    if not hasattr(second, "get_label"):
        return second, first, weight
    weights: Array | None = second.get_weight()
    return first, second.get_label(), weights if weights is not None and len(weights) else None


def _scores(scores: ArrayLike) -> Tensor:
    """Scores in float64: ``(N,)`` of two classes, ``(N, C)`` of more."""
    z = torch.from_numpy(np.array(scores, dtype=np.float64, order="C"))
    if z.dim() == 2 and z.shape[1] == 1:
        z = z.squeeze(1)
    check_choice("the number of dimensions of the scores", z.dim(), (1, 2))
    return z


def _arranged(
    z: Tensor, target: ArrayLike, weight: ArrayLike | None, may_be_empty: bool
) -> tuple[Problem, bool]:
    """The problem, its task told by the shape of the scores, and whether there are rows.

    A worker without rows has to take part in a sum all the same: with one that does not count.
    """
    there = len(z) > 0
    if not there and may_be_empty:
        z, target, weight = z.new_zeros(1, *z.shape[1:]), [0], None
    task = BINARY if z.dim() == 1 else MULTICLASS
    return arrange(z, target, task=task, from_logits=True, sample_weight=weight), there
