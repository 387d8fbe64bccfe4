"""Out-of-bag probabilities of forests and the like, for ``cv="oob"``: one fit, no row held out."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator, clone

from softset.tasks import Task
from softset.typing import Array, ArrayLike, Rows, Settings


def bagging(estimator: BaseEstimator, *, tunes: bool) -> BaseEstimator:
    """A copy of ``estimator`` that keeps out-of-bag probabilities if the threshold is tuned."""
    bags = not tunes or getattr(estimator, "bootstrap", True)
    if not hasattr(estimator, "oob_score") or not bags:
        raise ValueError(
            "cv='oob' needs an estimator with out-of-bag scores, such as RandomForestClassifier() "
            f"or ExtraTreesClassifier(bootstrap=True), got {estimator!r}."
        )
    copy = clone(estimator)
    return copy.set_params(oob_score=True) if tunes else copy


def fit(estimator: BaseEstimator, x: Rows, y: Array, settings: Settings) -> BaseEstimator:
    """The fitted ``estimator``; rows without out-of-bag trees are left out of the tuning."""
    with warnings.catch_warnings(), _sums_may_overflow():
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
        return estimator.fit(_within_float32(x), y, **settings)


def respond(model: BaseEstimator, response: str, x: Rows) -> ArrayLike:
    """What the method ``response`` of a fitted model says of ``x``."""
    with _sums_may_overflow():
        return getattr(model, response)(_within_float32(x))


def _sums_may_overflow() -> np.errstate:
    """scikit-learn sums all inputs to see at once that none is NaN: the largest add up to one.

    Then it looks at them one by one.
    """
    return np.errstate(over="ignore", invalid="ignore")


def _within_float32(x: Rows) -> Rows:
    """Trees compare float32 numbers: larger ones become the largest. Infinity is left as it is."""
    if not isinstance(x, np.ndarray) or x.dtype != np.float64:
        return x
    largest = float(np.finfo(np.float32).max)
    return np.where(np.isinf(x), x, np.clip(x, -largest, largest))


def constant_labels(codes: Array) -> Array:
    """For each label of ``(n, labels)`` its value if it has only one, else NaN.

    Out-of-bag probabilities need both values of each label.
    """
    return np.where(np.ptp(codes, axis=0) == 0, codes[0].astype(float), np.nan)


def with_constants(p: Array, constant: Array) -> Array:
    """Probabilities of all labels, from those of the labels that vary."""
    every = np.tile(constant, (len(p), 1))
    every[:, np.isnan(constant)] = p
    return every


def probabilities(model: BaseEstimator) -> tuple[Array | list[Array], Array]:
    """Probabilities out of bag, and the rows that have such trees.

    They have the form of ``predict_proba``: for multilabel targets a list of ``(n, 2)``.
    """
    p = model.oob_decision_function_  # (rows, classes), of multilabel targets (rows, 2, labels)
    rows = np.flatnonzero((p.sum(1) > 0).reshape(len(p), -1).all(1))
    return (p[rows] if p.ndim == 2 else [p[rows, :, k] for k in range(p.shape[2])]), rows


def as_scores(p: Array, trees: int, task: Task) -> Array:
    """Fractions of trees as scores: half a tree is added on each side, so that all are finite."""
    logs = np.log(p * trees + 0.5)
    if task.exclusive:
        return logs
    p, logs = (p[:, 1], logs[:, 1]) if task.single else (p, logs)
    return logs - np.log((1 - p) * trees + 0.5)
