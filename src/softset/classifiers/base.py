"""From probabilities to decisions: labels, thresholds and files that our classifiers share."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from softset.checks import check_choice, check_number
from softset.decisions.evaluation import evaluate
from softset.decisions.offsets import best_offsets
from softset.decisions.thresholds import best_threshold
from softset.metrics.base import Metric
from softset.metrics.registry import MetricLike, get_metric, pack_metric, restored_metric
from softset.storage.arrays import pack_array, plain, unpack_array
from softset.storage.container import read_file, whole, write_file
from softset.tables.labels import plain_labels, warn_of_blanks

Array = NDArray[Any]
_FOLDS = 5


class Deciding(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that gives probabilities, and a threshold that turns them into decisions.

    A subclass has the parameters ``metric``, ``threshold``, ``class_weight`` and ``pos_label``,
    and writes ``_positive_probabilities``. Think twice before adding anything here.
    """

    metric: MetricLike
    threshold: Any
    class_weight: Any
    pos_label: Any
    # Probabilities below this are taken as this where a logarithm is needed.
    _least = float(np.finfo(float).tiny)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _positive_probabilities(self, x: Array) -> Array:
        """``(n,)`` of the positive class, or ``(n, classes or labels)``."""
        raise NotImplementedError

    # --- labels ----------------------------------------------------------------------------------

    def _learn_classes(self, y: Array) -> NDArray[np.int64]:
        """Set ``classes_`` and the task; class numbers (the positive class of two is 1)."""
        if y.ndim == 2 and y.shape[1] > 1:
            check_classification_targets(y)
            if type_of_target(y) != "multilabel-indicator":
                raise ValueError("y must hold one class a row, or 0 and 1 for each label.")
            if self.pos_label is not None:
                raise ValueError("pos_label is for two classes; y holds labels of 0 and 1.")
            self._task, self.classes_ = "multilabel", np.arange(y.shape[1])
            self._positive = 1
            return y.astype(np.int64)
        y = column_or_1d(y, warn=True)
        y = plain_labels(y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        warn_of_blanks(self.classes_)
        known = self.classes_.tolist()
        if len(known) < 2:
            raise ValueError(f"y must hold at least two classes, got one class only: {known[0]!r}.")
        self._task = "binary" if len(known) == 2 else "multiclass"
        self._positive = 1
        if self.pos_label is not None:
            if self._task == "multiclass":
                raise ValueError(f"pos_label is for two classes; y holds {len(known)}.")
            if self.pos_label not in known:
                raise ValueError(f"pos_label must be one of {known}, got {self.pos_label!r}.")
            self._positive = known.index(self.pos_label)
        return codes if self._positive == 1 else 1 - codes

    def _name(self, code: int) -> Any:
        return self.classes_.tolist()[code if self._positive == 1 else 1 - code]

    def _class_weights(self, codes: NDArray[np.int64], weight: Array) -> Array:
        """The factor of every row."""
        if self.class_weight is None:
            return np.ones(len(codes))
        if self._task == "multilabel":
            raise ValueError("class_weight is for one class a row; use sample_weight for labels.")
        known = self.classes_.tolist()
        codes = codes if self._positive == 1 else 1 - codes
        if isinstance(self.class_weight, str):
            check_choice("class_weight", self.class_weight, ("balanced",))
            totals = np.bincount(codes, weights=weight, minlength=len(known))
            factors = weight.sum() / (len(known) * np.where(totals > 0, totals, np.inf))
        else:
            unknown = [c for c in self.class_weight if c not in known]
            if unknown:
                raise ValueError(f"class_weight names {unknown[0]!r}, y holds {known}.")
            factors = np.array([float(self.class_weight.get(c, 1.0)) for c in known])
            check_number("class_weight", factors.tolist(), 0, float("inf"), closed="low")
        return factors[codes]

    # --- the threshold ---------------------------------------------------------------------------

    def _tunes(self) -> bool:
        return isinstance(self.threshold, str) and not get_metric(self.metric).curve

    def _check_threshold(self) -> None:
        if isinstance(self.threshold, str):
            check_choice("threshold", self.threshold, ("tuned",))
        elif self.threshold is not None:
            values, count = np.asarray(self.threshold, dtype=float), len(self.classes_)
            if self._task == "multiclass":
                if values.shape != (count,) or not np.isfinite(values).all():
                    raise ValueError(
                        f"threshold of several classes must be 'tuned', None or {count} offsets of "
                        f"log-probabilities, got {self.threshold!r}."
                    )
                return
            wanted = [()] if self._task == "binary" else [(), (count,)]
            if values.shape not in wanted:
                raise ValueError(
                    f"threshold must be 'tuned' or a number in (0, 1), got {self.threshold!r}."
                )
            check_number("threshold", values.tolist(), 0, 1)

    def _set_threshold(self, tuned: Any) -> None:
        """Keep the threshold that was given, or the one that was found; None is 1/2."""
        for name in ("threshold_", "offsets_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        given = tuned if isinstance(self.threshold, str) else self.threshold
        if self._task == "multiclass":
            zeros = [0.0] * len(self.classes_)
            self.offsets_ = np.asarray(zeros if given is None else given, dtype=float)
            return
        threshold = np.asarray(0.5 if given is None else given, dtype=float)
        if self._task == "multilabel":
            threshold = np.broadcast_to(threshold, self.classes_.shape).copy()
        self.threshold_ = float(threshold) if threshold.ndim == 0 else threshold

    def _tuned(self, metric: Metric, p: Array, y: Array, w: Array) -> Any:
        """The best threshold, if tuning helps on rows it was not tuned on.

        Each fifth is decided by the threshold of the others, and all of them together must beat
        1/2 (or the largest probability). Fewer than 20 rows are too few to tune on. The rows come
        in no particular order.
        """
        if len(p) < 4 * _FOLDS:
            return None
        fold = np.arange(len(p)) % _FOLDS
        default = self._as_scores(p, None)
        crossed = default.copy()
        for k in range(_FOLDS):
            rest = fold != k
            found = self._best(metric, p[rest], y[rest], w[rest])
            crossed[~rest] = self._as_scores(p[~rest], found)
        settings: Any = {"task": self._task, "from_logits": False, "sample_weight": w}
        if not evaluate(crossed, y, metric, **settings) > evaluate(default, y, metric, **settings):
            return None
        return self._best(metric, p, y, w)

    def _best(self, metric: Metric, p: Array, y: Array, w: Array) -> Any:
        given: Any = {"from_logits": False, "sample_weight": w}
        if self._task == "multiclass":
            return best_offsets(p, y, metric, **given)
        return best_threshold(p, y, metric, task=self._task, **given)

    def _as_scores(self, p: Array, threshold: Any) -> Array:
        """Decisions as probabilities of 0 and 1; without a threshold, by 1/2 or the largest."""
        if self._task == "multiclass":
            offsets = 0.0 if threshold is None else np.asarray(threshold)
            return np.eye(p.shape[1])[self._shifted(p, offsets).argmax(1)]
        return (p >= (0.5 if threshold is None else np.asarray(threshold))).astype(float)

    def _shifted(self, p: Array, offsets: Any) -> Array:
        return np.log(np.maximum(p, self._least)) + offsets

    # --- predict ---------------------------------------------------------------------------------

    def _decide(self, p: Array) -> Array:
        """Class numbers with the positive class of two as 1, or 0/1 for each label."""
        if self._task == "multiclass":
            return self._as_scores(p, self.offsets_).argmax(1)
        return self._as_scores(p, self.threshold_).astype(np.int64)

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities ``(n, classes)`` in the order of ``classes_``, or ``(n, labels)``."""
        p = self._positive_probabilities(self._checked(X))
        if self._task != "binary":
            return p
        return np.column_stack([1 - p, p] if self._positive == 1 else [p, 1 - p])

    def decision_function(self, X: Any) -> Array:
        """``logit p - logit threshold`` of ``classes_[1]``: above 0 exactly where it is predicted.

        Of several classes: log-probabilities with their offsets, ``(n, classes)``; of labels,
        ``(n, labels)``.
        """
        p = self._positive_probabilities(self._checked(X))
        if self._task == "multiclass":
            return self._shifted(p, self.offsets_)
        tiny, eps = np.finfo(float).tiny, np.finfo(float).eps
        safe = np.clip(p, tiny, 1 - eps / 2)
        tau = np.asarray(self.threshold_)
        d = np.log(safe) - np.log1p(-safe) - np.log(tau) + np.log1p(-tau)
        d = np.where(p >= tau, np.maximum(d, tiny), np.minimum(d, -tiny))
        return d if self._positive == 1 else -d

    def predict(self, X: Any) -> Array:
        """Classes ``(n,)``, or 0/1 ``(n, labels)``, by the tuned (or given) threshold."""
        decided = self._decide(self._positive_probabilities(self._checked(X)))
        if self._task == "multilabel":
            return decided
        return self.classes_[decided if self._positive == 1 else 1 - decided]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The metric of ``predict`` (of the probabilities for areas under curves)."""
        X, metric = self._checked(X), get_metric(self.metric)
        p = self._positive_probabilities(X)
        target = self._codes(y)
        unseen = target.max() + 1 - p.shape[1] if self._task == "multiclass" else 0
        if not metric.curve:
            p = self._as_scores(p, self.offsets_ if self._task == "multiclass" else self.threshold_)
        if unseen > 0:  # classes that training never saw are never predicted
            p = np.column_stack([p, np.zeros((len(p), unseen))])
        return evaluate(
            p, target, metric, task=self._task, from_logits=False, sample_weight=sample_weight
        )

    def _codes(self, y: Any) -> NDArray[np.int64]:
        y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if self._task == "multilabel":
            return y.astype(np.int64)
        y = column_or_1d(y)
        known = {c: i for i, c in enumerate(self.classes_.tolist())}
        unknown = sorted(set(y.tolist()) - set(known), key=str)
        if unknown and self._task == "binary":
            raise ValueError(f"y must hold {list(known)}, got {unknown[0]!r}.")
        known.update({c: len(known) + i for i, c in enumerate(unknown)})
        codes = np.array([known[c] for c in y.tolist()], dtype=np.int64)
        return codes if self._positive == 1 else 1 - codes

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        """What a subclass has learned, as plain data and tensors."""
        raise NotImplementedError

    def _relearn(self, fitted: dict[str, Any]) -> None:
        """The inverse of ``_learned``; sets ``n_features_in_`` too."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """The fitted classifier as plain data and tensors; ``from_state`` is the way back.

        A parameter that is an object of your own is left out.
        """
        check_is_fitted(self)
        params = {k: plain(v) for k, v in self.get_params(deep=False).items() if k != "metric"}
        names = getattr(self, "feature_names_in_", None)
        threshold = self.offsets_ if self._task == "multiclass" else self.threshold_
        fitted = {
            "task": self._task,
            "positive": self._positive,
            "classes": pack_array(self.classes_),
            "names": None if names is None else pack_array(names),
            "threshold": torch.as_tensor(threshold, dtype=torch.float64),
            **self._learned(),
        }
        return {"metric": pack_metric(self.metric), "params": params, "fitted": fitted}

    @classmethod
    def from_state(cls, content: dict[str, Any], metric: MetricLike | None = None) -> Self:
        """The classifier of ``state()``; ``metric`` if it was a function of your own."""
        model = cls(restored_metric(content["metric"], metric), **content["params"])
        fitted = content["fitted"]
        model._task, model._positive = fitted["task"], fitted["positive"]
        check_choice("task", model._task, ("binary", "multiclass", "multilabel"))
        model.classes_ = unpack_array(fitted["classes"])
        if fitted["names"] is not None:
            model.feature_names_in_ = unpack_array(fitted["names"])
        threshold = fitted["threshold"].numpy()
        if model._task == "multiclass":
            model.offsets_ = threshold
        else:
            model.threshold_ = float(threshold) if threshold.ndim == 0 else threshold
        model._relearn(fitted)
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one file, without pickle; see ``state``."""
        write_file(path, type(self).__name__, self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], metric: MetricLike | None = None) -> Self:
        """Read what ``save`` wrote; ``metric`` is needed if it was a function of your own."""
        content = read_file(path, cls.__name__)
        with whole(os.path.basename(path), cls.__name__):
            return cls.from_state(content, metric)
