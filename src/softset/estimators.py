"""``MetricClassifier``: scikit-learn's contract around many small networks trained for a metric."""

from __future__ import annotations

import os
import warnings
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from softset._tools import check_choice, check_number
from softset.evaluation import evaluate
from softset.metrics import Metric, MetricLike, get_metric
from softset.thresholds import best_offsets, best_threshold
from softset.training.checkpoints import read_file, whole, write_file
from softset.training.labels import checked_weights, plain_labels, refuse_missing, warn_of_blanks
from softset.training.loop import Member, Trained, score, train_members
from softset.training.networks import Mlp
from softset.training.portable import (
    pack_array,
    pack_metric,
    plain,
    restored_metric,
    unpack_array,
)
from softset.training.rows import Rows, Scaler, content_split, distinct_rows

try:  # from scikit-learn 1.9 on
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Older versions have no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Older versions have no callbacks."""
        return method


Array = NDArray[Any]
_KIND = "MetricClassifier"
_FOLDS = 5


class MetricClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Small neural networks trained for the metric they are judged by.

    ``n_members`` networks are trained together; their probabilities are averaged, and the
    threshold (for several classes: offsets of the log-probabilities) with the best ``metric`` on
    held-out rows decides. So ``predict`` may disagree with ``predict_proba >= 0.5``.

    Rows are what they hold: equal rows are put together, and the validation rows are chosen by
    content within each class, so that the order of the rows does not matter, a weight of 2 is a
    row given twice, and twins are on one side of the split. Inputs are standardised, and values
    beyond about 3 standard deviations squashed smoothly.

    There is no ``partial_fit``: early stopping and the threshold need rows that were never
    trained on, and a stream does not keep any.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        recipe: ``"warm"`` (cross-entropy, then the soft metric), ``"cross-entropy"``,
            ``"metric"``, ``"metric-grid"``, ``"anneal"``, a loss, or a list of ``Phase``.
        hidden: widths of the hidden layers.
        n_members: how many networks are averaged.
        batch_size: the most rows in a batch; ``None`` takes a tenth of the rows, from 32 to 1024.
        max_epochs: the most passes over the data in each phase of the recipe.
        early_stopping: stop a member after ``patience`` epochs without a better validation loss.
        validation_fraction: share of the rows held out for early stopping and the threshold.
        threshold: ``"tuned"``; or a number in (0, 1), one for each label; for several classes
            offsets, one for each; ``None`` is 1/2 or the largest probability.
        class_weight: ``None``, ``"balanced"`` or ``{class: weight}``; multiplies sample weights.
        pos_label: the positive class of two; the last of ``classes_`` if left out.
        random_state: int, ``RandomState`` or ``None``.
        verbose: 1 shows a live line when standard error is a terminal.

    Attributes:
        classes_, n_features_in_, feature_names_in_: as in scikit-learn.
        threshold_: the threshold(s) in use; ``offsets_`` for several classes.
        history_: for each member, losses and validation metric of every epoch.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(400, weights=[0.9], random_state=0)
    >>> model = MetricClassifier("f1", n_members=2, random_state=0).fit(X, y)
    >>> model.predict(X[:3]).shape, bool(model.score(X, y) > 0.5)
    ((3,), True)
    """

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        recipe: Any = "warm",
        hidden: Any = (64, 32),
        n_members: int = 8,
        batch_size: int | None = None,
        learning_rate: float = 0.003,
        weight_decay: float = 0.01,
        dropout: float = 0.0,
        max_epochs: int = 200,
        early_stopping: bool = True,
        patience: int = 10,
        validation_fraction: float = 0.2,
        threshold: Any = "tuned",
        class_weight: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.recipe = recipe
        self.hidden = hidden
        self.n_members = n_members
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    # --- fit -------------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on ``X (n, features)`` and ``y (n,)``, or ``(n, labels)`` of 0 and 1."""
        metric = get_metric(self.metric)
        check_number("n_members", self.n_members, 1, 10**6, closed="low")
        check_number("validation_fraction", self.validation_fraction, 0, 1)
        if self.batch_size is not None:
            check_number("batch_size", self.batch_size, 1, float("inf"), closed="low")
        refuse_missing(y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, accept_sparse=False)
        y = y.toarray() if hasattr(y, "toarray") else y
        codes = self._learn_classes(y)
        weight = checked_weights(sample_weight, X)
        weight = weight * self._class_weights(codes, weight)
        rows = distinct_rows(X, codes, weight)
        rows = rows._replace(w=rows.w / rows.w.mean())
        self._check_threshold()
        random = check_random_state(self.random_state)
        salt = int(random.randint(2**31 - 1))
        seeds = random.randint(2**31 - 1, size=int(self.n_members))
        rows, held = self._hold_out(rows, salt)
        if self.batch_size is not None and self.batch_size > len(rows.x):
            warnings.warn(
                f"batch_size={self.batch_size} is more than the {len(rows.x)} distinct rows to "
                "train on; all of them make one batch.",
                UserWarning,
                stacklevel=2,
            )
        self._scaler = Scaler.of(rows.x, rows.w)
        self._begin(X, y)
        with warnings.catch_warnings():
            # _hold_out has said so already, with the name of the class
            warnings.filterwarnings("ignore", "class .* is absent from validation")
            trained = self._train(rows, held, seeds, self._on_epoch(X, y))
        self._weights = trained.weights.double()
        self._widths = trained.network.widths  # type: ignore[attr-defined]
        self.history_ = trained.history
        self._set_threshold(metric, held)
        self._end(X, y)
        self._warn_if_constant(rows, held)
        return self

    def _train(self, rows: Rows, held: Rows | None, seeds: Array, on_epoch: Any) -> Trained:
        return train_members(
            tuple(self.hidden),
            self._tensors(rows),
            self._tensors(held) if held is not None and self.early_stopping else None,
            members=[
                Member(int(s), self.learning_rate, self.weight_decay, self.dropout) for s in seeds
            ],
            recipe=self.recipe,
            metric=self.metric,
            task=self._task,
            batch_size=self._batch_size(len(rows.x)),
            max_epochs=self.max_epochs,
            patience=self.patience,
            verbose=self.verbose,
            on_epoch=on_epoch,
        )

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

    def _hold_out(self, rows: Rows, salt: int) -> tuple[Rows, Rows | None]:
        wanted = self.early_stopping or self._tunes()
        present = np.unique(rows.y) if rows.y.ndim == 1 else np.arange(2)
        if len(present) < 2:
            raise ValueError("y must hold at least two classes, got one class of positive weight.")
        if not wanted or len(rows.x) < 2:
            return rows, None
        train, held = content_split(rows, self.validation_fraction, salt)
        parts = tuple(Rows(rows.x[i], rows.y[i], rows.w[i]) for i in (train, held))
        if rows.y.ndim == 1:
            missing = np.setdiff1d(parts[0].y, parts[1].y)
            if len(missing):
                warnings.warn(
                    f"class {self._name(missing[0])!r} has too few distinct rows to be held out: "
                    "early stopping and the threshold cannot see it.",
                    UserWarning,
                    stacklevel=3,
                )
        return parts[0], parts[1]

    def _batch_size(self, rows: int) -> int:
        return int(self.batch_size or min(1024, max(32, rows // 10)))

    def _tensors(self, rows: Rows) -> tuple[torch.Tensor, ...]:
        x = torch.from_numpy(self._scaler(rows.x)).float()
        y = torch.from_numpy(np.ascontiguousarray(rows.y))
        if np.ptp(rows.w) == 0:
            return x, y
        return x, y, torch.from_numpy(rows.w)

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

    def _set_threshold(self, metric: Metric, held: Rows | None) -> None:
        for name in ("threshold_", "offsets_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        given = self.threshold
        if isinstance(given, str):
            given = None
            if held is not None and not metric.curve:
                given = self._tuned(metric, held)
        if self._task == "multiclass":
            zeros = [0.0] * len(self.classes_)
            self.offsets_ = np.asarray(zeros if given is None else given, dtype=float)
            return
        threshold = np.asarray(0.5 if given is None else given, dtype=float)
        if self._task == "multilabel":
            threshold = np.broadcast_to(threshold, self.classes_.shape).copy()
        self.threshold_ = float(threshold) if threshold.ndim == 0 else threshold

    def _tuned(self, metric: Metric, held: Rows) -> Any:
        """The best threshold on held-out rows, if tuning helps on rows it was not tuned on.

        Each fifth is decided by the threshold of the others, and all of them together must beat
        1/2 (or the largest probability). Fewer than 20 rows are too few to tune on.
        """
        if len(held.x) < 4 * _FOLDS:
            return None
        p = self._positive_probabilities(held.x)
        fold = np.arange(len(p)) % _FOLDS  # rows are in the order of hashes
        default = self._as_scores(p, None)
        crossed = default.copy()
        for k in range(_FOLDS):
            rest = fold != k
            found = self._best(metric, p[rest], held.y[rest], held.w[rest])
            crossed[~rest] = self._as_scores(p[~rest], found)
        settings: Any = {"task": self._task, "from_logits": False, "sample_weight": held.w}
        before = evaluate(default, held.y, metric, **settings)
        if not evaluate(crossed, held.y, metric, **settings) > before:
            return None
        return self._best(metric, p, held.y, held.w)

    def _best(self, metric: Metric, p: Array, y: Array, w: Array) -> Any:
        given: Any = {"from_logits": False, "sample_weight": w}
        if self._task == "multiclass":
            return best_offsets(p, y, metric, **given)
        return best_threshold(p, y, metric, task=self._task, **given)

    def _as_scores(self, p: Array, threshold: Any) -> Array:
        """Decisions as probabilities of 0 and 1; without a threshold, by 1/2 or the largest."""
        if self._task == "multiclass":
            decided = _shifted(p, 0.0 if threshold is None else np.asarray(threshold)).argmax(1)
            return np.eye(p.shape[1])[decided]
        return (p >= (0.5 if threshold is None else np.asarray(threshold))).astype(float)

    def _warn_if_constant(self, rows: Rows, held: Rows | None) -> None:
        if self._task == "multilabel":
            return
        x = rows.x if held is None else np.concatenate([rows.x, held.x])
        decided = np.unique(self._decide(self._positive_probabilities(x)))
        if len(decided) == 1:
            warnings.warn(
                f"every training row is predicted as {self._name(decided[0])!r}. Try more epochs, "
                "another learning_rate or metric, or class_weight='balanced'.",
                UserWarning,
                stacklevel=3,
            )

    # --- predict ---------------------------------------------------------------------------------

    def _positive_probabilities(self, x: Array) -> Array:
        """Mean over members: ``(n,)`` of the positive class, or ``(n, classes or labels)``."""
        inputs = torch.from_numpy(self._scaler(x))
        network = Mlp(self._widths[0], self._widths[1:-1], self._widths[-1])
        z = score(network, self._weights, {}, inputs, self._task)
        p = torch.softmax(z, -1) if self._task == "multiclass" else torch.sigmoid(z)
        return p.mean(0).numpy()

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
            return _shifted(p, self.offsets_)
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

    # --- scikit-learn's callbacks ----------------------------------------------------------------

    def _begin(self, X: Array, y: Array) -> None:
        self._context = None
        if hasattr(self, "_skl_callbacks"):
            self._context = self._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=self, X=X, y=y)

    def _on_epoch(self, X: Array, y: Array) -> Any:
        context = self._context
        if context is None:
            return None

        def call() -> bool:
            task = context.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            return task.call_on_fit_task_end(estimator=self, X=X, y=y)

        return call

    def _end(self, X: Array, y: Array) -> None:
        context = self.__dict__.pop("_context")
        if context is not None:
            context.call_on_fit_task_end(estimator=self, X=X, y=y)

    # --- files -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The fitted classifier as plain data and tensors; ``from_state`` is the way back.

        A metric, recipe or random state that is an object of your own is left out.
        """
        check_is_fitted(self)
        params = {k: plain(v) for k, v in self.get_params(deep=False).items() if k != "metric"}
        fitted = {
            "task": self._task,
            "positive": self._positive,
            "classes": pack_array(self.classes_),
            "names": pack_array(self.feature_names_in_)
            if hasattr(self, "feature_names_in_")
            else None,
            "threshold": torch.as_tensor(
                self.offsets_ if self._task == "multiclass" else self.threshold_,
                dtype=torch.float64,
            ),
            "widths": list(self._widths),
            "weights": self._weights,
            "center": torch.from_numpy(self._scaler.center),
            "scale": torch.from_numpy(self._scaler.scale),
            "history": self.history_,
        }
        return {"metric": pack_metric(self.metric), "params": params, "fitted": fitted}

    @classmethod
    def from_state(cls, content: dict[str, Any], metric: MetricLike | None = None) -> Self:
        """The classifier of ``state()``; ``metric`` if it was a function of your own."""
        found = restored_metric(content["metric"], metric)
        return cls(found, **content["params"])._restore(content["fitted"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one file, without pickle; see ``state``."""
        write_file(path, _KIND, self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], metric: MetricLike | None = None) -> Self:
        """Read what ``save`` wrote; ``metric`` is needed if it was a function of your own."""
        content = read_file(path, _KIND)
        with whole(os.path.basename(path), _KIND):
            return cls.from_state(content, metric)

    def _restore(self, fitted: dict[str, Any]) -> Self:
        self._task, self._positive = fitted["task"], fitted["positive"]
        self.classes_ = unpack_array(fitted["classes"])
        if fitted["names"] is not None:
            self.feature_names_in_ = unpack_array(fitted["names"])
        self._widths, self._weights = tuple(fitted["widths"]), fitted["weights"]
        self._scaler = Scaler(fitted["center"].numpy(), fitted["scale"].numpy())
        self.n_features_in_ = self._widths[0]
        self.history_ = fitted["history"]
        size = Mlp(self._widths[0], self._widths[1:-1], self._widths[-1]).size
        if self._weights.shape[1] != size:
            raise ValueError(f"{size} weights expected")
        threshold = fitted["threshold"].numpy()
        if self._task == "multiclass":
            self.offsets_ = threshold
        else:
            self.threshold_ = float(threshold) if threshold.ndim == 0 else threshold
        return self


def _shifted(p: Array, offsets: Any) -> Array:
    return np.log(np.maximum(p, np.finfo(float).tiny)) + offsets
