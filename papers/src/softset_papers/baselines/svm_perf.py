"""SVM-perf: a linear structural SVM for error rate, F1 or the area under the ROC curve.

Joachims, "A support vector method for multivariate performance measures" (ICML 2005) and
"Training linear SVMs in linear time" (KDD 2006), written from the papers:

    min  |w|^2 / 2 + C xi   such that   w . psi(c) >= delta(c) - xi   for every wrong answer c

``c`` is a wrong labeling of *all* examples at once (for ROC: a set of swapped pairs), ``delta``
its loss in [0, 1] and ``psi`` the mean by which its features fall short of the right answer's.
There are exponentially many of them and one slack; the cutting plane method adds the most violated
one until none is violated by more than ``tol``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from softset.checks import check_choice, check_number

Array = NDArray[Any]
Violated = tuple[Array, float]  # a coefficient for every example (psi = coef @ X), and delta
Pair = tuple[float, float]  # what a row of the first (negative) and of the second class weighs
EQUAL: Pair = (1.0, 1.0)


# --- the most violated constraint, in O(n log n) -------------------------------------------------
# Each takes scores s = X w and labels (True = positive), and maximizes delta(c) - s . coef(c).
# A row counts with the weight of its class; all rows of a class weigh the same, so that the rows
# with the highest scores are still the ones to take.


def violated_error(s: Array, positive: Array, weights: Pair = EQUAL) -> Violated:
    """An example is wrong if that pays: its margin is below 1 (KDD 2006, algorithm 1)."""
    sign = np.where(positive, 1.0, -1.0)
    share = np.where(positive, weights[1], weights[0])
    share = share / share.sum()
    wrong = sign * s < 1
    return wrong * sign * share, float(share[wrong].sum())


def violated_f1(s: Array, positive: Array, weights: Pair = EQUAL) -> Violated:
    """The best number of true positives ``a`` and false positives ``b`` (ICML 2005, algorithm 2).

    F1 depends on the two numbers alone, so with given numbers the examples with the highest scores
    are called positive. What is maximized, ``delta(a, b) + A[a] + B[b]``, is concave in ``b`` for
    each ``a``: bisection takes the place of the paper's second loop.
    """
    up, down = np.flatnonzero(positive), np.flatnonzero(~positive)
    ratio = weights[0] / weights[1]  # of a false positive, in true positives
    n = len(up) + ratio * len(down)
    up, down = up[np.argsort(-s[up], kind="stable")], down[np.argsort(-s[down], kind="stable")]
    # Against the right answer: a missed positive costs its score, a false positive gains it.
    missed = np.concatenate([[0.0], np.cumsum(s[up][::-1])])[::-1] / n
    gained = ratio * s[down] / n
    a = np.arange(len(up) + 1)
    low, high = np.zeros(len(a), dtype=int), np.full(len(a), len(down))
    while (low < high).any():  # the first b after which one more no longer pays
        middle = (low + high) // 2
        size = len(up) + a + ratio * middle
        slope = np.append(gained, -np.inf)[middle] + 2 * a / size - 2 * a / (size + ratio)
        low, high = np.where(slope > 0, middle + 1, low), np.where(slope > 0, high, middle)
        low = np.minimum(low, high)
    total = np.concatenate([[0.0], np.cumsum(gained)])
    delta = 1 - 2 * a / (len(up) + a + ratio * low)
    best = int(np.argmax(delta - missed + total[low]))
    coefficient = np.zeros(len(s))
    coefficient[up[a[best] :]] = 1 / n
    coefficient[down[: low[best]]] = -ratio / n
    return coefficient, float(delta[best])


def violated_roc(s: Array, positive: Array, weights: Pair = EQUAL) -> Violated:
    """A pair is swapped if that pays: its difference is below 1 (ICML 2005, algorithm 3).

    All pairs weigh the same, whatever the classes do.
    """
    del weights
    up, down = np.sort(s[positive]), np.sort(s[~positive])
    pairs = len(up) * len(down)
    coefficient = np.empty(len(s))
    above = len(down) - np.searchsorted(down, s[positive] - 1, side="right")
    coefficient[positive] = above / pairs
    coefficient[~positive] = -np.searchsorted(up, s[~positive] + 1, side="left") / pairs
    return coefficient, float(above.sum() / pairs)


LOSSES: dict[str, Callable[..., Violated]] = {
    "error": violated_error,
    "f1": violated_f1,
    "roc": violated_roc,
}


# --- the small dual ------------------------------------------------------------------------------


def simplex_qp(gram: Array, gain: Array, total: float, start: Array, tol: float) -> Array:
    """``argmax gain . a - a . gram . a / 2`` over ``a >= 0``, ``sum a = total``.

    An active-set method: solve on the support, walk there until a weight is zero and drop it, or
    arrive and take up the constraint with the steepest gradient. ``start`` must be feasible.
    """
    a = start.copy()
    # A touch of ridge: constraints may be linearly dependent.
    gram = gram + 1e-12 * max(float(np.trace(gram)), 1e-300) * np.eye(len(gram))
    support = a > 0
    for _ in range(50 * len(a) + 100):
        index = np.flatnonzero(support)
        k = len(index)
        system = np.ones((k + 1, k + 1))
        system[:k, :k], system[k, k] = gram[np.ix_(index, index)], 0.0
        goal = np.linalg.lstsq(system, np.append(gain[index], total), rcond=None)[0][:k]
        step = goal - a[index]
        falling = goal < 0
        if falling.any():
            lengths = np.full(k, np.inf)
            lengths[falling] = a[index][falling] / -step[falling]
            first = int(np.argmin(lengths))
            a[index] += lengths[first] * step
            a[index[first]] = 0.0
            support[index[first]] = False
            continue
        a[index] = goal
        gradient = gain - gram @ a
        level = gradient[index].max()
        gradient[support] = -np.inf
        steepest = int(np.argmax(gradient))
        if gradient[steepest] <= level + tol:
            break
        support[steepest] = True
    a = np.maximum(a, 0)
    return a * (total / a.sum())


# --- the estimator -------------------------------------------------------------------------------


class SVMPerf(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier with a large margin for ``loss``: ``"error"``, ``"f1"`` or ``"roc"``.

    ``decision_function`` is ``X w + b``, and positive means the second of ``classes_``. ``C`` has
    the scale of KDD 2006 (losses in [0, 1], features averaged over examples); F1 of rare positives
    wants a larger one. Features should be of similar size: standardize them. For ``"roc"`` only the
    order of the scores means something; choose a threshold (``best_threshold``) before deciding.

    Args:
        bias: the constant feature that is added (0 for none); it is regularized like the others.
        tol: how much a constraint may be violated; the loss is that close to its optimum.
        weights: what a row of the first and of the second of ``classes_`` counts.

    Fitted: ``coef_ [features]``, ``intercept_``, ``classes_``, ``n_iter_``, ``slack_``.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> SVMPerf("f1", C=100).fit(X, [0, 0, 1, 1]).predict(X).tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        loss: str = "f1",
        C: float = 1.0,
        *,
        bias: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        weights: Pair = EQUAL,
    ) -> None:
        self.loss, self.C, self.bias, self.tol, self.max_iter = loss, C, bias, tol, max_iter
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Self:
        """Add cutting planes until none is violated by more than ``tol``."""
        check_choice("loss", self.loss, LOSSES)
        check_number("C", self.C, 0, np.inf)
        check_number("tol", self.tol, 0, np.inf)
        for weight in self.weights:
            check_number("weights", weight, 0, np.inf)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, code = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. y has {len(self.classes_)} classes."
            )
        if len(self.classes_) < 2:
            raise ValueError("y must hold two classes, got 1 class.")
        positive = code == 1
        X = np.column_stack([X, np.full(len(X), self.bias)])
        find = LOSSES[self.loss]
        # The right answer itself, with loss 0, is the first constraint: it says xi >= 0.
        psi, delta, gram = np.zeros((1, X.shape[1])), np.zeros(1), np.zeros((1, 1))
        alpha, w = np.array([float(self.C)]), np.zeros(X.shape[1])
        for iteration in range(1, self.max_iter + 1):
            self.n_iter_ = iteration
            coefficient, loss = find(X @ w, positive, self.weights)
            new = coefficient @ X
            self.slack_ = float((delta - psi @ w).max())
            if loss - new @ w <= self.slack_ + self.tol:
                break
            row = psi @ new
            gram = np.block([[gram, row[:, None]], [row[None, :], np.array([[new @ new]])]])
            psi, delta = np.vstack([psi, new]), np.append(delta, loss)
            alpha = simplex_qp(gram, delta, self.C, np.append(alpha, 0.0), self.tol / 10)
            w = alpha @ psi
        else:
            warnings.warn(
                f"SVMPerf has not converged after {self.max_iter} cutting planes. Raise max_iter "
                "or tol, or lower C.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.coef_, self.intercept_ = w[:-1], float(w[-1] * self.bias)
        return self

    def decision_function(self, X: Any) -> Array:
        """``X w + b``, one score for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_ + self.intercept_

    def predict(self, X: Any) -> Array:
        """The second of ``classes_`` where the score is positive."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
