"""Which splits and fits a comparison runs, where, and until when; and one fit on one split."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import torch
from threadpoolctl import threadpool_limits

import softset
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.network import MetricMLPClassifier
from softset.classifiers.parts import pack_part
from softset.classifiers.threshold import MetricThresholdClassifier
from softset.comparison.data import Dataset, time_blocks
from softset.comparison.experiment import Experiment, Source, fingerprint, pickled_size
from softset.comparison.fits import Candidate, FitRequest, Sizes, fit_candidates
from softset.comparison.operating import operating_point
from softset.comparison.result import (
    FitResult,
    HeldOut,
    OperatingPoint,
    SplitResult,
    ThresholdValue,
    TrainingHistory,
)
from softset.comparison.sweep import Record, sweep
from softset.decisions.constants import ConstantWarning
from softset.metrics.registry import MetricLike, get_goal
from softset.storage.files import SavedFileError, scratch_directory
from softset.storage.schema import decoded, encoded
from softset.tables.labels import PositiveClassWarning
from softset.tables.splits import repeated_folds
from softset.tasks import BINARY, Task
from softset.training.phases import make_phases
from softset.typing import JSON, Array, Floats, Ints

# For each second of a time limit, so many numbers (rows times columns) are compared on, but not
# fewer rows than these.
NUMBERS_A_SECOND = 3000
FEWEST_ROWS = 1000
# Of a time limit: at most so much is reserved for the refit of the winner.
REFIT_FRACTION = 0.4
# These fits are run on one split in any case: a comparison of fewer says nothing.
FEWEST_FITS = 3


@dataclass(frozen=True)
class FinishedFit:
    """A fit on a split: its result, or why there is none."""

    fit: str
    seconds: float
    result: FitResult | None
    error: str


def rows_in_time(rows: int, features: int, time_limit: float) -> int:
    """How many of the rows are compared on within ``time_limit`` seconds."""
    return int(min(rows, max(FEWEST_ROWS, NUMBERS_A_SECOND * time_limit / features)))


@dataclass
class Plan:
    """Which splits and fits are run, where, and until when."""

    table: Dataset
    metric: MetricLike
    chosen: list[Candidate]
    folds: int
    repeats: int
    sizes: Sizes
    random_state: int
    n_jobs: int | None
    backend: str | None
    progress: Callable[[int, int, float], None] | None
    directory: Path | None
    resume: bool
    started: float  # of time.monotonic()
    time_limit: float  # seconds; infinite without one
    confidence: float | None = None
    sample_cost: Floats | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, self.deadline = len(self.table.y), self.started + self.time_limit
        self.used = self.sample(rows_in_time(n, self.table.features, self.time_limit))
        if self.used is not None:
            self.notes.append(f"{len(self.used)} of {n} rows were compared on, for want of time")
        self.by_id = {c.id: c for c in self.chosen}
        self.fits: dict[str, list[str]] = {}
        for c in self.chosen:
            self.fits.setdefault(c.fit, []).append(c.id)
        self.planned = self.folds * self.repeats
        self.path: Path | None = None
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.path = self.directory / "runs.jsonl"

    @property
    def rows(self) -> int:
        """How many rows are used."""
        return len(self.table.y) if self.used is None else len(self.used)

    @property
    def margin(self) -> float:
        """Seconds of a time limit for all that comes after the refit."""
        return min(4.0, 0.05 * self.time_limit)

    def run(self) -> list[list[FinishedFit]]:
        """The fits of every complete split."""
        if self.progress is not None:  # all arguments are checked
            self.progress(0, self.planned * len(self.fits), math.nan)
        with scratch_directory() as folder:
            experiment = self.experiment()
            source = Source(experiment, folder)
            if self.backend == "dask":
                source.send_to_dask()
            settings = self._settings(experiment) if self.path else None
            start = partial(self._sweep, source, settings)
            if self.time_limit < math.inf:
                return self._in_time(start)
            finished = start(range(self.planned), list(self.fits))
            return self._complete(finished, range(self.planned), list(self.fits))

    def experiment(self) -> Experiment:
        """The data that the fits share."""
        table, used = self.table, np.arange(len(self.table.y)) if self.used is None else self.used
        groups = None if table.groups is None else table.groups[used]
        folds = np.full((self.repeats, len(table.y)), -1, dtype=np.int8)
        if table.times is not None:
            folds[:, used] = time_blocks(table, used, self.folds + 1)
        else:
            folds[:, used] = repeated_folds(
                table.strata[used], groups, self.folds, self.repeats, self.random_state
            )
        return Experiment(
            table.x,
            table.y,
            folds,
            table.task,
            self.metric,
            self.sizes,
            self.random_state,
            {fit: [self.by_id[c] for c in ids] for fit, ids in self.fits.items()},
            table.schema,
            confidence=self.confidence,
            sample_cost=self.sample_cost,
            by_time=table.times is not None,
        )

    @property
    def test_fraction(self) -> float:
        """The fraction of a split's rows that is tested, on average."""
        if self.table.times is None:
            return 1 / self.folds
        ratio = float(np.mean([1 / (k + 1) for k in range(self.folds)]))
        return ratio / (1 + ratio)

    def sample(self, rows: int) -> Ints | None:
        """Row numbers of a stratified sample that keeps groups whole; None for all."""
        strata, groups, n = self.table.strata, self.table.groups, len(self.table.y)
        if rows >= n:
            return None
        if groups is not None:
            folds = max(2, min(100, n // rows)) if 2 * rows < n else 20
            fold = repeated_folds(strata, groups, folds, 1, self.random_state)[0]
            return np.flatnonzero(fold < max(1, round(folds * rows / n)))
        sizes = np.bincount(strata)
        most = np.maximum(np.ceil(sizes * rows / n), np.minimum(sizes, 2 * self.folds))
        order = np.random.RandomState(self.random_state % 2**32).permutation(n)
        selected = np.zeros(n, dtype=bool)
        for k in range(len(sizes)):
            stratum = order[strata[order] == k]
            selected[stratum[: int(most[k])]] = True
        return np.flatnonzero(selected)

    def _settings(self, experiment: Experiment) -> dict[str, JSON]:
        """What the results depend on: a file of runs belongs to them."""
        costs = experiment.sample_cost
        user_models = {c.id: c.user_model for c in self.chosen if c.user_model}
        return {
            "user_models": user_models,
            "data": fingerprint(experiment.x, experiment.y),
            "folds": fingerprint(experiment.folds[:1], experiment.y),
            "metric": get_goal(self.metric).name,
            "sizes": {k: v for k, v in asdict(self.sizes).items() if k != "quick"},  # others tell
            "candidates": self.fits,
            "random_state": self.random_state,
            "confidence": self.confidence,
            **({} if costs is None else {"costs": fingerprint(costs, experiment.y)}),
            "version": softset.__version__,
        }

    def _sweep(
        self,
        source: Source,
        settings: dict[str, JSON] | None,
        splits: Iterable[int],
        fits: Sequence[str],
        deadline: float | None = None,
        stop: float | None = None,
    ) -> dict[tuple[int, str], FinishedFit]:
        """The fits on the splits by ``(split, fit)``; none is started after the ``deadline``, and
        those that are still running at the time ``stop`` are ended."""
        keys = [(s, fit) for s in splits for fit in fits]
        records = sweep(
            partial(run_fit, source),
            [{"split": s, "fit": fit} for s, fit in keys],
            path=self.path,
            settings=settings,
            resume=self.resume,
            jobs=self.n_jobs,
            backend=self.backend,
            deadline=deadline,
            stop=stop,
            progress=self.progress,
        )
        self.resume = True  # from here on, the file is ours
        pairs = zip(keys, records, strict=True)
        return {key: self._read(record) for key, record in pairs if record is not None}

    def _complete(
        self,
        finished: dict[tuple[int, str], FinishedFit],
        splits: Iterable[int],
        fits: Sequence[str],
    ) -> list[list[FinishedFit]]:
        """The fits of each split, without splits that are not complete."""
        groups = [[finished[s, f] for f in fits if (s, f) in finished] for s in splits]
        return [group for group in groups if len(group) == len(fits)]

    def _read(self, record: Record) -> FinishedFit:
        """A record, which may come from an existing file, checked."""
        fit = str(record["run"]["fit"])
        if "error" in record:
            return FinishedFit(fit, record["seconds"], None, record["error"])
        try:
            result = decoded(FitResult, record["result"], "result")
            if set(result.candidates) != set(self.fits[fit]):
                raise SavedFileError(f"result.candidates must be {', '.join(self.fits[fit])}.")
            self._check_targets(result)
        except SavedFileError as error:
            place = "a run" if self.path is None else f"{self.path}: the run {record['run']}"
            raise SavedFileError(f"{place} is damaged: {error}") from None
        return FinishedFit(fit, record["seconds"], result, "")

    def _check_targets(self, result: FitResult) -> None:
        """Raise unless the targets of held-out rows are class numbers (0 and 1 of labels)."""
        classes = 2 if self.table.task.independent else len(self.table.classes)
        for name, outcome in result.candidates.items():
            if outcome.predictions is None:
                continue
            target = np.asarray(outcome.predictions.target)
            if target.size and (target.min() < 0 or target.max() >= classes):
                raise SavedFileError(
                    f"result.candidates.{name}.predictions.target must hold class numbers below "
                    f"{classes}, got {target.max()}."
                )

    # --- with a time limit ------------------------------------------------------------------------

    def _in_time(
        self, start: Callable[..., dict[tuple[int, str], FinishedFit]]
    ) -> list[list[FinishedFit]]:
        """As many fits on as many splits as there is time for, by the seconds of finished fits.

        First every fit on one split, then those that can be finished on one repeat, the cheapest
        first, then further fits or further splits, as long as there is time for them. What is still
        running when the refit has to begin is stopped.
        """
        fits = list(self.fits)
        finished = start([0], fits[:FEWEST_FITS])
        now = time.monotonic()
        until = now + self._left(finished, 1) / self.folds
        stop = now + self._left(finished, 1) / 2
        finished |= start([0], fits[FEWEST_FITS:], until, stop)
        cost = self._costs(finished)
        selected: list[str] = fits[:FEWEST_FITS]
        for fit in sorted((f for f in cost if f not in selected), key=lambda f: cost[f]):
            seconds = sum(cost[f] for f in [*selected, fit]) * (self.folds - 1)
            if seconds <= self._left(finished, 1):
                selected.append(fit)
        count = self._extend(start, finished, selected, 1, self.folds)
        while count >= min(self.folds, self.planned):
            cost, left = self._costs(finished), self._left(finished, count)
            # A fit that was not finished on the first split is tried if nothing else is left.
            others = sorted((f for f in cost if f not in selected), key=lambda f: cost[f])
            each = sum(cost[f] for f in selected)
            # A repeat of one split cannot be chosen on.
            most = min(self.planned - count, int(left / each))
            if others and cost[others[0]] * (count - 1) <= left:
                added = others[0]
                finished |= start(range(1, count), [added], None, time.monotonic() + left)
                if all((s, added) in finished for s in range(count)):
                    selected.append(added)
                else:
                    break
            elif most >= (2 if count % self.folds == 0 else 1):
                before, count = count, self._extend(start, finished, selected, count, count + most)
                if count < before + most:
                    break
            elif (missing := [f for f in fits if f not in cost]) and left > each:
                finished |= start([0], missing[:1], None, time.monotonic() + left)
                if (0, missing[0]) not in finished:
                    break
            else:
                break
        self._note_time(selected, count)
        order = [f for f in fits if f in selected]
        return self._complete(finished, range(count), order)

    def _extend(
        self,
        start: Callable[..., dict[tuple[int, str], FinishedFit]],
        finished: dict[tuple[int, str], FinishedFit],
        fits: list[str],
        count: int,
        wanted: int,
    ) -> int:
        """Run the fits on further splits; how many splits are complete then."""
        left = self._left(finished, count)
        if left <= 0:
            return count
        cost = self._costs(finished)
        # The longest first, so that the workers end at about the same time.
        order = sorted(fits, key=lambda f: -cost[f])
        until = time.monotonic() + left
        finished |= start(range(count, wanted), order, until, until)
        while count < wanted and all((count, f) in finished for f in fits):
            count += 1
        return count

    def _costs(self, finished: dict[tuple[int, str], FinishedFit]) -> dict[str, float]:
        """Seconds of each fit on a split, by the mean of those finished, divided by the workers."""
        workers = self.n_jobs or joblib.cpu_count()
        seconds: dict[str, list[float]] = {}
        for (_, fit), run in finished.items():
            seconds.setdefault(fit, []).append(max(run.seconds, 1e-3))
        return {fit: float(np.mean(values)) / workers for fit, values in seconds.items()}

    def _left(self, finished: dict[tuple[int, str], FinishedFit], count: int) -> float:
        """Seconds until the refit of the winner and its importances have to begin, by the seconds
        of the candidate that is the best so far."""
        scores: dict[str, list[float]] = {}
        seconds: dict[str, float] = {}
        for (split, _), run in finished.items():
            if run.result is not None and split < count:
                for name, outcome in run.result.candidates.items():
                    scores.setdefault(name, []).append(outcome.score)
                    seconds[name] = outcome.seconds
        refit = 0.0
        if scores:
            best = max(scores, key=lambda name: float(np.mean(scores[name])))
            growth = len(self.table.y) / self.rows * self.folds / (self.folds - 1)
            refit = seconds[best] * (growth + 1)
        reserved = min(refit, REFIT_FRACTION * self.time_limit) + self.margin
        return self.deadline - time.monotonic() - reserved

    def _note_time(self, selected: list[str], count: int) -> None:
        """Restrict the plan to the selected fits, and note what there was no time for."""
        gone = [c.id for c in self.chosen if c.fit not in selected]
        if gone:
            self.chosen = [c for c in self.chosen if c.fit in selected]
            self.fits = {fit: ids for fit, ids in self.fits.items() if fit in selected}
            self.notes.append(f"left out for want of time: {', '.join(gone)}")
        if count < self.planned:
            over = time.monotonic() > self.deadline  # one split is run in any case
            self.notes.append(
                f"{count} of {self.planned} splits were run in the time limit of "
                f"{self.time_limit:g} seconds{', and took longer' if over else ''}"
            )


# --- one fit on one split, in a worker ------------------------------------------------------------


def run_fit(source: Source, run: dict[str, JSON]) -> dict[str, JSON]:
    """Fit on the training rows of ``run["split"]``, score on its test rows: a ``FitResult``.

    One thread, so that the table does not depend on how many workers there are.
    """
    experiment = source.get()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ConstantWarning)  # the scores show it
            warnings.simplefilter("ignore", PositiveClassWarning)  # the table has had its warning
            results = split_results(experiment, int(str(run["split"])), str(run["fit"]))
    finally:
        torch.set_num_threads(threads)
    messages = {str(w.message) for w in caught if issubclass(w.category, UserWarning)}
    return dict(encoded(FitResult(results, sorted(messages))))


def split_results(experiment: Experiment, split: int, fit: str) -> dict[str, SplitResult]:
    """The results of the candidates of a fit on a split."""
    x, _, x_test, y_test = experiment.split(split)
    scores = experiment.fits[fit][0].scores
    if scores is not None:  # of the user
        x, x_test = (scores[rows, None] for rows in experiment.rows(split))
    goal = get_goal(experiment.metric)
    costs = experiment.costs(experiment.rows(split)[1])
    results = {}
    for fitted in fit_candidates(experiment.fits[fit], x, FitRequest.of(experiment, split)):
        classifier = fitted.classifier
        point = operating_point(goal, classifier.predict(x_test, costs), y_test)
        results[fitted.candidate] = SplitResult(
            score=float(classifier.score(x_test, y_test, sample_cost=costs)),
            seconds=round(fitted.seconds, 4),
            threshold=_threshold(classifier, experiment.task) if goal.tunes else None,
            predictions=_held_out(experiment, split, classifier, x_test)
            if split < experiment.count
            else None,
            history=network_history(classifier) if split == 0 else None,
            size=size_of(classifier) if split == 0 else None,
            operating=OperatingPoint(*point) if point else None,
        )
    return results


def size_of(classifier: DecidingClassifier) -> int:
    """Bytes of the fitted state of a classifier."""
    if not isinstance(classifier, MetricThresholdClassifier):
        return _bytes_of(classifier.state()["fitted"])
    try:
        return _bytes_of([pack_part(model) for model in classifier.estimators_])
    except ValueError:  # those of other libraries
        return pickled_size(classifier.estimators_)


def _bytes_of(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_bytes_of, value))
    return len(value) if isinstance(value, str | bytes) else 8


def _threshold(classifier: DecidingClassifier, task: Task) -> ThresholdValue:
    """A threshold, one for each label, or an offset for each class."""
    value = getattr(classifier, f"{task.parameter}_")
    return float(value) if np.ndim(value) == 0 else [float(v) for v in value]


def _held_out(
    experiment: Experiment, split: int, classifier: DecidingClassifier, x: Array
) -> HeldOut | None:
    """Test rows for the report, thinned; None without probabilities."""
    if not hasattr(classifier, "predict_proba"):
        return None
    y = experiment.y[experiment.rows(split)[1]]
    width = experiment.task.outputs(len(classifier.classes_))
    most = max(1, experiment.most_predictions // experiment.count // max(1, width // 5))
    rows = np.arange(len(y))
    if len(rows) > most:
        random = np.random.RandomState([experiment.random_state % 2**32, split, 1])
        rows = np.sort(random.choice(len(rows), most, replace=False))
    # All digits, so that the scores and the threshold give the score of the split.
    p = experiment.task.positive(classifier.predict_proba(x[rows]))
    return HeldOut(y[rows].tolist(), np.asarray(p, dtype=np.float64).tolist())


def network_history(classifier: DecidingClassifier) -> TrainingHistory | None:
    """The epochs of one network: losses, the soft and the hard metric on validation rows.

    None for class weights: they weigh the validation rows too, so that such a metric cannot be
    compared with the others.
    """
    if not isinstance(classifier, MetricMLPClassifier) or not classifier.history_:
        return None
    if classifier.class_weight is not None:
        return None
    h = classifier.history_[0]
    # The names of phases depend on neither metric nor task.
    phases = [phase.name for phase in make_phases(classifier.recipe, "f1", BINARY)]
    return TrainingHistory(
        epoch=list(range(1, len(h["loss"]) + 1)),
        train_loss=_rounded(h["loss"]),
        validation_loss=_rounded(h["validation_loss"]),
        soft=_rounded(h["validation_soft"]),
        hard=_rounded(h["validation_metric"]),
        phases=[(phases[k], h["phase"].index(k) + 1) for k in sorted(set(h["phase"]))],
    )


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None or not np.isfinite(v) else float(f"{v:.6g}") for v in values]
