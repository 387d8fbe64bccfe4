"""What ``MetricThresholdClassifier`` asks of an estimator: to fit, to answer, and in which form."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from softset.checks import warn_user
from softset.decisions.promises import PromiseWarning
from softset.tables.rows import equal_rows
from softset.tasks import TINY
from softset.typing import Array, ArrayLike, Ints, Rows, Settings

RESPONSES = ("predict_proba", "decision_function")


def response_of(estimator: BaseEstimator) -> str:
    """The method whose answers are thresholded."""
    methods = [name for name in RESPONSES if hasattr(estimator, name)]
    if not is_classifier(estimator) or not methods:
        raise ValueError(
            "estimator must be a classifier with predict_proba or decision_function, got "
            f"{estimator!r}."
        )
    return methods[0]


def fit(estimator: BaseEstimator, x: Rows, y: Array, settings: Settings) -> BaseEstimator:
    """The fitted ``estimator``."""
    return estimator.fit(x, y, **settings)


def respond(model: BaseEstimator, response: str, x: Rows) -> ArrayLike:
    """What the method ``response`` of a fitted model returns for ``x``."""
    return getattr(model, response)(x)


def weight_name(estimator: BaseEstimator) -> str | None:
    """What ``fit`` calls the weights of rows; ``None`` if it takes none."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        return f"{step}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def of_one_label(p: Array, classes: Array) -> Array:
    """The probability of a label, which may have been all 0 or all 1 in training."""
    place = np.flatnonzero(np.asarray(classes) == 1)
    return np.asarray(p)[:, place[0]] if len(place) else np.zeros(len(p))


def least_probability(p: Array) -> float:
    """What stands for a probability of 0 or 1, whose logarithms are infinite.

    Trees give both, and nothing between them and the fraction of one tree: half of the smallest
    probability out of fold, so that a gap next to them is as wide as others are.
    """
    inner = np.concatenate([p[p > 0], 1 - p[p < 1]])
    all_inner = len(inner) == 2 * p.size
    return TINY if all_inner or not len(inner) else max(TINY, float(inner.min()) / 2)


def warn_of_repeated(X: Rows, rows: Ints) -> None:
    """Warn of equal rows, which are not the independent ones that a promise is about."""
    equal = equal_rows(_safe_indexing(X, rows))
    if equal is not None and (again := len(rows) - len(np.unique(equal))):
        warn_user(
            f"{again} of {len(rows)} rows repeat others: a promise is about independent rows, and "
            "may be broken more often than it says.",
            PromiseWarning,
        )


def has_probabilities(model: BaseEstimator) -> bool:
    """Whether a classifier around an estimator has ``predict_proba``; else AttributeError."""
    if not model.calibrate:
        getattr(model.estimator, "predict_proba")  # noqa: B009 (its error says what is missing)
    return True
