"""The candidates: training for the metric, its baselines, and models of the user; one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec

from sklearn.ensemble import RandomForestClassifier

from softset.checks import nearest
from softset.classifiers.boosting import MetricBoostingClassifier
from softset.classifiers.ensemble import MetricEnsembleClassifier
from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.network import MetricMLPClassifier
from softset.classifiers.threshold import MetricThresholdClassifier
from softset.comparison.fits import (
    Candidate,
    CandidateLike,
    FitRequest,
    Make,
    Obstacle,
    Sizes,
    split_candidates,
    user_candidates,
)
from softset.losses.surrogate import SurrogateFBetaLoss
from softset.metrics.formulas import FBeta
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, get_goal
from softset.tasks import Task

# Folds of the ensemble: those of ``softset train``, and fewer where the comparison is quick.
ENSEMBLE_FOLDS = {False: 5, True: 3}

# --- how they are made ----------------------------------------------------------------------------


def _network(
    recipe: str | Callable[[FitRequest], SurrogateFBetaLoss],
    threshold: str | None = "tuned",
    class_weight: str | None = None,
) -> Make:
    """Networks; ``recipe`` may be a function of the request."""

    def make(request: FitRequest) -> MetricMLPClassifier:
        return MetricMLPClassifier(
            request.metric,
            recipe=recipe(request) if callable(recipe) else recipe,
            n_networks=request.sizes.n_networks,
            patience=request.sizes.patience,
            max_epochs=request.sizes.max_epochs,
            random_state=request.random_state,
            threshold=threshold,
            class_weight=class_weight,
            confidence=request.confidence if threshold else None,
        )

    return make


def _surrogate(request: FitRequest) -> SurrogateFBetaLoss:
    beta = get_goal(request.metric).metric.beta  # type: ignore[attr-defined]
    return SurrogateFBetaLoss(float(request.target.mean()), beta=beta)


def _boosting(n_metric_estimators: int, tuned: bool) -> Make:
    def make(request: FitRequest) -> MetricBoostingClassifier:
        return MetricBoostingClassifier(
            request.metric,
            n_metric_estimators=n_metric_estimators,
            threshold="tuned" if tuned else None,
            confidence=request.confidence if tuned else None,
            n_jobs=1,
            random_state=request.random_state,
        )

    return make


def _forest(tuned: bool) -> Make:
    def make(request: FitRequest) -> MetricThresholdClassifier:
        forest = RandomForestClassifier(
            request.sizes.trees,
            min_samples_leaf=request.sizes.min_samples_leaf,
            random_state=request.random_state,
        )
        return MetricThresholdClassifier(
            forest,
            request.metric,
            cv="oob",
            threshold="tuned" if tuned else None,
            confidence=request.confidence if tuned else None,
        )

    return make


def _linear(fine_tuned: bool, tuned: bool) -> Make:
    def make(request: FitRequest) -> MetricLinearClassifier:
        model = MetricLinearClassifier(
            request.metric,
            threshold="tuned" if tuned else None,
            confidence=request.confidence if tuned else None,
        )
        return model if fine_tuned else model.set_params(path=())

    return make


def _ensemble(request: FitRequest) -> MetricEnsembleClassifier:
    cv = ENSEMBLE_FOLDS[request.sizes.quick]
    return MetricEnsembleClassifier(
        request.metric, cv=cv, random_state=request.random_state, confidence=request.confidence
    )


# --- when they do not fit -------------------------------------------------------------------------


def _fbeta_of_two(goal: Goal, task: Task) -> bool:
    metric = goal.metric
    single = isinstance(metric, FBeta) and not metric.both_classes and not goal.by_scores
    return task.single and single and isinstance(metric.beta, int | float)  # type: ignore[attr-defined]


_NO_THRESHOLD = Obstacle("the metric has no threshold to tune", lambda goal, task: not goal.tunes)
_OWN_THRESHOLD = Obstacle("the goal has its own threshold", lambda goal, task: goal.where.exact)
_NO_WEIGHTS = Obstacle("labels have no class weights", lambda goal, task: task.independent)
_NOT_FBETA = Obstacle(
    "it is for F-beta of two classes", lambda goal, task: not _fbeta_of_two(goal, task)
)
_NOT_FINE_TUNED = Obstacle(
    "logistic regression is not fine-tuned for areas under curves",
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
        "baseline",
        "default",
        "linear",
        "a linear model{half}",
        _linear(fine_tuned=False, tuned=False),
        (_OWN_THRESHOLD,),
    ),
    Candidate(
        "linear-tuned",
        "Logistic regression{tuned}",
        "baseline",
        "tuned",
        "linear",
        "the same, {parameter} tuned for {metric} out of fold",
        _linear(fine_tuned=False, tuned=True),
        (_NO_THRESHOLD,),
    ),
    Candidate(
        "linear-metric",
        "Linear model for {metric}",
        "metric",
        "metric",
        "linear",
        "logistic regression fine-tuned for soft {metric}, as far as it helps out of fold",
        _linear(fine_tuned=True, tuned=True),
        (_NOT_FINE_TUNED,),
        continues=True,
    ),
    Candidate(
        "boosting",
        "Gradient boosting",
        "baseline",
        "default",
        "boosting",
        "trees trained for log loss{half}",
        _boosting(n_metric_estimators=0, tuned=False),
        (_OWN_THRESHOLD, _NO_LIGHTGBM),
    ),
    Candidate(
        "boosting-tuned",
        "Gradient boosting{tuned}",
        "baseline",
        "tuned",
        "boosting",
        "the same trees, {parameter} tuned for {metric}",
        _boosting(n_metric_estimators=0, tuned=True),
        (_NO_THRESHOLD, _NO_LIGHTGBM),
    ),
    Candidate(
        "boosting-metric",
        "Gradient boosting for {metric}",
        "metric",
        "metric",
        "boosting",
        "rounds for log loss, then rounds with {metric} as objective",
        _boosting(n_metric_estimators=200, tuned=True),
        (_NO_LIGHTGBM,),
        continues=True,
    ),
    Candidate(
        "forest",
        "Random forest of {trees} trees",
        "baseline",
        "default",
        "forest",
        "{forest}{half}",
        _forest(tuned=False),
        (_SAME_FOREST,),
    ),
    Candidate(
        "forest-tuned",
        "Random forest of {trees} trees{tuned}",
        "baseline",
        "tuned",
        "forest",
        "{forest}{out_of_bag}",
        _forest(tuned=True),
        continues=True,
    ),
    Candidate(
        "cross-entropy",
        "Cross-entropy",
        "baseline",
        "default",
        "networks",
        "networks trained for cross-entropy{half}",
        _network("cross-entropy", threshold=None),
        (_OWN_THRESHOLD,),
    ),
    Candidate(
        "cross-entropy-tuned",
        "Cross-entropy{tuned}",
        "baseline",
        "tuned",
        "networks",
        "the same networks, {parameter} tuned for {metric}",
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
        continues=True,
    ),
    Candidate(
        "cross-entropy-weighted",
        "Class-weighted cross-entropy",
        "baseline",
        "tuned",
        "weighted",
        "every class has the same total weight{half}",
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
        "Ensemble",
        "metric",
        "ensemble",
        "ensemble",
        "linear models, trees, boosting and networks, cross-fitted in {folds} folds and "
        "blended{for_metric}",
        _ensemble,
    ),
)
BY_ID = {c.id: c for c in CANDIDATES}


def choose(
    metric: MetricLike,
    label: str,
    task: Task,
    candidates: CandidateLike | Sequence[CandidateLike] | None = None,
    sizes: Sizes | None = None,
    *,
    by_row: bool = False,
) -> tuple[list[Candidate], list[str]]:
    """The candidates that fit the metric and the task, and a sentence on each that is left out.

    ``candidates`` are ids, or one, and pairs of a name and a model of the user; by default, or for
    ``...`` among them, all ids. ``label`` is the metric in running text; ``by_row``: with costs of
    each row.
    """
    goal, sizes = get_goal(metric), sizes or Sizes()
    names, user_models = split_candidates(candidates, BY_ID)
    ids = list(BY_ID) if names is None else names
    for name in ids:
        if name not in BY_ID:
            raise ValueError(
                f"candidates must be from {', '.join(BY_ID)}; got {name!r}.{nearest(name, BY_ID)}"
            )
    obstacles = [(c, c.obstacle(goal, task)) for c in CANDIDATES]
    chosen = [c for c, o in obstacles if o is None and c.id in ids]
    left_out: dict[str, list[str]] = {}
    for c, o in obstacles:
        if o is not None and c.id in ids and (names is not None or not o.quiet):
            left_out.setdefault(o.reason, []).append(c.id)
    notes = [f"left out: {', '.join(group)} ({reason})." for reason, group in left_out.items()]
    parameter = "expected costs of each row or one threshold" if by_row else task.parameter
    words = dict.fromkeys(("tuned", "half", "out_of_bag", "for_metric"), "") | {
        "metric": label,
        "parameter": parameter,
        "folds": str(ENSEMBLE_FOLDS[sizes.quick]),
        "trees": str(sizes.trees),
        "forest": f"{sizes.trees} trees, at least {sizes.min_samples_leaf} row(s) in a leaf",
    }
    if not goal.by_scores:
        words["tuned"] = ", costs of each row" if by_row else f", tuned {parameter}"
        words["out_of_bag"] = f", {parameter} tuned for {label} on out-of-bag scores"
        words["for_metric"] = f", {parameter} tuned for {label}"
        words["half"] = ", largest probability" if task.exclusive else ", default threshold (0.5)"
    users = user_candidates(user_models, words, goal, task)
    if len(chosen) + len(users) < 2:
        possible = ", ".join(c.id for c, o in obstacles if o is None)
        got = ", ".join(c.id for c in [*chosen, *users]) or "none"
        raise ValueError(
            " ".join([f"candidates must hold at least two of {possible}, got {got}.", *notes])
        )
    return [*users, *(_named(c, words, goal.by_scores) for c in chosen)], notes


def _named(c: Candidate, words: dict[str, str], by_scores: bool) -> Candidate:
    """The candidate with the metric in its texts. Areas have no threshold: all baselines are in the
    default stage."""
    stage = "default" if by_scores and c.stage == "tuned" else c.stage
    name, description = (text.format(**words) for text in (c.name, c.description))
    return replace(c, name=name, description=description, stage=stage, obstacles=())
