"""What a candidate of a comparison is, and how one fit serves several of them.

A threshold is tuned after training, and training for the metric from a cross-entropy solution
passes through that solution: one fit gives both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softset.classifiers.base import DecidingClassifier
from softset.classifiers.network import MetricMLPClassifier, PhasedClassifier
from softset.comparison.ladder import RungId
from softset.comparison.result import Family, History
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike
from softset.tasks import BINARY, Task
from softset.training.phases import make_phases

Array = NDArray[Any]


@dataclass(frozen=True)
class Sizes:
    """How much is spent on a fit: the same for all candidates of a kind."""

    members: int = 8
    patience: int = 10
    max_epochs: int = 100
    trees: int = 200
    leaf: int = 1
    quick: bool = False

    @classmethod
    def of(cls, rows: int, quick: bool) -> Sizes:
        """Large tables need less patience and fewer leaves."""
        large = rows > 10_000
        return cls(
            members=4 if quick else 8,
            patience=5 if large or quick else 10,
            max_epochs=50 if quick else 100,
            trees=100 if quick else 200,
            leaf=5 if large else 1,
            quick=quick,
        )


@dataclass(frozen=True)
class Order:
    """What a classifier is made for: the metric, class numbers ``[rows]``, sizes and a seed."""

    metric: MetricLike
    target: Array
    sizes: Sizes
    seed: int


# ``make(order).fit(x, order.target)`` is a fitted ``DecidingClassifier``.
Make = Callable[[Order], Any]


@dataclass(frozen=True)
class Obstacle:
    """Why a candidate is left out where ``stands(metric, task)``.

    A quiet one is said only to those who asked for the candidate: nobody else misses it.
    """

    reason: str
    stands: Callable[[Goal, Task], bool]
    quiet: bool = True


@dataclass(frozen=True)
class Candidate:
    """One way to train. In ``name`` and ``description``, ``{metric}`` stands for the metric's name
    and ``{tuned}``, ``{half}`` for words on the threshold, which areas under curves do not have.

    ``rung`` is its place on the ladder of ``softset.comparison.ladder``. ``fit`` names what trains
    it. Candidates of one fit are trained together: the one that ``goes_on`` where the others stop
    is cut back to them, by the function in ``SHARED``.
    """

    id: str
    name: str
    family: Family
    rung: RungId
    fit: str
    description: str
    make: Make
    obstacles: tuple[Obstacle, ...] = ()
    goes_on: bool = False
    own: str = ""  # the estimator of the user, as it writes itself

    def obstacle(self, goal: Goal, task: Task) -> Obstacle | None:
        """What stands in the way of it, if anything."""
        return next((o for o in self.obstacles if o.stands(goal, task)), None)

    @property
    def in_text(self) -> str:
        """Its name inside a sentence."""
        return self.name if self.own else self.name[:1].lower() + self.name[1:]


@dataclass(frozen=True)
class Fitted:
    """A candidate on one split: its classifier, and the seconds that it took (of a shared fit)."""

    candidate: str
    classifier: DecidingClassifier
    seconds: float


@dataclass(frozen=True)
class Sharing:
    """How one fit serves several candidates: ``prepare`` makes of the classifier that goes on
    furthest one that can be cut ``back`` to another; ``share`` of its time is that other's."""

    prepare: Callable[[Any], Any]
    share: Callable[[Any], float]
    back: Callable[[Any, Any], DecidingClassifier]


def _with_rounds(model: Any) -> Any:
    """Log-loss only, but both thresholds: of no rounds for the metric there is nothing to cut."""
    return model if model.n_metric_estimators else model.set_params(n_metric_estimators=1)


def _log_loss_share(model: Any) -> float:
    warm = int(np.sum(model.n_estimators_))
    several = isinstance(model.n_estimators_, list)  # labels with a booster each
    more = sum(map(len, model.history_)) if several else len(model.history_)
    return warm / max(1, warm + more)


SHARED: dict[str, Sharing] = {
    # Cross-entropy networks, and what starts from them.
    "networks": Sharing(
        lambda model: PhasedClassifier(**model.get_params(deep=False)),
        lambda model: model.first_phase_share,
        lambda model, other: model.first_phase(**other.get_params(deep=False)),
    ),
    # Log-loss trees, and the rounds for the metric that go on from them.
    "boosting": Sharing(
        _with_rounds, _log_loss_share, lambda model, other: model.log_loss_part(other.threshold)
    ),
    # Logistic regression, and what moves on from it: a point of the path takes about as long.
    "linear": Sharing(
        lambda model: model,
        lambda model: 1 / (1 + len(model.path)),
        lambda model, other: model.logistic_part(other.threshold),
    ),
}
# One model with a tuned threshold, and the same cut at 1/2.
_CUT = Sharing(
    lambda model: model,
    lambda model: 1.0,
    lambda model, other: model.with_threshold(other.threshold),
)


def fit_candidates(rows: Sequence[Candidate], x: Array, order: Order) -> list[Fitted]:
    """Fit candidates that share one fit; each is what its ``make`` gives on its own."""
    first = next((c for c in rows if c.goes_on), rows[0])
    how = SHARED.get(first.fit, _CUT)
    started = time.perf_counter()
    model = first.make(order)
    model = (how.prepare(model) if len(rows) > 1 else model).fit(x, order.target)
    seconds = time.perf_counter() - started
    if len(rows) == 1:
        return [Fitted(first.id, model, seconds)]
    return [
        Fitted(c.id, model, seconds)
        if c.goes_on
        else Fitted(c.id, how.back(model, c.make(order)), how.share(model) * seconds)
        for c in rows
    ]


def first_member(classifier: DecidingClassifier) -> History | None:
    """The epochs of one network: losses, the soft and the hard metric on validation rows.

    None where the validation rows are weighted by their class, too: such a metric stands beside no
    other.
    """
    if not isinstance(classifier, MetricMLPClassifier) or not classifier.history_:
        return None
    if classifier.class_weight is not None:
        return None
    h = classifier.history_[0]
    # What phases are called depends on neither metric nor task.
    phases = [phase.name for phase in make_phases(classifier.recipe, "f1", BINARY)]
    return History(
        epoch=list(range(1, len(h["loss"]) + 1)),
        train_loss=_rounded(h["loss"]),
        validation_loss=_rounded(h["validation_loss"]),
        soft=_rounded(h["validation_soft"]),
        hard=_rounded(h["validation_metric"]),
        phases=[(phases[k], h["phase"].index(k) + 1) for k in sorted(set(h["phase"]))],
    )


def _rounded(values: list[Any]) -> list[float | None]:
    return [None if v is None or not np.isfinite(v) else float(f"{v:.6g}") for v in values]
