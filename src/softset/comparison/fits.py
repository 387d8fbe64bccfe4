"""Candidates of a comparison, and how one fit serves several of them.

A threshold is tuned after training, and training for the metric from a cross-entropy solution
passes through that solution: one fit gives both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from softset.classifiers.base import DecidingClassifier
from softset.classifiers.network import PhasedClassifier
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike
from softset.tasks import Task
from softset.typing import Array, Floats, Threshold

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
