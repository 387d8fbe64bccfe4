"""CCS: convex calibrated surrogates for the multi-label F-measure, with linear models.

Zhang, Ramaswamy and Agarwal (ICML 2020). Written from the paper's abstract and the procedure of
Dembczynski et al. (2011, 2013) that it decodes with.

The expected F1 of a set of labels depends on the distribution of the true set ``Y`` only through
``s^2 + 1`` probabilities: that of no label, ``P(Y = {})``, and for each label ``j`` and size ``k``
``P(j in Y, |Y| = k)``. Each is a binary problem with a convex surrogate, here the logistic loss;
decoding finds the set with the largest expected F1 exactly.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from softset.checks import check_number

Array = NDArray[Any]


def best_sets(empty: Array, joint: Array) -> tuple[Array, Array]:
    """The sets of labels with the largest expected F1, ``[N, s]``, and that F1, ``[N]``.

    ``empty [N]`` is the probability of no label, ``joint [N, s, s]`` that label ``j`` is true and
    the number of true labels is ``k + 1``. For a set of size ``l`` the expected F1 is the sum over
    its labels of ``sum_k 2 joint[j, k] / (k + l)``, so the best of each size are the ``l`` largest.

    >>> import numpy as np
    >>> sets, value = best_sets(np.array([0.1]), np.array([[[0.5, 0.2], [0.2, 0.2]]]))
    >>> sets.tolist(), value.round(3).tolist()
    ([[True, True]], [0.667])
    """
    labels = joint.shape[1]
    sizes = np.arange(1, labels + 1)
    best, value = np.zeros(joint.shape[:2], dtype=bool), np.asarray(empty, dtype=float).copy()
    for size in sizes:
        worth = joint @ (2 / (sizes + size))
        chosen = np.argsort(-worth, axis=1, kind="stable")[:, :size]
        total = np.take_along_axis(worth, chosen, 1).sum(1)
        better = np.flatnonzero(total > value)
        value[better] = total[better]
        best[better] = False
        best[better[:, None], chosen[better]] = True
    return best, value


class CalibratedSurrogates(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear models and the set of labels with the largest expected F1.

    ``y`` is an indicator matrix ``[N, labels]``, or classes ``[N]``. Two classes are one label.
    Several classes are one label each, of which exactly one is true: then the problems of the sizes
    2 to ``s`` are empty, and ``predict`` gives the single class with the largest expected F1 (the
    most probable one), because another answer could not be right. ``predict_sets`` gives the sets
    that the method would choose among all.

    Args:
        C: inverse strength of the L2 penalty of each logistic regression.

    Fitted: ``classes_``, ``n_labels_``, ``coef_ [problems, features + 1]``, ``n_iter_`` (the most
    of any regression).

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Y = np.array([[1, 0], [1, 0], [1, 1], [1, 1]])
    >>> CalibratedSurrogates(C=100).fit(X, Y).predict(X).tolist()
    [[1, 0], [1, 0], [1, 1], [1, 1]]
    """

    def __init__(self, C: float = 1.0, *, max_iter: int = 200) -> None:
        self.C, self.max_iter = C, max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One logistic regression for each of the ``s^2 + 1`` events that vary."""
        check_number("C", self.C, 0, np.inf)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        self.multilabel_ = y.ndim == 2
        if self.multilabel_:
            if type_of_target(y) != "multilabel-indicator":
                raise ValueError("y must hold 0 and 1 only, one column for each label.")
            sets = y.astype(bool)
            self.classes_ = np.arange(y.shape[1])
        else:
            check_classification_targets(y)
            self.classes_, code = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise ValueError("y must hold two classes or more, got 1 class.")
            two = len(self.classes_) == 2
            sets = code[:, None] == 1 if two else code[:, None] == np.arange(len(self.classes_))
        self.n_labels_ = sets.shape[1]
        sizes = sets.sum(1)
        events = [sizes == 0]
        events += [sets[:, j] & (sizes == k + 1) for j, k in self._problems()]
        w = None
        if sample_weight is not None:
            w = column_or_1d(check_array(sample_weight, ensure_2d=False, dtype=np.float64))
            check_consistent_length(X, w)
            if not (w > 0).any():
                raise ValueError("sample_weight must be above zero for some rows, got none.")
        self.n_iter_ = 1
        self.coef_ = np.array([self._one(X, event, w) for event in events])
        return self

    def _problems(self) -> list[tuple[int, int]]:
        return [(j, k) for j in range(self.n_labels_) for k in range(self.n_labels_)]

    def _one(self, X: Array, event: Array, w: Array | None) -> Array:
        """Weights and constant of one event; one that never or always happens has no weights."""
        share = (event if w is None else event[w > 0]).mean()
        if share in (0, 1):
            return np.append(np.zeros(X.shape[1]), np.inf if share == 1 else -np.inf)
        model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(X, event, w)
        self.n_iter_ = max(self.n_iter_, int(model.n_iter_.max()))
        return np.append(model.coef_[0], model.intercept_[0])

    def event_probabilities(self, X: Any) -> tuple[Array, Array]:
        """``P(no label) [N]`` and ``P(label j, k + 1 labels) [N, s, s]``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = X @ self.coef_[:, :-1].T + self.coef_[:, -1]
        p = np.exp(-np.logaddexp(0, -scores))
        return p[:, 0], p[:, 1:].reshape(len(p), self.n_labels_, self.n_labels_)

    def predict_sets(self, X: Any) -> Array:
        """The set of labels with the largest expected F1, ``[N, labels]`` of 0 and 1."""
        return best_sets(*self.event_probabilities(X))[0].astype(int)

    def predict(self, X: Any) -> Array:
        """Sets of labels as 0 and 1, or classes, as ``y`` was given."""
        check_is_fitted(self)
        if not self.multilabel_ and self.n_labels_ > 1:
            return self.classes_[self.event_probabilities(X)[1][:, :, 0].argmax(1)]
        sets = self.predict_sets(X)
        return sets if self.multilabel_ else self.classes_[sets[:, 0]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
