"""The records of all runs -> ``Comparison``: the numbers, the verdict and the refitted winner."""

from __future__ import annotations

import datetime
import math
import platform
import time
import warnings
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import softset
from softset.classifiers.model import Model
from softset.comparison.candidates import make_classifier
from softset.comparison.plan import MARGIN, Plan
from softset.comparison.result import Comparison
from softset.comparison.statistics import Decision, decide, interval, mean_ranks
from softset.comparison.worker import encode
from softset.metrics.registry import get_metric


class Summary:
    """The records of all runs -> ``Comparison``."""

    def __init__(
        self, plan: Plan, groups: list[list[dict[str, Any]]], label: str, said: list[str]
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
            if time.monotonic() + whole + MARGIN > plan.deadline:
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
