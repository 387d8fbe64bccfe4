"""Which splits and fits a comparison runs, where, and until when."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

import softset
from softset.comparison.data import Table
from softset.comparison.fits import Candidate, Sizes
from softset.comparison.sweep import Record, sweep
from softset.comparison.worker import Experiment, Result, Source, fingerprint, run_one
from softset.metrics.registry import MetricLike, get_goal
from softset.storage.files import SavedFileError, scratch_directory
from softset.storage.schema import decoded
from softset.tables.splits import repeated_folds

# Seconds kept back from a time limit for what comes after the refit.
MARGIN = 4.0
# Estimates of time are multiplied by this: fits differ, and workers wait for each other.
CAUTION = 1.25
# For each second of a time limit, so many numbers (rows times columns) are compared on, but not
# fewer rows than these.
NUMBERS_A_SECOND = 3000
FEWEST_ROWS = 1000
# Of the time of a comparison, how much is kept for the refit of the winner at most.
REFIT_SHARE = 0.4
# A comparison of fewer fits is none.
FEWEST_FITS = 3


@dataclass(frozen=True)
class Run:
    """A fit on a split: its result, or why there is none."""

    fit: str
    seconds: float
    result: Result | None
    error: str


@dataclass
class Plan:
    """Which splits and fits are run, where, and until when."""

    table: Table
    metric: MetricLike
    chosen: list[Candidate]
    folds: int
    repeats: int
    quick: bool
    seed: int
    jobs: int | None
    backend: str | None
    progress: Callable[[int, int, float], None] | None
    directory: Path | None
    resume: bool
    started: float  # of time.monotonic()
    time_limit: float  # seconds; infinite without one
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, self.deadline = len(self.table.y), self.started + self.time_limit
        affordable = NUMBERS_A_SECOND * self.time_limit / self.table.features
        self.used = self.sample(int(min(n, max(FEWEST_ROWS, affordable))))
        if self.used is not None:
            self.notes.append(f"{len(self.used)} of {n} rows were compared on, for want of time")
        self.sizes = Sizes.of(self.rows, self.quick)
        self.by_id = {c.id: c for c in self.chosen}
        self.fits: dict[str, list[str]] = {}
        for c in self.chosen:
            self.fits.setdefault(c.fit, []).append(c.id)
        self.wanted = self.folds * self.repeats
        self.path: Path | None = None
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.path = self.directory / "runs.jsonl"

    @property
    def rows(self) -> int:
        """How many rows are used."""
        return len(self.table.y) if self.used is None else len(self.used)

    def run(self) -> list[list[Run]]:
        """The runs of every complete split."""
        with scratch_directory() as folder:
            experiment = self.experiment()
            source = Source(experiment, folder)
            if self.backend == "dask":
                source.send_to_dask()
            settings = self._settings(experiment) if self.path else None
            start = partial(self._sweep, source, settings)
            if self.time_limit == math.inf:
                return self._complete(start(range(self.wanted), list(self.fits)))
            return self._in_time(start)

    def experiment(self) -> Experiment:
        """What the runs share."""
        table, used = self.table, np.arange(len(self.table.y)) if self.used is None else self.used
        groups = None if table.groups is None else table.groups[used]
        folds = np.full((self.repeats, len(table.y)), -1, dtype=np.int8)
        folds[:, used] = repeated_folds(
            table.strata[used], groups, self.folds, self.repeats, self.seed
        )
        return Experiment(
            table.x,
            table.y,
            folds,
            table.task,
            self.metric,
            self.sizes,
            self.seed,
            {fit: [self.by_id[c] for c in ids] for fit, ids in self.fits.items()},
            table.schema,
        )

    def sample(self, rows: int) -> NDArray[np.intp] | None:
        """Row numbers of a stratified sample that keeps groups whole; None for all."""
        strata, groups, n = self.table.strata, self.table.groups, len(self.table.y)
        if rows >= n:
            return None
        if groups is not None:
            parts = max(2, min(100, n // rows)) if 2 * rows < n else 20
            place = repeated_folds(strata, groups, parts, 1, self.seed)[0]
            return np.flatnonzero(place < max(1, round(parts * rows / n)))
        sizes = np.bincount(strata)
        most = np.maximum(np.ceil(sizes * rows / n), np.minimum(sizes, 2 * self.folds))
        order = np.random.RandomState(self.seed % 2**32).permutation(n)
        kept = np.zeros(n, dtype=bool)
        for k in range(len(sizes)):
            own = order[strata[order] == k]
            kept[own[: int(most[k])]] = True
        return np.flatnonzero(kept)

    def _settings(self, task: Experiment) -> dict[str, Any]:
        """What the results depend on: a file of runs belongs to them."""
        own = {c.id: c.own for c in self.chosen if c.own}
        return {
            **({"own": own} if own else {}),
            "data": fingerprint(task.x, task.y),
            "folds": fingerprint(task.folds[:1], task.y),
            "metric": get_goal(self.metric).name,
            "sizes": {k: v for k, v in asdict(self.sizes).items() if k != "quick"},  # others tell
            "candidates": self.fits,
            "seed": self.seed,
            "version": softset.__version__,
        }

    def _sweep(
        self,
        source: Source,
        settings: dict[str, Any] | None,
        splits: Iterable[int],
        fits: Collection[str],
        deadline: float | None = None,
    ) -> list[Record | None]:
        found = sweep(
            partial(run_one, source),
            [{"split": s, "fit": fit} for s in splits for fit in fits],
            path=self.path,
            settings=settings,
            resume=self.resume,
            jobs=self.jobs,
            backend=self.backend,
            deadline=deadline,
            progress=self.progress,
        )
        self.resume = True  # from here on, the file is ours
        return found

    def _complete(self, records: list[Record | None]) -> list[list[Run]]:
        """Runs by split, without splits that are not complete."""
        step = len(self.fits)
        by_split = [records[i : i + step] for i in range(0, len(records), step)]
        return [[self._read(r) for r in group if r] for group in by_split if all(group)]

    def _read(self, record: Record) -> Run:
        """A record, which may come from a file of before, checked."""
        fit = record["run"]["fit"]
        if "error" in record:
            return Run(fit, record["seconds"], None, record["error"])
        try:
            result = decoded(Result, record["result"], "result")
            if set(result.candidates) != set(self.fits[fit]):
                raise SavedFileError(f"result.candidates must be {', '.join(self.fits[fit])}.")
        except SavedFileError as error:
            place = "a run" if self.path is None else f"{self.path}: the run {record['run']}"
            raise SavedFileError(f"{place} is damaged: {error}") from None
        return Run(fit, record["seconds"], result, "")

    # --- with a time limit -----------------------------------------------------------------------

    def _in_time(self, start: Callable[..., list[Record | None]]) -> list[list[Run]]:
        """As many whole splits as there is time for, by the seconds of the fits already made."""
        groups = [self._first_split(start)]
        # Of fewer rows one repeat is enough: the rest of the time is for the refit.
        wanted = self.wanted if self.used is None else min(self.wanted, self.folds)
        while len(groups) < wanted:
            each = max(map(self._seconds, groups))
            more = min(wanted - len(groups), int(self._left(groups) / each))
            if more < 1:
                break
            splits = range(len(groups), len(groups) + more)
            until = time.monotonic() + self._left(groups)
            made = self._complete(start(splits, list(self.fits), until))
            groups += made
            if len(made) < more:
                break
        if len(groups) < self.wanted:
            over = time.monotonic() > self.deadline  # one split is made in any case
            self.notes.append(
                f"{len(groups)} of {self.wanted} splits were made in the time given "
                f"({(time.monotonic() - self.started) / 60:.1f} minutes"
                f"{', more than that' if over else ''})"
            )
        return groups

    def _first_split(self, start: Callable[..., list[Record | None]]) -> list[Run]:
        """The first of the fits, as many as there is time for on all folds; three in any case.

        Of the others none is started after the share of the time that is a split's.
        """
        fits = list(self.fits)
        records = start([0], fits[:FEWEST_FITS])
        now = time.monotonic()
        until = now + (self.deadline - now - MARGIN) / self.folds
        records = [*records, *start([0], fits[FEWEST_FITS:], until)]
        made, more = [self._read(r) for r in records if r], self.folds - 1
        while len(made) > FEWEST_FITS and more * self._seconds(made) > self._left([made]):
            made.pop()
        self._keep([run.fit for run in made])
        return made

    def _keep(self, fits: list[str]) -> None:
        """Go on with some of the fits."""
        gone = [c.id for c in self.chosen if c.fit not in fits]
        if gone:
            self.chosen = [c for c in self.chosen if c.fit in fits]
            self.fits = {fit: self.fits[fit] for fit in fits}
            self.notes.append(f"left out for want of time: {', '.join(gone)}")

    def _seconds(self, runs: list[Run]) -> float:
        """What the runs of a split take of the time of several splits, on all workers."""
        seconds = sum(max(run.seconds, 1e-3) for run in runs)
        return CAUTION * seconds / (self.jobs or joblib.cpu_count())

    def _left(self, groups: list[list[Run]]) -> float:
        """Seconds until the refit, of the slowest fit, has to begin."""
        slowest = max(run.seconds for runs in groups for run in runs)
        refit = CAUTION * slowest * len(self.table.y) / self.rows * self.folds / (self.folds - 1)
        left = self.deadline - time.monotonic() - MARGIN
        return left - min(refit, REFIT_SHARE * self.time_limit)
