"""What is compared: training for the metric, and the plain ways it has to beat; one row each."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from sklearn.ensemble import RandomForestClassifier

from softset.checks import nearest
from softset.classifiers.boosting import MetricBoostingClassifier
from softset.classifiers.ensemble import MetricEnsembleClassifier
from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.network import MetricMLPClassifier
from softset.classifiers.threshold import MetricThresholdClassifier
from softset.comparison.fits import Candidate, Make, Obstacle, Order
from softset.comparison.own import own_candidates, split_off
from softset.losses.surrogate import SurrogateFBetaLoss
from softset.metrics.formulas import FBeta
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, get_goal
from softset.tasks import Task

# Folds of the ensemble: those of ``softset train``, and fewer where the comparison is quick.
ENSEMBLE_FOLDS = {False: 5, True: 3}

# --- how they are made ----------------------------------------------------------------------------


def _network(recipe: Any, **settings: Any) -> Make:
    """Networks; ``recipe`` may be a function of the order."""

    def make(order: Order) -> MetricMLPClassifier:
        return MetricMLPClassifier(
            order.metric,
            recipe=recipe(order) if callable(recipe) else recipe,
            n_networks=order.sizes.members,
            patience=order.sizes.patience,
            max_epochs=order.sizes.max_epochs,
            random_state=order.seed,
            **settings,
        )

    return make


def _surrogate(order: Order) -> SurrogateFBetaLoss:
    beta = get_goal(order.metric).metric.beta  # type: ignore[attr-defined]
    return SurrogateFBetaLoss(float(order.target.mean()), beta=beta)


def _boosting(n_metric_estimators: int, tuned: bool) -> Make:
    def make(order: Order) -> MetricBoostingClassifier:
        return MetricBoostingClassifier(
            order.metric,
            n_metric_estimators=n_metric_estimators,
            threshold="tuned" if tuned else None,
            n_jobs=1,
            random_state=order.seed,
        )

    return make


def _forest(tuned: bool) -> Make:
    def make(order: Order) -> MetricThresholdClassifier:
        forest = RandomForestClassifier(
            order.sizes.trees, min_samples_leaf=order.sizes.leaf, random_state=order.seed
        )
        threshold = "tuned" if tuned else None
        return MetricThresholdClassifier(forest, order.metric, cv="oob", threshold=threshold)

    return make


def _linear(moves: bool, tuned: bool) -> Make:
    def make(order: Order) -> MetricLinearClassifier:
        model = MetricLinearClassifier(order.metric, threshold="tuned" if tuned else None)
        return model if moves else model.set_params(path=())

    return make


def _ensemble(order: Order) -> MetricEnsembleClassifier:
    cv = ENSEMBLE_FOLDS[order.sizes.quick]
    return MetricEnsembleClassifier(order.metric, cv=cv, random_state=order.seed)


# --- when they do not fit -------------------------------------------------------------------------


def _fbeta_of_two(goal: Goal, task: Task) -> bool:
    metric = goal.metric
    single = isinstance(metric, FBeta) and not metric.both_classes and not goal.by_scores
    return task.single and single and isinstance(metric.beta, int | float)  # type: ignore[attr-defined]


_NO_THRESHOLD = Obstacle("the metric has no threshold to tune", lambda goal, task: not goal.tunes)
_OWN_THRESHOLD = Obstacle("the goal has its own threshold", lambda goal, task: goal.where.exact)
_NO_WEIGHTS = Obstacle("several labels have no class weights", lambda goal, task: task.independent)
_NOT_FBETA = Obstacle(
    "it is for F-beta of two classes", lambda goal, task: not _fbeta_of_two(goal, task)
)
_NOT_MOVED = Obstacle(
    "areas under curves leave logistic regression where it is",
    lambda goal, task: not goal.tunes,
)
_SAME_FOREST = Obstacle("without a threshold it is forest-tuned", lambda goal, task: goal.by_scores)
_NO_LIGHTGBM = Obstacle(
    "boosting needs LightGBM: pip install 'softset[boosting]'",
    lambda goal, task: find_spec("lightgbm") is None,
    quiet=False,
)


# --- the table ------------------------------------------------------------------------------------


# In the order in which they are fitted: where there is no time for all, the last are left out.
CANDIDATES: tuple[Candidate, ...] = (
    Candidate(
        "linear",
        "Logistic regression",
        "plain",
        "default",
        "linear",
        "a linear model{half}",
        _linear(moves=False, tuned=False),
        (_OWN_THRESHOLD,),
    ),
    Candidate(
        "linear-tuned",
        "Logistic regression{tuned}",
        "plain",
        "tuned",
        "linear",
        "the same, threshold tuned for {metric} on rows out of fold",
        _linear(moves=False, tuned=True),
        (_NO_THRESHOLD,),
    ),
    Candidate(
        "linear-metric",
        "Linear model for {metric}",
        "metric",
        "metric",
        "linear",
        "logistic regression moved to soft {metric}, as far as rows out of fold say it helps",
        _linear(moves=True, tuned=True),
        (_NOT_MOVED,),
        goes_on=True,
    ),
    Candidate(
        "boosting",
        "Gradient boosting",
        "plain",
        "default",
        "boosting",
        "trees trained on log-loss{half}",
        _boosting(n_metric_estimators=0, tuned=False),
        (_OWN_THRESHOLD, _NO_LIGHTGBM),
    ),
    Candidate(
        "boosting-tuned",
        "Gradient boosting{tuned}",
        "plain",
        "tuned",
        "boosting",
        "the same trees, threshold tuned for {metric}",
        _boosting(n_metric_estimators=0, tuned=True),
        (_NO_THRESHOLD, _NO_LIGHTGBM),
    ),
    Candidate(
        "boosting-metric",
        "Gradient boosting on {metric}",
        "metric",
        "metric",
        "boosting",
        "log-loss rounds, then rounds with {metric} as objective",
        _boosting(n_metric_estimators=200, tuned=True),
        (_NO_LIGHTGBM,),
        goes_on=True,
    ),
    Candidate(
        "forest",
        "Random forest",
        "plain",
        "default",
        "forest",
        "trees on rows and columns drawn at random{half}",
        _forest(tuned=False),
        (_SAME_FOREST,),
    ),
    Candidate(
        "forest-tuned",
        "Random forest{tuned}",
        "plain",
        "tuned",
        "forest",
        "judged on rows out of bag{tuned}",
        _forest(tuned=True),
        goes_on=True,
    ),
    Candidate(
        "cross-entropy",
        "Cross-entropy",
        "plain",
        "default",
        "networks",
        "networks trained on cross-entropy{half}",
        _network("cross-entropy", threshold=None),
        (_OWN_THRESHOLD,),
    ),
    Candidate(
        "cross-entropy-tuned",
        "Cross-entropy{tuned}",
        "plain",
        "tuned",
        "networks",
        "the same networks, threshold tuned for {metric}",
        _network("cross-entropy", threshold="tuned"),
        (_NO_THRESHOLD,),
    ),
    Candidate(
        "warm",
        "Cross-entropy, then soft {metric}",
        "metric",
        "metric",
        "networks",
        "starts from the cross-entropy networks, at a tenth of the learning rate",
        _network("warm"),
        goes_on=True,
    ),
    Candidate(
        "cross-entropy-weighted",
        "Class-weighted cross-entropy",
        "plain",
        "tuned",
        "weighted",
        "classes weigh the same{half}",
        _network("cross-entropy", threshold=None, class_weight="balanced"),
        (_NO_WEIGHTS, _OWN_THRESHOLD),
    ),
    Candidate(
        "metric",
        "Soft {metric}",
        "metric",
        "metric",
        "metric",
        "from scratch, linear step (paper 000)",
        _network("metric"),
    ),
    Candidate(
        "anneal",
        "Soft {metric}, annealed",
        "metric",
        "metric",
        "anneal",
        "from scratch, the step sharpens while training (paper 002)",
        _network("anneal"),
    ),
    Candidate(
        "surrogate-fbeta",
        "Surrogate F-beta",
        "metric",
        "metric",
        "surrogate",
        "a loss with the critical points of F-beta (paper 004 eq. 20)",
        _network(_surrogate),
        (_NOT_FBETA,),
    ),
    Candidate(
        "ensemble",
        "The ensemble",
        "metric",
        "ensemble",
        "ensemble",
        "linear models, trees, boosting and networks, cross-fitted in {folds} folds, blended and "
        "cut for {metric}",
        _ensemble,
    ),
)
BY_ID = {c.id: c for c in CANDIDATES}


def choose(
    metric: MetricLike, label: str, task: Task, wanted: Any = None, quick: bool = False
) -> tuple[list[Candidate], list[str]]:
    """The candidates that fit the metric and the task, and a sentence on each left out.

    ``wanted`` are ids, or one, and pairs of a name and an estimator of the user's own; all ids if
    left out, or for ``...`` among them. ``label`` is the metric in running text; ``quick`` says
    that the fits are those of a quick comparison.
    """
    goal = get_goal(metric)
    names, own = split_off(wanted, BY_ID)
    ids = list(BY_ID) if names is None else names
    for c in ids:
        if c not in BY_ID:
            raise ValueError(
                f"candidates must be from {', '.join(BY_ID)}; got {c!r}.{nearest(str(c), BY_ID)}"
            )
    known = [(c, c.obstacle(goal, task)) for c in CANDIDATES]
    kept = [c for c, o in known if o is None and c.id in ids]
    left_out: dict[str, list[str]] = {}
    for c, o in known:
        if o is not None and c.id in ids and (names is not None or not o.quiet):
            left_out.setdefault(o.reason, []).append(c.id)
    said = [f"left out: {', '.join(some)} ({reason})." for reason, some in left_out.items()]
    mine = own_candidates(own, label, goal)
    if len(kept) + len(mine) < 2:
        possible = ", ".join(c.id for c, o in known if o is None)
        got = ", ".join(c.id for c in [*kept, *mine]) or "none"
        raise ValueError(
            " ".join([f"candidates must hold at least two of {possible}, got {got}.", *said])
        )
    words = {
        "metric": label,
        "tuned": "" if goal.by_scores else ", tuned threshold",
        "half": "" if goal.by_scores else ", threshold 0.5",
        "folds": str(ENSEMBLE_FOLDS[quick]),
    }
    return [*mine, *(_named(c, words, goal.by_scores) for c in kept)], said


def _named(c: Candidate, words: dict[str, str], by_scores: bool) -> Candidate:
    """With the metric in its texts. Where scores are judged, all that is plain is the default."""
    rung = "default" if by_scores and c.rung == "tuned" else c.rung
    name, description = (text.format(**words) for text in (c.name, c.description))
    return replace(c, name=name, description=description, rung=rung, obstacles=())
