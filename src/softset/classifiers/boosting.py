"""``MetricBoostingClassifier``: boosting for a metric behind the scikit-learn contract."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import assert_all_finite, check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from softset.boosting.libraries import LIBRARIES, LightGBM, XGBoost
from softset.boosting.objective import NO_CATBOOST, MetricObjective
from softset.checks import check_choice, check_number
from softset.decisions.evaluation import evaluate
from softset.decisions.offsets import best_offsets
from softset.decisions.smoothing import smooth_cut
from softset.metrics.base import Metric
from softset.metrics.registry import (
    MetricLike,
    get_metric,
    one_number,
    pack_metric,
    restored_metric,
)
from softset.storage.arrays import pack_array, plain, unpack_array
from softset.storage.container import read_file, whole, write_file
from softset.tables.labels import checked_weights, plain_labels, refuse_missing, warn_of_blanks

_KIND = "MetricBoostingClassifier"
# The scores of the log-loss rounds are shrunk by this before the metric takes over. No decision
# changes, but rows that log-loss had settled get a gradient again (docs/boosting.md, measured).
SHRINK = 0.7


class MetricBoostingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosting that is trained, stopped and cut for the metric it is judged by.

    Log-loss rounds come first; their scores, moved to the best cut and shrunk, are where the rounds
    for the metric start. Both stop early on rows that are held out, the second on the metric, and
    so is the threshold tuned. If no round for the metric helps there, none is kept.

    Columns of a data frame that are not numbers are categories, and NaN is a value of its own: the
    library handles both. ``predict_proba`` is not calibrated and its larger value need not be what
    ``predict`` says; ``decision_function`` is positive exactly where ``predict`` says
    ``classes_[1]``.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``; of the second
            class in ``classes_`` if there are two.
        library: ``"lightgbm"`` or ``"xgboost"``.
        warm_rounds: at most so many log-loss rounds; with 0 the metric starts from nothing.
        rounds: at most so many rounds for the metric; with 0 it is log-loss with a tuned threshold.
        learning_rate: of log-loss; rounds for the metric take half of it.
        patience: rounds without improvement after which a phase ends.
        validation_fraction: the share of each class that is held out.
        threshold: ``"tuned"`` for the metric (offsets of the classes if there are several), or a
            probability; several classes take ``None`` for no offsets.
        class_weight: ``None``, ``"balanced"`` or a dictionary: weights of rows by their class, in
            training and in the metric that stops it and tunes the threshold.
        parameters: further settings of the library, as its native interface names them. Before
            them stand 15 leaves (LightGBM) or depth 4 (XGBoost), and every tree is grown on 70 % of
            the rows and columns.
        n_jobs: threads of the library; ``None`` is one.
        random_state: of the held-out rows and of the library.

    Attributes: ``classes_``, ``n_features_in_``, ``feature_names_in_``, ``warm_rounds_``,
    ``rounds_`` (kept), ``history_`` (the validation metric after every round), ``threshold_`` or
    ``offsets_``.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricBoostingClassifier("f1", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    _categories: list[list[Any] | None]

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        library: str = "lightgbm",
        warm_rounds: int = 200,
        rounds: int = 200,
        learning_rate: float = 0.1,
        patience: int = 30,
        validation_fraction: float = 0.25,
        threshold: Any = "tuned",
        class_weight: Any = None,
        parameters: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.library = library
        self.warm_rounds = warm_rounds
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.threshold = threshold
        self.class_weight = class_weight
        self.parameters = parameters
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # --- fit ------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MetricBoostingClassifier:
        """Train on ``X`` ``(N, features)``, ``y`` ``(N,)`` and weights ``(N,)`` if given."""
        metric = self._check_settings()
        if y is None:
            raise ValueError(
                "This MetricBoostingClassifier estimator requires y to be passed, but the target "
                "y is None."
            )
        x = self._matrix(X, reset=True)
        labels = _check_labels(y, len(x))
        weight = None
        if sample_weight is not None:
            weight = checked_weights(sample_weight, x)
            keep = weight > 0
            x, labels, weight = x[keep], labels[keep], weight[keep]
        self.classes_, target = np.unique(labels, return_inverse=True)
        _check_classes(self.classes_, target)
        if self.threshold is None and len(self.classes_) == 2:
            raise ValueError("threshold must be 'tuned' or in (0, 1) for two classes, got None.")

        if self.class_weight is not None:
            by_class = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
            weight = by_class[target] * (1.0 if weight is None else weight)
        random = check_random_state(self.random_state)
        held_out = _hold_out(target, self.validation_fraction, random)
        seed = int(random.randint(2**31 - 1))
        rows = _Rows(x[~held_out], target[~held_out], None if weight is None else weight[~held_out])
        checks = _Rows(x[held_out], target[held_out], None if weight is None else weight[held_out])

        library = self._library(seed, len(rows.y))
        library.load(rows, checks)
        start = self._warm_up(library, rows, checks, metric)
        self._train_for_metric(library, rows, checks, metric, start)
        return self

    def _check_settings(self) -> Metric:
        if self.library == "catboost":
            raise ValueError(
                f"library must be 'lightgbm' or 'xgboost', got 'catboost'. {NO_CATBOOST}"
            )
        check_choice("library", self.library, LIBRARIES)
        infinity = float("inf")
        check_number("warm_rounds", self.warm_rounds, 0, infinity, closed="low")
        check_number("rounds", self.rounds, 0, infinity, closed="low")
        check_number("learning_rate", self.learning_rate, 0, infinity)
        check_number("patience", self.patience, 1, infinity, closed="low")
        check_number("validation_fraction", self.validation_fraction, 0, 1)
        if self.warm_rounds == 0 and self.rounds == 0:
            raise ValueError("rounds must be positive where warm_rounds is 0, got 0.")
        if isinstance(self.threshold, str):
            check_choice("threshold", self.threshold, ("tuned",))
        elif self.threshold is not None:
            check_number("threshold", self.threshold, 0, 1)
        return one_number(self.metric)

    def _library(self, seed: int, n: int) -> LightGBM | XGBoost:
        settings = {"learning_rate": self.learning_rate, "seed": seed}
        threads = effective_n_jobs(self.n_jobs)
        categorical = [i for i, c in enumerate(self._categories) if c is not None]
        make = LIBRARIES[self.library]
        return make(settings, threads, n, len(self.classes_), categorical, self.parameters or {})

    def _warm_up(
        self, library: Any, rows: _Rows, checks: _Rows, metric: Metric
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log-loss rounds; the scores of both parts that the metric starts from."""
        classes = len(self.classes_)
        self._warm, self.warm_rounds_ = None, 0
        self._shift: Any = 0.0 if classes == 2 else np.zeros(classes)
        if self.warm_rounds:
            self._warm, self.warm_rounds_ = library.log_loss(self.warm_rounds, self.patience)
            if self.rounds:
                z = library.margins(self._warm, checks.x)
                self._shift = (
                    -_offsets(z, checks, metric) if classes > 2 else _cut(z, checks, metric)[0]
                )
        return self._start(library, rows.x), self._start(library, checks.x)

    def _start(self, library: Any, x: np.ndarray) -> np.ndarray:
        if self._warm is None:
            shape = (len(x),) if len(self.classes_) == 2 else (len(x), len(self.classes_))
            return np.zeros(shape)
        z = library.margins(self._warm, x)
        return SHRINK * (z - self._shift) if self.rounds else z

    def _train_for_metric(
        self, library: Any, rows: _Rows, checks: _Rows, metric: Metric, start: Any
    ) -> None:
        objective = MetricObjective(self.library, metric, None, 0.5)

        def value(z: np.ndarray) -> float:
            if z.ndim == 1 and not metric.curve:
                return _cut(z, checks, metric)[1]
            return _value(z, checks, metric)

        # Without log-loss rounds, nothing is what has to be beaten.
        best, self.rounds_ = (value(start[1]) if self._warm is not None else -np.inf), 0
        self.history_ = []
        z_best, self._booster = start[1], None
        steps = library.steps(start[0], start[1], objective) if self.rounds else iter(())
        for i, z in enumerate(steps, 1):
            self.history_.append(value(z))
            if self.history_[-1] > best + 1e-9:
                best, self.rounds_, z_best = self.history_[-1], i, z
            if i >= self.rounds or i - self.rounds_ >= self.patience:
                break
        if self.rounds_:
            self._booster = library.kept(self.rounds_)
        self._tune(z_best, checks, metric)

    def _tune(self, z: np.ndarray, checks: _Rows, metric: Metric) -> None:
        if len(self.classes_) > 2:
            tuned = self.threshold == "tuned"
            self.offsets_ = _offsets(z, checks, metric) if tuned else np.zeros(z.shape[1])
            if not tuned and self.threshold is not None:
                raise ValueError(
                    f"threshold must be 'tuned' or None for {z.shape[1]} classes, got "
                    f"{self.threshold!r}."
                )
            return
        if self.threshold == "tuned":
            self._logit = _cut(z, checks, metric)[0]
        else:
            self._logit = float(np.log(self.threshold) - np.log1p(-self.threshold))
        self.threshold_ = float(_sigmoid(np.array(self._logit)))

    def log_loss_part(self, threshold: Any = "tuned") -> MetricBoostingClassifier:
        """What ``rounds=0`` would have given with the same random state, from this fit."""
        if self._warm is None or not self.rounds:
            raise ValueError("log_loss_part needs warm_rounds and rounds above 0.")
        part = clone(self).set_params(rounds=0, threshold=threshold)
        part.__dict__.update({k: v for k, v in vars(self).items() if k not in self.get_params()})
        part._booster, part.rounds_, part.history_ = None, 0, []
        tuned = threshold == "tuned"
        if len(self.classes_) > 2:
            part.offsets_ = -self._shift if tuned else np.zeros(len(self.classes_))
            part._shift = np.zeros(len(self.classes_))
            return part
        part._shift = 0.0
        part._logit = self._shift if tuned else float(np.log(threshold) - np.log1p(-threshold))
        part.threshold_ = float(_sigmoid(np.array(part._logit)))
        return part

    # --- columns --------------------------------------------------------------------------------

    def _matrix(self, X: Any, reset: bool) -> np.ndarray:
        """Numbers for the library: categories become their position, unknown ones NaN."""
        limits = {"ensure_all_finite": "allow-nan", "ensure_min_samples": 2 if reset else 1}
        known: list[list[Any] | None] = _categories(X) if reset else self._categories
        plain = all(c is None for c in known)
        if not plain and not hasattr(X, "iloc"):
            raise ValueError(
                "X must be a data frame, because the model was fitted with columns of categories; "
                f"got {type(X).__name__}."
            )
        if plain:
            x = validate_data(self, X, reset=reset, dtype=np.float64, **limits)
        else:
            validate_data(self, X, reset=reset, skip_check_array=True)
            columns = [_encode(X.iloc[:, i], c) for i, c in enumerate(known)]
            x = check_array(np.column_stack(columns), **limits)
        if reset:
            self._categories = known or [None] * x.shape[1]
        return x

    # --- predict --------------------------------------------------------------------------------

    def _margins(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = self._matrix(X, reset=False)
        library = LIBRARIES[self.library]
        z = self._start(library, x)
        return z if self._booster is None else z + library.margins(self._booster, x)

    def decision_function(self, X: Any) -> np.ndarray:
        """``(N,)``: ``logit p - logit threshold``; ``(N, C)``: log-probabilities plus offsets."""
        z = self._margins(X)
        if z.ndim == 1:
            return z - self._logit
        return torch.log_softmax(torch.from_numpy(z), -1).numpy() + self.offsets_

    def predict(self, X: Any) -> np.ndarray:
        """The classes ``(N,)``: where the decision function is positive, or largest."""
        d = self.decision_function(X)
        return self.classes_[(d > 0).astype(int) if d.ndim == 1 else d.argmax(-1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities ``(N, C)``, not calibrated."""
        z = self._margins(X)
        if z.ndim == 1:
            return np.column_stack([_sigmoid(-z), _sigmoid(z)])
        return torch.softmax(torch.from_numpy(z), -1).numpy()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The metric of ``predict(X)``."""
        d = self.decision_function(X)
        metric = get_metric(self.metric)
        labels = column_or_1d(y)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(
                f"y must hold classes seen in fit, {self.classes_.tolist()}, got "
                f"{labels[unknown][0]!r}."
            )
        if d.ndim == 1 and not metric.curve:
            d = np.where(d > 0, 1.0, -1.0)
        rows = _Rows(d, np.searchsorted(self.classes_, labels), sample_weight)
        return _value(d, rows, metric)

    # --- files ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The fitted classifier as plain data, its trees in the library's own text format."""
        check_is_fitted(self)
        library = LIBRARIES[self.library]
        names = getattr(self, "feature_names_in_", None)
        params = {k: plain(v) for k, v in self.get_params(deep=False).items() if k != "metric"}
        fitted = {
            "classes": pack_array(self.classes_),
            "names": None if names is None else pack_array(names),
            "categories": [c if c is None else [_item(v) for v in c] for c in self._categories],
            "rounds": [self.warm_rounds_, self.rounds_],
            "history": self.history_,
            "shift": np.asarray(self._shift).tolist(),
            "decision": self._logit if len(self.classes_) == 2 else self.offsets_.tolist(),
            "warm": None if self._warm is None else library.dump(self._warm),
            "booster": None if self._booster is None else library.dump(self._booster),
        }
        return {"metric": pack_metric(self.metric), "params": params, "fitted": fitted}

    def save(self, path: str | os.PathLike) -> None:
        """Write one file: the library's own model text and JSON, no pickle; atomic, with checksum.

        A metric that has no name is passed again to ``load``.
        """
        write_file(path, _KIND, self.state())

    @classmethod
    def load(
        cls, path: str | os.PathLike, metric: MetricLike | None = None
    ) -> MetricBoostingClassifier:
        """Read what ``save`` wrote; ``metric`` is needed if it was a function of your own."""
        content = read_file(path, _KIND)
        with whole(os.path.basename(path), _KIND):
            return cls.from_state(content, metric)

    @classmethod
    def from_state(
        cls, content: dict[str, Any], metric: MetricLike | None = None
    ) -> MetricBoostingClassifier:
        """The classifier of ``state()``; ``metric`` if it was a function of your own."""
        found = restored_metric(content["metric"], metric)
        model, fitted = cls(found, **content["params"]), content["fitted"]
        library = LIBRARIES[model.library]
        model.classes_ = unpack_array(fitted["classes"])
        model.n_features_in_ = len(fitted["categories"])
        if fitted["names"] is not None:
            model.feature_names_in_ = unpack_array(fitted["names"])
        model._categories = fitted["categories"]
        model.warm_rounds_, model.rounds_ = fitted["rounds"]
        model.history_ = fitted["history"]
        model._shift = np.array(fitted["shift"])
        if len(model.classes_) == 2:
            model._logit = fitted["decision"]
            model.threshold_ = float(_sigmoid(np.array(model._logit)))
        else:
            model.offsets_ = np.array(fitted["decision"])
        model._warm = None if fitted["warm"] is None else library.parse(fitted["warm"])
        model._booster = None if fitted["booster"] is None else library.parse(fitted["booster"])
        return model


# --- rows and labels ----------------------------------------------------------------------------


class _Rows:
    """Part of the data: columns ``x``, class numbers ``y``, weights ``w`` or ``None``."""

    def __init__(self, x: np.ndarray, y: np.ndarray, w: Any) -> None:
        self.x, self.y, self.w = x, y, w


def _check_labels(y: Any, n: int) -> np.ndarray:
    refuse_missing(y)
    labels = plain_labels(column_or_1d(y, warn=True))
    if len(labels) != n:
        raise ValueError(f"y must have one label for each of {n} rows, got {len(labels)}.")
    if labels.dtype != object:
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def _check_classes(classes: np.ndarray, target: np.ndarray) -> None:
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes, got one class: {classes.tolist()}.")
    sizes = np.bincount(target)
    if sizes.min() < 2:
        once = f"class {classes.tolist()[sizes.argmin()]!r} has one row"
        if len(classes) == 2:
            raise ValueError(f"y must hold both classes at least twice, {once}: none to hold out.")
        warnings.warn(f"{once}: it is trained on, but no row of it is held out.", stacklevel=3)
    warn_of_blanks(classes)


def _hold_out(target: np.ndarray, fraction: float, random: np.random.RandomState) -> np.ndarray:
    """A mask with the same share of every class, and of every class at least one row."""
    mask = np.zeros(len(target), dtype=bool)
    for k in range(target.max() + 1):
        rows = random.permutation(np.flatnonzero(target == k))
        held = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        mask[rows[:held]] = True
    return mask


def _is_missing(value: Any) -> bool:
    return value is None or not np.asarray(value == value).all()  # noqa: PLR0124


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _categories(X: Any) -> list[list[Any] | None]:
    """For each column of a data frame its categories, or ``None`` for a column of numbers."""
    if not hasattr(X, "dtypes") or not hasattr(X, "iloc"):
        return []
    found: list[list[Any] | None] = []
    for i in range(X.shape[1]):
        column = X.iloc[:, i]
        if getattr(column.dtype, "kind", "O") in "biuf":
            found.append(None)
        elif hasattr(column, "cat"):
            found.append(list(column.cat.categories))
        else:
            found.append(sorted({v for v in column if not _is_missing(v)}, key=str))
    return found


def _encode(column: Any, known: list[Any] | None) -> np.ndarray:
    if known is None:
        return np.asarray(column, dtype=np.float64)
    place = {v: i for i, v in enumerate(known)}
    return np.array([place.get(v, np.nan) for v in column], dtype=np.float64)


# --- decisions ----------------------------------------------------------------------------------


def _cut(z: np.ndarray, rows: _Rows, metric: Metric) -> tuple[float, float]:
    """The score to cut at and the metric there, smoothed; areas under curves need no cut."""
    if metric.curve:
        return 0.0, _value(z, rows, metric)
    return smooth_cut(z, rows.y, rows.w, metric)


def _offsets(z: np.ndarray, rows: _Rows, metric: Metric) -> np.ndarray:
    if metric.curve:
        return np.zeros(z.shape[1])
    return np.array(best_offsets(z, rows.y, metric, sample_weight=rows.w))


def _value(z: np.ndarray, rows: _Rows, metric: Metric) -> float:
    task = "binary" if z.ndim == 1 else "multiclass"
    return float(evaluate(z, rows.y, metric, task=task, sample_weight=rows.w))


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return torch.sigmoid(torch.from_numpy(np.asarray(z, dtype=np.float64))).numpy()
