"""``compare``: is training for the metric worth it on this data? With a verdict that can say no."""

from __future__ import annotations

import datetime
import html
import math
import os
import platform
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import softset
from softset._tools import check_choice, check_number
from softset.candidates import FITS, Candidate, Sizes, choose, make_classifier
from softset.comparison_data import Table, read_table
from softset.comparison_runs import Source, Task, encode, fingerprint, run_one
from softset.metrics import MetricLike, get_metric
from softset.models import Model
from softset.resampling import Decision, decide, interval, mean_ranks
from softset.splits import repeated_folds
from softset.sweep import sweep

FORMAT = 1
# Seconds kept back from a budget for what comes after the refit.
_MARGIN = 4.0
# With a budget, rows of a first look that tells how long a run takes.
_PILOT_ROWS = 2000
_FEWEST_ROWS = 1000


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found. All but ``model`` is what JSON can hold; see ``docs/comparison.md``.

    ``model`` is the refitted winner (``predict``, ``predict_proba``), None after ``from_dict``.
    """

    metric: str
    task: str
    classes: list[Any]
    positive: Any
    verdict: str
    outcome: str
    winner: str
    reference: str
    candidates: list[dict[str, Any]]
    splits: dict[str, Any]
    predictions: dict[str, Any]
    history: dict[str, Any]
    data: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    seed: int
    command: str
    date: str
    duration: float
    warnings: list[str]
    model: Model | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, for ``json.dump``."""
        names = [f.name for f in fields(self) if f.name != "model"]
        return {"format": FORMAT, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Comparison:
        """The inverse of ``to_dict``."""
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            got = found.get("format") if isinstance(found, dict) else type(found).__name__
            raise ValueError(f"a comparison in format {FORMAT} was expected, got {got!r}.")
        names = [f.name for f in fields(cls) if f.name != "model"]
        missing = [name for name in names if name not in found]
        if missing:
            raise ValueError(f"the comparison is incomplete: {', '.join(missing)} missing.")
        return cls(**{name: found[name] for name in names})

    def __str__(self) -> str:
        width = max(len(c["name"]) for c in self.candidates)
        head = f"{_label(self.metric)} on test rows"
        lines = [self.verdict, "", f"{head:{width + 2}}  mean  95 % interval      difference"]
        for c in self.candidates:
            mark = {self.winner: ">", self.reference: "="}.get(c["id"], " ")
            if c["error"]:
                lines.append(f"{mark} {c['name']:{width}}  failed: {c['error']}")
                continue
            line = f"{mark} {c['name']:{width}} {c['mean']:6.3f}  [{c['low']:.3f}, {c['high']:.3f}]"
            if c["difference"]:
                d = c["difference"]
                line += f"  {d['mean']:+.3f} [{d['low']:+.3f}, {d['high']:+.3f}]"
            lines.append(line)
        note = "> winner, = reference (the best that is not trained for the metric)"
        return "\n".join([*lines, "", f"{note}; {self.splits['note']}"])

    def _repr_html_(self) -> str:
        rows = []
        for c in self.candidates:
            d = c["difference"]
            bold = "font-weight:bold" if c["id"] == self.winner else ""
            cells = [
                c["name"],
                "failed" if c["error"] else f"{c['mean']:.3f} [{c['low']:.3f}, {c['high']:.3f}]",
                f"{d['mean']:+.3f} [{d['low']:+.3f}, {d['high']:+.3f}]" if d else "",
            ]
            texts = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells)
            rows.append(f"<tr style='{bold}'>{texts}</tr>")
        head = f"<tr><th></th><th>{html.escape(_label(self.metric))}</th><th>difference</th></tr>"
        return f"<p>{html.escape(self.verdict)}</p><table>{head}{''.join(rows)}</table>"


def compare(
    X: Any,
    y: Any,
    metric: MetricLike = "f1",
    *,
    task: str | None = None,
    groups: Any = None,
    pos_label: Any = None,
    quick: bool = False,
    budget: float | None = None,
    seed: int = 0,
    jobs: int | None = None,
    backend: str | None = None,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = False,
    candidates: Any = None,
    folds: int = 5,
    repeats: int | None = None,
    duplicates: str = "together",
    progress: Callable[[int, int, float], None] | None = None,
    command: str | None = None,
    file: str | None = None,
) -> Comparison:
    """Compare ways to train a classifier for ``metric``, on repeated stratified splits.

    Args:
        X: a data frame of mixed columns, or an array of numbers ``(rows, features)``.
        y: labels ``(rows,)`` of any kind, or several columns of 0 and 1.
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        task: ``"binary"``, ``"multiclass"`` or ``"multilabel"``; checked if given.
        groups: a label for each row; rows of a group stay on one side of every split.
        pos_label: the positive class of two; the last in order if left out.
        quick: fewer networks, fewer trees, one repeat.
        budget: minutes that all of it may take; fewer splits are made if need be.
        jobs, backend: how many runs at once, and any joblib backend (``"dask"`` for a cluster).
        directory: where ``runs.jsonl`` keeps the finished runs; ``resume=True`` goes on from it.
        candidates: ids to compare; all that fit the metric and the task if left out.
        folds, repeats: splits; 5 folds, twice (once if quick).
        duplicates: ``"together"`` keeps equal rows on one side of every split, ``"ignore"`` not.
        progress: called with runs done, runs in all, and seconds left.
        command, file: to be shown in the report.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> found = compare(X, y, "f1", candidates=["boosting-tuned", "boosting-metric"], jobs=1,
    ...                 quick=True)
    >>> found.outcome, found.model.predict(X[:2]).shape
    ('none', (2,))
    """
    started = time.monotonic()
    measured = get_metric(metric)
    if measured.average is None:
        raise ValueError("metric with average=None gives several numbers. Use 'macro'.")
    check_number("folds", folds, 2, 100, closed="both")
    if repeats is not None:
        check_number("repeats", repeats, 1, 100, closed="both")
    if budget is not None:
        check_number("budget", budget, 0, math.inf, hint="It is in minutes.")
    check_choice("duplicates", duplicates, ("together", "ignore"))
    if directory is None and resume:
        raise ValueError("resume needs the directory of the comparison to go on with.")
    table = read_table(X, y, groups, pos_label, task, folds, duplicates)
    label = _label(measured.name)
    chosen, left_out = choose(measured, label, table.task, candidates)
    plan = _Plan(table, metric, chosen, int(folds), repeats, quick, seed, jobs, backend, progress)
    plan.place(directory, resume)
    plan.finish_by(None if budget is None else started + 60 * budget)
    records = plan.run()
    return _Summary(plan, records, label, [*table.warnings, *left_out]).comparison(
        started, command or _call(metric, quick, seed), file
    )


def _call(metric: MetricLike, quick: bool, seed: int) -> str:
    name = repr(metric) if isinstance(metric, str) else get_metric(metric).name
    return f"softset.compare(X, y, {name}{', quick=True' if quick else ''}, seed={seed})"


def _label(name: str) -> str:
    """A metric's name in a sentence."""
    known = {"mcc": "MCC", "auroc": "AUROC", "gmean": "G-mean", "g_mean": "G-mean"}
    if re.fullmatch(r"f\d+(\.\d+)?(_\w+)?", name):
        name = name.upper() if "_" not in name else f"F{name[1:]}"
    return known.get(name, name.replace("_", " "))


# --- what is run ---------------------------------------------------------------------------------


class _Plan:
    """Which splits and fits are run, where, and until when."""

    def __init__(
        self,
        table: Table,
        metric: MetricLike,
        chosen: list[Candidate],
        folds: int,
        repeats: int | None,
        quick: bool,
        seed: int,
        jobs: int | None,
        backend: str | None,
        progress: Any,
    ) -> None:
        self.table, self.metric, self.chosen = table, metric, chosen
        self.quick, self.seed, self.jobs, self.backend = quick, seed, jobs, backend
        self.folds, self.progress = folds, progress
        rows = len(table.y)
        self.repeats = int(repeats) if repeats is not None else 1 if quick else 2
        self.sizes = Sizes.of(rows, quick)
        self.fits = {fit: ids for fit in FITS if (ids := [c.id for c in chosen if c.fit == fit])}
        self.path: Path | None = None
        self.resume, self.deadline = False, math.inf
        self.used: np.ndarray | None = None  # row numbers, if not all are
        self.notes: list[str] = []
        self.wanted = self.folds * self.repeats

    def place(self, directory: Any, resume: bool) -> None:
        """Where the finished runs are kept."""
        if directory is not None:
            Path(directory).mkdir(parents=True, exist_ok=True)
            self.path, self.resume = Path(directory) / "runs.jsonl", resume

    def finish_by(self, deadline: float | None) -> None:
        self.deadline = math.inf if deadline is None else deadline

    def run(self) -> list[list[dict[str, Any]]]:
        """The records of every complete split."""
        with tempfile.TemporaryDirectory(prefix="softset-") as folder:
            if self.deadline == math.inf:
                return self._complete(self._sweep(self._task(), range(self.wanted), Path(folder)))
            return self._within_budget(Path(folder))

    def _task(self, pilot: bool = False) -> Task:
        table, folds = self.table, None
        used = self.used if not pilot else self._sample(_PILOT_ROWS)
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
        return Task(
            table.x,
            y,
            folds,
            table.task,
            self.metric,
            self.sizes,
            self.seed,
            self.fits,
            table.schema,
        )

    def _sample(self, rows: int) -> Any:
        """Row numbers of a stratified sample that keeps groups whole; None for all."""
        n = len(self.table.y)
        if rows >= n:
            return None
        parts = max(2, min(100, n // rows))
        strata, groups = self.table.strata, self.table.groups
        place = repeated_folds(strata, groups, parts, 1, self.seed)[0]
        return np.flatnonzero(place < max(1, round(parts * rows / n)))

    def _settings(self, task: Task) -> dict[str, Any]:
        """What the results depend on: a file of runs belongs to them."""
        return {
            "data": fingerprint(task.x, task.y),
            "folds": fingerprint(task.folds[:1], task.y),
            "metric": get_metric(self.metric).name,
            "sizes": asdict(self.sizes),
            "candidates": self.fits,
            "seed": self.seed,
            "version": softset.__version__,
        }

    def _sweep(
        self, task: Task, splits: Any, folder: Path, deadline: float | None = None
    ) -> list[Any]:
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

    def _complete(self, records: list[Any]) -> list[list[dict[str, Any]]]:
        """Records by split, without splits that are not complete."""
        step = len(self.fits)
        by_split = [records[i : i + step] for i in range(0, len(records), step)]
        return [group for group in by_split if all(r is not None for r in group)]

    # --- with a budget ---------------------------------------------------------------------------

    def _within_budget(self, folder: Path) -> list[list[dict[str, Any]]]:
        """As many whole splits as fit; fewer rows if not even one repeat would."""
        started = time.monotonic()
        n = len(self.table.y)
        seen = self.path.parent / "rows.txt" if self.path else None
        if seen is not None and self.resume and seen.exists():
            self._use(int(seen.read_text()))
        elif n > 2 * _PILOT_ROWS:
            self._use(self._affordable_rows(folder))
        if seen is not None:
            seen.write_text(str(n if self.used is None else len(self.used)))
        task = self._task()
        first = time.monotonic()
        groups = self._complete(self._sweep(task, range(1), folder))
        self.resume = True  # from here on, the file is ours
        done, each = 1, time.monotonic() - first
        while done < self.wanted:
            left = self.deadline - time.monotonic() - self._reserve(groups)
            more = min(self.wanted - done, int(left / (1.1 * each + 1e-9)))
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
            self.notes.append(
                f"{len(groups)} of {self.wanted} splits were made in the time given "
                f"({(time.monotonic() - started) / 60:.1f} minutes)"
            )
        return groups

    def _affordable_rows(self, folder: Path) -> int:
        """Rows for which one repeat fits into the budget, by a look at a small sample."""
        n, before = len(self.table.y), time.monotonic()
        task = self._task(pilot=True)
        sample = int((task.folds[0] >= 0).sum())
        source = Source(task, folder)
        runs = [{"split": 0, "fit": fit, "pilot": True} for fit in self.fits]
        sweep(partial(run_one, source), runs, jobs=self.jobs, backend=self.backend)
        cost = (time.monotonic() - before) / sample  # seconds a row and split, start-up included
        left = self.deadline - time.monotonic() - _MARGIN
        # A repeat, and the refit, which takes about a third of a split.
        rows = int(0.9 * left / (cost * (self.folds + 0.5)))
        return n if rows >= n else max(rows, min(n, _FEWEST_ROWS))

    def _use(self, rows: int) -> None:
        n = len(self.table.y)
        if rows < n:
            self.used = self._sample(rows)
            if self.used is not None:
                self.sizes = Sizes.of(len(self.used), self.quick)
                self.notes.append(f"{len(self.used)} of {n} rows were used, for want of time")

    def _reserve(self, groups: list[list[dict[str, Any]]]) -> float:
        """Seconds for the refit of the slowest candidate, and for what comes after it."""
        slowest = max((r["seconds"] for group in groups for r in group), default=0.0)
        rows = len(self.table.y) if self.used is None else len(self.used)
        return _MARGIN + 1.3 * slowest * rows / (rows - rows / self.folds)


# --- what it says --------------------------------------------------------------------------------


class _Summary:
    """The records of all runs -> ``Comparison``."""

    def __init__(
        self, plan: _Plan, groups: list[list[dict[str, Any]]], label: str, said: list[str]
    ) -> None:
        self.plan, self.label, self.said = plan, label, list(said)
        self.errors: dict[str, str] = {}
        self.found: list[dict[str, Any]] = []  # for each split: candidate -> entry
        messages: dict[str, int] = {}
        for number, group in enumerate(groups):
            entries: dict[str, Any] = {}
            for record in group:
                if "error" in record:
                    for c in plan.fits[record["run"]["fit"]]:
                        self.errors.setdefault(c, f"split {number + 1}: {record['error']}")
                    continue
                entries.update(record["result"]["candidates"])
                for text in record["result"]["warnings"]:
                    messages[text] = messages.get(text, 0) + 1
            self.found.append(entries)
        runs = sum(map(len, groups))
        for text, times in messages.items():
            self.said.append(f"{text} (in {times} of {runs} fits)")
        for c, text in self.errors.items():
            self.said.append(f"candidate {c} failed and is left out. {text}")
        self.fine = [c for c in plan.chosen if c.id not in self.errors]
        for family in ("metric", "plain"):
            if not any(c.family == family for c in self.fine):
                first = next(iter(self.errors.values()), "no split was finished in time")
                raise ValueError(f"no {family} candidate could be fitted; {first}")

    def comparison(self, started: float, command: str, file: str | None) -> Comparison:
        plan, table = self.plan, self.plan.table
        scores = {c.id: [entries[c.id]["score"] for entries in self.found] for c in self.fine}
        share = 1 / plan.folds
        decision = decide(scores, {c.id: c.family for c in self.fine}, share)
        model, encoder = self._refit(decision.winner)
        columns, notes = table.columns, list(table.notes)
        if encoder is not None:
            columns, notes = encoder.columns_, [*notes, *encoder.notes_]
        outputs = int(model.classifier.n_features_in_)
        # The winner, its reference, and where these are the same the rival it was held against.
        shown = dict.fromkeys([decision.winner, decision.reference, decision.best_metric])
        return Comparison(
            metric=get_metric(plan.metric).name,
            task=table.task,
            classes=[_plain(c) for c in table.classes],
            positive=_plain(table.classes[1]) if table.task == "binary" else None,
            verdict=self._verdict(decision),
            outcome=decision.outcome,
            winner=decision.winner,
            reference=decision.reference,
            candidates=self._rows(scores, decision, share),
            splits=self._splits(),
            predictions={c: self._predictions(c) for c in list(shown)[:2]},
            history=self._history(),
            data={
                "rows": len(table.y),
                "features": table.features,
                "outputs": outputs,
                "classes": table.counts(),
                "columns": columns,
                "notes": notes,
                "file": file,
            },
            settings=self._settings(),
            versions=_versions(),
            seed=plan.seed,
            command=command,
            date=datetime.date.today().isoformat(),
            duration=round(time.monotonic() - started, 1),
            warnings=self.said,
            model=model,
        )

    def _refit(self, winner: str) -> tuple[Model, Any]:
        """The winner on all rows (those that were used, if time is short)."""
        plan, table = self.plan, self.plan.table
        rows = np.arange(len(table.y))
        if plan.used is not None:
            seconds = float(np.mean([e[winner]["seconds"] for e in self.found]))
            whole = 1.5 * seconds * len(rows) / len(plan.used)
            if time.monotonic() + whole + _MARGIN > plan.deadline:
                rows = plan.used
                self.said.append(f"the winner was refitted on {len(rows)} rows, for want of time.")
        encoder, x, _ = encode(table.x, table.schema, rows, rows[:1])
        classifier = make_classifier(winner, plan.metric, table.y[rows], plan.sizes, plan.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            classifier.fit(x, table.y[rows])
        info = {"classes": table.classes, "candidate": winner}
        return Model(encoder, classifier, info), encoder

    def _rows(
        self, scores: dict[str, list[float]], decision: Decision, share: float
    ) -> list[dict[str, Any]]:
        ranks = mean_ranks(scores)
        rows = []
        for c in self.plan.chosen:
            row: dict[str, Any] = {
                "id": c.id,
                "name": c.name,
                "family": c.family,
                "description": c.description,
                "error": self.errors.get(c.id, ""),
            }
            if row["error"]:
                empty = dict.fromkeys(("mean", "low", "high", "rank", "difference", "seconds"))
                rows.append({**row, "scores": [], "thresholds": None, **empty})
                continue
            mean, low, high = interval(scores[c.id], share)
            entries = [e[c.id] for e in self.found]
            against = decision.differences.get(c.id)
            rows.append(
                {
                    **row,
                    "scores": scores[c.id],
                    "mean": mean,
                    "low": _bounded(low),
                    "high": _bounded(min(high, max(1.0, mean))),
                    "rank": ranks[c.id],
                    "difference": None
                    if against is None
                    else {k: _bounded(v) for k, v in asdict(against).items()},
                    "seconds": round(float(np.mean([e["seconds"] for e in entries])), 3),
                    "thresholds": None
                    if entries[0]["threshold"] is None
                    else [e["threshold"] for e in entries],
                }
            )
        return sorted(rows, key=lambda r: math.inf if r["mean"] is None else -r["mean"])

    def _verdict(self, decision: Decision) -> str:
        names = {c.id: c.name[0].lower() + c.name[1:] for c in self.fine}
        reference = names[decision.reference]
        if decision.outcome == "metric":
            d = decision.differences[decision.winner]
            return (
                f"Training on {self.label} wins: {_interval(d)} over {reference} "
                f"({names[decision.winner]})."
            )
        best = decision.best_metric
        d = decision.differences[best]
        if decision.outcome == "plain":
            return (
                f"Training on {self.label} does not pay: {reference} is better, and the best "
                f"candidate trained on {self.label} ({names[best]}) is {_interval(d)} behind."
            )
        return (
            f"No clear difference: use {reference}, it is simpler. Training on {self.label} "
            f"({names[best]}) changes it by {_interval(d)}."
        )

    def _splits(self) -> dict[str, Any]:
        plan, table = self.plan, self.plan.table
        count = len(self.found)
        note = f"{count} split{'s' if count > 1 else ''} ({plan.folds} folds, stratified)"
        if table.duplicates:
            note += f", {table.duplicates} rows with an equal one kept on its side"
        if table.grouped:
            note += ", groups kept together"
        note = "; ".join([note, *plan.notes])
        return {
            "folds": plan.folds,
            "repeats": -(-count // plan.folds),
            "count": count,
            "test_share": 1 / plan.folds,
            "duplicates": table.duplicates,
            "groups": table.grouped,
            "note": note,
        }

    def _predictions(self, candidate: str) -> dict[str, Any]:
        """Out of fold, first repeat; the threshold is the median of those of the folds."""
        entries = [e[candidate] for e in self.found[: self.plan.folds]]
        target = [t for e in entries for t in e["predictions"]["target"]]
        scores = [s for e in entries for s in e["predictions"]["scores"]]
        threshold = None
        if entries[0]["threshold"] is not None:
            threshold = np.median([e["threshold"] for e in entries], axis=0).tolist()
        tested = len(self.plan.table.y) if self.plan.used is None else len(self.plan.used)
        note = f"out of fold, first repeat, {len(target)} of {tested} rows"
        return {"target": target, "scores": scores, "threshold": threshold, "note": note}

    def _history(self) -> dict[str, Any]:
        found = {c.id: self.found[0][c.id].get("history") for c in self.fine}
        return {c: h for c, h in found.items() if h is not None}

    def _settings(self) -> dict[str, Any]:
        plan = self.plan
        return {
            **asdict(plan.sizes),
            "folds": plan.folds,
            "repeats": plan.repeats,
            "quick": plan.quick,
            "level": 0.05,
            "fits": plan.fits,
        }


def _interval(d: Any) -> str:
    if not math.isfinite(d.low):
        return f"{d.mean:+.3f} on a single split, which cannot tell"
    return f"{d.mean:+.3f} [{d.low:.3f}, {d.high:.3f}]"


def _bounded(value: float) -> float | None:
    """JSON has no infinity: an interval from one split has no ends."""
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float | str) else str(value)


def _versions() -> dict[str, str]:
    found = {"softset": softset.__version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scikit-learn", "pandas", "lightgbm"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
