"""``MetricForestClassifier``: a random forest cut for the metric, saved as plain arrays."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from softset.checks import check_number
from softset.classifiers.base import Deciding
from softset.classifiers.trees import Array, Trees, _as_float32, _with_constants
from softset.decisions.smoothing import smooth_cut
from softset.metrics.base import Metric
from softset.metrics.registry import MetricLike, get_metric
from softset.tables.labels import checked_weights, refuse_missing

# Probabilities below this are taken as this where a logarithm is needed.
_TINY = 1e-6


class MetricForestClassifier(Deciding):
    """A random forest whose threshold is tuned for the metric it is judged by.

    The trees are scikit-learn's. Every row has probabilities from the trees that did not see it
    (out of bag); the threshold with the best ``metric`` on those decides: one for two classes, one
    for each label, and offsets of the log-probabilities for several classes. No row is held out.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        n_trees: how many trees.
        min_samples_leaf: rows in a leaf, at least.
        max_features: columns tried at each split, as in scikit-learn.
        threshold: ``"tuned"``; or a number in (0, 1), one for each label; for several classes
            offsets, one for each; ``None`` is 1/2 or the largest probability.
        class_weight: ``None``, ``"balanced"`` or ``{class: weight}``; multiplies sample weights.
        pos_label: the positive class of two; the last of ``classes_`` if left out.
        n_jobs: threads that grow trees; ``None`` is one.
        random_state: int, ``RandomState`` or ``None``.

    Attributes:
        classes_, n_features_in_, feature_names_in_: as in scikit-learn.
        threshold_: the threshold(s) in use; ``offsets_`` for several classes.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(400, weights=[0.9], random_state=0)
    >>> model = MetricForestClassifier("f1", n_trees=50, random_state=0).fit(X, y)
    >>> 0 < model.threshold_ < 0.5, model.predict(X[:3]).shape
    (True, (3,))
    """

    _least = _TINY

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        n_trees: int = 200,
        min_samples_leaf: int = 1,
        max_features: Any = "sqrt",
        threshold: Any = "tuned",
        class_weight: Any = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.n_trees = n_trees
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    # --- fit -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on ``X (n, features)`` and ``y (n,)``, or ``(n, labels)`` of 0 and 1."""
        metric = get_metric(self.metric)
        check_number("n_trees", self.n_trees, 1, float("inf"), closed="low")
        check_number("min_samples_leaf", self.min_samples_leaf, 1, float("inf"), closed="low")
        refuse_missing(y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, accept_sparse=False)
        y = y.toarray() if hasattr(y, "toarray") else y
        codes = self._learn_classes(y)
        weight = checked_weights(sample_weight, X)
        if not len(np.unique(codes[weight > 0], axis=0)) > 1:
            raise ValueError("y must hold at least two classes, got one class of positive weight.")
        self._check_threshold()
        random = check_random_state(self.random_state)
        forest = RandomForestClassifier(
            int(self.n_trees),
            min_samples_leaf=int(self.min_samples_leaf),
            max_features=self.max_features,
            bootstrap=True,
            oob_score=_no_score if self._tunes() else False,
            n_jobs=self.n_jobs,
            random_state=random.randint(2**31 - 1),
        )
        with warnings.catch_warnings():  # rows without such trees are left out of the tuning
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            factors = weight * self._class_weights(codes, weight)
            weighted = factors if np.ptp(factors) > 0 else None
            labels = _constant_labels(codes) if self._task == "multilabel" else None
            varying = codes if labels is None else np.squeeze(codes[:, np.isnan(labels)])
            forest.fit(_as_float32(X), varying, weighted)
        self._trees = Trees.of(forest, labels)
        tuned = None
        if self._tunes():
            tuned = self._tuned(metric, _out_of_bag(forest, self._task, labels), codes, weight)
        self._set_threshold(tuned)
        return self

    def _tuned(self, metric: Metric, p: Array, y: Array, w: Array) -> Any:
        seen = np.flatnonzero(np.isfinite(p.reshape(len(p), -1)).all(1) & (w > 0))
        # The given order may mean something.
        seen = seen[np.argsort(check_random_state(0).permutation(len(seen)))]
        if len(np.unique(y[seen], axis=0)) < 2:
            return None
        return super()._tuned(metric, p[seen], y[seen], w[seen])

    def _best(self, metric: Metric, p: Array, y: Array, w: Array) -> Any:
        if self._task == "multiclass":
            p = np.maximum(p, _TINY)
            return super()._best(metric, p / p.sum(1, keepdims=True), y, w)
        if self._task == "binary":
            return self._smooth_cut(metric, p, y, w)
        return super()._best(metric, p, y, w)

    def _smooth_cut(self, metric: Metric, p: Array, y: Array, w: Array) -> float:
        """The cut as for boosting, from smoothed counts: with few positives the best is luck."""
        trees = float(self.n_trees)
        z = np.log((p * trees + 0.5) / ((1 - p) * trees + 0.5))
        share = 1 / (1 + np.exp(-smooth_cut(z, y, w, metric)[0]))
        return float(np.clip((share * (trees + 1) - 0.5) / trees, _TINY, 1 - _TINY))

    # --- predict ---------------------------------------------------------------------------------

    def _positive_probabilities(self, x: Array) -> Array:
        p = self._trees(x)
        if self._task == "multilabel":
            return np.clip(p, _TINY, 1 - _TINY)  # scikit-learn asks for inner points there
        return p[:, 1] if self._task == "binary" else p

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        trees = {k: torch.from_numpy(v) for k, v in self._trees._asdict().items()}
        return {"features": self.n_features_in_, "trees": trees}

    def _relearn(self, fitted: dict[str, Any]) -> None:
        self.n_features_in_ = fitted["features"]
        self._trees = Trees(**{k: t.numpy() for k, t in fitted["trees"].items()})
        self._trees.check(self.n_features_in_)
        if self._trees.value.shape[1] != len(self.classes_):
            raise ValueError("as many leaf values as classes expected")


def _no_score(y_true: Array, y_pred: Array) -> float:
    """Only the out-of-bag probabilities are wanted, not a score of them."""
    return 0.0


def _constant_labels(codes: Array) -> Array:
    """For each label its value if it has one only, else NaN."""
    return np.where(np.ptp(codes, axis=0) == 0, codes[0].astype(float), np.nan)


def _out_of_bag(forest: Any, task: str, labels: Array | None) -> Array:
    """Probabilities of each row by the trees that did not see it; NaN if there are none."""
    p = forest.oob_decision_function_
    if task == "multiclass":
        return p
    if labels is None:
        return p[:, 1]
    return _with_constants(p[:, 1, :] if p.ndim == 3 else p[:, 1:], labels)
