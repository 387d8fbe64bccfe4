"""``MetricEnsembleClassifier``: several kinds of classifiers, blended, with a threshold tuned for a
metric."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils import check_random_state

from softset.checks import check_choice, check_number
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.blending import blend_weights, few_of_each
from softset.classifiers.boosting import MetricBoostingClassifier
from softset.classifiers.export import averaged
from softset.classifiers.folds import Splits, cv_splits, is_count
from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.network import MetricMLPClassifier
from softset.classifiers.parts import pack_part, unpack_part
from softset.classifiers.row_costs import Costs
from softset.classifiers.threshold import MetricThresholdClassifier
from softset.decisions.tuner import Tuner
from softset.formats import Summary
from softset.metrics.registry import MetricLike, label_of
from softset.progress import progress
from softset.tables.rows import Examples
from softset.tasks import Task
from softset.typing import CV, Array, ArrayLike, Label, Labels, RandomState, Rows, State

if TYPE_CHECKING:
    from sklearn.ensemble._forest import ForestClassifier

# A base model with less than this fraction of an equal weight is dropped.
LEAST_SHARE = 0.2
TREES = 100


# --- what it is made of ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """One kind of base models: ``fit(rows, order)`` returns fitted classifiers by name, trained for
    the metric and without it where one fit gives both. ``needs`` is a package; ``most``
    are the rows times columns up to which it is fitted by default."""

    fit: Callable[[Examples, Order], dict[str, DecidingClassifier]]
    needs: str | None = None
    most: float = math.inf


@dataclass(frozen=True)
class Order:
    """What base models are fitted for."""

    metric: MetricLike
    seed: int
    n_jobs: int | None


def _linear(rows: Examples, order: Order) -> dict[str, DecidingClassifier]:
    model = MetricLinearClassifier(order.metric, threshold=None).fit(*rows)
    start = model.logistic_part(None)
    for fitted in (model, start):
        fitted.__dict__.pop("_training", None)  # its rows
    return {"linear": start, "linear-metric": model}


def _forest(rows: Examples, order: Order) -> dict[str, DecidingClassifier]:
    return {"forest": _of_trees(RandomForestClassifier, rows, order)}


def _extra_trees(rows: Examples, order: Order) -> dict[str, DecidingClassifier]:
    return {"extra-trees": _of_trees(ExtraTreesClassifier, rows, order)}


def _of_trees(kind: type[ForestClassifier], rows: Examples, order: Order) -> DecidingClassifier:
    forest = kind(TREES, n_jobs=order.n_jobs, random_state=order.seed)
    model = MetricThresholdClassifier(forest, order.metric, cv="oob", threshold=None)
    return model.fit(rows.x, rows.y, rows.w if np.ptp(rows.w) > 0 else None)


def _boosting(rows: Examples, order: Order) -> dict[str, DecidingClassifier]:
    model = MetricBoostingClassifier(
        order.metric, threshold=None, n_jobs=order.n_jobs, random_state=order.seed
    ).fit(*rows)
    return {"boosting": model.log_loss_part(None), "boosting-metric": model}


def _network(rows: Examples, order: Order) -> dict[str, DecidingClassifier]:
    # Without training for the metric, which added nothing to networks: docs/efficacy.md.
    model = MetricMLPClassifier(
        order.metric, n_networks=5, max_epochs=100, threshold=None, random_state=order.seed
    )
    return {"network": model.fit(*rows)}


# In the order in which they are fitted while there is time.
KINDS: dict[str, Kind] = {
    "linear": Kind(_linear),
    "extra-trees": Kind(_extra_trees, most=1_000_000),
    "forest": Kind(_forest, most=500_000),
    "boosting": Kind(_boosting, needs="lightgbm"),
    "network": Kind(_network, most=1_000_000),
}
# With a time limit: kinds in the order in which they are tried on so many rows, for this fraction
# of the limit; then the cheapest are fitted first.
PROBED = ("extra-trees", "boosting", "linear", "forest", "network")
PROBE, PROBING = 1000, 0.3


@dataclass(frozen=True)
class BaseModel:
    """A part in use: ``models`` of the folds, whose mean probability has ``weight`` in the blend;
    ``adds`` is how much the metric out of fold falls without it; ``cost`` are microseconds to
    predict a row with all of its models, as measured out of fold."""

    name: str
    models: list[DecidingClassifier]
    weight: float
    adds: float
    cost: float

    def scores(self, x: Array, task: Task) -> torch.Tensor:
        """Of the mean over models of their probabilities."""
        z = np.stack([model._scores(x) for model in self.models])
        return averaged(torch.from_numpy(z), task)


class MetricEnsembleClassifier(DecidingClassifier):
    """Linear models, trees, boosting and networks, blended, with a threshold tuned for the metric.

    Each is fitted on all folds but one in turn, with and without training for the metric where one
    fit gives both. Their weights are optimized together with the threshold on out-of-fold scores,
    by the soft metric, and held near equal weights; base models of little weight are dropped. The
    threshold is tuned on the blend, and the mean of the fold models predicts: no row is lost.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        base_models: which kinds to use, names in ``softset.classifiers.ensemble.KINDS``, fitted in
            the order of that table. By default all; the random forest only where rows times columns
            are at most 500,000, extra trees and networks up to 1,000,000. Which kinds are used thus
            depends on the data alone, not on the machine.
        cv: folds (fewer where a class has fewer rows, with a warning), a splitter, or pairs of
            training and test rows. Rows that no split tests have no say in weights and threshold.
        time_limit: seconds of ``fit``, about; ``None`` for no limit. Each kind is tried on 1,000
            rows, which counts; the cheapest are fitted first, as many as there is time for. If
            there is none for the cheapest, it is fitted on fewer rows. With a limit, which kinds
            are used depends on the machine.
        confidence: with a metric at a constraint (``"precision@recall>=0.9"``), choose a threshold
            that keeps the constraint on new rows with about this probability: see ``promise_``.
        calibrate: calibrate ``predict_proba`` on out-of-fold scores; no decision changes.
        pos_label: the positive class of two. By default 1 or the larger number, a word for yes, or
            the rarer class (``softset.tables.labels.positive_class``).
        n_jobs: threads of trees and boosting; ``None`` is one.
        random_state: int, ``RandomState`` or ``None``.
        verbose: 1 shows progress.

    Attributes:
        classes_, n_features_in_, feature_names_in_: as in scikit-learn.
        threshold_: the threshold(s) in use; ``offsets_`` for multiclass problems.
        base_models_: the base models in use, each with its ``name``, ``weight``, ``adds`` and
            ``cost``.
        score_: the metric out of fold; the threshold is tuned on other rows each time, the weights
            are not.
        left_out_: names that are not used, and why.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> model = MetricEnsembleClassifier("f1", base_models=["linear", "forest"], random_state=0)
    >>> model = model.fit(X, y)
    >>> round(sum(part.weight for part in model.base_models_), 6), model.predict(X[:3]).shape
    (1.0, (3,))
    """

    threshold, class_weight = "tuned", None

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        base_models: Sequence[str] | None = None,
        cv: CV = 5,
        time_limit: float | None = None,
        confidence: float | None = None,
        calibrate: bool = False,
        pos_label: Label | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.base_models = base_models
        self.cv = cv
        self.time_limit = time_limit
        self.confidence = confidence
        self.calibrate = calibrate
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- fit -------------------------------------------------------------------------------------

    def fit(
        self, X: Rows, y: Labels, sample_weight: ArrayLike | None = None, sample_cost: Costs = None
    ) -> Self:
        """Train on ``X (n, features)`` and ``y (n,)``, or ``(n, labels)`` of 0 and 1;
        ``sample_cost`` has costs of each row, by column or ``(n, 4)``."""
        started = time.monotonic()
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, 0, float("inf"))
        x = self._checked_inputs(X, y)
        examples = self._start(x, y, sample_weight, self._row_costs(X, sample_cost))
        random = check_random_state(self.random_state)
        seed, order = (int(v) for v in random.randint(2**31 - 1, size=2))
        place = np.flatnonzero(examples.w > 0)
        place = place[np.random.RandomState(order).permutation(len(place))]
        rows = examples.take(place)
        kinds = self._kinds()
        splits = self._splits(examples, rows, place, seed)
        fits: list[_Fit] = []
        self.left_out_ = self._not_fitted(kinds, rows.x.size)
        kinds = [name for name in kinds if name not in self.left_out_]
        settings = Order(self._mean_cost or self.metric, seed, self.n_jobs)
        limit = math.inf if self.time_limit is None else float(self.time_limit)
        clock = _Clock(started, limit)
        seconds = self._estimated_seconds(kinds, rows, splits, settings, clock)
        steps = progress("fit", len(kinds) * len(splits), self.verbose)
        for name in sorted(kinds, key=lambda name: seconds[name]):
            # The cheapest kind is fitted in any case, on as many rows as there is time for.
            usable = 1.0 if fits else min(1.0, max(0.0, clock.left()) / (seconds[name] or 1.0))
            if not fits or seconds[name] <= clock.left():
                fits += self._fit_kind(
                    KINDS[name], rows, splits, settings, clock, usable, fits, steps
                )
            if not any(fit.kind is KINDS[name] for fit in fits):
                reason = "would have taken longer than time_limit allows"
                self.left_out_[name] = reason
        steps.close()
        self._blend(fits, rows, place, len(examples.y))
        return self

    def _estimated_seconds(
        self, kinds: list[str], rows: Examples, splits: Splits, order: Order, clock: _Clock
    ) -> dict[str, float]:
        """The seconds that all folds of each kind will take, by a fit on a few rows, the time of
        which counts; 0 without a limit, infinite for kinds that there was no time to try."""
        few = few_of_each(rows, PROBE)
        if math.isinf(clock.limit) or len(few.y) == len(rows.y):
            return {name: 0.0 if math.isinf(clock.limit) else 1e-9 * i
                    for i, name in enumerate(kinds)}  # fmt: skip
        total = sum(len(train) for train, _ in splits)
        seconds: dict[str, float] = {}
        for name in sorted(kinds, key=list(PROBED).index):
            if seconds and clock.left() < (1 - PROBING) * clock.limit:
                seconds[name] = math.inf
                continue
            begun = time.monotonic()
            _quietly(KINDS[name], few, order)
            seconds[name] = (time.monotonic() - begun) * total / len(few.y)
        return seconds

    def _kinds(self) -> list[str]:
        if self.base_models is None:
            return list(KINDS)
        if isinstance(self.base_models, str) or not len(self.base_models):
            raise ValueError(
                f"base_models must be a list of {', '.join(KINDS)}, got {self.base_models!r}."
            )
        for name in self.base_models:
            check_choice("base_models", name, KINDS)
        wanted = [name for name in KINDS if name in self.base_models]
        if not any(_is_there(KINDS[name]) for name in wanted):
            raise ValueError(
                f"base_models {', '.join(wanted)} need {KINDS[wanted[0]].needs}: pip install "
                "'softset[boosting]'"
            )
        return wanted

    def _not_fitted(self, kinds: list[str], cells: int) -> dict[str, str]:
        """Why kinds are left out that lack a library, or that are slow on so many cells."""
        reasons = {}
        for name in kinds:
            if not _is_there(KINDS[name]):
                reasons[name] = f"needs {KINDS[name].needs}: pip install 'softset[boosting]'"
            elif self.base_models is None and cells > KINDS[name].most:
                most = f"{KINDS[name].most:,} rows times columns"
                reasons[name] = f"takes long on more than {most}: name it in base_models to use it"
        return reasons

    def _splits(self, examples: Examples, rows: Examples, place: Array, seed: int) -> Splits:
        """Training and test rows among ``rows``, which are the given ones at ``place``."""
        if is_count(self.cv):
            return cv_splits(self.cv, rows.x, self._labels, rows.y, rows.w, seed)
        number = np.empty(len(examples.y), dtype=np.int64)
        number[place] = np.arange(len(place))
        splits = cv_splits(self.cv, examples.x, self._labels, examples.y, examples.w, seed)
        return [(number[train], number[test]) for train, test in splits]

    def _fit_kind(
        self,
        kind: Kind,
        rows: Examples,
        splits: Splits,
        order: Order,
        clock: _Clock,
        usable: float,
        others: list[_Fit],
        steps: Iterator[None],
    ) -> list[_Fit]:
        """The fits of a kind in every split, each on the fraction ``usable`` of its rows; where
        there is no time after all, none, or on fewer rows if there are no other fits."""
        fits: dict[str, _Fit] = {}
        for k, (train, held) in enumerate(splits):
            next(steps)
            begun = time.monotonic()
            part = rows.take(train)
            part = part if usable == 1 else few_of_each(part, max(PROBE, int(usable * len(train))))
            for name, model in _quietly(kind, part, order).items():
                fit = fits.setdefault(name, _Fit(name, kind, [], len(rows.y), []))
                fit.add(model, rows.x, held)
            last = (time.monotonic() - begun) * (len(splits) - k - 1)
            left = max(0.0, clock.left())
            if last > left:
                if others:
                    return []
                usable *= left / last
        return list(fits.values())

    def _blend(self, fits: list[_Fit], rows: Examples, numbers: Array, count: int) -> None:
        """Weights and the decision, by rows that have these ``numbers`` among those ``given``."""
        scores = np.stack([fit.scores for fit in fits])
        # Only rows that every base model has scored.
        some = np.isfinite(scores.reshape(len(fits), len(rows.y), -1)).all((0, 2))
        scores, rows = scores[:, some], rows.take(some)
        place = np.full(count, -1)
        place[numbers[some]] = np.arange(len(rows.y))
        tuner, y, w = self._tuner(), rows.y, rows.w
        weights = blend_weights(scores, y, w, tuner)
        for has_weight, fit in zip(weights >= LEAST_SHARE / len(fits), fits, strict=True):
            if not has_weight:
                self.left_out_[fit.name] = "its weight was close to 0"
        some = np.flatnonzero(weights >= LEAST_SHARE / len(fits))
        fits, scores, weights = [fits[i] for i in some], scores[some], weights[some]
        z, weights = torch.from_numpy(scores), weights / weights.sum()

        def blended(weights: Array) -> Array:
            used = np.flatnonzero(weights)
            share = torch.from_numpy(weights[used] / weights.sum())
            return averaged(z[used], self._task, share).numpy()

        def value(weights: Array) -> float:
            if not tuner.can_tune(y):
                return float("nan")
            values = tuner.values(tuner.crossed(blended(weights), y, w), y, w[None])
            return float(values[0]) * self._unit

        blend = blended(weights)
        self._decide_by(blend if self._holds_out() else None, y, w, place)
        self.score_ = value(weights)
        others = [np.where(np.arange(len(fits)) == i, 0, weights) for i in range(len(fits))]
        without = [value(other) for other in others] if len(fits) > 1 else [0.0]
        self.base_models_ = [
            BaseModel(fit.name, fit.models, float(weight), self.score_ - left, fit.cost)
            for fit, weight, left in zip(fits, weights, without, strict=True)
        ]

    def _tuner(self) -> Tuner:
        return Tuner(self._goal(), self._task, clear=False, verbose=self.verbose)

    def summary(self) -> Summary:
        """The base models by their weight: what each adds, and what predicting costs."""
        self._check_fitted()
        threshold = getattr(self, f"{self._task.parameter}_")
        return Summary.of(
            [
                f"{type(self).__name__} for {label_of(self.metric)}",
                f"out of fold {self.score_:.3f}",
                f"threshold: {np.round(threshold, 4)}",
                self._probabilities_in_words(),
            ],
            ["base model", "weight", "adds", "microseconds a row"],
            [
                [part.name, f"{part.weight:.2f}", f"{part.adds:+.3f}", f"{part.cost:.1f}"]
                for part in sorted(self.base_models_, key=lambda p: -p.weight)
            ],
            [f"left out: {name}, {why}" for name, why in self.left_out_.items()],
        )

    # --- predict ---------------------------------------------------------------------------------

    def _scores(self, x: Array) -> Array:
        z = torch.stack([part.scores(x, self._task) for part in self.base_models_])
        weights = torch.tensor([part.weight for part in self.base_models_], dtype=torch.float64)
        return averaged(z, self._task, weights).numpy()

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> State:
        return {
            "features": self.n_features_in_,
            "score": self.score_,
            "left_out": dict(self.left_out_),
            "base_models": [
                {
                    "name": part.name,
                    "models": [pack_part(model) for model in part.models],
                    "numbers": [part.weight, part.adds, part.cost],
                }
                for part in self.base_models_
            ],
        }

    def _relearn(self, fitted: State) -> None:
        self.n_features_in_ = int(fitted["features"])
        self.score_ = float(fitted["score"])
        self.left_out_ = {str(name): str(why) for name, why in fitted["left_out"].items()}
        self.base_models_ = []
        for packed in fitted["base_models"]:
            models = [unpack_part(each, self.metric) for each in packed["models"]]
            for model in models:
                same = model.task_ == self._task and len(model.classes_) == len(self.classes_)
                if not same or model.n_features_in_ != self.n_features_in_:
                    raise ValueError("base models must share the model's features and classes")
            weight, adds, cost = (float(v) for v in packed["numbers"])
            if not models or not 0 < weight <= 1:
                raise ValueError("models with a weight in (0, 1] expected")
            self.base_models_.append(BaseModel(str(packed["name"]), models, weight, adds, cost))
        if not np.isclose(sum(part.weight for part in self.base_models_), 1):
            raise ValueError("weights that add up to 1 expected")


class _Fit:
    """A part while it is fitted: its models, their out-of-fold scores and the time these took."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        models: list[DecidingClassifier],
        rows: int,
        times: list[float],
    ) -> None:
        self.name, self.kind, self.models = name, kind, models
        self.rows, self.times = rows, times
        self.scores: Array = np.empty(0)

    def add(self, model: DecidingClassifier, x: Array, held: Array) -> None:
        started = time.perf_counter()
        z = model._scores(x[held])
        self.times.append((time.perf_counter() - started) / len(held))
        if not len(self.scores):
            self.scores = np.full((self.rows, *z.shape[1:]), np.nan)
        self.scores[held] = z
        self.models.append(model)

    @property
    def cost(self) -> float:
        """Microseconds a row, all models together."""
        return 1e6 * sum(self.times)


class _Clock(NamedTuple):
    """When ``fit`` started, and how many seconds it may take."""

    started: float
    limit: float

    def left(self) -> float:
        """Seconds that are left; negative after the end."""
        return self.limit - (time.monotonic() - self.started)


def _is_there(kind: Kind) -> bool:
    return kind.needs is None or find_spec(kind.needs) is not None


def _quietly(kind: Kind, rows: Examples, order: Order) -> dict[str, DecidingClassifier]:
    """Without what parts say about folds, of which the user knows nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kind.fit(rows, order)
