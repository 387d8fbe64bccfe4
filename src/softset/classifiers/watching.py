"""Is a model still as good as it was? Its rates over time, and what scores alone can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import cast

import numpy as np
import torch

from softset import formats
from softset.checks import check_number
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.model import Model, Table
from softset.counting.cells import Confusion
from softset.decisions.promises import exact_intervals, rate_rows
from softset.decisions.reference import Reference
from softset.decisions.shift import FEWEST, Shift, estimated_shift
from softset.decisions.watching import (
    WatchedRate,
    crossing,
    drift_evidence,
    drift_start,
    look_intervals,
    watched_rate,
)
from softset.metrics.goals import Goal
from softset.metrics.meeting import RATES, Meeting
from softset.metrics.registry import get_goal, label_of
from softset.tables.looks import read_looks
from softset.tasks import BINARY, MULTILABEL
from softset.typing import Array, ArrayLike, Bools, Floats, Ints, Labels, Rows, Settings

# Scores are compared at these quantiles of the reference.
_AT = (0.1, 0.3, 0.5, 0.7, 0.9)
# Classes whose recall is shown, at most; the last quarter of the looks tells the prevalence.
_CLASSES, _RECENT = 12, 4
# Points of each rate between its ends, at which the goal is computed for its interval.
_POINTS = 5


@dataclass(frozen=True)
class Drift:
    """The scores against the reference: the evidence at each look, as a logarithm, and the looks,
    by number, at which and since which they differ."""

    evidence: list[float]
    found: int | None
    since: int | None


@dataclass(frozen=True)
class Watch:
    """What ``watch`` found; ``print`` shows it, ``softset.report.write_watch`` makes a page.

    ``rates`` are those that need labels; ``goal_values`` is the metric at each look, between
    ``goal_low`` and ``goal_high``; ``alerts`` and ``drift`` need no labels. ``shift`` is the
    estimated prevalence of the last quarter of the looks, ``expected`` the metric to expect there
    if nothing but the prevalence has changed.
    """

    goal: str
    alpha: float
    looks: list[str]
    rows: list[int]
    labeled: list[int]
    rates: list[WatchedRate]
    goal_values: list[float]
    goal_low: list[float]
    goal_high: list[float]
    alerts: list[WatchedRate]
    drift: Drift | None
    shift: Shift | None
    expected: float | None

    @property
    def broken(self) -> list[WatchedRate]:
        """The tested rates that do not hold any more."""
        return [rate for rate in self.rates if rate.found is not None]

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        findings = [self._state(r) for r in self.broken]
        findings += [self._state(r) for r in self.rates if r.episodes and r.since is None]
        if findings:
            text = "; ".join(findings)
            return f"{text[:1].upper()}{text[1:]}."
        tested = [r for r in self.rates if r.bound is not None]
        if any(sum(r.rows) for r in tested):
            words = " and ".join(r.constraint for r in tested if sum(r.rows))
            held = f"Nothing says that {words} is broken"
        elif sum(self.labeled):
            held = "Nothing is tested with labels"
        else:
            held = "Without labels only the scores can be watched"
        return f"{held}; {self.scores}."

    @property
    def scores(self) -> str:
        """What the scores say, in words."""
        if self.drift is None:
            return "the model has no reference of scores"
        if self.drift.found is None or self.drift.since is None:
            return "scores are as in training"
        since, found = (self.looks[look] for look in (self.drift.since, self.drift.found))
        if self.drift.evidence[-1] < 0:
            return (
                f"scores differed from those of training from {since} (found in {found}); nothing "
                "says so of the last looks"
            )
        return f"scores differ from those of training since {since} (found in {found})"

    def _state(self, rate: WatchedRate) -> str:
        """Since when a rate is broken, or until when it was."""
        name = f"{rate.constraint}, which training led to expect,"
        name = f"the promise of {rate.constraint}" if rate.promised else name
        last, looks = rate.episodes[-1], self.looks
        if last.until is None or last.back is None:
            again = " again" if len(rate.episodes) > 1 else ""
            found = f"{looks[last.since]} (found in {looks[last.found]})"
            return f"{name} is broken{again} since {found}"
        return (
            f"{name} was broken from {looks[last.since]}; since {looks[last.until]} {rate.name} is "
            f"better, and nothing says that it is broken (found in {looks[last.back]})"
        )

    def means(self, rate: WatchedRate) -> str:
        """A rate before, while and after it was broken."""
        if not rate.episodes or not sum(rate.rows[: rate.episodes[-1].since]):
            return f"{rate.mean():.3g} ({sum(rate.rows):,} rows)"
        last = rate.episodes[-1]
        before = f"{rate.mean(0, last.since):.3g} before"
        while_broken = f"{rate.mean(last.since, last.until):.3g}"
        if last.until is None:
            return f"{while_broken} since then, {before}"
        return f"{rate.mean(last.until):.3g} since then, {while_broken} while broken, {before}"

    def __str__(self) -> str:
        span = self.looks[0] if len(self.looks) == 1 else f"{self.looks[0]} to {self.looks[-1]}"
        lines = [
            self.verdict,
            f"Looks: {len(self.looks)} ({span}); rows: {sum(self.rows):,}, with labels "
            f"{sum(self.labeled):,}; false alarms: {100 * self.alpha:g} % over all looks.",
        ]
        for rate in self.rates:
            if not sum(rate.rows):
                lines.append(f"{rate.constraint}: no rows to tell")
            else:
                lines.append(f"{rate.constraint}: {self.means(rate)}")
        lines += [
            f"{rate.name}: {formats.percent(rate.mean())} of rows"
            + (f", {formats.percent(rate.bound)} in training" if rate.bound is not None else "")
            for rate in self.alerts
        ]
        if any(rate.episodes for rate in self.rates):  # else the verdict has it
            lines.append(f"{self.scores[:1].upper()}{self.scores[1:]}.")
        if self.shift is not None:
            lines.append(f"last looks: {self.shift}")
        if self.expected is not None:
            lines.append(
                f"{self.goal} to expect there, if nothing but the prevalence has changed: "
                f"{self.expected:.3g}"
            )
        return "\n".join(lines)

    def to_dict(self) -> Settings:
        """As plain data, with the verdict."""
        return {"verdict": self.verdict, **asdict(self)}


def watch(
    model: Model | DecidingClassifier,
    X: Table | Rows,
    y: Labels | None = None,
    *,
    time: ArrayLike,
    every: str | None = None,
    alpha: float = 0.05,
) -> Watch:
    """Recall, precision and the goal of a model over time, and whether its promise still holds.

    Args:
        model: of ``train_model`` or ``load_model``, or a fitted classifier.
        X: new rows, in the order of time.
        y: their labels, missing (None or NaN) where they are not known yet; None without any. A
            label that comes late must not come late because of what it is.
        time: a date or number for each row. Each number is a look.
        every: ``"day"``, ``"week"``, ``"month"`` or ``"year"``: the looks of dates. By default by
            their span.
        alpha: the probability that a rate which holds is ever called broken, over all looks and
            all tested rates; and the same for the scores.

    Tested are the promised rates; without a promise, recall and precision against the lower end of
    what out-of-fold scores led to expect. Tests can start late, and see when what was broken is
    better (then they begin anew): see ``decisions.watching``.

    >>> from sklearn.datasets import make_classification
    >>> from softset import MetricLinearClassifier
    >>> X, y = make_classification(2000, weights=[0.8], random_state=0, flip_y=0.05)
    >>> model = MetricLinearClassifier("f1").fit(X[:1000], y[:1000])
    >>> week = np.arange(1000) // 50
    >>> labels = np.where(week < 10, y[1000:], 1 - y[1000:])  # what is positive changes
    >>> watch(model, X[1000:], labels, time=week).broken[0].since
    10
    """
    check_number("alpha", alpha, 0, 1)
    classifier = model.classifier if isinstance(model, Model) else model
    inputs = model.inputs(cast(Table, X)) if isinstance(model, Model) else cast(Rows, X)
    scores = classifier._scores(classifier._checked(inputs))
    looks = read_looks(time, len(scores), every)
    count = len(looks.names)
    decided, task = classifier.decision_(scores), classifier.task_
    names = [str(c) for c in classifier._labels.names]
    if isinstance(model, Model):
        names = (model.target if task.independent else None) or list(map(str, model.classes_))
    labeled, codes = _labels_of(model, classifier, y, len(scores))
    goal, reference = get_goal(classifier.metric), classifier.reference_

    def by_look(rows: Bools) -> Ints:
        """How many of these rows each look has."""
        return np.bincount(looks.number[rows], minlength=count)

    rates = _labeled_rates(classifier, decided[labeled], codes, names, looks.number[labeled], count)
    tests = max(1, sum(bound is not None for *_, bound, _, _ in rates))
    watched = [
        watched_rate(name, k, n, alpha=alpha / tests, bound=bound, sign=sign, promised=promised)
        for name, k, n, bound, sign, promised in rates
    ]
    values, low, high = _goal_over_time(
        goal, classifier, decided[labeled], codes, looks.number[labeled], count, alpha
    )
    recent = looks.number >= count - max(1, count // _RECENT)
    shift = None
    if reference is not None and goal.tunes and recent.sum() >= FEWEST:
        shift = estimated_shift(reference, scores[recent], names)
    return Watch(
        label_of(classifier.metric),
        alpha,
        looks.names,
        by_look(np.ones(len(scores), dtype=bool)).tolist(),
        by_look(labeled).tolist(),
        watched,
        values,
        low,
        high,
        _alerts(classifier, decided, names, by_look, alpha),
        None if reference is None else _drift(classifier, reference, scores, by_look, alpha),
        shift,
        None if shift is None or shift.rejected else _expected(goal, classifier, shift),
    )


def _labels_of(
    model: Model | DecidingClassifier, classifier: DecidingClassifier, y: Labels | None, rows: int
) -> tuple[Bools, Ints]:
    """Mask of the rows whose labels are known, and their codes."""
    import pandas as pd  # noqa: PLC0415

    if y is None:
        shape = (0, len(classifier.classes_)) if classifier.task_.independent else (0,)
        return np.zeros(rows, dtype=bool), np.zeros(shape, dtype=np.int64)
    given = np.asarray(y, dtype=object)
    if len(given) != rows:
        raise ValueError(f"y must have one label for each of {rows} rows, got {len(given)}.")
    labeled = ~pd.isna(given).reshape(rows, -1).any(1)
    if not labeled.any():
        return _labels_of(model, classifier, None, rows)
    labels = _plain(given[labeled])
    named = model.named_for_classifier(labels) if isinstance(model, Model) else labels
    return labeled, classifier._labels.encode(named)


def _plain(values: Array) -> Array:
    """Objects as numbers where all are: a missing label makes floats of integers."""
    import pandas as pd  # noqa: PLC0415

    if values.ndim == 2:
        return values.astype(np.int64)
    inferred = pd.Series(values.tolist()).to_numpy()
    integers = inferred.dtype.kind == "f" and (inferred == np.round(inferred)).all()
    return inferred.astype(np.int64) if integers else inferred


# --- with labels ----------------------------------------------------------------------------------


def _labeled_rates(
    classifier: DecidingClassifier,
    decided: Ints,
    y: Ints,
    names: list[str],
    look: Ints,
    count: int,
) -> list[tuple[str, Ints, Ints, float | None, int, bool]]:
    """Name, hits and rows of each look, the bound that is tested, its sign, whether promised."""

    def counted(rows: Bools) -> Ints:
        """How many of these labeled rows each look has."""
        return np.bincount(look[rows], minlength=count)

    task = classifier.task_
    rates: list[tuple[str, Ints, Ints, float | None, int, bool]] = []
    if not len(y):
        return rates
    if task.exclusive:
        rates = [
            ("accuracy", counted(decided == y), counted(np.ones(len(y), bool)), None, 1, False)
        ]
        for code, name in enumerate(names[:_CLASSES]):
            of_class = y == code
            hits = counted(of_class & (decided == code))
            rates.append((f"recall of {name}", hits, counted(of_class), None, 1, False))
        return rates
    reference = classifier.reference_
    where, promises = get_goal(classifier.metric).where, classifier.decision_.promises
    columns = zip(decided.reshape(len(y), -1).T, y.reshape(len(y), -1).T, strict=True)
    for k, (flagged, label) in enumerate(columns):
        has_promise = promises and promises[k].threshold is not None and isinstance(where, Meeting)
        bounds: dict[str, tuple[float | None, int, bool]] = {}
        for rate in ("recall", "precision"):
            expected = None if has_promise else _least(classifier, reference, rate, k)
            bounds[rate] = (expected, 1, False)
        if has_promise and isinstance(where, Meeting):
            for c in where.constraints:
                rows = 1 if c.rows is None else c.rows or promises[k].rows
                bounds[c.rate] = (c.bound / rows, RATES[c.rate][0], True)
        for rate, (bound, sign, promised) in bounds.items():
            of, hit = rate_rows(rate, flagged.astype(bool), label.astype(bool))
            name = f"{rate} of {names[k]}" if task.independent else rate
            rates.append((name, counted(hit), counted(of), bound, sign, promised))
    return rates


def _least(
    classifier: DecidingClassifier, reference: Reference | None, rate: str, column: int
) -> float | None:
    """The lower end of a rate that out-of-fold scores lead to expect; None if unavailable."""
    if reference is None:
        return None
    threshold = float(classifier.decision_.logit.reshape(-1)[column])
    fpr, tpr = reference.fraction_above(column, threshold)
    n, p = reference.rows[column], reference.prior[column]
    if rate == "recall":
        hits, rows = tpr * n[1], n[1]
    else:
        flagged = p[1] * tpr + p[0] * fpr
        rows = flagged * n.sum()
        hits = rows * p[1] * tpr / flagged if flagged > 0 else 0.0
    if not np.isfinite(hits) or rows < 1:
        return None
    low = float(exact_intervals(np.array(round(hits)), np.array(max(1, round(rows))), 0.95)[0])
    return low if low > 0 else None


def _goal_over_time(
    goal: Goal,
    classifier: DecidingClassifier,
    decided: Ints,
    y: Ints,
    look: Ints,
    count: int,
    alpha: float,
) -> tuple[list[float], list[float], list[float]]:
    """The metric at each look; of two classes with an interval, which is all that rates within
    their own intervals can give."""
    if not goal.tunes or not len(y):
        return [], [], []
    tuner, n = classifier._tuner(), len(classifier.classes_)
    shown = classifier.task_.one_hot(decided, n)
    weights = (look == np.arange(count)[:, None]).astype(np.float64)
    some = weights.sum(1) > 0
    values = np.full(count, np.nan)
    values[some] = tuner.values(shown, y, weights[some])
    if not classifier.task_.single:
        return values.tolist(), [], []
    positive, flagged = y == 1, decided == 1
    masks = (
        (positive, np.ones_like(positive)),
        (flagged & positive, positive),
        (flagged & ~positive, ~positive),
    )
    each = []
    for hit, of in masks:
        k, rows = (np.bincount(look[m], minlength=count) for m in (hit, of))
        each.append(np.array(look_intervals(k, rows, alpha / len(masks))))
    low, high = np.full(count, np.nan), np.full(count, np.nan)
    for t in np.flatnonzero(some):
        grids = [np.linspace(ends[0, t], ends[1, t], _POINTS) for ends in each]
        p, tpr, fpr = np.array(list(product(*grids))).T
        drawn = goal.of_decisions(_confusion(p, tpr, fpr)).numpy()
        low[t] = min(np.nanmin(drawn), values[t])
        high[t] = max(np.nanmax(drawn), values[t])
    return values.tolist(), low.tolist(), high.tolist()


def _confusion(
    prevalence: Floats, tpr: Floats, fpr: Floats, independent: bool = False
) -> Confusion:
    cells = (
        prevalence * tpr,
        (1 - prevalence) * fpr,
        prevalence * (1 - tpr),
        (1 - prevalence) * (1 - fpr),
    )
    tp, fp, fn, tn = (torch.from_numpy(np.asarray(cell)) for cell in cells)
    return Confusion(tp, fp, fn, tn, task=MULTILABEL if independent else BINARY)


# --- without labels -------------------------------------------------------------------------------


def _alerts(
    classifier: DecidingClassifier,
    decided: Ints,
    names: list[str],
    by_look: Callable[[Bools], Ints],
    alpha: float,
) -> list[WatchedRate]:
    """The fraction of rows that are flagged, beside that of the reference; nothing is tested."""
    task, reference = classifier.task_, classifier.reference_
    everything = by_look(np.ones(len(decided), dtype=bool))
    alerts: list[WatchedRate] = []
    if task.exclusive:
        return alerts
    for k, predicted in enumerate(decided.reshape(len(decided), -1).T):
        name = f"alerts of {names[k]}" if task.independent else "alerts"
        rate = watched_rate(name, by_look(predicted == 1), everything, alpha=alpha)
        if reference is not None:
            threshold = float(classifier.decision_.logit.reshape(-1)[k])
            above = np.nan_to_num(reference.fraction_above(k, threshold))
            bound = float(reference.prior[k] @ above)
            rate = WatchedRate(**{**vars(rate), "bound": bound})
        alerts.append(rate)
    return alerts


def _drift(
    classifier: DecidingClassifier,
    reference: Reference,
    scores: Floats,
    by_look: Callable[[Bools], Ints],
    alpha: float,
) -> Drift:
    """One test over all quantiles of all columns."""
    everything = by_look(np.ones(len(scores), dtype=bool))
    above, expected, rows = [], [], []
    for k, column in enumerate(reference.columns(scores)):
        s, w = reference.mixture(k)
        thresholds = [float(np.interp(q, np.cumsum(w) / w.sum(), s)) for q in _AT]
        if not classifier.task_.exclusive:
            thresholds.append(float(classifier.decision_.logit.reshape(-1)[k]))
        for threshold in thresholds:
            rate = float(reference.prior[k] @ np.nan_to_num(reference.fraction_above(k, threshold)))
            if 0 < rate < 1:
                above.append(by_look(column >= threshold))
                expected.append(rate)
                rows.append(reference.rows[k].sum())
    if not above:
        return Drift([0.0] * len(everything), None, None)
    stacked, rates, n = np.stack(above), np.array(expected), float(min(rows))
    evidence = drift_evidence(stacked, everything, rates, n)
    at = crossing(evidence, alpha)
    since = None if at is None else drift_start(stacked, everything, rates, n, at)
    return Drift(evidence.tolist(), at, since)


def _expected(goal: Goal, classifier: DecidingClassifier, shift: Shift) -> float | None:
    """The metric at the estimated prevalence, if classes look as they did."""
    reference, task = classifier.reference_, classifier.task_
    if reference is None or task.exclusive:
        return None
    thresholds = classifier.decision_.logit.reshape(-1)
    each = [reference.fraction_above(k, float(threshold)) for k, threshold in enumerate(thresholds)]
    fpr, tpr = np.nan_to_num(np.stack(each)).T
    p = np.array(shift.after)
    if task.single:
        p, fpr, tpr = p[0], fpr[0], tpr[0]
    value = float(goal.of_decisions(_confusion(p, tpr, fpr, task.independent)))
    return value if np.isfinite(value) else None
