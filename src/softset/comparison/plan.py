"""Which splits and fits a comparison runs, where, and until when."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import softset
from softset.comparison.budget import FEWEST_FITS, Budget, Cost, choose_fits, in_order
from softset.comparison.data import Table
from softset.comparison.fits import Candidate, Sizes
from softset.comparison.sweep import Record, sweep
from softset.comparison.worker import Experiment, Result, Source, fingerprint, run_one
from softset.metrics.registry import MetricLike, get_goal
from softset.storage.files import SavedFileError, scratch_directory
from softset.storage.schema import decoded
from softset.tables.splits import repeated_folds

# Seconds kept back from a budget for what comes after the refit.
MARGIN = 4.0
# With a budget, rows of a first look that tells how long a run takes.
_PILOT_ROWS = 2000
_FEWEST_ROWS = 1000
# After this share of the time a look starts no more fits; a second one is on at most so many times
# the rows of the first.
_PILOT_SHARE = 0.15
_LARGER = 10


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
    deadline: float  # of time.monotonic()
    used: np.ndarray | None = None  # row numbers, if not all are
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sizes = Sizes.of(len(self.table.y), self.quick)
        self.by_id = {c.id: c for c in self.chosen}
        self.fits: dict[str, list[str]] = {}
        for c in self.chosen:
            self.fits.setdefault(c.fit, []).append(c.id)
        self.wanted = self.folds * self.repeats
        self.path: Path | None = None
        self._refit = 0.0  # seconds to be kept for it
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
            if self.deadline == math.inf:
                return self._complete(self._sweep(self.task(), range(self.wanted), folder))
            return self._within_budget(folder)

    def task(self, pilot: int | None = None) -> Experiment:
        """What the runs share; a ``pilot`` has so many rows."""
        table, folds = self.table, None
        used = self.used if pilot is None else self.sample(pilot)
        y = table.y
        strata, groups = table.strata, table.groups
        if used is not None:
            strata, groups = strata[used], None if groups is None else groups[used]
        placed = repeated_folds(strata, groups, self.folds, self.repeats, self.seed)
        if used is None:
            folds = placed
        else:
            folds = np.full((self.repeats, len(y)), -1, dtype=np.int8)
            folds[:, used] = placed
        return Experiment(
            table.x,
            y,
            folds,
            table.task,
            self.metric,
            self.sizes,
            self.seed,
            {fit: [self.by_id[c] for c in ids] for fit, ids in self.fits.items()},
            table.schema,
        )

    def sample(self, rows: int) -> Any:
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
        self, task: Experiment, splits: Any, folder: Path, deadline: float | None = None
    ) -> list[Record | None]:
        source = Source(task, folder)
        if self.backend == "dask":
            source.send_to_dask()
        runs = [{"split": s, "fit": fit} for s in splits for fit in self.fits]
        return sweep(
            partial(run_one, source),
            runs,
            path=self.path,
            settings=self._settings(task) if self.path else None,
            resume=self.resume,
            jobs=self.jobs,
            backend=self.backend,
            deadline=deadline,
            progress=self.progress,
        )

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

    # --- with a budget ---------------------------------------------------------------------------

    def _within_budget(self, folder: Path) -> list[list[Run]]:
        """As many whole splits as fit; fewer rows and fits if not even one repeat would."""
        started = time.monotonic()
        n = len(self.table.y)
        seen = self.directory / "rows.txt" if self.directory else None
        if seen is not None and self.resume and seen.exists():
            rows, fits = _kept_of(seen, n, self.fits)
            self._use(rows, fits)
        elif n > 2 * _PILOT_ROWS:
            self._use(*self._affordable(folder))
        if seen is not None:
            seen.write_text(f"{self.rows} {','.join(self.fits)}")
        task = self.task()
        first = time.monotonic()
        groups = self._complete(self._sweep(task, range(1), folder))
        self.resume = True  # from here on, the file is ours
        done, each = 1, time.monotonic() - first
        # Of fewer rows one repeat is enough: the rest of the time is for the refit.
        wanted = self.wanted if self.used is None else min(self.wanted, self.folds)
        while done < wanted:
            left = self.deadline - time.monotonic() - self._reserve(groups)
            more = min(wanted - done, int(left / (1.1 * each + 1e-9)))
            if more < 1:
                break
            before = time.monotonic()
            records = self._sweep(
                task, range(done + more), folder, self.deadline - self._reserve(groups)
            )
            groups = self._complete(records)
            if len(groups) < done + more:
                break
            done += more
            each = max(each, (time.monotonic() - before) / more)
        if len(groups) < self.wanted:
            over = time.monotonic() > self.deadline  # one split is made in any case
            self.notes.append(
                f"{len(groups)} of {self.wanted} splits were made in the time given "
                f"({(time.monotonic() - started) / 60:.1f} minutes"
                f"{', more than that' if over else ''})"
            )
        return groups

    def _affordable(self, folder: Path) -> tuple[int, list[str]]:
        """Rows and fits for which one repeat and the refit take the time there is.

        The fits are made on a small sample first, as many as there is time for, and those to go on
        with on a larger one, which tells what a row costs apart from what every fit costs.
        """
        order = in_order(self.fits)
        first = self._pilot(_PILOT_ROWS, order, folder)
        for fit in order[:FEWEST_FITS]:  # are made in any case
            first.setdefault(fit, max(first.values()))
        first = {fit: first[fit] for fit in order if fit in first}
        sample = _PILOT_ROWS * (self.folds - 1) // self.folds
        costs = {fit: Cost.through((sample, seconds)) for fit, seconds in first.items()}
        fits = choose_fits(self._budget(), costs)
        spend = _PILOT_SHARE / 2 * self._budget().seconds * self._workers()
        larger = int(spend / sum(costs[fit].per_row for fit in fits))
        more = min(larger * self.folds // (self.folds - 1), len(self.table.y))
        more = min(more, _LARGER * _PILOT_ROWS)
        if more > 2 * _PILOT_ROWS:
            second = self._pilot(more, fits, folder)
            larger = more * (self.folds - 1) // self.folds
            for fit, seconds in second.items():
                costs[fit] = Cost.through((sample, first[fit]), (larger, seconds))
            fits = choose_fits(self._budget(), costs)
        kept = [costs[fit] for fit in fits]
        rows, self._refit = self._budget().affordable(kept), self._budget().refit(kept)
        return max(rows, min(len(self.table.y), _FEWEST_ROWS)), fits

    def _pilot(self, rows: int, fits: list[str], folder: Path) -> dict[str, float]:
        """Seconds of some fits on a split of some of the rows, as far as there is time."""
        source = Source(self.task(rows), folder)
        runs = [{"split": 0, "fit": fit, "pilot": rows} for fit in fits]
        found = sweep(
            partial(run_one, source),
            runs,
            jobs=self.jobs,
            backend=self.backend,
            deadline=time.monotonic() + _PILOT_SHARE * self._budget().seconds,
        )
        made = [self._read(r) for r in found if r and "error" not in r]
        done = {run.fit: _seconds(run) for run in made}
        if not done:
            raise ValueError(f"no candidate could be fitted on {rows} rows in time; {found[0]}")
        return {fit: max(seconds, 1e-3) for fit, seconds in done.items()}

    def _budget(self) -> Budget:
        left = max(0.0, self.deadline - time.monotonic() - MARGIN)
        return Budget(left, len(self.table.y), self.folds, self._workers())

    def _workers(self) -> int:
        return self.jobs or joblib.cpu_count()

    def _use(self, rows: int, fits: list[str]) -> None:
        """Go on with so many rows and with some of the fits."""
        n = len(self.table.y)
        gone = [c.id for c in self.chosen if c.fit not in fits]
        if gone:
            self.chosen = [c for c in self.chosen if c.fit in fits]
            self.by_id = {c.id: c for c in self.chosen}
            self.fits = {fit: ids for fit, ids in self.fits.items() if fit in fits}
            self.notes.append(f"left out for want of time: {', '.join(gone)}")
        if rows < n:
            self.used = self.sample(rows)
        if self.used is not None:
            self.sizes = Sizes.of(len(self.used), self.quick)
            self.notes.append(f"{len(self.used)} of {n} rows were compared on, for want of time")

    def _reserve(self, groups: list[list[Run]]) -> float:
        """Seconds for the refit of the slowest candidate, and for what comes after it."""
        slowest = max((_seconds(run) for group in groups for run in group), default=0.0)
        return MARGIN + max(1.3 * slowest * self.folds / (self.folds - 1), self._refit)


def _seconds(run: Run) -> float:
    """Of a fit that takes nothing from others."""
    fits = [] if run.result is None else [o.seconds for o in run.result.candidates.values()]
    return max([run.seconds, *fits])


def _kept_of(file: Path, most: int, fits: Collection[str]) -> tuple[int, list[str]]:
    """How many rows and which fits an interrupted comparison used."""
    text = file.read_text(encoding="utf-8", errors="replace").strip()
    rows, _, names = text.partition(" ")
    kept = names.split(",") if names else list(fits)
    if not rows.isdecimal() or not 0 < int(rows) <= most or not set(kept) <= set(fits):
        raise SavedFileError(
            f"{file} must hold how many of {most} rows were used, and which fits, got "
            f"{text[:20]!r}. Move the directory away and start anew."
        )
    return int(rows), kept
