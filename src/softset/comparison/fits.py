"""Candidates of a comparison, and how one fit serves several of them.

A threshold is tuned after training, and training for the metric from a cross-entropy solution
passes through that solution: one fit gives both.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TYPE_CHECKING, Self, TypeAlias, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier

from softset.classifiers.base import DecidingClassifier
from softset.classifiers.network import PhasedClassifier
from softset.classifiers.threshold import MetricThresholdClassifier
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike
from softset.tasks import Task
from softset.typing import Array, ArrayLike, Floats, Ints, Threshold

if TYPE_CHECKING:
    from softset.comparison.experiment import Experiment
    from softset.comparison.result import Family, StageId


@dataclass(frozen=True)
class Sizes:
    """How large the models are: the same for all candidates of a kind."""

    n_networks: int = 8
    patience: int = 10
    max_epochs: int = 100
    trees: int = 200
    min_samples_leaf: int = 1
    quick: bool = False

    @classmethod
    def of(cls, rows: int, quick: bool) -> Sizes:
        """Large tables need less patience and fewer leaves."""
        large = rows > 10_000
        return cls(
            n_networks=4 if quick else 8,
            patience=5 if large or quick else 10,
            max_epochs=50 if quick else 100,
            trees=100 if quick else 200,
            min_samples_leaf=5 if large else 1,
            quick=quick,
        )


@dataclass(frozen=True)
class FitRequest:
    """Arguments of a fit: the metric, class numbers ``[rows]``, sizes and a seed."""

    metric: MetricLike
    target: Array
    sizes: Sizes
    random_state: int
    confidence: float | None = None
    sample_cost: Floats | None = None  # (rows, 4), where rows have costs of their own

    @classmethod
    def of(cls, experiment: Experiment, split: int) -> Self:
        """The arguments of every fit on a split."""
        train, _ = experiment.rows(split)
        return cls(
            experiment.metric,
            experiment.y[train],
            experiment.sizes,
            experiment.seed_of(split),
            experiment.confidence,
            experiment.costs(train),
        )

    @property
    def costs(self) -> dict[str, Floats]:
        """As an argument of ``fit``."""
        return {} if self.sample_cost is None else {"sample_cost": self.sample_cost}


# ``make(request).fit(x, request.target)`` is a fitted ``DecidingClassifier``.
Make = Callable[[FitRequest], DecidingClassifier]


@dataclass(frozen=True)
class Obstacle:
    """Why a candidate is left out where ``applies(goal, task)``.

    A quiet one is reported only to those who asked for the candidate.
    """

    reason: str
    applies: Callable[[Goal, Task], bool]
    quiet: bool = True


@dataclass(frozen=True)
class Candidate:
    """One way to train. In ``name`` and ``description``, ``{metric}`` stands for the metric's name
    and ``{tuned}``, ``{half}`` for words on the threshold, which areas under curves do not have.

    ``fit`` names the fit that trains it. Candidates of one fit are trained together: the one that
    ``continues`` where the others stop is reduced to them, by the functions in ``SHARED``.
    ``user_model`` is the user's estimator, as it prints itself; empty for our candidates.
    ``scores`` of the user, one for each row, are its only column.
    """

    id: str
    name: str
    family: Family
    stage: StageId
    fit: str
    description: str
    make: Make
    obstacles: tuple[Obstacle, ...] = ()
    continues: bool = False
    user_model: str = ""
    scores: Floats | None = None

    def obstacle(self, goal: Goal, task: Task) -> Obstacle | None:
        """The first obstacle that applies, None if there is none."""
        return next((o for o in self.obstacles if o.applies(goal, task)), None)

    @property
    def in_text(self) -> str:
        """Its name inside a sentence."""
        return self.name if self.user_model else self.name[:1].lower() + self.name[1:]


@dataclass(frozen=True)
class Fitted:
    """A candidate on one split: its classifier, and the seconds that it took (of a shared fit)."""

    candidate: str
    classifier: DecidingClassifier
    seconds: float


@dataclass(frozen=True)
class Sharing:
    """How one fit serves several candidates: ``prepare`` makes of the classifier that continues
    furthest one that ``reduce`` turns into another; ``fraction`` of its time is that other's."""

    prepare: Callable[[DecidingClassifier], DecidingClassifier]
    fraction: Callable[[DecidingClassifier], float]
    reduce: Callable[[DecidingClassifier, DecidingClassifier], DecidingClassifier]


def _with_rounds(model: DecidingClassifier) -> DecidingClassifier:
    """At least one round for the metric: without any there is nothing to reduce."""
    return model if model.n_metric_estimators else model.set_params(n_metric_estimators=1)


def _log_loss_fraction(model: DecidingClassifier) -> float:
    warm = int(np.sum(model.n_estimators_))
    one_each = isinstance(model.n_estimators_, list)  # labels with a booster each
    rounds = sum(map(len, model.history_)) if one_each else len(model.history_)
    return warm / max(1, warm + rounds)


SHARED: dict[str, Sharing] = {
    # Cross-entropy networks, and what starts from them.
    "networks": Sharing(
        lambda model: PhasedClassifier(**model.get_params(deep=False)),
        lambda model: model.first_phase_share,
        lambda model, other: model.first_phase(**other.get_params(deep=False)),
    ),
    # Log-loss trees, and the rounds for the metric that go on from them.
    "boosting": Sharing(
        _with_rounds, _log_loss_fraction, lambda model, other: model.log_loss_part(other.threshold)
    ),
    # Logistic regression, and its fine-tuning: a point of the path takes about as long.
    "linear": Sharing(
        lambda model: model,
        lambda model: 1 / (1 + len(model.path)),
        lambda model, other: model.logistic_part(other.threshold),
    ),
}
# One model with a tuned threshold, and the same at the default threshold.
_THRESHOLD = Sharing(
    lambda model: model,
    lambda model: 1.0,
    lambda model, other: model.with_threshold(cast("Threshold | None", other.threshold)),
)


def fit_candidates(rows: Sequence[Candidate], x: Array, request: FitRequest) -> list[Fitted]:
    """Fit candidates that share one fit; each equals the result of its own ``make``."""
    first = next((c for c in rows if c.continues), rows[0])
    how = SHARED.get(first.fit, _THRESHOLD)
    started = time.perf_counter()
    model = first.make(request)
    model = how.prepare(model) if len(rows) > 1 else model
    model = model.fit(x, request.target, **request.costs)
    seconds = time.perf_counter() - started
    if len(rows) == 1:
        return [Fitted(first.id, model, seconds)]
    return [
        Fitted(c.id, model, seconds)
        if c.continues
        else Fitted(c.id, how.reduce(model, c.make(request)), how.fraction(model) * seconds)
        for c in rows
    ]


# --- models of the user ---------------------------------------------------------------------------

# An id, a user's model or scores with their name, or ``...`` for all ids.
CandidateLike: TypeAlias = "str | tuple[str, BaseEstimator | ArrayLike] | EllipsisType"


def split_candidates(
    candidates: CandidateLike | Sequence[CandidateLike] | None, ids: Collection[str]
) -> tuple[list[str] | None, dict[str, BaseEstimator | Floats]]:
    """The ids, None for all of them (``...``), and the user's models or scores by name.

    >>> from sklearn.linear_model import LogisticRegression
    >>> split_candidates(["warm", ("mine", LogisticRegression())], ["warm"])
    (['warm'], {'mine': LogisticRegression()})
    >>> split_candidates([..., ("mine", LogisticRegression())], ["warm"])
    (None, {'mine': LogisticRegression()})
    """
    if candidates is None or isinstance(candidates, str):
        return None if candidates is None else [candidates], {}
    names: list[str] = []
    models: dict[str, BaseEstimator | Floats] = {}
    every = candidates is ...
    for each in [] if isinstance(candidates, EllipsisType) else candidates:
        if isinstance(each, EllipsisType):
            every = True
            continue
        if not isinstance(each, tuple):
            names.append(str(each))
            continue
        name, estimator = _checked(each)
        taken = {*ids, *models, *(f"{other}-tuned" for other in models)}
        if {name, f"{name}-tuned"} & taken:
            raise ValueError(f"candidates must have distinct names, got {name!r} twice.")
        models[name] = estimator
    return None if every else names, models


def _checked(
    pair: tuple[str, BaseEstimator | ArrayLike],
) -> tuple[str, BaseEstimator | Floats]:
    if len(pair) == 2 and isinstance(pair[0], str) and pair[0].strip():
        name, model = pair
        if isinstance(model, BaseEstimator) and is_classifier(model):
            return name, model
        if not isinstance(model, type | str | BaseEstimator):
            with suppress(TypeError, ValueError):
                scores = np.asarray(model, dtype=np.float64)
                if scores.ndim == 1 and np.isfinite(scores).all():
                    return name, scores
    raise ValueError(
        "models of your own must be pairs of a name and a scikit-learn classifier, such as "
        "('mine', RandomForestClassifier()), or of a name and a finite score for each row, got "
        f"{pair!r}."
    )


class ScoreColumn(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose only column is the probability of the positive class."""

    def fit(self, X: Floats, y: Ints) -> ScoreColumn:
        """Nothing is learned."""
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """The column, and what it leaves to 1."""
        return np.column_stack([1 - X[:, 0], X[:, 0]])


def _as_probabilities(scores: Floats) -> tuple[Floats, bool]:
    """Scores in [0, 1], and whether they were already; others keep their order."""
    if scores.min() >= 0 and scores.max() <= 1:
        return scores, True
    low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75])
    z = (scores - middle) / (high - low or scores.std() or 1.0)
    return 1 / (1 + np.exp(-np.clip(z, -30, 30))), False


def user_candidates(
    models: dict[str, BaseEstimator | Floats], words: dict[str, str], goal: Goal, task: Task
) -> list[Candidate]:
    """Each model (or scores that are probabilities) as it is, unless the goal has its own
    threshold, and with a tuned one if it has any."""
    result = []
    for name, model in models.items():
        fit, scores, as_it_is = f"user {name}", None, not goal.where.exact
        if isinstance(model, BaseEstimator):
            estimator, kind, printed = model, type(model).__name__, repr(model)
        else:
            if not task.single:
                raise ValueError(f"scores of your own ({name!r}) need two classes.")
            scores, probabilities = _as_probabilities(model)
            estimator, kind = ScoreColumn(), "scores"
            as_it_is &= probabilities or goal.by_scores
            printed = f"scores {hashlib.sha256(scores.tobytes()).hexdigest()}"
        if as_it_is:
            text, make = f"your {kind} as it is", _user_model(estimator, None)
            plain = Candidate(name, name, "baseline", "user", fit, text, make)
            result.append(replace(plain, user_model=printed, scores=scores))
        if goal.tunes:
            text = f"your {kind}, {words['parameter']} tuned for {words['metric']} out of fold"
            tuned = Candidate(
                f"{name}-tuned",
                f"{name}{words['tuned']}",
                "baseline",
                "tuned",
                fit,
                text,
                _user_model(estimator, "tuned"),
            )
            result.append(replace(tuned, continues=True, user_model=printed, scores=scores))
    return result


def _user_model(estimator: BaseEstimator, threshold: str | None) -> Make:
    def make(request: FitRequest) -> MetricThresholdClassifier:
        rarest = 5 if request.target.ndim == 2 else int(np.bincount(request.target).min())
        return MetricThresholdClassifier(
            estimator,
            request.metric,
            cv=max(2, min(5, rarest)),
            threshold=threshold,
            random_state=request.random_state,
            confidence=request.confidence if threshold else None,
        )

    return make
