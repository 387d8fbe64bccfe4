"""The models of the study ``when.py``, at several capacities: trained with cross-entropy, for the
metric, and by rivals. All are cut by one tuner on scores of rows that training has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer

import softset as ss
from softset.boosting.base import library_class
from softset.boosting.rounds import boost
from softset.classifiers.export import averaged
from softset.classifiers.path import choose, errors_needed, rarest_rows
from softset.counting.steps import SigmoidStep
from softset.decisions.decision import Decision
from softset.decisions.tuner import Tuner
from softset.losses.pointwise import CrossEntropyLoss, FocalLoss
from softset.losses.soft_metric import MetricLoss
from softset.tables.rows import Examples
from softset.tables.scaling import Scaler, center_and_spread
from softset.tables.splits import content_folds
from softset.training.data import data_of
from softset.training.linear import LinearProblem, logistic, scores_of
from softset.training.members import train_members
from softset.training.phases import Phase
from softset.training.stack import Member
from when_data import Problem

HALF, ENTROPY, METRIC, CHOSEN = "cross-entropy at 1/2", "cross-entropy", "metric", "chosen"
WEIGHTED, FOCAL, ANYLOSS = "class-weighted", "focal", "AnyLoss"
RIVALS = (WEIGHTED, FOCAL, ANYLOSS)
FOLDS = 3  # of networks and boosting; the linear model has its own 5
MEMBERS, BATCHES, EPOCHS, PATIENCE, RATE, DECAY = 2, 4, 40, 6, 0.03, 0.01
SLOW = 0.1  # the rate of later phases of a network, as a share of that of the first
ROUND_RATE, ROUND_PATIENCE = 0.1, 30
ANYLOSS_SLOPE = 73.0  # AnyLoss's step


@dataclass(frozen=True)
class Scored:
    """Scores of the training rows, out of fold, and of the test rows."""

    oof: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Capacity:
    """How much a model can express: ``linear``, ``network`` or ``boosting``, and its size."""

    kind: str
    features: int | None = None
    hidden: tuple[int, ...] = ()
    leaves: int = 0
    rounds: int = 0


def _capacities() -> dict[str, Capacity]:
    found = {"linear, 5 features": Capacity("linear", features=5), "linear": Capacity("linear")}
    for hidden in ((2,), (4,), (8,), (16,), (64,), (64, 32)):
        found[f"network {'-'.join(map(str, hidden))}"] = Capacity("network", hidden=hidden)
    for leaves in (2, 4, 8, 16, 32, 64):
        found[f"tree, {leaves} leaves"] = Capacity("boosting", leaves=leaves, rounds=1)
    for leaves in (2, 4, 15):
        for rounds in (5, 20, 100, 500):
            name = f"boosting, {leaves} leaves, {rounds} rounds"
            found[name] = Capacity("boosting", leaves=leaves, rounds=rounds)
    return found


CAPACITIES = _capacities()
THREE = ("linear", "network 8", "boosting, 15 leaves, 100 rounds")


def fitted(
    capacity: str, problem: Problem, metric: str, seed: int, axis: str = "capacity"
) -> dict[str, np.ndarray]:
    """By arm: the decisions on the test rows, 0 and 1 or one-hot.

    The axis ``"rivals"`` has more arms; on ``"further"`` boosting for the metric comes after all
    rounds of log-loss.
    """
    rivals = axis == "rivals"
    size = CAPACITIES[capacity]
    if size.kind != "boosting":  # trees know missing values
        problem = _imputed(problem)
    if size.features is not None:
        problem = _fewer(problem, size.features)
    if size.kind == "linear":
        found = _linear(problem, metric)
        if rivals:
            found |= _linear_rivals(problem, metric)
        return found
    fold = content_folds(problem.train, FOLDS)
    if size.kind == "network":
        train = _networks(problem, fold, metric, size.hidden, seed)
        arms = {}
        for name, recipe in _recipes(problem, metric, rivals).items():
            *before, arms[name] = train(recipe)
            if name == METRIC:
                arms[ENTROPY] = before[-1]
    else:
        arms = _boosting(problem, fold, metric, size, seed, axis)
    return _decided(problem, metric, arms)


def _imputed(problem: Problem) -> Problem:
    """Missing values become the mean of the training rows."""
    if not np.isnan(problem.train.x).any() and not np.isnan(problem.test.x).any():
        return problem
    fill = SimpleImputer(keep_empty_features=True).fit(problem.train.x)
    train, test = (p._replace(x=fill.transform(p.x)) for p in problem[:2])
    return problem._replace(train=train, test=test)


def _fewer(problem: Problem, features: int) -> Problem:
    """The features whose means differ most between the classes, in the training rows."""
    varied = np.flatnonzero(np.ptp(problem.train.x, axis=0) > 0)
    pick = SelectKBest(f_classif, k=min(features, len(varied)))
    pick.fit(problem.train.x[:, varied], problem.train.y)
    kept = varied[pick.get_support()]
    train, test = (p._replace(x=p.x[:, kept]) for p in problem[:2])
    return problem._replace(train=train, test=test)


# --- decisions ------------------------------------------------------------------------------------


def _decided(problem: Problem, metric: str, arms: dict[str, Scored]) -> dict[str, np.ndarray]:
    """Each arm cut by the tuner; cross-entropy also as it is; and the better of cross-entropy and
    the metric by the linear model's rule (out of fold, in standard errors)."""
    tuner = Tuner(ss.get_metric(metric), problem.task)
    _, y, w = problem.train
    found = {name: tuner.tune(s.oof, y, w).one_hot(s.test) for name, s in arms.items()}
    entropy = arms[ENTROPY]
    found[HALF] = Decision.plain(problem.task, problem.classes).one_hot(entropy.test)
    pair = [entropy, arms[METRIC]]
    decided = [tuner.best(s.oof, y, w).one_hot(s.oof) for s in pair]
    needed = errors_needed(rarest_rows(y, w), problem.train.x.shape[1])
    _, best = choose(decided, y, w, tuner, [np.inf, 0.0], needed)
    found[CHOSEN] = found[(ENTROPY, METRIC)[best]]
    return found


# --- linear ---------------------------------------------------------------------------------------


def _linear(problem: Problem, metric: str) -> dict[str, np.ndarray]:
    """Ours chooses how far to move by itself, so that it is what is chosen, too."""
    x, y, w = problem.train
    model = ss.MetricLinearClassifier(metric).fit(x, y, w)
    models = {
        HALF: model.logistic_part(threshold=None),
        ENTROPY: model.logistic_part(),
        METRIC: model,
        CHOSEN: model,
    }
    found = {name: m.predict(problem.test.x) for name, m in models.items()}
    if problem.classes > 2:
        return {name: np.eye(problem.classes)[d] for name, d in found.items()}
    return {name: d.astype(float) for name, d in found.items()}


def _linear_rivals(problem: Problem, metric: str) -> dict[str, np.ndarray]:
    """Two classes: each rival in the way of logistic regression, by L-BFGS on all rows."""
    rows = problem.train
    center, scale = center_and_spread(rows.x, rows.w)
    x, x_test = (rows.x - center) / scale, (problem.test.x - center) / scale
    fold = content_folds(rows, 5)
    tuner = Tuner(ss.get_metric(metric), "binary")
    balance = _balance(rows.y, rows.w)[rows.y]

    def weighted(p: LinearProblem, which: Any) -> np.ndarray:
        return logistic(replace(p, w=p.w * balance[which]), 1.0, 0.0, None)

    def focal(p: LinearProblem, _: Any) -> np.ndarray:
        loss = FocalLoss(2.0)
        return _by_torch(p, lambda z, y, w: loss(z, y, w) * w.sum(), np.zeros(x.shape[1] + 1), 1.0)

    found = {}
    for name, train in ((WEIGHTED, weighted), (FOCAL, focal)):
        found[name] = _folded(train, x, rows, x_test, fold)

    # AnyLoss starts where ours does: at logistic regression, moved to the tuned cut.
    start = _folded(lambda p, _: logistic(p, 1.0, 0.0, None), x, rows, x_test, fold)
    cut = float(tuner.best(start.oof, rows.y, rows.w).logit)
    loss = MetricLoss(metric, step=SigmoidStep(ANYLOSS_SLOPE))

    def any_loss(p: LinearProblem, _: Any) -> np.ndarray:
        at = logistic(p, 1.0, 0.0, None)
        at[-1] -= cut
        return _by_torch(p, loss, at, 0.0)

    found[ANYLOSS] = _folded(any_loss, x, rows, x_test, fold)
    return {n: tuner.tune(s.oof, rows.y, rows.w).one_hot(s.test) for n, s in found.items()}


def _balance(y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The weight of each class that makes them equal."""
    mass = np.bincount(y, weights=w)
    return mass.sum() / (len(mass) * mass)


def _folded(
    train: Callable, x: np.ndarray, rows: Examples, x_test: np.ndarray, fold: Any
) -> Scored:
    """Out of fold by a model without the fold, test rows by a model of all rows."""
    oof = np.zeros(len(rows.y))
    for k in np.unique(fold):
        seen = fold != k
        part = LinearProblem(x[seen], rows.y[seen], rows.w[seen], 2)
        oof[~seen] = scores_of(x[~seen], train(part, seen), 1)
    whole = train(LinearProblem(x, rows.y, rows.w, 2), np.arange(len(rows.y)))
    return Scored(oof, scores_of(x_test, whole, 1))


def _by_torch(p: LinearProblem, loss: Callable, start: np.ndarray, ridge: float) -> np.ndarray:
    """``loss + ridge/2 |b|^2`` of a linear model, from ``start``."""
    y, w = torch.from_numpy(p.y), torch.from_numpy(p.w)

    def function(flat: np.ndarray) -> tuple[float, np.ndarray]:
        z = torch.from_numpy(p.scores(flat)).requires_grad_()
        found = loss(z, y, w)
        (by_score,) = torch.autograd.grad(found, z)
        b = np.append(flat[:-1], 0.0)
        return float(found.detach()) + ridge / 2 * float(b @ b), p.pull_back(
            by_score.numpy()
        ) + ridge * b

    return minimize(function, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x


# --- networks -------------------------------------------------------------------------------------


def _recipes(problem: Problem, metric: str, rivals: bool) -> dict[str, list[Phase]]:
    """Cross-entropy, then slowly, as far as that helps; only then the metric, slowly: so the metric
    has no gain from longer training alone. AnyLoss in its place; the others have their own loss."""
    task = problem.task
    balance = _balance(problem.train.y, problem.train.w)
    entropy = CrossEntropyLoss(task=task)
    first = [Phase(entropy), Phase(entropy, SLOW)]
    found = {METRIC: [*first, Phase(MetricLoss(metric, task=task), SLOW)]}
    if rivals:
        weighted = CrossEntropyLoss(task=task, class_weight=balance)
        focal = FocalLoss(2.0, task=task)
        steep = MetricLoss(metric, task=task, step=SigmoidStep(ANYLOSS_SLOPE))
        found[WEIGHTED] = [Phase(weighted), Phase(weighted, SLOW)]
        found[FOCAL] = [Phase(focal), Phase(focal, SLOW)]
        found[ANYLOSS] = [*first, Phase(steep, SLOW)]
    return found


def _networks(
    problem: Problem, fold: np.ndarray, metric: str, hidden: tuple[int, ...], seed: int
) -> Callable[[list[Phase]], list[Scored]]:
    """A function: phases -> scores after each of them.

    A fold's networks stop early on the fold, and score it; all folds' networks together score the
    test rows.
    """

    def train(recipe: list[Phase]) -> list[Scored]:
        oof: list[np.ndarray] = []
        test: list[list[torch.Tensor]] = []
        for k in range(FOLDS):
            rows, held = (problem.train.take(m) for m in (fold != k, fold == k))
            scaler = Scaler.of(rows.x, rows.w)
            data, checks = (data_of(_ready(r, scaler)) for r in (rows, held))
            trained = train_members(
                hidden,
                data,
                checks,
                members=[Member(100 * seed + 10 * k + i, RATE, DECAY) for i in range(MEMBERS)],
                recipe=recipe,
                metric=metric,
                task=problem.task,
                batch_size=max(64, len(rows.y) // BATCHES),
                max_epochs=EPOCHS,
                patience=PATIENCE,
                shared_order=seed,
            )
            x_test = torch.from_numpy(scaler(problem.test.x)).float()
            for i, weights in enumerate([*trained.phase_ends, trained.weights]):
                at = replace(trained, weights=weights)
                z = averaged(at.scores(checks.x).double(), problem.task).numpy()
                if len(oof) <= i:
                    oof.append(np.zeros((len(fold), *z.shape[1:])))
                    test.append([])
                oof[i][fold == k] = z
                test[i].append(at.scores(x_test).double())
        together = [averaged(torch.cat(parts), problem.task).numpy() for parts in test]
        return [Scored(*pair) for pair in zip(oof, together, strict=True)]

    return train


def _ready(rows: Examples, scaler: Scaler) -> Examples:
    return rows._replace(x=scaler(rows.x), w=rows.w / rows.w.mean())


# --- boosting -------------------------------------------------------------------------------------


def _boosting(
    problem: Problem, fold: np.ndarray, metric: str, size: Capacity, seed: int, axis: str
) -> dict[str, Scored]:
    """Log-loss, and the metric with as many rounds in all, the first half of them log-loss.

    On the axis ``"further"`` all rounds of log-loss come first, then at most as many again for the
    metric. All folds' models together score the test rows. A single tree is grown from nothing with
    all columns; test rows are scored by one tree of all rows.
    """
    classes, further = problem.classes, axis == "further"
    parameters: dict[str, Any] = {"num_leaves": size.leaves}
    if size.rounds == 1:
        parameters |= {"bagging_freq": 0, "feature_fraction": 1.0}
    half = size.rounds // 2
    arms = {ENTROPY: (size.rounds, 0), METRIC: (half, size.rounds - half)}
    if further:
        arms = {METRIC: (size.rounds, size.rounds)}
    if axis == "rivals":
        arms |= {WEIGHTED: arms[ENTROPY], FOCAL: arms[ENTROPY], ANYLOSS: arms[METRIC]}
    balance = _balance(problem.train.y, problem.train.w)

    def train(
        rows: Examples, checks: Examples, name: str, k: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        settings = {"learning_rate": ROUND_RATE, "seed": 10 * seed + k}
        library = library_class("lightgbm")(settings, 1, len(rows.y), classes, [], parameters)
        rounds = arms[name]
        if name == FOCAL:
            return _focal(library, rows, checks, rounds[0])
        return boost(
            library,
            rows,
            checks,
            ss.get_metric(metric),
            classes=classes,
            n_estimators=rounds[0],
            n_metric_estimators=rounds[1],
            patience=ROUND_PATIENCE,
            step=SigmoidStep(ANYLOSS_SLOPE) if name == ANYLOSS else None,
        )

    def scored(models: list[Any], last: list[Any]) -> Scored:
        """By a model for each fold; test rows by the ``last`` ones."""
        oof = np.zeros((len(fold),) if classes == 2 else (len(fold), classes))
        for k, model in enumerate(models):
            oof[fold == k] = _logs(model(problem.train.x[fold == k]))
        test = torch.from_numpy(np.stack([_logs(model(problem.test.x)) for model in last]))
        return Scored(oof, averaged(test, problem.task).numpy())

    found = {}
    for name in arms:
        every = problem.train
        if name == WEIGHTED:
            every = every._replace(w=every.w * balance[every.y])
        models = [
            train(every.take(fold != k), every.take(fold == k), name, k) for k in range(FOLDS)
        ]
        last = [train(every, every, name, FOLDS)] if size.rounds == 1 else models
        found[name] = scored(models, last)
        if further:
            before = [model.log_loss_part() for model in models]
            found[ENTROPY] = scored(before, before)
    return found


def _focal(
    library: Any, rows: Examples, checks: Examples, rounds: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Two classes: Newton steps on the focal loss from the log-odds, stopped early by it."""
    library.load(rows, checks)
    positive = np.average(rows.y, weights=rows.w)
    start = float(np.log(positive / (1 - positive)))
    for part, n in ((library.rows, len(rows.y)), (library.checks, len(checks.y))):
        part.set_init_score(np.full(n, start))

    def found(scores: np.ndarray, data: Any) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.from_numpy(np.array(scores, dtype=np.float64)).requires_grad_()
        y, w = data.get_label(), data.get_weight()  # None: all are equal
        weight = np.ones(len(y)) if w is None else w.astype(np.float64)
        return z, FocalLoss(2.0)(z, y.astype(int), weight) * weight.sum()

    def objective(scores: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        z, loss = found(scores, data)
        (g,) = torch.autograd.grad(loss, z, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), z)  # of a sum over rows: each row's own curvature
        return g.detach().numpy(), h.clamp(min=1e-6).numpy()

    def watched(scores: np.ndarray, data: Any) -> tuple[str, float, bool]:
        return "focal", float(found(scores, data)[1].detach()), False

    lightgbm = library.library
    booster = lightgbm.train(
        {**library.settings, "objective": objective, "metric": "none"},
        library.rows,
        rounds,
        valid_sets=[library.checks],
        feval=watched,
        callbacks=[lightgbm.early_stopping(ROUND_PATIENCE, verbose=False)],
    )
    return lambda x: start + booster.predict(x, raw_score=True)


def _logs(z: np.ndarray) -> np.ndarray:
    """Scores as a decision takes them: of several classes, log-probabilities."""
    return z if z.ndim == 1 else torch.log_softmax(torch.from_numpy(z), -1).numpy()
