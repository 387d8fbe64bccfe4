"""``compare``: what to do for the best metric on this data, and what it is worth."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softset.checks import check_choice, check_number, warn_user
from softset.comparison.candidates import choose
from softset.comparison.data import check_table
from softset.comparison.plan import Plan
from softset.comparison.result import Comparison
from softset.comparison.summary import Summary
from softset.comparison.suspicions import few_rows, telling_columns
from softset.metrics.registry import MetricLike, decided_elsewhere, get_goal, label_of, one_number


def compare(
    X: Any,
    y: Any,
    metric: MetricLike = "f1",
    *,
    task: str | None = None,
    groups: Any = None,
    pos_label: Any = None,
    quick: bool = False,
    time_limit: float | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    backend: str | None = None,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = False,
    candidates: Any = None,
    cv: int = 5,
    repeats: int | None = None,
    duplicates: str = "together",
    progress: Callable[[int, int, float], None] | None = None,
    command: str | None = None,
    file: str | None = None,
) -> Comparison:
    """What to do for the best ``metric``, and what each step is worth, on repeated splits.

    Args:
        X: a data frame of mixed columns, or an array of numbers ``(rows, features)``.
        y: labels ``(rows,)`` of any kind, or several columns of 0 and 1.
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        task: ``"binary"``, ``"multiclass"`` or ``"multilabel"``; checked if given.
        groups: a label for each row; rows of a group stay on one side of every split.
        pos_label: the positive class of two. By default 1 or the larger number, a word for yes, or
            the rarer class (``softset.tables.labels.positive_class``).
        quick: fewer networks, fewer trees, one repeat.
        time_limit: seconds that all of it may take; fewer splits are made if need be.
        n_jobs, backend: how many runs at once, and any joblib backend (``"dask"`` for a cluster).
        directory: where ``runs.jsonl`` keeps the finished runs; ``resume=True`` goes on from it.
        candidates: ids to compare; all that fit the metric and the task if left out. A pair
            ``("mine", estimator)`` is any scikit-learn classifier of your own, which is compared as
            it is and with a tuned threshold, and is what all others are held against; ``...``
            stands for all ids: ``candidates=[..., ("mine", estimator)]``.
        cv, repeats: splits; 5 folds, twice (once if quick).
        duplicates: ``"together"`` keeps equal rows on one side of every split, ``"ignore"`` not.
        progress: called with runs done, runs in all, and seconds left.
        command, file: to be shown in the report.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> found = compare(X, y, "f1", candidates=["boosting-tuned", "boosting-metric"], n_jobs=1,
    ...                 quick=True)
    >>> found.outcome, found.model.predict(X[:2]).shape
    ('unclear', (2,))
    """
    started = time.monotonic()
    measured = one_number(decided_elsewhere(metric))
    check_number("cv", cv, 2, 100, closed="both")
    if repeats is not None:
        check_number("repeats", repeats, 1, 100, closed="both")
    if time_limit is not None:
        check_number("time_limit", time_limit, 0, math.inf, hint="It is in seconds.")
    check_choice("duplicates", duplicates, ("together", "ignore"))
    if directory is None and resume:
        raise ValueError("resume needs the directory of the comparison to go on with.")
    table = check_table(X, y, groups, pos_label, task, cv, duplicates)
    label = label_of(measured)
    doubts = [*few_rows(table, int(cv)), *telling_columns(table, metric, label)]
    for text in doubts:
        warn_user(text)
    chosen, left_out = choose(measured, label, table.task, candidates, quick)
    plan = Plan(
        table,
        metric,
        chosen,
        folds=int(cv),
        repeats=int(repeats) if repeats is not None else 1 if quick else 2,
        quick=quick,
        seed=random_state,
        jobs=n_jobs,
        backend=backend,
        progress=progress,
        directory=None if directory is None else Path(directory),
        resume=resume,
        started=started,
        time_limit=math.inf if time_limit is None else time_limit,
    )
    found = Summary(plan, plan.run(), label, [*table.warnings, *doubts, *left_out])
    return found.comparison(started, command or _call(metric, quick, random_state), file)


def _call(metric: MetricLike, quick: bool, random_state: int) -> str:
    name = repr(metric) if isinstance(metric, str) else get_goal(metric).name
    quickly = ", quick=True" if quick else ""
    return f"softset.compare(X, y, {name}{quickly}, random_state={random_state})"
