"""The runs of all splits -> ``Comparison``: the numbers, the verdict and the refitted winner."""

from __future__ import annotations

import datetime
import math
import platform
import time
import warnings
from collections import Counter
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

import numpy as np

import softset
from softset.classifiers.model import Model
from softset.comparison.drivers import suspicious_drivers, winner_importances
from softset.comparison.fits import Candidate, Order
from softset.comparison.ladder import climb
from softset.comparison.plan import CAUTION, MARGIN, Plan, Run
from softset.comparison.result import (
    CandidateResult,
    Column,
    Comparison,
    Data,
    History,
    Predictions,
    Settings,
    Splits,
    TaskName,
    Threshold,
)
from softset.comparison.statistics import (
    Difference,
    holm,
    interval,
    mean_ranks,
    one_row_of,
    paired,
)
from softset.comparison.suspicions import too_good
from softset.comparison.verdict import rung_names, verdict
from softset.comparison.worker import Outcome, encode
from softset.decisions.constants import ConstantWarning
from softset.metrics.registry import get_goal, range_of
from softset.tables.encoder import TableEncoder

_LEVEL = 0.05


class Summary:
    """The runs of all splits -> ``Comparison``.

    ``label`` is the metric in running text, ``said`` what is to be said besides.
    """

    def __init__(self, plan: Plan, splits: list[list[Run]], label: str, said: list[str]) -> None:
        self.plan, self.label, self.said = plan, label, list(said)
        self.errors: dict[str, str] = {}
        self.found: list[dict[str, Outcome]] = []  # for each split, by candidate
        messages: Counter[str] = Counter()
        for number, runs in enumerate(splits, 1):
            outcomes: dict[str, Outcome] = {}
            for run in runs:
                if run.result is None:
                    for c in plan.fits[run.fit]:
                        self.errors.setdefault(c, f"split {number}: {run.error}")
                    continue
                outcomes.update(run.result.candidates)
                messages.update(run.result.warnings)
            self.found.append(outcomes)
        fits = sum(map(len, splits))
        self.said += [f"{text} (in {times} of {fits} fits)" for text, times in messages.items()]
        for c, text in self.errors.items():
            self.said.append(f"candidate {c} failed and is left out. {text}")
        self.fine = [c for c in plan.chosen if c.id not in self.errors]
        if len(self.fine) < 2:
            first = next(iter(self.errors.values()), "no split was finished in time")
            raise ValueError(f"at least two candidates must be fitted; {first}")

    def comparison(self, started: float, command: str, file: str | None) -> Comparison:
        plan, table = self.plan, self.plan.table
        goal = get_goal(plan.metric)
        scores = {c.id: [outcomes[c.id].score for outcomes in self.found] for c in self.fine}
        share = 1 / plan.folds
        in_test = plan.rows / len(table.y) * share
        grain = one_row_of(
            goal,
            table.task,
            [round(c.rows * in_test) for c in table.counts()],
            round(plan.rows * share),
        )
        sizes = {c.id: self.found[0][c.id].size for c in self.fine}
        ladder = climb(
            scores,
            {c.id: c.rung for c in self.fine},
            sizes,
            folds=plan.folds,
            one_row=grain,
            names=rung_names(self.label, table.task, goal.by_scores),
            level=_LEVEL,
            within=range_of(plan.metric),
        )
        found = verdict(ladder, {c.id: c.in_text for c in self.fine}, self.label)
        candidates = self._candidates(scores, sizes, found.reference, grain)
        model, encoder, refitted = self._refit(found.winner)
        importances = winner_importances(plan, found.winner, self.found)
        self.said += suspicious_drivers(table, importances, self.label)
        self.said += too_good([c.mean for c in candidates if c.mean is not None])
        # The winner and its reference; the best of the others where these are the same.
        best = [c.id for c in candidates if c.mean is not None]
        shown = list(dict.fromkeys([found.winner, found.reference, *best]))[:2]
        return Comparison(
            metric=goal.name,
            task=cast(TaskName, table.task.name),
            classes=[_plain(c) for c in table.classes],
            positive=_plain(table.classes[1]) if table.task.single else None,
            verdict=found.headline,
            advice=found.advice,
            outcome=found.outcome,
            winner=found.winner,
            reference=found.reference,
            ladder=ladder,
            candidates=candidates,
            splits=self._splits(),
            predictions={c: p for c in shown if (p := self._predictions(c)).target},
            history=self._history(),
            importances=importances,
            data=Data(
                rows=len(table.y),
                features=table.features,
                outputs=int(model.classifier.n_features_in_),
                classes=table.counts(),
                columns=_columns(encoder),
                notes=list(dict.fromkeys([*table.notes, *(encoder.notes_ if encoder else [])])),
                file=file,
                used=plan.rows,
                refitted=refitted,
            ),
            settings=Settings(
                **asdict(plan.sizes),
                folds=plan.folds,
                repeats=plan.repeats,
                level=_LEVEL,
                fits=plan.fits,
            ),
            versions=_versions(),
            seed=plan.seed,
            command=command,
            date=datetime.date.today().isoformat(),
            duration=round(time.monotonic() - started, 1),
            warnings=self.said,
            model=model,
        )

    def _refit(self, winner: str) -> tuple[Model, TableEncoder | None, int]:
        """The winner on all rows (those that were used, if time is short), and how many."""
        plan, table = self.plan, self.plan.table
        rows = None if plan.used is None else plan.sample(self._refit_rows(winner))
        if rows is None:
            rows = np.arange(len(table.y))
        else:
            self.said.append(f"the winner was refitted on {len(rows)} rows, for want of time.")
        encoder, x, _ = encode(table.x, table.schema, rows, rows[:1])
        y = table.y[rows]
        make = plan.by_id[winner].make
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("always", ConstantWarning)
            classifier = make(Order(plan.metric, y, plan.sizes, plan.seed)).fit(x, y)
        self.said += [str(w.message) for w in caught if w.category is ConstantWarning]
        info = {"classes": table.classes, "candidate": winner}
        return Model(encoder, classifier, info), encoder, len(rows)

    def _refit_rows(self, winner: str) -> int:
        """As many as the time allows, by what the fits on fewer took; at least as many as these."""
        plan = self.plan
        assert plan.used is not None
        fitted = len(plan.used) * (1 - 1 / plan.folds)
        seconds = float(np.mean([outcomes[winner].seconds for outcomes in self.found]))
        left = plan.deadline - time.monotonic() - MARGIN
        return max(len(plan.used), int(fitted * left / (CAUTION * seconds + 1e-9)))

    def _candidates(
        self,
        scores: dict[str, list[float]],
        sizes: dict[str, int | None],
        reference: str,
        grain: float,
    ) -> list[CandidateResult]:
        """The best first, those that failed last."""
        ranks, share = mean_ranks(scores), 1 / self.plan.folds
        differences = _differences(scores, reference, share, grain)
        rows = []
        for c in self.plan.chosen:
            if c.id in self.errors:
                rows.append(_without_numbers(c, self.errors[c.id]))
                continue
            mean, low, high = interval(
                scores[c.id], share, grain, within=range_of(self.plan.metric)
            )
            outcomes = [found[c.id] for found in self.found]
            cuts = [o.threshold for o in outcomes if o.threshold is not None]
            rows.append(
                CandidateResult(
                    c.id,
                    c.name,
                    c.family,
                    c.rung,
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
                    thresholds=cuts or None,
                )
            )
        return sorted(rows, key=lambda r: math.inf if r.mean is None else -r.mean)

    def _splits(self) -> Splits:
        plan, table = self.plan, self.plan.table
        count = len(self.found)
        note = f"{count} split{'s' if count > 1 else ''} ({plan.folds} folds, stratified)"
        if table.duplicates:
            note += f", {table.duplicates} rows with an equal one kept on its side"
        if table.grouped:
            note += ", groups kept together"
        return Splits(
            folds=plan.folds,
            repeats=-(-count // plan.folds),
            count=count,
            test_share=1 / plan.folds,
            duplicates=table.duplicates,
            groups=table.grouped,
            note="; ".join([note, *plan.notes]),
        )

    def _predictions(self, candidate: str) -> Predictions:
        """Out of fold, first repeat; the threshold is the median of those of the folds."""
        outcomes = [found[candidate] for found in self.found[: self.plan.folds]]
        kept = [o.predictions for o in outcomes if o.predictions is not None]
        target: Any = [t for p in kept for t in p.target]
        scores: Any = [s for p in kept for s in p.scores]
        cuts = [o.threshold for o in outcomes if o.threshold is not None]
        median: Threshold | None = np.median(cuts, axis=0).tolist() if cuts else None
        note = f"out of fold, first repeat, {len(target)} of {self.plan.rows} rows"
        return Predictions(target, scores, median, note)

    def _history(self) -> dict[str, History]:
        found = {c.id: self.found[0][c.id].history for c in self.fine}
        return {c: h for c, h in found.items() if h is not None}


def _differences(
    scores: dict[str, list[float]], reference: str, share: float, grain: float
) -> dict[str, Difference]:
    """Of all others to the reference, with Holm's method over them."""
    found = {
        c: paired(own, scores[reference], share, grain)
        for c, own in scores.items()
        if c != reference
    }
    adjusted = holm([d.p for d in found.values()])
    return {c: replace(d, p_adjusted=p) for (c, d), p in zip(found.items(), adjusted, strict=True)}


def _without_numbers(c: Candidate, error: str) -> CandidateResult:
    names = ("mean", "low", "high", "rank", "difference", "seconds", "size", "thresholds")
    return CandidateResult(
        c.id, c.name, c.family, c.rung, c.description, error, scores=[], **dict.fromkeys(names)
    )


def _columns(encoder: TableEncoder | None) -> list[Column]:
    if encoder is None:
        return []
    return [
        Column(c.name, c.kind, c.missing, c.values, c.outputs, c.note) for c in encoder.columns_
    ]


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
