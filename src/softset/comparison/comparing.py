"""``compare``: which model to use for a metric on this data, and the gain of each stage."""

from __future__ import annotations

import datetime
import math
import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import cast

import numpy as np

import softset
from softset.checks import check_choice, check_number, warn_user
from softset.classifiers.model import Model
from softset.classifiers.row_costs import Costs, mean_cost, prices, row_costs
from softset.comparison.candidates import choose
from softset.comparison.data import Class, check_dataset
from softset.comparison.experiment import encode
from softset.comparison.fits import Candidate, CandidateLike, FitRequest, Sizes
from softset.comparison.importances import order_warning, winner_importances
from softset.comparison.leakage import few_rows, leaking_columns, too_good
from softset.comparison.operating import constrained_rates, mean_point
from softset.comparison.result import (
    LEVEL,
    CandidateResult,
    ClassCount,
    ColumnSummary,
    Comparison,
    ComparisonSettings,
    DataSummary,
    OperatingPoint,
    Predictions,
    SplitResult,
    Splits,
    TaskName,
    ThresholdValue,
    TrainingHistory,
    metric_label,
    point_in_words,
)
from softset.comparison.row_costs import model_costs
from softset.comparison.runs import FinishedFit, Plan, rows_in_time
from softset.comparison.statistics import (
    adjusted,
    gains_by_stage,
    interval,
    mean_ranks,
    one_row_of,
    paired,
    splits_to_choose_on,
)
from softset.comparison.verdict import advice, headline, stage_names, verdict
from softset.decisions.constants import ConstantWarning
from softset.formats import grouped
from softset.metrics.goals import Goal
from softset.metrics.registry import (
    MetricLike,
    decided_elsewhere,
    get_goal,
    one_number,
    range_of,
)
from softset.tables.encoder import TableEncoder
from softset.typing import ArrayLike, Labels, Rows


def compare(
    X: Rows,
    y: Labels,
    metric: MetricLike = "f1",
    *,
    task: str | None = None,
    groups: ArrayLike | None = None,
    times: ArrayLike | None = None,
    pos_label: Class | None = None,
    confidence: float | None = None,
    sample_cost: Costs = None,
    quick: bool = False,
    time_limit: float | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    backend: str | None = None,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = False,
    candidates: CandidateLike | Sequence[CandidateLike] | None = None,
    cv: int = 5,
    repeats: int | None = None,
    duplicates: str = "together",
    progress: Callable[[int, int, float], None] | None = None,
    command: str | None = None,
    file: str | None = None,
) -> Comparison:
    """Compare ways to get the best ``metric``, and the gain of each stage, on repeated splits.

    Args:
        X: a data frame of mixed columns, or an array of numbers ``(rows, features)``.
        y: labels ``(rows,)`` of any kind, or a matrix of 0 and 1, a column for each label.
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        task: ``"binary"``, ``"multiclass"`` or ``"multilabel"``; checked if given.
        groups: a label for each row; rows of a group stay on one side of every split.
        times: a date or number for each row: a split trains on all rows before those that it tests.
        pos_label: the positive class of two. By default 1 or the larger number, a word for yes, or
            the rarer class (``softset.tables.labels.positive_class``).
        confidence: with a constraint, such as ``"precision@recall>=0.9"``, thresholds keep it on
            new rows so surely (``softset.promise``).
        sample_cost: costs of each row that are not columns of ``X``: see ``Cost``.
        quick: fewer networks, fewer trees, one repeat.
        time_limit: seconds for all of it; fewer candidates and splits are run if need be.
        n_jobs, backend: how many fits at once, and any joblib backend (``"dask"`` for a cluster).
        directory: where ``runs.jsonl`` holds the finished fits; ``resume=True`` continues from it.
        candidates: ids to compare; by default all that fit the metric and the task. A pair
            ``("mine", estimator)`` is any scikit-learn classifier of yours, which is compared as
            it is and with a tuned threshold, and is the reference for all others; ``...``
            stands for all ids: ``candidates=[..., ("mine", estimator)]``. A pair ``("old",
            scores)`` is a score for each row by a model that was not trained on these rows.
        cv, repeats: splits; 5 folds, twice (once if quick).
        duplicates: ``"together"`` keeps equal rows on one side of every split, ``"ignore"`` not.
        progress: called with fits done, fits in all, and seconds left.
        command, file: to be shown in the report.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> result = compare(X, y, "f1", candidates=["boosting-tuned", "boosting-metric"], n_jobs=1,
    ...                  quick=True)
    >>> result.outcome, result.model.predict(X[:2]).shape
    ('not significant', (2,))
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
        raise ValueError("resume needs the directory of the comparison to continue.")
    table = check_dataset(X, y, groups, pos_label, task, cv, duplicates, times)
    costs = row_costs(measured, X, sample_cost)
    if costs is not None and not table.task.single:
        raise ValueError(f"costs of each row are for two classes, got task={table.task!s}.")
    counted = measured if costs is None else get_goal(mean_cost(costs, table.y))
    label = metric_label(measured, table.task)
    doubts = [*few_rows(table, int(cv)), *leaking_columns(table, counted, label)]
    for text in doubts:
        warn_user(text)
    seconds = math.inf if time_limit is None else time_limit
    sizes = Sizes.of(rows_in_time(len(table.y), table.features, seconds), quick)
    chosen, left_out = choose(
        measured, label, table.task, candidates, sizes, by_row=costs is not None
    )
    for constraint in getattr(measured.where, "constraints", ()):
        if constraint.rows == 0:
            raise ValueError(
                f"metric {measured.name!r} is a count of the rows at hand, and splits differ in "
                f"rows. Write {constraint.text}/N, of the next N rows."
            )
    if confidence is not None:
        check_number("confidence", confidence, 0, 1)
        if not constrained_rates(get_goal(metric)):
            raise ValueError(
                "confidence is of a constraint: pass a metric such as 'precision@recall>=0.9'."
            )
    for c in chosen:
        if c.scores is not None and len(c.scores) != len(table.y):
            raise ValueError(f"{c.name}: {len(c.scores)} scores for {len(table.y)} rows.")
    if repeats is None:
        repeats = 1 if quick or times is not None else 2
    if times is not None and repeats != 1:
        raise ValueError(f"repeats must be 1 with times, got {repeats}: there is one order.")
    plan = Plan(
        table,
        metric,
        chosen,
        folds=int(cv),
        repeats=int(repeats),
        sizes=sizes,
        random_state=random_state,
        n_jobs=n_jobs,
        backend=backend,
        progress=progress,
        directory=None if directory is None else Path(directory),
        resume=resume,
        started=started,
        time_limit=seconds,
        confidence=confidence,
        sample_cost=prices(measured, costs),
    )
    summary = Summary(plan, plan.run(), label, counted, [*table.warnings, *doubts, *left_out])
    return summary.comparison(started, command or _call(metric, quick, random_state), file)


def _call(metric: MetricLike, quick: bool, random_state: int) -> str:
    name = repr(metric) if isinstance(metric, str) else get_goal(metric).name
    quickly = ", quick=True" if quick else ""
    return f"softset.compare(X, y, {name}{quickly}, random_state={random_state})"


class Summary:
    """The ``Comparison`` of the fits on all splits.

    ``label`` is the metric in running text, ``messages`` are further warnings.
    """

    def __init__(
        self,
        plan: Plan,
        splits: list[list[FinishedFit]],
        label: str,
        counted: Goal,
        messages: list[str],
    ) -> None:
        self.plan, self.label, self.messages = plan, label, list(messages)
        self.counted = counted  # the metric, or mean costs where rows have their own
        # One set of splits for the stages and for the table.
        splits = splits[: splits_to_choose_on(len(splits), plan.folds)]
        self.errors: dict[str, str] = {}
        self.by_split: list[dict[str, SplitResult]] = []  # by candidate
        counts: Counter[str] = Counter()
        for number, fits in enumerate(splits, 1):
            results: dict[str, SplitResult] = {}
            for fit in fits:
                if fit.result is None:
                    for c in plan.fits[fit.fit]:
                        self.errors.setdefault(c, f"split {number}: {fit.error}")
                    continue
                results.update(fit.result.candidates)
                counts.update(fit.result.warnings)
            self.by_split.append(results)
        total = sum(map(len, splits))
        self.messages += [f"{text} (in {times} of {total} fits)" for text, times in counts.items()]
        for c, text in self.errors.items():
            self.messages.append(f"candidate {c} failed and is left out. {text}")
        self.finished = [c for c in plan.chosen if c.id not in self.errors]
        if len(self.finished) < 2:
            error = next(iter(self.errors.values()), "no split was finished in time")
            raise ValueError(f"at least two candidates must be fitted; {error}")

    def comparison(self, started: float, command: str, file: str | None) -> Comparison:
        """The numbers, the verdict and the refitted winner."""
        plan, table = self.plan, self.plan.table
        goal = get_goal(plan.metric)
        scores = {c.id: [results[c.id].score for results in self.by_split] for c in self.finished}
        fold = 1 / plan.folds
        in_test = plan.rows / len(table.y) * fold
        one_row = one_row_of(
            self.counted,
            table.task,
            [round(rows * in_test) for _, rows in table.counts()],
            round(plan.rows * fold),
        )
        sizes = {c.id: self.by_split[0][c.id].size for c in self.finished}
        stages = {c.id: c.stage for c in self.finished}
        gains = gains_by_stage(
            scores,
            stages,
            sizes,
            folds=plan.folds,
            one_row=one_row,
            test_fraction=plan.test_fraction,
            names=stage_names(self.label, table.task, goal.by_scores, plan.sample_cost is not None),
            within=range_of(plan.metric),
        )
        decision = verdict(gains, stages)
        candidates = self._candidates(scores, sizes, decision.reference, one_row)
        means = {c.id: c.mean for c in candidates if c.mean is not None}
        difference = next(c.difference for c in candidates if c.id == decision.winner)
        names = {c.id: c.in_text for c in self.finished}
        model, encoder, refitted, importances = None, None, 0, []
        if plan.by_id[decision.winner].scores is None:
            model, encoder, refitted = self._refit(decision.winner)
            seconds = self.by_split[0][decision.winner].seconds
            importances = winner_importances(plan, decision.winner, seconds)
        self.messages += order_warning(table, importances, self.label)
        self.messages += too_good(list(means.values()))
        # The winner and its reference; the best of the others if these are the same.
        shown = list(dict.fromkeys([decision.winner, decision.reference, *means]))[:2]
        return Comparison(
            metric=goal.name,
            task=cast(TaskName, table.task.name),
            classes=list(table.classes),
            positive=table.classes[1] if table.task.single else None,
            verdict=headline(decision, gains, names, self.label, means, difference),
            advice=self._fixed_threshold(decision.winner, candidates)
            + advice(decision, gains, names, self.label),
            outcome=decision.outcome,
            winner=decision.winner,
            reference=decision.reference,
            gains=gains,
            candidates=candidates,
            splits=self._splits(),
            predictions={c: p for c in shown if (p := self._predictions(c)).target},
            history=self._history(),
            importances=importances,
            promise=_promise(model),
            costs=model_costs(model),
            data=DataSummary(
                rows=len(table.y),
                features=table.features,
                outputs=1 if model is None else int(model.classifier.n_features_in_),
                classes=[ClassCount(name, rows) for name, rows in table.counts()],
                columns=_columns(encoder),
                notes=grouped([*table.notes, *(encoder.notes_ if encoder else [])]),
                file=file,
                used=plan.rows,
                refitted=refitted,
            ),
            settings=ComparisonSettings(
                **asdict(plan.sizes),
                cv=plan.folds,
                repeats=plan.repeats,
                level=LEVEL,
                fits=plan.fits,
            ),
            versions=_versions(),
            random_state=plan.random_state,
            command=command,
            date=datetime.date.today().isoformat(),
            duration=round(time.monotonic() - started, 1),
            warnings=grouped(self.messages),
            model=model,
        )

    def _fixed_threshold(self, winner: str, candidates: list[CandidateResult]) -> str:
        """A sentence on the operating point of the winner, if the goal has constraints."""
        point = next(c.operating for c in candidates if c.id == winner)
        if point is None:
            return ""
        words = point_in_words(point, self.label, len(self.by_split))
        return f"Its tuned threshold, fixed before the test, gave {words}. "

    def _refit(self, winner: str) -> tuple[Model, TableEncoder | None, int]:
        """The winner on all rows (on fewer if time is short), its encoder, and how many rows."""
        plan, table = self.plan, self.plan.table
        rows = None if plan.used is None else plan.sample(self._refit_rows(winner))
        if rows is None:
            rows = np.arange(len(table.y))
        else:
            self.messages.append(f"the winner was refitted on {len(rows)} rows, for want of time.")
        encoder, x, _ = encode(table.x, table.schema, rows, rows[:1])
        y = table.y[rows]
        make = plan.by_id[winner].make
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("always", ConstantWarning)
            costs = None if plan.sample_cost is None else plan.sample_cost[rows]
            request = FitRequest(
                plan.metric, y, plan.sizes, plan.random_state, plan.confidence, costs
            )
            classifier = make(request)
            classifier._table_classes = table.classes
            classifier.fit(x, y, **request.costs)
        self.messages += [str(w.message) for w in caught if w.category is ConstantWarning]
        info = {"classes": table.classes, "candidate": winner}
        return Model(encoder, classifier, info), encoder, len(rows)

    def _refit_rows(self, winner: str) -> int:
        """As many rows as the time allows, by the seconds of the fits; at least those used."""
        plan = self.plan
        assert plan.used is not None
        fitted = len(plan.used) * (1 - 1 / plan.folds)
        seconds = float(np.mean([results[winner].seconds for results in self.by_split]))
        # The importances take another fit on a split.
        left = plan.deadline - time.monotonic() - plan.margin - seconds
        return max(len(plan.used), int(fitted * left / (1.1 * seconds + 1e-9)))

    def _candidates(
        self,
        scores: dict[str, list[float]],
        sizes: dict[str, int | None],
        reference: str,
        one_row: float,
    ) -> list[CandidateResult]:
        """The best first, those that failed last."""
        ranks, fraction = mean_ranks(scores), self.plan.test_fraction
        differences = adjusted(
            {
                c: paired(values, scores[reference], fraction, one_row)
                for c, values in scores.items()
                if c != reference
            }
        )
        rows = []
        for c in self.plan.chosen:
            if c.id in self.errors:
                rows.append(_without_numbers(c, self.errors[c.id]))
                continue
            mean, low, high = interval(
                scores[c.id], fraction, one_row, within=range_of(self.plan.metric)
            )
            outcomes = [results[c.id] for results in self.by_split]
            point = mean_point([o.operating for o in outcomes])
            thresholds = [o.threshold for o in outcomes if o.threshold is not None]
            rows.append(
                CandidateResult(
                    c.id,
                    c.name,
                    c.family,
                    c.stage,
                    c.description,
                    error="",
                    scores=scores[c.id],
                    mean=mean,
                    low=low,
                    high=high,
                    rank=ranks[c.id],
                    difference=differences.get(c.id),
                    seconds=round(float(np.mean([o.seconds for o in outcomes])), 3),
                    size=sizes[c.id],
                    thresholds=thresholds or None,
                    operating=OperatingPoint(*point) if point else None,
                )
            )
        return sorted(rows, key=lambda r: math.inf if r.mean is None else -r.mean)

    def _splits(self) -> Splits:
        plan, table = self.plan, self.plan.table
        count = len(self.by_split)
        how = f"{plan.folds} folds, stratified"
        if table.times is not None:
            how = "by time: trained on all earlier rows"
        note = f"{count} split{'s' if count > 1 else ''} ({how})"
        if table.duplicates:
            note += f", {table.duplicates} duplicate rows kept on one side"
        if table.grouped:
            note += ", groups kept together"
        return Splits(
            folds=plan.folds,
            repeats=-(-count // plan.folds),
            count=count,
            test_fraction=plan.test_fraction,
            duplicates=table.duplicates,
            groups=table.grouped,
            note="; ".join([note, *plan.notes]),
        )

    def _predictions(self, candidate: str) -> Predictions:
        """Out of fold, first repeat; the threshold is the median of those of the folds."""
        outcomes = [results[candidate] for results in self.by_split[: self.plan.folds]]
        rows = [o.predictions for o in outcomes if o.predictions is not None]
        thresholds = [o.threshold for o in outcomes if o.threshold is not None]
        median: ThresholdValue | None = (
            np.median(thresholds, axis=0).tolist() if thresholds else None
        )
        target = [t for p in rows for t in p.target]
        scores = [s for p in rows for s in p.scores]
        note = f"out of fold, first repeat, {len(target)} of {self.plan.rows} rows"
        return Predictions(target, scores, median, note)  # type: ignore[arg-type]

    def _history(self) -> dict[str, TrainingHistory]:
        histories = {c.id: self.by_split[0][c.id].history for c in self.finished}
        return {c: h for c, h in histories.items() if h is not None}


def _without_numbers(c: Candidate, error: str) -> CandidateResult:
    names = ("mean", "low", "high", "rank", "difference", "seconds", "size", "thresholds")
    return CandidateResult(
        c.id, c.name, c.family, c.stage, c.description, error, scores=[], **dict.fromkeys(names)
    )


def _columns(encoder: TableEncoder | None) -> list[ColumnSummary]:
    if encoder is None:
        return []
    return [
        ColumnSummary(c.name, c.kind, c.missing, c.values, c.outputs, c.note)
        for c in encoder.columns_
    ]


def _promise(model: Model | None) -> str:
    """The promise of the refitted model in a sentence; empty without one."""
    promise = None if model is None else model.classifier.promise_
    promises = promise if isinstance(promise, list) else [promise]
    return " ".join(str(p) for p in promises if p is not None)


def _versions() -> dict[str, str]:
    versions = {"softset": softset.__version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scikit-learn", "pandas", "lightgbm"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
