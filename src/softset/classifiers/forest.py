"""``MetricForestClassifier``: a random forest cut for the metric, saved as plain arrays."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils import check_random_state

from softset.boosting.trees import as_float32
from softset.checks import check_number
from softset.classifiers.base import DecidingClassifier, logs_of
from softset.classifiers.trees import Array, Trees, with_constants
from softset.metrics.registry import MetricLike
from softset.tasks import Task

# Probabilities below this are taken as this where a logarithm is needed.
_TINY = 1e-6


class MetricForestClassifier(DecidingClassifier):
    """A random forest whose threshold is tuned for the metric it is judged by.

    The trees are scikit-learn's. Every row has probabilities from the trees that did not see it
    (out of bag); the threshold with the best ``metric`` on those decides: one for two classes, one
    for each label, and offsets of the log-probabilities for several classes. No row is held out.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        n_trees: how many trees.
        min_samples_leaf: rows in a leaf, at least.
        max_features: columns tried at each split, as in scikit-learn.
        extra: extra trees, which draw the cuts of a split at random. Their trees see all rows, as
            scikit-learn's do, unless the threshold is tuned, which needs rows out of bag.
        threshold: ``"tuned"``; or a number in (0, 1), one for each label; for several classes
            offsets, one for each; ``None`` is 1/2 or the largest probability.
        class_weight: ``None``, ``"balanced"`` or ``{class: weight}``; multiplies sample weights. Of
            labels a list of these, one for each; their factors are multiplied, as in scikit-learn.
        pos_label: the positive class of two; the last of ``classes_`` if left out.
        n_jobs: threads that grow trees; ``None`` is one.
        random_state: int, ``RandomState`` or ``None``.

    Attributes:
        classes_, n_features_in_, feature_names_in_: as in scikit-learn.
        threshold_: the threshold(s) in use; ``offsets_`` for several classes.
        feature_importances_: scikit-learn's, ``(features,)``: the share of each in how much purer
            the splits make their rows. ``permutation_importances`` is for the metric itself.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(400, weights=[0.9], random_state=0)
    >>> model = MetricForestClassifier("f1", n_trees=50, random_state=0).fit(X, y)
    >>> 0 < model.threshold_ < 0.5, model.predict(X[:3]).shape
    (True, (3,))
    """

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        n_trees: int = 200,
        min_samples_leaf: int = 1,
        max_features: Any = "sqrt",
        extra: bool = False,
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
        self.extra = extra
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    # --- fit -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on ``X (n, features)`` and ``y (n,)``, or ``(n, labels)`` of 0 and 1."""
        check_number("n_trees", self.n_trees, 1, float("inf"), closed="low")
        check_number("min_samples_leaf", self.min_samples_leaf, 1, float("inf"), closed="low")
        X = self._checked_inputs(X, y)
        rows = self._start(X, y, sample_weight)
        given = np.flatnonzero(rows.w > 0)
        X, codes, weight = rows.take(given)
        random = check_random_state(self.random_state)
        forest = (ExtraTreesClassifier if self.extra else RandomForestClassifier)(
            int(self.n_trees),
            min_samples_leaf=int(self.min_samples_leaf),
            max_features=self.max_features,
            bootstrap=self._tunes() or not self.extra,
            oob_score=_no_score if self._tunes() else False,
            n_jobs=self.n_jobs,
            random_state=random.randint(2**31 - 1),
        )
        with warnings.catch_warnings():  # rows without such trees are left out of the tuning
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            weighted = weight if np.ptp(weight) > 0 else None
            labels = _constant_labels(codes) if self._task.independent else None
            varying = codes if labels is None else np.squeeze(codes[:, np.isnan(labels)])
            with np.errstate(over="ignore", invalid="ignore"):  # it sums X to look for NaN
                forest.fit(as_float32(X), varying, weighted)
        self._trees = Trees.of(forest, labels)
        self.feature_importances_ = forest.feature_importances_
        if not self._tunes():
            self._decide_by(None, codes, weight)
            return self
        p = _out_of_bag(forest, self._task, labels)
        seen = np.flatnonzero(np.isfinite(p.reshape(len(p), -1)).all(1))
        # The given order may mean something.
        seen = seen[check_random_state(0).permutation(len(seen))]
        place = np.full(len(rows.y), -1)
        place[given[seen]] = np.arange(len(seen))
        self._decide_by(self._as_scores(p[seen]), codes[seen], weight[seen], place)
        return self

    # --- predict ---------------------------------------------------------------------------------

    def _scores(self, x: Array) -> Array:
        return self._scored(x)[1]

    def _scored(self, x: Array) -> tuple[Array, Array]:
        p = self._probabilities(x)
        return p, self._as_scores(p)

    def _as_scores(self, p: Array) -> Array:
        """Shares of trees as logits: half a tree is added on each side, so that all are finite."""
        trees = float(len(self._trees.first) - 1)
        if self._task.exclusive:
            return np.log(p * trees + 0.5)
        return np.log(p * trees + 0.5) - np.log((1 - p) * trees + 0.5)

    def _probabilities(self, x: Array) -> Array:
        p = self._trees(x)
        if self._task.independent:
            return np.clip(p, _TINY, 1 - _TINY)  # scikit-learn asks for inner points there
        return p[:, 1] if self._task.single else p

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of ``predict_proba``, in the same columns; -inf where no tree says so."""
        return logs_of(self.predict_proba(X))

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        trees = {k: torch.from_numpy(v) for k, v in self._trees._asdict().items()}
        learned = {"features": self.n_features_in_, "trees": trees}
        if hasattr(self, "feature_importances_"):  # files before 0.2 have none
            learned["importances"] = torch.from_numpy(self.feature_importances_)
        return learned

    def _relearn(self, fitted: dict[str, Any]) -> None:
        self.n_features_in_ = fitted["features"]
        self._trees = Trees(**{k: t.numpy() for k, t in fitted["trees"].items()})
        self._trees.check(self.n_features_in_)
        if self._trees.value.shape[1] != len(self.classes_):
            raise ValueError("as many leaf values as classes expected")
        if not self._task.independent and not np.allclose(self._trees.value.sum(1), 1):
            raise ValueError("probabilities that add up to 1 expected")
        if "importances" in fitted:
            found = fitted["importances"].double().numpy()
            if found.shape != (self.n_features_in_,) or not (found >= 0).all():
                raise ValueError("an importance for each feature expected")
            self.feature_importances_ = found


def _no_score(y_true: Array, y_pred: Array) -> float:
    """Only the out-of-bag probabilities are wanted, not a score of them."""
    return 0.0


def _constant_labels(codes: Array) -> Array:
    """For each label its value if it has one only, else NaN."""
    return np.where(np.ptp(codes, axis=0) == 0, codes[0].astype(float), np.nan)


def _out_of_bag(forest: Any, task: Task, labels: Array | None) -> Array:
    """Probabilities of each row by the trees that did not see it; NaN if there are none."""
    p = forest.oob_decision_function_
    if task.exclusive:
        return p
    if labels is None:
        return p[:, 1]
    return with_constants(p[:, 1, :] if p.ndim == 3 else p[:, 1:], labels)
