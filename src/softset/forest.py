"""``MetricForestClassifier``: a random forest cut for the metric, saved as plain arrays."""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from softset._tools import check_choice, check_number
from softset.boosting_estimator import _cut, _Rows
from softset.evaluation import evaluate
from softset.metrics import Metric, MetricLike, get_metric
from softset.thresholds import best_offsets, best_threshold
from softset.training.checkpoints import SavedFileError, read_file, write_file
from softset.training.labels import checked_weights, plain_labels, refuse_missing, warn_of_blanks
from softset.training.portable import pack_array, pack_metric, plain, unpack_array, unpack_metric

Array = NDArray[Any]
_KIND = "MetricForestClassifier"
# Trees compare float32 inputs.
_LARGEST = 3e38
# Probabilities below this are taken as this where a logarithm is needed.
_TINY = 1e-6
_FOLDS = 5


class Trees(NamedTuple):
    """All trees in a row: the nodes of tree k are ``first[k]`` to ``first[k + 1]``.

    A row at a node goes on at ``left`` if ``x[feature] <= cut``, else at ``right`` (numbers within
    the tree); ``left < 0`` marks a leaf. ``value`` is ``[nodes, outputs]``: probabilities of the
    classes, or of each label.
    """

    first: Array
    feature: Array
    cut: Array
    left: Array
    right: Array
    value: Array

    @classmethod
    def of(cls, forest: Any, labels: Array | None) -> Trees:
        """The trees of a fitted forest.

        ``labels`` has for each label NaN if the forest knows it, else its constant value.
        """
        trees = [e.tree_ for e in forest.estimators_]
        first = np.cumsum([0, *(t.node_count for t in trees)])
        # scikit-learn's are [nodes, labels, classes]
        values = [
            t.value[:, 0, :] if labels is None else _with_constants(t.value[:, :, 1], labels)
            for t in trees
        ]
        return cls(
            first.astype(np.int64),
            np.concatenate([t.feature for t in trees]).astype(np.int32),
            np.concatenate([t.threshold for t in trees]),
            np.concatenate([t.children_left for t in trees]).astype(np.int32),
            np.concatenate([t.children_right for t in trees]).astype(np.int32),
            np.concatenate(values),
        )

    def __call__(self, x: Array) -> Array:
        """The mean over trees of the leaves' values, ``[rows, outputs]``."""
        x = _as_float32(x)
        total = np.zeros((len(x), self.value.shape[1]))
        for start in self.first[:-1]:
            total += self.value[self._leaves(x, int(start))]
        return total / (len(self.first) - 1)

    def _leaves(self, x: Array, start: int) -> Array:
        node = np.full(len(x), start)
        moving = np.arange(len(x)) if self.left[start] >= 0 else np.arange(0)
        while len(moving):
            at = node[moving]
            lower = x[moving, self.feature[at]] <= self.cut[at]
            at = start + np.where(lower, self.left[at], self.right[at])
            node[moving] = at
            moving = moving[self.left[at] >= 0]
        return node

    def check(self, features: int) -> None:
        """Refuse arrays that would send a row outside of its tree."""
        nodes, inner = len(self.feature), self.left >= 0
        sizes = np.repeat(np.diff(self.first), np.diff(self.first))
        own = np.arange(nodes) - np.repeat(self.first[:-1], np.diff(self.first))
        lengths = {len(self.cut), len(self.left), len(self.right), len(self.value), nodes}
        fine = len(lengths) == 1 and self.first[0] == 0 and self.first[-1] == nodes > 0
        fine = fine and bool((np.diff(self.first) > 0).all())
        for side in (self.left, self.right):  # children come later: no row walks in a circle
            fine = fine and bool(((side > own) & (side < sizes))[inner].all())
        fine = fine and bool(((self.feature >= 0) & (self.feature < features))[inner].all())
        if not fine:
            raise ValueError("the trees do not fit together")


def _with_constants(p: Array, labels: Array) -> Array:
    """``p`` has a column for each label that varies; the others get their constant value."""
    full = np.tile(labels, (len(p), 1))
    full[:, np.isnan(labels)] = p
    return full


def _as_float32(x: Array) -> Array:
    return np.clip(x, -_LARGEST, _LARGEST).astype(np.float32)


class MetricForestClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

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
            oob_score=_no_score if self._tunes(metric) else False,
            n_jobs=self.n_jobs,
            random_state=random.randint(2**31 - 1),
        )
        with warnings.catch_warnings():  # rows without such trees are left out of the tuning
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            factors = weight * self._class_weights(codes)
            weighted = factors if np.ptp(factors) > 0 else None
            labels = _constant_labels(codes) if self._task == "multilabel" else None
            varying = codes if labels is None else np.squeeze(codes[:, np.isnan(labels)])
            forest.fit(_as_float32(X), varying, weighted)
        self._trees = Trees.of(forest, labels)
        p = _out_of_bag(forest, self._task, labels) if self._tunes(metric) else None
        self._set_threshold(metric, p, codes, weight)
        return self

    def _learn_classes(self, y: Array) -> NDArray[np.int64]:
        """Set ``classes_`` and the task; class numbers (the positive class of two is 1)."""
        self._positive = 1
        if y.ndim == 2 and y.shape[1] > 1:
            check_classification_targets(y)
            if type_of_target(y) != "multilabel-indicator":
                raise ValueError("y must hold one class a row, or 0 and 1 for each label.")
            if self.pos_label is not None:
                raise ValueError("pos_label is for two classes; y holds labels of 0 and 1.")
            self._task, self.classes_ = "multilabel", np.arange(y.shape[1])
            return y.astype(np.int64)
        y = plain_labels(column_or_1d(y, warn=True))
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        warn_of_blanks(self.classes_)
        known = self.classes_.tolist()
        if len(known) < 2:
            raise ValueError(f"y must hold at least two classes, got one class only: {known[0]!r}.")
        self._task = "binary" if len(known) == 2 else "multiclass"
        if self.pos_label is not None:
            if self._task == "multiclass":
                raise ValueError(f"pos_label is for two classes; y holds {len(known)}.")
            if self.pos_label not in known:
                raise ValueError(f"pos_label must be one of {known}, got {self.pos_label!r}.")
            self._positive = known.index(self.pos_label)
        return codes if self._positive == 1 else 1 - codes

    def _class_weights(self, codes: NDArray[np.int64]) -> Array:
        if self.class_weight is None:
            return np.ones(len(codes))
        if self._task == "multilabel":
            raise ValueError("class_weight is for one class a row; use sample_weight for labels.")
        own = codes if self._positive == 1 else 1 - codes
        labels = self.classes_[own]
        return compute_class_weight(self.class_weight, classes=self.classes_, y=labels)[own]

    # --- the threshold ---------------------------------------------------------------------------

    def _tunes(self, metric: Metric) -> bool:
        return isinstance(self.threshold, str) and not metric.curve

    def _check_threshold(self) -> None:
        if isinstance(self.threshold, str):
            check_choice("threshold", self.threshold, ("tuned",))
        elif self.threshold is not None:
            values, count = np.asarray(self.threshold, dtype=float), len(self.classes_)
            shapes: Any = {"binary": [()], "multilabel": [(), (count,)], "multiclass": [(count,)]}
            if values.shape not in shapes[self._task] or not np.isfinite(values).all():
                wanted = f"{count} offsets" if self._task == "multiclass" else "a number in (0, 1)"
                raise ValueError(
                    f"threshold must be 'tuned', None or {wanted}, got {self.threshold!r}."
                )
            if self._task != "multiclass":
                check_number("threshold", values.tolist(), 0, 1)

    def _set_threshold(self, metric: Metric, p: Array | None, codes: Array, weight: Array) -> None:
        for name in ("threshold_", "offsets_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        given = self.threshold
        if isinstance(given, str):
            given = None if p is None else self._tuned(metric, p, codes, weight)
        if self._task == "multiclass":
            count = len(self.classes_)
            self.offsets_ = np.asarray([0.0] * count if given is None else given, dtype=float)
            return
        threshold = np.asarray(0.5 if given is None else given, dtype=float)
        if self._task == "multilabel":
            threshold = np.broadcast_to(threshold, self.classes_.shape).copy()
        self.threshold_ = float(threshold) if threshold.ndim == 0 else threshold

    def _tuned(self, metric: Metric, p: Array, y: Array, w: Array) -> Any:
        """The best threshold, if tuning helps on rows it was not tuned on.

        Each fifth is decided by the threshold of the others, and all of them together must beat
        1/2 (or the largest probability). Fewer than 20 rows are too few to tune on.
        """
        seen = np.isfinite(p.reshape(len(p), -1)).all(1) & (w > 0)
        p, y, w = p[seen], y[seen], w[seen]
        if len(p) < 4 * _FOLDS or len(np.unique(y, axis=0)) < 2:
            return None
        fold = check_random_state(0).permutation(len(p)) % _FOLDS
        default = self._decided(p, None)
        crossed = default.copy()
        for k in range(_FOLDS):
            rest = fold != k
            crossed[~rest] = self._decided(p[~rest], self._best(metric, p[rest], y[rest], w[rest]))
        settings: Any = {"task": self._task, "from_logits": False, "sample_weight": w}
        if not evaluate(crossed, y, metric, **settings) > evaluate(default, y, metric, **settings):
            return None
        return self._best(metric, p, y, w)

    def _best(self, metric: Metric, p: Array, y: Array, w: Array) -> Any:
        given: Any = {"from_logits": False, "sample_weight": w}
        if self._task == "multiclass":
            return best_offsets(_rows_of_one(p), y, metric, **given)
        if self._task == "binary":
            return self._smooth_cut(metric, p, y, w)
        return best_threshold(p, y, metric, task=self._task, **given)

    def _smooth_cut(self, metric: Metric, p: Array, y: Array, w: Array) -> float:
        """The cut as for boosting, from smoothed counts: with few positives the best is luck."""
        trees = float(self.n_trees)
        z = np.log((p * trees + 0.5) / ((1 - p) * trees + 0.5))
        share = 1 / (1 + np.exp(-_cut(z, _Rows(z, y, w), metric)[0]))
        return float(np.clip((share * (trees + 1) - 0.5) / trees, _TINY, 1 - _TINY))

    def _decided(self, p: Array, threshold: Any) -> Array:
        """Decisions as probabilities of 0 and 1; without a threshold, by 1/2 or the largest."""
        if self._task == "multiclass":
            return np.eye(p.shape[1])[
                _shifted(p, 0.0 if threshold is None else threshold).argmax(1)
            ]
        return (p >= (0.5 if threshold is None else np.asarray(threshold))).astype(float)

    # --- predict ---------------------------------------------------------------------------------

    def _positive_probabilities(self, X: Any) -> Array:
        """``(n,)`` of the positive class, or ``(n, classes or labels)``."""
        check_is_fitted(self)
        p = self._trees(validate_data(self, X, reset=False, dtype=np.float64))
        if self._task == "multilabel":
            return np.clip(p, _TINY, 1 - _TINY)  # scikit-learn asks for inner points there
        return p[:, 1] if self._task == "binary" else p

    def _as_scores(self, p: Array) -> Array:
        return self._decided(p, self.offsets_ if self._task == "multiclass" else self.threshold_)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities ``(n, classes)`` in the order of ``classes_``, or ``(n, labels)``."""
        p = self._positive_probabilities(X)
        if self._task != "binary":
            return p
        return np.column_stack([1 - p, p] if self._positive == 1 else [p, 1 - p])

    def decision_function(self, X: Any) -> Array:
        """``logit p - logit threshold`` of ``classes_[1]``: above 0 exactly where it is predicted.

        Of several classes: log-probabilities with their offsets, ``(n, classes)``; of labels,
        ``(n, labels)``.
        """
        p = self._positive_probabilities(X)
        if self._task == "multiclass":
            return _shifted(p, self.offsets_)
        tiny, eps = np.finfo(float).tiny, np.finfo(float).eps
        safe, tau = np.clip(p, tiny, 1 - eps / 2), np.asarray(self.threshold_)
        d = np.log(safe) - np.log1p(-safe) - np.log(tau) + np.log1p(-tau)
        d = np.where(p >= tau, np.maximum(d, tiny), np.minimum(d, -tiny))
        return d if self._positive == 1 else -d

    def predict(self, X: Any) -> Array:
        """Classes ``(n,)``, or 0/1 ``(n, labels)``, by the tuned (or given) threshold."""
        decided = self._as_scores(self._positive_probabilities(X))
        if self._task == "multilabel":
            return decided.astype(np.int64)
        codes = decided.argmax(1) if self._task == "multiclass" else decided.astype(np.int64)
        return self.classes_[codes if self._positive == 1 else 1 - codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The metric of ``predict`` (of the probabilities for areas under curves)."""
        p, metric = self._positive_probabilities(X), get_metric(self.metric)
        y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if self._task != "multilabel":
            y = column_or_1d(y)
            unknown = ~np.isin(y, self.classes_)
            if unknown.any():
                raise ValueError(
                    f"y must hold {self.classes_.tolist()}, got {y[unknown].tolist()[0]!r}."
                )
            y = np.searchsorted(self.classes_, y)
            y = y if self._positive == 1 else 1 - y
        p = p if metric.curve else self._as_scores(p)
        return evaluate(
            p, y, metric, task=self._task, from_logits=False, sample_weight=sample_weight
        )

    # --- files -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The fitted classifier as plain data and tensors; ``from_state`` is the way back."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        params = {k: plain(v) for k, v in self.get_params(deep=False).items() if k != "metric"}
        threshold = self.offsets_ if self._task == "multiclass" else self.threshold_
        fitted = {
            "task": self._task,
            "positive": self._positive,
            "classes": pack_array(self.classes_),
            "names": None if names is None else pack_array(names),
            "features": self.n_features_in_,
            "threshold": torch.as_tensor(threshold, dtype=torch.float64),
            "trees": {k: torch.from_numpy(v) for k, v in self._trees._asdict().items()},
        }
        return {"metric": pack_metric(self.metric), "params": params, "fitted": fitted}

    @classmethod
    def from_state(cls, content: dict[str, Any], metric: MetricLike | None = None) -> Self:
        """The classifier of ``state()``; ``metric`` if it was a function of your own."""
        metric = unpack_metric(content["metric"]) if metric is None else metric
        if metric is None:
            raise SavedFileError(
                "the forest was saved with a metric of your own. Pass it: load(path, metric=...)."
            )
        model, fitted = cls(metric, **content["params"]), content["fitted"]
        model._task, model._positive = fitted["task"], fitted["positive"]
        check_choice("task", model._task, ("binary", "multiclass", "multilabel"))
        model.classes_ = unpack_array(fitted["classes"])
        model.n_features_in_ = fitted["features"]
        if fitted["names"] is not None:
            model.feature_names_in_ = unpack_array(fitted["names"])
        model._trees = Trees(**{k: t.numpy() for k, t in fitted["trees"].items()})
        model._trees.check(model.n_features_in_)
        if model._trees.value.shape[1] != len(model.classes_):
            raise ValueError("as many leaf values as classes expected")
        threshold = fitted["threshold"].numpy()
        if model._task == "multiclass":
            model.offsets_ = threshold
        else:
            model.threshold_ = float(threshold) if threshold.ndim == 0 else threshold
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file without pickle: the trees as arrays; atomic, with a checksum."""
        write_file(path, _KIND, self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], metric: MetricLike | None = None) -> Self:
        """Read what ``save`` wrote; ``metric`` is needed if it was a function of your own."""
        content = read_file(path, _KIND)
        try:
            return cls.from_state(content, metric)
        except SavedFileError:
            raise
        except Exception as error:
            raise SavedFileError(
                f"{os.path.basename(path)} does not hold a whole forest ({type(error).__name__})."
            ) from error


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


def _rows_of_one(p: Array) -> Array:
    """Probabilities above 0 that add up to 1."""
    p = np.maximum(p, _TINY)
    return p / p.sum(1, keepdims=True)


def _shifted(p: Array, offsets: Any) -> Array:
    return np.log(_rows_of_one(p)) + offsets
