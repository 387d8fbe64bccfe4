"""``MetricBoostingClassifier``: boosting for a metric behind the scikit-learn contract."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, validate_data

from softset.boosting.base import LIBRARIES, library_class
from softset.boosting.rounds import Boosted, boost
from softset.boosting.spool import Spool
from softset.checks import check_choice, check_number
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.path import is_better
from softset.classifiers.row_costs import Costs, refuse_beside_stream, rows_at
from softset.classifiers.streamed import draw_seeds, survey
from softset.decisions.decision import Decision
from softset.decisions.tuner import Tuner
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, get_goal, one_number
from softset.storage.files import scratch_directory
from softset.tables.rows import Examples, ordered_rows
from softset.tables.splits import content_split
from softset.tables.streams import Stream, is_stream
from softset.tasks import BINARY
from softset.typing import (
    JSON,
    Array,
    ArrayLike,
    ClassWeight,
    Frame,
    Ints,
    Label,
    Labels,
    PathLike,
    RandomState,
    Rows,
    Settings,
    State,
    Threshold,
)

if TYPE_CHECKING:
    import pandas as pd


class MetricBoostingClassifier(DecidingClassifier):
    """Gradient boosting that is trained, stopped and thresholded for the metric it is evaluated by.

    Log-loss rounds come first; their scores, minus the best threshold and shrunk, are where the
    rounds for the metric start. Both stop early on rows that are held out, the second on the
    metric, and so is the threshold tuned. If no round for the metric helps there, none is kept.

    Columns of a data frame that are not numbers are categories, and NaN is a value of its own: the
    library handles both. The held-out rows are chosen by content within each class, so that equal
    rows are on one side. ``predict_proba`` is not calibrated and its larger value need not be what
    ``predict`` says; ``decision_function`` is positive exactly where ``predict`` says
    ``classes_[1]``.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``. Multilabel
            targets have a booster each, trained for the metric of that label.
        library: ``"lightgbm"`` or ``"xgboost"``.
        n_estimators: at most so many log-loss rounds; with 0 the metric starts from nothing.
        n_metric_estimators: at most so many rounds for the metric; with 0 it is log-loss with a
            tuned threshold.
        learning_rate: of log-loss; rounds for the metric take half of it.
        patience: rounds without improvement after which a phase ends.
        validation_fraction: the fraction of each class that is held out.
        threshold: ``"tuned"``; or a number in (0, 1), one for each label; for multiclass problems
            offsets, one for each class; ``None`` is 1/2 or the largest probability.
        confidence: with a metric at a constraint (``"precision@recall>=0.9"``), choose a threshold
            that keeps the constraint on new rows with about this probability: see ``promise_``.
        calibrate: calibrate ``predict_proba`` on out-of-fold scores; no decision changes.
        class_weight: ``None``, ``"balanced"`` or ``{class: weight}``; multiplies sample weights, in
            training and in the metric that stops it and tunes the threshold. Of labels a list of
            these, one for each; their factors are multiplied, as in scikit-learn.
        pos_label: the positive class of two. By default 1 or the larger number, a word for yes, or
            the rarer class (``softset.tables.labels.positive_class``).
        params: further settings of the library, as its native interface names them. Before
            them stand 15 leaves (LightGBM) or depth 4 (XGBoost), and every tree is grown on 70 % of
            the rows and columns.
        n_jobs: threads of the library; ``None`` is one.
        random_state: of the held-out rows and of the library.
        verbose: 1 shows progress of the rounds for the metric.

    Attributes: ``classes_``, ``n_features_in_``, ``feature_names_in_``, ``n_estimators_``,
    ``n_metric_estimators_`` (kept), ``history_`` (the metric of held-out rows after every round for
    it), lists of these for multilabel targets, ``threshold_`` or ``offsets_``.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricBoostingClassifier("f1", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    _categories: list[list[Label] | None]

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        library: str = "lightgbm",
        n_estimators: int = 200,
        n_metric_estimators: int = 200,
        learning_rate: float = 0.1,
        patience: int = 30,
        validation_fraction: float = 0.25,
        threshold: Threshold | str | None = "tuned",
        confidence: float | None = None,
        calibrate: bool = False,
        class_weight: ClassWeight = None,
        pos_label: Label | None = None,
        params: Settings | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.library = library
        self.n_estimators = n_estimators
        self.n_metric_estimators = n_metric_estimators
        self.learning_rate = learning_rate
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.threshold = threshold
        self.confidence = confidence
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.params = params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # --- fit -------------------------------------------------------------------------------------

    def fit(
        self,
        X: Rows,
        y: Labels | None = None,
        sample_weight: ArrayLike | None = None,
        sample_cost: Costs = None,
    ) -> Self:
        """Train on ``X (n, features)`` and ``y (n,)``, or ``(n, labels)`` of 0 and 1; or on a
        stream of such blocks, as ``ParquetRows`` is one.

        ``sample_cost`` has costs of each row: columns that the metric names, or ``(n, 4)``.
        """
        if y is None and is_stream(X):
            refuse_beside_stream(get_goal(self.metric), sample_weight, sample_cost)
            self._fit_stream(X)
            return self
        self._check_settings()
        x = self._checked_inputs(X, y)
        costs = self._row_costs(X, sample_cost)
        rows, place = ordered_rows(*self._start(x, y, sample_weight, costs))
        metric = self._goal()
        random = check_random_state(self.random_state)
        salt, seed = (int(v) for v in random.randint(2**31 - 1, size=2))
        train, held = content_split(rows, self.validation_fraction, salt)
        held = held if len(held) else train  # rows that are all alike: none can be held out
        rows, checks = rows.take(train), rows.take(held)
        if not self._task.independent:
            self._warn_of_absent(rows.y, checks.y)
        held_place = np.full(len(place) + 1, -1)  # the last is of rows without weight
        held_place[held] = np.arange(len(held))
        self._fit_targets(rows, checks, metric, seed, held_place[place])
        return self

    def _fit_targets(
        self, rows: Examples, checks: Examples, metric: Goal, seed: int, place: Ints | None = None
    ) -> None:
        """Boost every target, and decide by the rows that were held out; ``place`` is that of each
        row of ``fit`` among them, -1 for none."""
        targets = self._task.targets(len(self.classes_))
        self._parts = [self._boost(rows, checks, metric, k, seed) for k in targets]
        self._describe()
        boosted = [p.log_loss_part() for p in self._parts]
        self._log_loss_decision = self._tuned_on(boosted, checks, place)
        self._decide_by(self._joined(self._parts, checks.x), checks.y, checks.w, place)

    def _fit_stream(self, stream: Stream, checkpoint: PathLike | None = None) -> None:
        """``fit`` of rows that come block by block: inputs go to a file in the temporary
        directory, from which the library reads them; labels, weights and scores stay in memory."""
        if checkpoint is not None:
            raise ValueError("checkpoint is for networks; boosting begins anew.")
        metric = self._check_settings()
        salt, seed, _ = draw_seeds(self)
        self._categories = []
        surveyed = survey(self, stream, self.validation_fraction, salt)
        self._categories = [None] * self.n_features_in_
        with scratch_directory() as folder:
            targets, weights = [], []
            with Spool(Path(folder, "rows"), self.n_features_in_) as spool:
                for rows in surveyed.parts(self, stream):
                    spool.append(rows.x)
                    targets.append(rows.y)
                    weights.append(rows.w)
                rows = Examples(spool, np.concatenate(targets), np.concatenate(weights))  # type: ignore[arg-type]
                self._fit_targets(rows, surveyed.held, metric, seed)

    def _check_settings(self) -> Goal:
        check_choice("library", self.library, LIBRARIES)
        infinity = float("inf")
        check_number("n_estimators", self.n_estimators, 0, infinity, closed="low")
        check_number("n_metric_estimators", self.n_metric_estimators, 0, infinity, closed="low")
        check_number("learning_rate", self.learning_rate, 0, infinity)
        check_number("patience", self.patience, 1, infinity, closed="low")
        check_number("validation_fraction", self.validation_fraction, 0, 1)
        if self.n_estimators == 0 and self.n_metric_estimators == 0:
            raise ValueError("n_metric_estimators must be positive where n_estimators is 0, got 0.")
        return one_number(self.metric)

    def _boost(
        self, rows: Examples, checks: Examples, metric: Goal, label: int | None, seed: int
    ) -> Boosted:
        """The boosted model of one target: the classes, or one label."""
        if label is not None:
            rows, checks = (part._replace(y=part.y[:, label]) for part in (rows, checks))
            metric = metric.of_label(label)
        classes = 2 if label is not None else len(self.classes_)
        settings = {"learning_rate": self.learning_rate, "seed": seed}
        categorical = [i for i, c in enumerate(self._categories) if c is not None]
        library = library_class(self.library)(
            settings,
            effective_n_jobs(self.n_jobs),
            len(rows.y),
            classes,
            categorical,
            self.params or {},
        )
        model = boost(
            library,
            rows,
            checks,
            metric,
            classes=classes,
            n_estimators=int(self.n_estimators),
            n_metric_estimators=int(self.n_metric_estimators),
            patience=int(self.patience),
            verbose=self.verbose,
        )
        if metric.where.exact and model.warm is not None and model.booster is not None:
            scores = model.start(checks.x), model(checks.x)
            if not is_better(*scores, checks.y, checks.w, Tuner(metric, BINARY)):
                model.booster, model.n_metric_estimators = None, 0
        return model

    def _describe(self) -> None:
        """The attributes that tell how training went; lists of them for multilabel targets."""
        warm, counts, history = zip(
            *((p.n_estimators, p.n_metric_estimators, p.history) for p in self._parts), strict=True
        )
        multilabel = self._task.independent
        self.n_estimators_ = list(warm) if multilabel else warm[0]
        self.n_metric_estimators_ = list(counts) if multilabel else counts[0]
        self.history_ = list(history) if multilabel else history[0]

    @property
    def feature_importances_(self) -> Array:
        """The fraction of all splits that use each feature, ``(features,)``.

        ``permutation_importances`` is for the metric itself.
        """
        self._check_fitted()
        grown = [trees for p in self._parts for trees in (p.warm, p.booster) if trees is not None]
        counts = sum((trees.splits() for trees in grown), np.zeros(self.n_features_in_))
        return counts / max(1.0, counts.sum())

    def _tuned_on(
        self, boosted: list[Boosted], checks: Examples, place: Ints | None = None
    ) -> Decision:
        rows = None if place is None else rows_at(place)
        return self._tuned(self._joined(boosted, checks.x), checks.y, checks.w, rows=rows)

    def log_loss_part(self, threshold: Threshold | str | None = "tuned") -> Self:
        """What ``n_metric_estimators=0`` would have given with the same random state, from this
        fit."""
        if any(p.warm is None for p in self._parts) or not self.n_metric_estimators:
            raise ValueError("log_loss_part needs n_estimators and n_metric_estimators above 0.")
        part = clone(self).set_params(n_metric_estimators=0, threshold=threshold)
        part.__dict__.update({k: v for k, v in vars(self).items() if k not in self.get_params()})
        part._parts = [p.log_loss_part() for p in self._parts]
        part._describe()
        if isinstance(threshold, str):
            part._keep(self._log_loss_decision)
            part._remember(None, np.empty(0), np.empty(0))  # scores are of trees for the metric too
        else:
            part._check_threshold()
            part._decide_by(None, np.empty(0), np.empty(0))
        return part

    # --- columns ---------------------------------------------------------------------------------

    def _checked_inputs(self, X: Rows, y: Labels) -> Array:
        """The inputs of ``fit``, categories as numbers."""
        if y is None:
            self._refuse_no_target()
        self._categories = _categories(X)
        x = self._encoded(X, reset=True)
        self._categories = self._categories or [None] * x.shape[1]
        return x

    def _checked(self, X: Rows) -> Array:
        self._check_fitted()
        return self._encoded(X, reset=False)

    def _encoded(self, X: Rows, reset: bool) -> Array:
        """Numbers for the library: categories become their position, unknown ones NaN."""
        limits = {"ensure_all_finite": "allow-nan", "ensure_min_samples": 2 if reset else 1}
        if all(c is None for c in self._categories):
            return validate_data(self, X, reset=reset, dtype=np.float64, **limits)
        if not hasattr(X, "iloc"):
            raise ValueError(
                "X must be a data frame, because the model was fitted with columns of categories; "
                f"got {type(X).__name__}."
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        columns = [_encode(X.iloc[:, i], c) for i, c in enumerate(self._categories)]
        return check_array(np.column_stack(columns), **limits)

    # --- predict ---------------------------------------------------------------------------------

    def _scores(self, x: Array) -> Array:
        return self._joined(self._parts, x)

    def _joined(self, boosted: list[Boosted], x: Array) -> Array:
        if self._task.independent:
            return np.column_stack([part(x) for part in boosted])
        z = boosted[0](x)
        return z if z.ndim == 1 else torch.log_softmax(torch.from_numpy(z), -1).numpy()

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> State:
        library = library_class(self.library)
        return {
            "categories": [c if c is None else [_item(v) for v in c] for c in self._categories],
            "parts": [
                {
                    "warm": None if part.warm is None else library.dump(part.warm),
                    "booster": None if part.booster is None else library.dump(part.booster),
                    "shift": None if part.shift is None else part.shift.tolist(),
                    "n_estimators": [part.n_estimators, part.n_metric_estimators],
                    "history": part.history,
                }
                for part in self._parts
            ],
        }

    def _relearn(self, fitted: State) -> None:
        check_choice("library", self.library, LIBRARIES)
        library = library_class(self.library)
        self._categories = fitted["categories"]
        self.n_features_in_ = len(self._categories)
        categories = [c for c in self._categories if c is not None]
        if any(type(c) is not list or len(set(c)) != len(c) for c in categories):
            raise ValueError("a list of different categories expected for each column, or None")
        multilabel = self._task.independent
        classes = 2 if multilabel else len(self.classes_)
        if len(fitted["parts"]) != (len(self.classes_) if multilabel else 1):
            raise ValueError("a booster for each label expected")
        self._parts = []
        for part in fitted["parts"]:
            trees = {
                key: None if part[key] is None else library.parse(part[key])
                for key in ("warm", "booster")
            }
            for ensemble in trees.values():
                if ensemble is not None:
                    ensemble.check(self.n_features_in_, 1 if classes == 2 else classes)
            shift = None if part["shift"] is None else np.array(part["shift"], dtype=np.float64)
            shape = () if classes == 2 else (classes,)
            if shift is not None and (shift.shape != shape or not np.isfinite(shift).all()):
                raise ValueError("a finite shift for each class expected")
            n_estimators, n_metric_estimators = part["n_estimators"]
            self._parts.append(
                Boosted(
                    library,
                    classes,
                    trees["warm"],
                    trees["booster"],
                    shift,
                    n_estimators,
                    n_metric_estimators,
                    part["history"],
                )
            )
        self._describe()


def _is_missing(value: object) -> bool:
    return value is None or not np.asarray(value == value).all()  # noqa: PLR0124


def _item(value: Label) -> JSON:
    return value.item() if isinstance(value, np.generic) else value


def _categories(X: Frame) -> list[list[Label] | None]:
    """For each column of a data frame its categories, or ``None`` for a column of numbers."""
    if not hasattr(X, "dtypes") or not hasattr(X, "iloc"):
        return []
    categories: list[list[Label] | None] = []
    for i in range(X.shape[1]):
        column = X.iloc[:, i]
        if getattr(column.dtype, "kind", "O") in "biuf":
            categories.append(None)
        elif hasattr(column, "cat"):
            categories.append(list(column.cat.categories))
        else:
            categories.append(sorted({v for v in column if not _is_missing(v)}, key=str))
    return categories


def _encode(column: pd.Series, categories: list[Label] | None) -> np.ndarray:
    if categories is None:
        return np.asarray(column, dtype=np.float64)
    place = {v: i for i, v in enumerate(categories)}
    return np.array([place.get(v, np.nan) for v in column], dtype=np.float64)
