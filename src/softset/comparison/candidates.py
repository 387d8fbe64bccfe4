"""What is compared: training for the metric, and the plain ways it has to beat.

``CANDIDATES`` has one row for each. A fit may serve several of them: a threshold is tuned after
training, and training for the metric from a cross-entropy solution passes through that solution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softset.checks import nearest
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.boosting import MetricBoostingClassifier
from softset.classifiers.forest import MetricForestClassifier
from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.network import MetricClassifier
from softset.classifiers.phases import PhasedClassifier
from softset.comparison.result import Family, History
from softset.losses.surrogate import SurrogateFBetaLoss
from softset.metrics.base import Metric
from softset.metrics.formulas import FBeta
from softset.metrics.registry import MetricLike, get_metric
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
        )


@dataclass(frozen=True)
class Order:
    """What a classifier is made for: the metric, class numbers ``[rows]``, sizes and a seed."""

    metric: MetricLike
    target: Array
    sizes: Sizes
    seed: int


# --- how they are made ----------------------------------------------------------------------------

Make = Callable[[Order], DecidingClassifier]


def _network(recipe: Any, **settings: Any) -> Make:
    """Networks; ``recipe`` may be a function of the order."""

    def make(order: Order) -> MetricClassifier:
        return MetricClassifier(
            order.metric,
            recipe=recipe(order) if callable(recipe) else recipe,
            n_members=order.sizes.members,
            patience=order.sizes.patience,
            max_epochs=order.sizes.max_epochs,
            random_state=order.seed,
            **settings,
        )

    return make


def _surrogate(order: Order) -> SurrogateFBetaLoss:
    beta = get_metric(order.metric).beta  # type: ignore[attr-defined]
    return SurrogateFBetaLoss(float(order.target.mean()), beta=beta)


def _boosting(rounds: int, tuned: bool) -> Make:
    def make(order: Order) -> MetricBoostingClassifier:
        return MetricBoostingClassifier(
            order.metric,
            rounds=rounds,
            threshold="tuned" if tuned else None,
            n_jobs=1,
            random_state=order.seed,
        )

    return make


def _forest(order: Order) -> MetricForestClassifier:
    return MetricForestClassifier(
        order.metric,
        n_trees=order.sizes.trees,
        min_samples_leaf=order.sizes.leaf,
        random_state=order.seed,
    )


def _linear(moves: bool, tuned: bool) -> Make:
    def make(order: Order) -> MetricLinearClassifier:
        model = MetricLinearClassifier(order.metric, threshold="tuned" if tuned else None)
        return model if moves else model.set_params(path=())

    return make


# --- when they do not fit -------------------------------------------------------------------------


@dataclass(frozen=True)
class Obstacle:
    """Why a candidate is left out where ``stands(metric, task)``.

    A quiet one is said only to those who asked for the candidate: nobody else misses it.
    """

    reason: str
    stands: Callable[[Metric, str], bool]
    quiet: bool = True


def _fbeta_of_two(metric: Metric, task: str) -> bool:
    single = isinstance(metric, FBeta) and not metric.both_classes
    return task == "binary" and single and isinstance(metric.beta, int | float)  # type: ignore[attr-defined]


_NO_THRESHOLD = Obstacle("the metric has no threshold to tune", lambda metric, task: metric.curve)
_NO_WEIGHTS = Obstacle(
    "several labels have no class weights", lambda metric, task: task == "multilabel"
)
_NOT_FBETA = Obstacle(
    "it is for F-beta of two classes", lambda metric, task: not _fbeta_of_two(metric, task)
)
_NOT_MOVED = Obstacle(
    "areas under curves leave logistic regression where it is",
    lambda metric, task: metric.curve,
)
_NO_LIGHTGBM = Obstacle(
    "boosting needs LightGBM: pip install 'softset[boosting]'",
    lambda metric, task: find_spec("lightgbm") is None,
    quiet=False,
)


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """One way to train. In ``name`` and ``description``, ``{metric}`` stands for the metric's name
    and ``{tuned}``, ``{half}`` for words on the threshold, which areas under curves do not have.

    ``fit`` names what trains it. Candidates of one fit are trained together: the one that
    ``goes_on`` where the others stop is cut back to them, by the function in ``SHARED``.
    """

    id: str
    name: str
    family: Family
    fit: str
    description: str
    make: Make
    obstacles: tuple[Obstacle, ...] = ()
    goes_on: bool = False

    def obstacle(self, metric: Metric, task: str) -> Obstacle | None:
        """What stands in the way of it, if anything."""
        return next((o for o in self.obstacles if o.stands(metric, task)), None)


@dataclass(frozen=True)
class Fitted:
    """A candidate on one split: its classifier and the seconds that it took (of a shared fit)."""

    candidate: str
    classifier: DecidingClassifier
    seconds: float


def fit_candidates(wanted: Sequence[str], x: Array, order: Order) -> list[Fitted]:
    """Fit candidates that share one fit; each is what its ``make`` gives on its own."""
    rows = [BY_ID[c] for c in wanted]
    first = next((c for c in rows if c.goes_on), rows[0])
    if len(rows) > 1:
        return SHARED[first.fit](first, rows, order, x)
    started = time.perf_counter()
    model = first.make(order).fit(x, order.target)
    return [Fitted(first.id, model, time.perf_counter() - started)]


def _boosting_parts(
    first: Candidate, rows: Sequence[Candidate], order: Order, x: Array
) -> list[Fitted]:
    """Log-loss trees, and the rounds for the metric that go on from them."""
    started = time.perf_counter()
    model: Any = first.make(order)
    if not first.goes_on:  # log-loss only, but both thresholds
        model.set_params(rounds=1)
    model.fit(x, order.target)
    seconds = time.perf_counter() - started
    several = order.target.ndim == 2  # labels with a booster each
    warm = int(np.sum(model.warm_rounds_))
    more = sum(map(len, model.history_)) if several else len(model.history_)
    share = warm / max(1, warm + more)
    return [
        Fitted(c.id, model, seconds)
        if c.goes_on
        else Fitted(c.id, model.log_loss_part(c.make(order).threshold), share * seconds)
        for c in rows
    ]


def _linear_parts(
    first: Candidate, rows: Sequence[Candidate], order: Order, x: Array
) -> list[Fitted]:
    """Logistic regression, and the linear model that moves on from it."""
    started = time.perf_counter()
    model: Any = first.make(order).fit(x, order.target)
    seconds = time.perf_counter() - started
    share = 1 / (1 + len(model.path))  # a point of the path takes about as long as the start
    return [
        Fitted(c.id, model, seconds)
        if c.goes_on
        else Fitted(c.id, model.logistic_part(c.make(order).threshold), share * seconds)
        for c in rows
    ]


def _network_parts(
    first: Candidate, rows: Sequence[Candidate], order: Order, x: Array
) -> list[Fitted]:
    """Cross-entropy networks, and what starts from them."""
    started = time.perf_counter()
    model = PhasedClassifier(**first.make(order).get_params(deep=False)).fit(x, order.target)
    seconds = time.perf_counter() - started
    share = model.first_phase_share
    return [
        Fitted(c.id, model, seconds)
        if c.goes_on
        else Fitted(
            c.id, model.first_phase(**c.make(order).get_params(deep=False)), share * seconds
        )
        for c in rows
    ]


# How one fit serves several candidates: fits the first, and cuts it back to the others.
SHARED: dict[str, Callable[[Candidate, Sequence[Candidate], Order, Array], list[Fitted]]] = {
    "networks": _network_parts,
    "boosting": _boosting_parts,
    "linear": _linear_parts,
}

CANDIDATES: tuple[Candidate, ...] = (
    Candidate(
        "cross-entropy",
        "Cross-entropy",
        "plain",
        "networks",
        "networks trained on cross-entropy{half}",
        _network("cross-entropy", threshold=None),
    ),
    Candidate(
        "cross-entropy-tuned",
        "Cross-entropy{tuned}",
        "plain",
        "networks",
        "the same networks, threshold tuned for {metric}",
        _network("cross-entropy", threshold="tuned"),
        (_NO_THRESHOLD,),
    ),
    Candidate(
        "cross-entropy-weighted",
        "Class-weighted cross-entropy",
        "plain",
        "weighted",
        "classes weigh the same{half}",
        _network("cross-entropy", threshold=None, class_weight="balanced"),
        (_NO_WEIGHTS,),
    ),
    Candidate(
        "metric",
        "Soft {metric}",
        "metric",
        "metric",
        "from scratch, linear step (paper 000)",
        _network("metric"),
    ),
    Candidate(
        "anneal",
        "Soft {metric}, annealed",
        "metric",
        "anneal",
        "from scratch, the step sharpens while training (paper 002)",
        _network("anneal"),
    ),
    Candidate(
        "warm",
        "Cross-entropy, then soft {metric}",
        "metric",
        "networks",
        "starts from the cross-entropy networks, at a tenth of the learning rate",
        _network("warm"),
        goes_on=True,
    ),
    Candidate(
        "surrogate-fbeta",
        "Surrogate F-beta",
        "metric",
        "surrogate",
        "a loss with the critical points of F-beta (paper 004 eq. 20)",
        _network(_surrogate),
        (_NOT_FBETA,),
    ),
    Candidate(
        "boosting",
        "Gradient boosting",
        "plain",
        "boosting",
        "trees trained on log-loss{half}",
        _boosting(rounds=0, tuned=False),
        (_NO_LIGHTGBM,),
    ),
    Candidate(
        "boosting-tuned",
        "Gradient boosting{tuned}",
        "plain",
        "boosting",
        "the same trees, threshold tuned for {metric}",
        _boosting(rounds=0, tuned=True),
        (_NO_THRESHOLD, _NO_LIGHTGBM),
    ),
    Candidate(
        "boosting-metric",
        "Gradient boosting on {metric}",
        "metric",
        "boosting",
        "log-loss rounds, then rounds with {metric} as objective",
        _boosting(rounds=200, tuned=True),
        (_NO_LIGHTGBM,),
        goes_on=True,
    ),
    Candidate(
        "forest-tuned",
        "Random forest{tuned}",
        "plain",
        "forest",
        "judged on rows out of bag{tuned}",
        _forest,
    ),
    Candidate(
        "linear",
        "Logistic regression",
        "plain",
        "linear",
        "a linear model{half}",
        _linear(moves=False, tuned=False),
    ),
    Candidate(
        "linear-tuned",
        "Logistic regression{tuned}",
        "plain",
        "linear",
        "the same, threshold tuned for {metric} on rows out of fold",
        _linear(moves=False, tuned=True),
        (_NO_THRESHOLD,),
    ),
    Candidate(
        "linear-metric",
        "Linear model for {metric}",
        "metric",
        "linear",
        "logistic regression moved to soft {metric}, as far as rows out of fold say it helps",
        _linear(moves=True, tuned=True),
        (_NOT_MOVED,),
        goes_on=True,
    ),
)
BY_ID = {c.id: c for c in CANDIDATES}


def choose(
    metric: Metric, label: str, task: str, wanted: Any = None
) -> tuple[list[Candidate], list[str]]:
    """The candidates that fit the metric and the task, and a sentence on each left out.

    ``wanted`` are ids, or one; all if left out. ``label`` is the metric in running text.
    """
    ids = list(BY_ID) if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for c in ids:
        if c not in BY_ID:
            raise ValueError(
                f"candidates must be from {', '.join(BY_ID)}; got {c!r}.{nearest(str(c), BY_ID)}"
            )
    known = [(c, c.obstacle(metric, task)) for c in CANDIDATES]
    kept = [c for c, o in known if o is None and c.id in ids]
    left_out: dict[str, list[str]] = {}
    for c, o in known:
        if o is not None and c.id in ids and (wanted is not None or not o.quiet):
            left_out.setdefault(o.reason, []).append(c.id)
    said = [f"left out: {', '.join(names)} ({reason})." for reason, names in left_out.items()]
    for family, word in (("metric", "trained for the metric"), ("plain", "not trained for it")):
        if not any(c.family == family for c in kept):
            possible = [c.id for c, o in known if o is None and c.family == family]
            got = ", ".join(c.id for c in kept) or "none"
            raise ValueError(
                " ".join(
                    [
                        f"candidates must hold at least one that is {word} "
                        f"({', '.join(possible)}), got {got}.",
                        *said,
                    ]
                )
            )
    words = {
        "metric": label,
        "tuned": "" if metric.curve else ", tuned threshold",
        "half": "" if metric.curve else ", threshold 0.5",
    }
    named = [
        replace(c, name=c.name.format(**words), description=c.description.format(**words))
        for c in kept
    ]
    return named, said


def first_member(classifier: DecidingClassifier) -> History | None:
    """The epochs of one network: losses, the soft and the hard metric on validation rows.

    None where the validation rows are weighted by their class, too: such a metric stands beside no
    other.
    """
    if not isinstance(classifier, MetricClassifier) or not classifier.history_:
        return None
    if classifier.class_weight is not None:
        return None
    h = classifier.history_[0]
    # What phases are called depends on neither metric nor task.
    phases = [phase.name for phase in make_phases(classifier.recipe, "f1", "binary")]
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
