"""One linear model: logistic regression on all rows, then along the path as far as it helps.

How far is chosen on a sample that is in memory; all rows may be anywhere (``LinearRows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softset.classifiers.path import FittedPath, choose, errors_needed, penalties_tried
from softset.decisions.tuner import Tuner
from softset.metrics.goals import Goal
from softset.progress import progress
from softset.tasks import task_of
from softset.training.linear import LinearProblem, LinearRows, logistic, move, scores_of, shifted
from softset.typing import Array, Ints


@dataclass(frozen=True)
class PathSettings:
    """Those of ``MetricLinearClassifier``."""

    C: float
    l1_ratio: float
    path: Sequence[float]
    verbose: int

    def logistic(self, rows: LinearRows, start: Array | None) -> Array:
        """Logistic regression with these penalties, where the path of the metric starts."""
        return logistic(rows, self.C, self.l1_ratio, start)


def fit_path(
    settings: PathSettings,
    sample: LinearProblem,
    fold: Ints,
    trains: Array,
    rows: LinearRows,
    goal: Goal,
    rarest: float,
    features: int,
) -> FittedPath:
    """Fit on the ``whole``, which is the sample itself if there are no other rows. ``fold`` is that
    of every row of the sample, -1 for none, and ``trains[k]`` which rows its model is trained on;
    ``rarest`` are the (effective) rows of the rarest class of all, 0 if there is only one;
    ``features`` those that vary."""
    y, w = sample.y, sample.w
    some = rows is not sample
    # Of many rows a sample says nearly where to end.
    near = some and len(np.unique(y)) == sample.classes
    start = settings.logistic(rows, settings.logistic(sample, None) if near else None)
    if not rarest or not goal.tunes:
        return FittedPath(start, start, [], 0, None, {})
    tuner = Tuner(goal, task_of(y, sample.classes))
    penalties = penalties_tried(settings.path, rarest, features)
    oof, models = _out_of_fold(settings, sample, fold, trains, start, tuner, penalties)
    tested = fold >= 0
    y, w = y[tested], w[tested]
    best = [tuner.best(z[tested], y, w) for z in oof]
    path, chosen = choose(
        [tuner.judged(d, z[tested]) for d, z in zip(best, oof, strict=True)],
        y,
        w,
        tuner,
        [float("inf"), *penalties],
        errors_needed(rarest, features),
    )
    flat = start
    if chosen:
        first = flat = shifted(start, best[0], sample.classes)
        for penalty in penalties[:chosen]:
            flat = move(sample, goal, first, penalty, flat)
        flat = move(rows, goal, first, penalties[chosen - 1], flat) if some else flat
    return FittedPath(start, flat, path, chosen, (oof[0], oof[chosen]), models[chosen])


def _out_of_fold(
    settings: PathSettings,
    sample: LinearProblem,
    fold: Ints,
    trains: Array,
    start: Array,
    tuner: Tuner,
    penalties: list[float],
) -> tuple[list[Array], list[dict[int, Array]]]:
    """Out-of-fold scores of the sample along the path, and the models by their fold."""
    folds = np.unique(fold[fold >= 0])
    training_parts, starts = [], []
    oof = [np.zeros_like(sample.scores(start)) for _ in range(1 + len(penalties))]
    models: list[dict[int, Array]] = [{} for _ in oof]
    steps = progress("fit", len(folds) * (1 + len(penalties)), settings.verbose)
    for k in folds:
        next(steps)
        part = sample.take(trains[k])
        alone = len(np.unique(part.y)) < sample.classes
        training_parts.append(part)
        starts.append(start if alone else settings.logistic(part, start))
        oof[0][fold == k] = scores_of(sample.x[fold == k], starts[-1], sample.outputs)
        models[0][int(k)] = starts[-1]
    if penalties:
        tested = fold >= 0
        decision = tuner.best(oof[0][tested], sample.y[tested], sample.w[tested])
        for k, part, first in zip(folds, training_parts, starts, strict=True):
            at = origin = shifted(first, decision, sample.classes)
            for i, penalty in enumerate(penalties, 1):
                next(steps)
                at = move(part, tuner.goal, origin, penalty, at)
                oof[i][fold == k] = scores_of(sample.x[fold == k], at, sample.outputs)
                models[i][int(k)] = at
    steps.close()
    return oof, models
