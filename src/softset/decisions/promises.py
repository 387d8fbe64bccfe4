"""Promises: thresholds that keep a constraint on new rows, with a stated confidence.

A threshold that meets ``recall >= 0.9`` on the rows it was tuned on misses it on new rows about
half of the time. Here it is chosen so that it is missed with probability 1 - ``confidence`` at
most, over draws of the calibration rows, whatever their distribution, also with ties:

- Recall, specificity, false positive rate and the rate of alerts are monotone in the threshold.
  With ``e`` of ``n`` calibration rows on the wrong side, the rate of errors of new rows is at most
  that of an order statistic, whose distribution is ``Beta(e + 1, n - e)``. All thresholds are
  compared at no price, because the errors of one bound those of all on its safe side.
- A count of alerts in the next ``N`` rows is predicted: beta-binomial, with the same parameters.
- Precision is not monotone. Thresholds of a grid, chosen by the scores and without the labels, are
  tested from strict to lenient: a test is exact, because the labels of the rows above a score are
  independent, with the precision as their mean. A rejected hypothesis passes its level on to the
  next one (the fallback procedure, Wiens 2003; compare "learn then test", Angelopoulos et al.
  2021), and new levels enter at a few starting points. It is exact if precision crosses the bound
  once as the threshold falls; if more often, up to a term that vanishes with the rows.

With weights, counts are of effective rows, and the promise is approximate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import betainc, betaincinv, expit

from softset.checks import check_number, warn_user
from softset.counting.cells import Confusion
from softset.counting.problem import arrange
from softset.counting.thresholds import all_thresholds, pick
from softset.decisions.bounds import (
    CALIBRATED,
    Sums,
    kept_thresholds,
    needed_rows,
    sums_at_thresholds,
)
from softset.decisions.candidates import Candidates
from softset.decisions.decision import Decision
from softset.formats import escape, html_table
from softset.metrics.goals import Goal
from softset.metrics.meeting import RATES, Constraint, Meeting
from softset.metrics.registry import MetricLike, thresholded
from softset.tasks import BINARY, get_task
from softset.typing import Floats, Ints, Settings, TensorLike, Weights

# The level of intervals of rates on new rows.
_LEVEL = 0.95


@dataclass(frozen=True)
class Promise:
    """A threshold, and the constraint that it keeps on new rows with a confidence.

    ``threshold`` is a probability, ``None`` where nothing can be promised. ``rate`` and ``bound``
    are what is promised: ``"recall"`` and 0.9; of two constraints, ``"recall&fpr"`` and a tuple.
    ``rows`` and ``positives`` are the calibration rows. ``exact`` is False where rows are weighted,
    or scores are out of fold. ``needed`` is the least number of positives (negatives, or rows, as
    ``str(promise)`` says) with which it could be promised, where it cannot be. ``value`` is the
    metric of the goal here, ``plain`` what it would be without the promise, ``alerts`` the fraction
    of these rows that is flagged.

    >>> kept = promise([2.0, 1.0, 0.0], [1, 1, 0], "precision@recall>=0.95")
    >>> kept.threshold is None, kept.needed
    (True, 59)
    """

    goal: str
    threshold: float | None
    confidence: float
    rate: str
    bound: float | tuple[float, ...]
    rows: int
    positives: int
    exact: bool = True
    needed: int | None = None
    value: float | None = None
    plain: float | None = None
    alerts: float | None = None
    logit: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        """The promise in a sentence or two."""
        if self.threshold is None:
            return self.reason
        constraint = self._words()
        sure = f"with about {_percent(self.confidence)} confidence (approximate), if rows are"
        if self.exact:
            sure = f"with {_percent(self.confidence)} confidence, if the model has not seen these "
            sure += "rows and they are"
        text = (
            f"Threshold {self.threshold:.4g} keeps {constraint} {sure} independent ({self.rows:,} "
            f"rows, {self.positives:,} positives); {self._metric} here is {self.value:.3g}, and "
            f"{self._flagged()}."
        )
        if self.plain is not None and self.value is not None and self.plain - self.value > 5e-3:
            text += (
                f" The promise costs {self.plain - self.value:.3g} of {self._metric}; 4 times as "
                f"many rows ({4 * self.rows:,}) would about halve that."
            )
        return text

    def _repr_html_(self) -> str:
        threshold = "none" if self.threshold is None else f"{self.threshold:.4g}"
        rows = [["threshold", threshold], ["confidence", f"{self.confidence:g}"]]
        rows.append(["calibration rows", f"{self.rows:,} ({self.positives:,} positives)"])
        return f"<p>{escape(self, 1000)}</p>{html_table([self.goal, ''], rows)}"

    @property
    def _metric(self) -> str:
        return self.goal.partition("@")[0]

    def _flagged(self) -> str:
        assert self.alerts is not None
        if self.alerts >= 1:
            return "every row is flagged: more positives, or scores that tell more, are needed"
        return f"{100 * self.alerts:.3g} % of the rows are flagged"

    def _words(self) -> str:
        return (
            self.goal.partition("@")[2]
            .replace("&", " and ")
            .replace(">=", " >= ")
            .replace("<=", " <= ")
        )

    def check(
        self, flagged: Sequence[bool] | Floats | Ints, y: Sequence[int] | Ints
    ) -> list[PromiseCheck]:
        """Each promised rate on new labeled rows: ``flagged`` are their decisions.

        >>> kept = promise([3.0, 2.0, 1.0] * 20, [1, 0, 1] * 20, "precision@recall>=0.9")
        >>> [str(c) for c in kept.check([1, 1, 0, 1], [1, 0, 0, 1])]
        ['promised recall >= 0.9; here 1 [0.16, 1]: holds']
        """
        for name, each in (("flagged", flagged), ("y", y)):
            values = np.unique(np.asarray(each))
            if not np.isin(values, (0, 1)).all():
                raise ValueError(
                    f"{name} must hold 0 and 1 only, got {values[:3].tolist()}. Compare with the "
                    f"positive class: {name} = ({name} == model.classes_[1])."
                )
        decided, labels = np.asarray(flagged, dtype=bool), np.asarray(y, dtype=bool)
        where = Meeting.parse(self.goal.partition("@")[2])
        return [_checked(c, decided, labels) for c in where.constraints]

    def packed(self) -> Settings:
        """As plain data, for a file."""
        return asdict(self)

    @classmethod
    def unpacked(cls, data: Settings) -> Promise:
        """The inverse of ``packed``; raises ValueError for anything else."""
        if set(data) != {f.name for f in fields(cls)}:
            raise ValueError("a promise in the file is malformed.")
        bound = data["bound"]
        return cls(**{**data, "bound": tuple(bound) if isinstance(bound, list) else bound})


class PromiseCheck(NamedTuple):
    """A promised rate on new rows, with its 95 % interval, and whether the promise holds there."""

    constraint: str
    rate: float
    low: float
    high: float
    verdict: str  # "holds", "missed, within chance" or "broken"

    def __str__(self) -> str:
        constraint = self.constraint.replace(">=", " >= ").replace("<=", " <= ")
        interval = f"[{self.low:.2g}, {self.high:.2g}]"
        return f"promised {constraint}; here {self.rate:.3g} {interval}: {self.verdict}"


@torch.no_grad()
def promise(
    scores: TensorLike,
    target: TensorLike,
    metric: MetricLike,
    *,
    confidence: float = 0.95,
    task: str = "binary",
    from_logits: bool | None = None,
    sample_weight: Weights = None,
    joint: bool = False,
) -> Promise | list[Promise]:
    """The best threshold that keeps the constraint of ``metric`` on new rows; of labels, a list.

    Args:
        scores: of rows that the model has not seen, logits, or probabilities with
            ``from_logits=False``, as in ``evaluate``.
        target: their labels, 0 and 1.
        metric: a metric at a constraint: ``"precision@recall>=0.9"``, ``"recall@fpr<=0.01"``,
            ``"recall@alerts<=200/10000"``, ``"f1@recall>=0.8&fpr<=0.01"``, or ``At``.
        confidence: the probability with which the constraint is kept, at least; of two
            constraints, that both are kept.
        joint: keep the constraints of all labels together, instead of those of each label.

    >>> random = np.random.default_rng(0)
    >>> y = random.random(2000) < 0.1
    >>> kept = promise(random.normal(size=2000) + 2 * y, y, "precision@recall>=0.8")
    >>> kept.rate, kept.bound, kept.positives, round(kept.threshold, 2)
    ('recall', 0.8, 210, 0.7)
    >>> print(promise([2.0, 1.0, 0.0], [1, 1, 0], "precision@recall>=0.95"))
    recall >= 0.95 cannot be promised at 95 % with 2 positives; 59 are the least.
    """
    task = get_task(task)
    goal = promisable(metric).check(task)
    check_number("confidence", confidence, 0, 1)
    problem = arrange(
        scores, target, task=task, from_logits=from_logits, sample_weight=sample_weight
    )
    rows = Candidates.of(problem)
    w = problem.weights().expand_as(problem.z).double()
    labels = (t.reshape(-1, t.shape[-1]).numpy() for t in (rows.logits, problem.y.double(), w))
    widths = rows.thresholds.width.reshape(-1, rows.thresholds.width.shape[-1])
    split = rows.scores.reshape(-1, rows.scores.shape[-1])
    level = _level(confidence, len(widths), joint)
    promises = []
    for k, (s, y, weight) in enumerate(zip(*labels, strict=True)):
        promised = _promised(goal.of_label(k), s, y, weight, level, widths[k])
        if promised.logit is not None:
            at = torch.tensor(promised.logit, dtype=torch.float64)
            p = Candidates(rows.thresholds, split[k], rows.logits, rows.from_logits).probabilities(
                at
            )
            promised = replace(promised, threshold=float(p))
        promises.append(replace(promised, confidence=confidence))
    return promises[0] if task.single else promises


def promisable(metric: MetricLike) -> Goal:
    """The goal; raises ValueError unless it has a constraint to promise."""
    goal = thresholded(metric)
    if not isinstance(goal.where, Meeting):
        raise ValueError(
            f"metric {goal.name!r} has no constraint to promise. Use one such as "
            f"'{goal.metric.key}@recall>=0.9'."
        )
    return goal


def check_confidence(confidence: object, metric: MetricLike, threshold: object) -> None:
    """Raise ValueError unless a tuned threshold of the metric can be promised so surely."""
    check_number("confidence", confidence, 0, 1)
    promisable(metric)
    if not isinstance(threshold, str):
        raise ValueError(
            f"confidence is of a tuned threshold: threshold='tuned', got {threshold!r}."
        )


class PromiseWarning(UserWarning):
    """A constraint cannot be promised, or the rows that it is promised on repeat each other."""


def promised_decision(
    decision: Decision,
    goal: Goal,
    scores: Floats,
    y: Ints,
    w: Floats,
    confidence: float,
    *,
    exact: bool,
) -> Decision:
    """The decision that keeps the constraint of ``goal``, with its promises. A label for which
    nothing can be promised keeps the threshold of ``decision``, with a warning."""
    promises = promises_of(promisable(goal), scores, y, w, confidence, exact=exact)
    logits = decision.logit.reshape(-1).copy()
    for k, one in enumerate(promises):
        if one.logit is not None:
            logits[k] = one.logit
            continue
        label = "" if len(promises) == 1 else f"label {k}: "
        warn_user(
            f"{label}{one} The threshold is the best one for these rows, without a promise.",
            PromiseWarning,
        )
    return replace(
        decision,
        logit=logits.reshape(decision.logit.shape),
        promises=tuple(promises),
    )


def promises_of(
    goal: Goal, scores: Floats, y: Ints, w: Floats, confidence: float, *, exact: bool
) -> list[Promise]:
    """Promises for logits ``(n,)`` or ``(n, labels)``, one for each column."""
    columns = scores.reshape(len(scores), -1).T, y.reshape(len(y), -1).T
    return [
        replace(p, exact=p.exact and exact)
        for k, (s, t) in enumerate(zip(*columns, strict=True))
        for p in [_promised(goal.of_label(k), s, t, w, confidence)]
    ]


def _level(confidence: float, labels: int, joint: bool) -> float:
    """The confidence of each label."""
    return 1 - (1 - confidence) / labels if joint else confidence


# --- one label ------------------------------------------------------------------------------------


def _promised(
    goal: Goal, s: Floats, y: Floats | Ints, w: Floats, confidence: float, width: object = None
) -> Promise:
    """The promise of one label, from logits."""
    assert isinstance(goal.where, Meeting)
    some = w > 0
    rows, positives = int(some.sum()), int((some & (y > 0)).sum())
    constraints = goal.where.constraints
    bounds = tuple(c.bound for c in constraints)
    none = Promise(
        goal.name,
        None,
        confidence,
        "&".join(c.rate for c in constraints),
        bounds[0] if len(bounds) == 1 else bounds,
        rows,
        positives,
        exact=len(np.unique(w[some])) <= 1,
    )
    if not rows:
        return replace(none, reason=f"{none._words()} cannot be promised without rows.")
    z, t, weight = (torch.from_numpy(np.ascontiguousarray(a, np.float64)) for a in (s, y, w))
    z = torch.where(weight > 0, z, float("inf"))
    place, gap, counts = all_thresholds(z, t, weight, BINARY)
    usable = gap > 0 if width is None else torch.as_tensor(width) > 0
    sums = sums_at_thresholds(z, t, weight, place, counts)
    each = 1 - (1 - confidence) / len(constraints)
    allowed_by = [kept_thresholds(c, sums, each, usable.numpy(), rows) for c in constraints]
    allowed = usable & torch.from_numpy(np.logical_and.reduce(allowed_by))
    plain = float(goal.at_thresholds(counts, usable).max())
    if not allowed.any():
        reason, needed = _refusal(none, constraints, sums, each, allowed_by, goal, counts, usable)
        return replace(none, reason=reason, needed=needed, plain=plain)
    values = torch.where(allowed, goal.metric(counts).nan_to_num(-np.inf), -np.inf)
    best = pick(values, place, torch.where(allowed, gap, 0.0))
    logit = float(place[best])
    return replace(
        none,
        threshold=float(expit(logit)),
        logit=logit,
        value=float(values[best]),
        plain=plain,
        alerts=float(counts.predicted[best] / counts.total[best]),
    )


# --- what cannot be promised ----------------------------------------------------------------------


def _refusal(
    none: Promise,
    constraints: Sequence[Constraint],
    sums: Sums,
    confidence: float,
    allowed_by: list[np.ndarray],
    goal: Goal,
    counts: Confusion,
    usable: torch.Tensor,
) -> tuple[str, int | None]:
    """Why nothing can be promised, and the rows that are needed."""
    at = _percent(none.confidence)
    for constraint, mask in zip(constraints, allowed_by, strict=True):
        if mask[usable.numpy()].any():
            continue
        words = constraint.text.replace(">=", " >= ").replace("<=", " <= ")
        if constraint.rate == "precision":
            return _precision_refusal(none, constraint, sums, confidence, goal, counts, usable)
        noun = {"recall": "positives", "alerts": "rows"}.get(constraint.rate, "negatives")
        there = {"positives": none.positives, "rows": none.rows}.get(
            noun, none.rows - none.positives
        )
        needed = needed_rows(constraint, confidence, none.rows)
        if needed is None:
            return f"{words} cannot be promised with any number of {noun}.", None
        effective = "" if none.exact else f" (as {sums.n[constraint.rate]:.3g} of equal weight)"
        return (
            f"{words} cannot be promised at {at} with {there:,} {noun}{effective}; {needed:,} are "
            "the least."
        ), needed
    words = none._words()
    return f"{words} cannot be promised together at {at}: no threshold keeps both.", None


def _precision_refusal(
    none: Promise,
    constraint: Constraint,
    sums: Sums,
    confidence: float,
    goal: Goal,
    counts: Confusion,
    usable: torch.Tensor,
) -> tuple[str, int | None]:
    at, bound = _percent(none.confidence), constraint.bound
    if bound >= 1:
        return "precision >= 1 cannot be promised with any number of rows.", None
    alone = replace(goal, where=Meeting((constraint,)))
    best = int(alone.at_thresholds(counts, usable).argmax())
    assert isinstance(alone.where, Meeting)
    words = alone.where.violation(goal.metric, counts.map(lambda t: t[best]))
    if words or not none.positives:
        return f"{words or 'there are no positives'}: it cannot be promised at {at}.", None
    flagged = usable.numpy() & (sums.flagged > 0)
    n = sums.n_flagged[flagged]
    precision = sums.tp[flagged] / sums.flagged[flagged]
    factor = 1.0
    while factor < 1e6:  # until a test of as many more rows of the same precision would reject
        k = precision * n * factor
        p = betainc(np.maximum(k, 1e-9), n * factor - k + 1, bound)
        if (p[k > 0] <= (1 - confidence) * CALIBRATED).any():
            break
        factor *= 1.05
    needed = ceil(none.rows * max(factor, 1.05))
    return (
        f"precision >= {bound:g} cannot be promised at {at} with {none.rows:,} rows; about "
        f"{needed:,} rows like these are needed."
    ), needed


# --- new rows -------------------------------------------------------------------------------------


def rate_rows(rate: str, flagged: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the rows that a rate is of, and of those among all rows that count for it."""
    of = {"recall": y, "precision": flagged, "alerts": np.ones_like(y)}.get(rate, ~y)
    hit = {"recall": flagged, "precision": y, "specificity": ~flagged}.get(rate, flagged)
    return of, hit & of


def exact_intervals(k: Ints, n: Ints, level: float | Floats) -> tuple[Floats, Floats]:
    """The intervals of rates of which ``k`` of ``n`` were seen (Clopper and Pearson 1934).

    >>> low, high = exact_intervals(np.array([10, 0]), np.array([10, 0]), 0.95)
    >>> low.round(3).tolist(), high.tolist()
    ([0.692, 0.0], [1.0, 1.0])
    """
    tail = (1 - np.asarray(level)) / 2
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, tail), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail), 1.0)
    return low, high


def _checked(constraint: Constraint, flagged: np.ndarray, y: np.ndarray) -> PromiseCheck:
    of, hit = rate_rows(constraint.rate, flagged, y)
    k, n = int(hit.sum()), int(of.sum())
    low, high = (float(end) for end in exact_intervals(np.array(k), np.array(n), _LEVEL))
    bound = constraint.bound / (constraint.rows or len(y)) if constraint.rows is not None else None
    bound = constraint.bound if bound is None else bound
    rate = k / n if n else float("nan")
    sign = RATES[constraint.rate][0]
    end = high if sign > 0 else low
    if not n:
        verdict = "no rows to tell"
    elif sign * (rate - bound) >= 0:
        verdict = "holds"
    else:
        verdict = "missed, within chance" if sign * (end - bound) >= 0 else "broken"
    return PromiseCheck(constraint.text, rate, low, high, verdict)


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.4g} %"
