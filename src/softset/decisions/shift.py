"""Another prevalence: how much of each class there is now, and the threshold for it.

Under *label shift* the classes occur more or less often, and look as they did: scores of each class
keep their distribution. New scores are then a mixture of those of the reference, whose proportions
are estimated by the EM algorithm (Saerens, Latinne and Decaestecker 2002) over bins of scores, and
by the fractions of decisions alone beside it ("black-box shift estimation", Lipton, Wang and Smola
2018). Where the best mixture does not fit, something else has changed: a chi-squared test says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from softset.checks import check_number
from softset.decisions.decision import Decision
from softset.decisions.promises import Promise, promised_decision
from softset.decisions.reference import Reference
from softset.metrics.meeting import Meeting
from softset.tasks import BINARY
from softset.typing import Bools, Floats, Ints, Label, Settings

if TYPE_CHECKING:
    from softset.decisions.tuner import Tuner

Prevalence = float | Sequence[float] | Mapping[Label, float]

# Label shift is rejected below this p-value, if bins differ by more than the least distance too:
# the model that predicts is not quite one of those that gave the out-of-fold scores.
_LEVEL, _LEAST_DISTANCE = 0.01, 0.05
_ITERATIONS = 2000
# New rows that can tell a prevalence, at least.
FEWEST = 20
# Promises of these rates, each of one class alone, do not depend on the prevalence.
_OF_ONE_CLASS = {"recall", "fpr", "specificity"}


class ShiftWarning(UserWarning):
    """Something else than the prevalence has changed."""


@dataclass(frozen=True)
class Shift:
    """A change of prevalence: stated, or estimated from new rows.

    Lists have an element for each class in the order of codes, of two classes and of labels for
    the positive one(s): ``before``, ``after``, its 95 % interval ``low`` and ``high``, and what the
    decisions alone say, ``by_decisions`` (BBSE). ``p_value`` is of label shift, ``distance`` how
    far the bins of scores are from the best mixture (total variation); None where it was stated.
    """

    names: list[str]
    before: list[float]
    after: list[float]
    low: list[float] | None = None
    high: list[float] | None = None
    by_decisions: list[float] | None = None
    rows: int | None = None
    p_value: float | None = None
    distance: float | None = None
    rejected: bool = False

    @property
    def estimated(self) -> bool:
        """Whether it comes from new rows."""
        return self.rows is not None

    def __str__(self) -> str:
        lines = []
        for k, name in enumerate(self.names):
            text = f"prevalence of {name}: {_percent(self.before[k])} -> {_percent(self.after[k])}"
            if self.low is not None and self.high is not None and self.by_decisions is not None:
                text += (
                    f" (95 % interval {_percent(self.low[k])} to {_percent(self.high[k])}; by the "
                    f"decisions alone {_percent(self.by_decisions[k])}; {self.rows:,} rows)"
                )
            lines.append(text)
        if self.rejected:
            lines.append(f"{self._test()}: rejected, something else has changed.")
        elif self.estimated:
            lines.append(f"{self._test()}: not rejected.")
        return "\n".join(lines)

    def packed(self) -> Settings:
        """As plain data, for a file; ``storage.schema.decoded`` is the way back."""
        return asdict(self)

    def _test(self) -> str:
        return (
            f"only the prevalence has changed (label shift): p = {self.p_value:.2g}, distance "
            f"{self.distance:.2g}"
        )


def stated_prior(reference: Reference, prevalence: Prevalence, names: Sequence[Label]) -> Floats:
    """A user's prevalence as fractions ``(columns, classes)``; ``names`` are those of the codes."""
    task = reference.task
    if isinstance(prevalence, Mapping):
        classes = list(names)
        if set(prevalence) != set(classes):
            raise ValueError(
                f"prevalence must have a fraction for each of {', '.join(map(str, classes))}, got "
                f"{', '.join(map(str, prevalence))}."
            )
        prevalence = [float(prevalence[name]) for name in classes]
        prevalence = prevalence[1] if task.single else prevalence
    check_number("prevalence", prevalence, 0, 1, hint="It is a fraction of the rows: 1 % is 0.01.")
    values = np.atleast_1d(np.asarray(prevalence, dtype=np.float64))
    wanted = len(reference.prior) if not task.exclusive else reference.prior.shape[1]
    if values.shape != (wanted,):
        what = "one fraction" if wanted == 1 else f"{wanted} fractions, one for each {task.unit}"
        raise ValueError(f"prevalence must be {what}, got {prevalence!r}.")
    if not task.exclusive:
        return np.column_stack([1 - values, values])
    if abs(values.sum() - 1) > 1e-6:
        raise ValueError(f"prevalence of all classes must add up to 1, got {values.sum():g}.")
    return values[None] / values.sum()


def stated_shift(reference: Reference, prior: Floats, names: Sequence[Label]) -> Shift:
    """The shift to a prevalence that the user states."""
    return Shift(_names(reference, names), _listed(reference.prior), _listed(prior))


def estimated_shift(reference: Reference, scores: Floats, names: Sequence[Label]) -> Shift:
    """The shift that new scores tell, with its interval and the test of label shift."""
    if len(scores) < FEWEST:
        raise ValueError(
            f"X must have at least {FEWEST} rows to estimate a prevalence, got {len(scores)}. Add "
            "rows, or state the prevalence: at_prevalence, --prevalence 0.01."
        )
    columns = range(len(reference.prior))
    each = [_estimate(reference, k, reference.counts_in_bins(k, scores)) for k in columns]
    after, low, high, by_decisions = (
        _listed(np.stack(a)) for a in zip(*(e[:4] for e in each), strict=True)
    )
    p = min(1.0, min(e.p_value for e in each) * len(each))
    distance = max(e.distance for e in each)
    return Shift(
        _names(reference, names),
        _listed(reference.prior),
        after,
        low,
        high,
        by_decisions,
        rows=len(scores),
        p_value=p,
        distance=distance,
        rejected=p < _LEVEL and distance > _LEAST_DISTANCE,
    )


def prior_of(reference: Reference, values: Sequence[float]) -> Floats:
    """Lists of a ``Shift`` as fractions ``(columns, classes)``."""
    fractions = np.asarray(values, dtype=np.float64)
    return (
        fractions[None] if reference.task.exclusive else np.column_stack([1 - fractions, fractions])
    )


def shifted_decision(
    decision: Decision, tuner: Tuner, reference: Reference, shift: Shift
) -> Decision:
    """The decision for the prevalence of ``shift``; without promises where it is rejected."""
    if shift.rejected:
        return replace(decision, promises=())
    prior = prior_of(reference, shift.after)
    if reference.task.exclusive:
        ratio = np.log(np.maximum(prior[0], 1e-9)) - np.log(np.maximum(reference.prior[0], 1e-9))
        return replace(decision, logit=decision.logit + ratio)
    where = tuner.goal.where
    rates = {c.rate for c in where.constraints} if isinstance(where, Meeting) else set()
    if decision.promises and rates <= _OF_ONE_CLASS:
        return decision
    thresholds = decision.logit.reshape(-1).copy()
    promises: list[Promise] = []
    for k in range(len(thresholds)):
        tuner_of_label = replace(tuner, goal=tuner.goal.of_label(k), task=BINARY)
        s, y, w = reference.tuning_rows(k, prior[k])
        decided = Decision(BINARY, thresholds[k])
        if len(np.unique(y)) == 2:
            decided = tuner_of_label.best(s, y, w)
        if decision.promises:
            worst = prior[k]
            if shift.low is not None and shift.high is not None:
                end = shift.high[k] if "alerts" in rates else shift.low[k]
                worst = np.array([1 - end, end])
            s, y, w = reference.tuning_rows(k, worst)
            decided = promised_decision(
                decided, tuner_of_label.goal, s, y, w, decision.promises[k].confidence, exact=False
            )
            promises += decided.promises
        thresholds[k] = float(decided.logit)
    return replace(
        decision,
        logit=thresholds.reshape(decision.logit.shape),
        promises=tuple(promises),
    )


# --- estimation -----------------------------------------------------------------------------------


class _Estimate(NamedTuple):
    """Of one column: the new prior ``(classes,)``, its interval, and the test of label shift."""

    prior: Floats
    low: Floats
    high: Floats
    by_decisions: Floats
    p_value: float
    distance: float


def _estimate(reference: Reference, column: int, counts: Ints) -> _Estimate:
    _, f = reference.bins(column)
    before, rows, n = reference.prior[column], reference.rows[column], counts.sum()
    prior = mixture_proportions(f, counts, before)
    mixture = prior @ f
    # Interval: the information in the new rows, and the variance that the reference adds.
    g = (f[:-1] - f[-1]) / mixture
    inverse = np.linalg.pinv(n * (g * mixture) @ g.T)
    added = sum(
        (prior[j] * n) ** 2 / max(rows[j], 1.0) * (g * f[j] @ g.T - np.outer(g @ f[j], g @ f[j]))
        for j in range(len(f))
    )
    cov = inverse + inverse @ added @ inverse
    cov = np.block([[cov, -cov.sum(1)[:, None]], [-cov.sum(0), cov.sum()]])
    half = norm.ppf(0.975) * np.sqrt(np.maximum(np.diag(cov), 0))
    # Goodness of fit; bins that expect few rows are one.
    noise = n * mixture + (prior**2 / np.maximum(rows, 1.0)) @ f * n**2
    few = n * mixture < 5
    gaps, noise = (_merged(a, few) for a in (counts - n * mixture, noise))
    freedom = max(1, len(gaps) - len(f))
    p = float(chi2.sf((gaps**2 / np.maximum(noise, 1e-300)).sum(), freedom))
    distance = float(np.abs(gaps).sum() / (2 * n))
    return _Estimate(
        prior,
        np.clip(prior - half, 0, 1),
        np.clip(prior + half, 0, 1),
        _by_decisions(reference, f, counts),
        p if len(gaps) > len(f) else 1.0,
        distance,
    )


def mixture_proportions(f: Floats, counts: Ints, start: Floats) -> Floats:
    """The proportions with which the distributions ``f (classes, bins)`` explain ``counts`` best,
    by the EM algorithm.

    >>> f = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> mixture_proportions(f, np.array([550, 450]), np.array([0.9, 0.1])).round(3).tolist()
    [0.5, 0.5]
    """
    prior = np.maximum(start, 1e-3)
    prior, share = prior / prior.sum(), counts / counts.sum()
    for _ in range(_ITERATIONS):
        updated = prior * (f @ (share / (prior @ f)))
        moved = np.abs(updated - prior).max()
        prior = updated
        if moved < 1e-9:
            break
    return prior / prior.sum()


def _by_decisions(reference: Reference, f: Floats, counts: Ints) -> Floats:
    """The proportions by the fractions of decisions alone (BBSE)."""
    if reference.task.exclusive:
        shape = (len(f), len(f), -1)
        rates, seen = f.reshape(shape).sum(2), counts.reshape(shape[1:]).sum(1)
    else:  # at the edge that tells the classes apart best
        best = int(np.argmax(np.abs(np.cumsum(f[0] - f[1]))))
        rates = np.stack([f[:, : best + 1].sum(1), f[:, best + 1 :].sum(1)], 1)
        seen = np.array([counts[: best + 1].sum(), counts[best + 1 :].sum()])
    solution = np.clip(np.linalg.lstsq(rates.T, seen / seen.sum(), rcond=None)[0], 0, 1)
    return solution / max(solution.sum(), 1e-300)


def _merged(values: Floats, few: Bools) -> Floats:
    merged = values[few].sum()
    return np.append(values[~few], merged) if few.any() else values


def _listed(prior: Floats) -> list[float]:
    """Of two classes and labels, the positive one(s); of several classes, all."""
    numbers: list[float] = (prior[:, 1] if prior.shape[1] == 2 else prior[0]).tolist()
    return numbers


def _names(reference: Reference, names: Sequence[Label]) -> list[str]:
    return [str(name) for name in (names[1:] if reference.task.single else names)]


def _percent(fraction: float) -> str:
    return "0 %" if fraction < 1e-6 else f"{100 * fraction:.3g} %"
