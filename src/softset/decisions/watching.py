"""Does a rate still hold? Tests and intervals that stay valid however often one looks.

A rate is *broken* by evidence: the factor by which a bettor has multiplied a stake that loses on
average as long as the rate holds (a *betting test*, or e-process: Shafer 2021; Waudby-Smith and
Ramdas 2024). It exceeds ``1 / alpha`` at any look with probability ``alpha`` at most (Ville 1939),
whatever the number of looks. The bet at each row is the likelihood ratio of a worse rate.

A cumulative mean hides a late fall. So a part of the stake, ``1 / (s (s + 1))``, enters at look
``s``: the sum is a test that can start late, and its largest term says since when.

What was broken can get better: from the look after the alarm on, the same test asks whether errors
are fewer than they were while it was broken, and then the first test begins anew. A rate that
always holds is called broken no more often by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softset.decisions.promises import exact_intervals
from softset.typing import Floats, Ints

# Odds of an error, relative to those that are allowed, on which the stake is spread.
_ODDS = np.array([1.25, 1.5, 2.0, 3.0, 5.0, 10.0])


def log_evidence(errors: Ints, rows: Ints, allowed: float) -> Floats:
    """The logarithm of the evidence, at each look, that more than ``allowed`` of the rows are
    errors; ``errors`` and ``rows`` are those of each look.

    >>> looks = np.full(30, 20)
    >>> [bool(log_evidence(looks // k, looks, 0.1)[-1] > 3) for k in (10, 4)]
    [False, True]
    """
    factors = _log_factors(errors, rows, allowed)
    numbers = np.arange(1, len(rows) + 1)
    entering = -np.log(numbers * (numbers + 1.0)) - np.log(len(_ODDS))
    stakes, evidence = np.full(len(_ODDS), -np.inf), np.empty(len(rows))
    for t in range(len(rows)):
        stakes = np.logaddexp(stakes, entering[t]) + factors[t]
        # What has not entered yet is still there.
        evidence[t] = np.logaddexp.reduce(stakes, initial=-np.log(t + 2.0))
    return evidence


def likely_start(errors: Ints, rows: Ints, allowed: float, last: int) -> int:
    """The look since which the rate is most likely broken, seen from look ``last``."""
    factors = _log_factors(errors, rows, allowed)[: last + 1]
    return int(np.argmax(np.logaddexp.reduce(np.cumsum(factors[::-1], axis=0), axis=1)[::-1]))


def _log_factors(errors: Ints, rows: Ints, allowed: float) -> Floats:
    """The likelihood ratio of each look ``(looks, alternatives)``, as a logarithm."""
    allowed = min(max(allowed, 1e-9), 1 - 1e-9)
    odds = _ODDS * allowed / (1 - allowed)
    worse = odds / (1 + odds)
    wrong, right = np.asarray(errors)[:, None], (np.asarray(rows) - errors)[:, None]
    return wrong * np.log(worse / allowed) + right * np.log((1 - worse) / (1 - allowed))


def crossing(evidence: Floats, alpha: float) -> int | None:
    """The first look at which the logarithm of evidence reaches ``1 / alpha``."""
    above = np.flatnonzero(evidence >= -np.log(alpha))
    return int(above[0]) if len(above) else None


@dataclass(frozen=True)
class Episode:
    """A rate is broken since the look ``since``, which was found at the look ``found``, both by
    number; it is better since ``until``, which was found at ``back``, None if it is not."""

    since: int
    found: int
    until: int | None = None
    back: int | None = None


def episodes(errors: Ints, rows: Ints, allowed: float, alpha: float) -> list[Episode]:
    """When more than ``allowed`` of the rows are errors, and when no longer.

    >>> bad, looks = np.repeat([1, 5, 1], 20), np.full(60, 20)
    >>> episodes(bad, looks, 0.1, 0.05)
    [Episode(since=20, found=25, until=40, back=44)]
    """
    each: list[Episode] = []
    start = 0
    while start < len(rows):
        found = crossing(log_evidence(errors[start:], rows[start:], allowed), alpha)
        if found is None:
            break
        since = start + likely_start(errors[start:], rows[start:], allowed, found)
        found += start
        better = _recovery(errors[since:], rows[since:], allowed, found + 1 - since, alpha)
        if better is None:
            return [*each, Episode(since, found)]
        until, back = since + better[0], since + better[1]
        each.append(Episode(since, found, until, back))
        start = back + 1
    return each


def _recovery(
    errors: Ints, rows: Ints, allowed: float, start: int, alpha: float
) -> tuple[int, int] | None:
    """From look ``start`` on: since when, and at which look it is found, that errors are fewer than
    before. A bet that starts at a look is against the least rate that looks until then allow."""
    k, n = (np.cumsum(a)[start - 1 : -1] for a in (errors, rows))
    odds = _ODDS[0] * allowed / (1 - allowed)
    least = np.maximum(exact_intervals(k, n, 1 - alpha)[0], odds / (1 + odds))
    right, rows = (rows - errors)[start:], rows[start:]
    looks = np.arange(len(rows))
    grown = np.full((len(rows), len(rows)), -np.inf)
    for s in looks:
        factors = np.cumsum(_log_factors(right[s:], rows[s:], 1 - least[s]), axis=0)
        grown[s, s:] = np.logaddexp.reduce(factors, axis=1) - np.log(len(_ODDS))
    entering = np.log((looks + 1) * (looks + 2.0))
    evidence = np.logaddexp.reduce(np.vstack([grown - entering[:, None], -np.log(looks + 2.0)]))
    back = crossing(evidence, alpha)
    return None if back is None else (start + int(np.argmax(grown[:, back])), start + back)


@dataclass(frozen=True)
class WatchedRate:
    """A rate over looks: ``hits`` of ``rows`` at each. ``bound`` is tested, with ``sign`` 1 for at
    least and -1 for at most; None without a test. ``episodes`` are when it was broken."""

    name: str
    hits: list[int]
    rows: list[int]
    low: list[float]
    high: list[float]
    bound: float | None = None
    sign: int = 1
    promised: bool = False
    evidence: list[float] | None = None
    episodes: list[Episode] = field(default_factory=list)

    @property
    def since(self) -> int | None:
        """The look since which it is broken, by number; None if it is not, or not any more."""
        last = self.episodes[-1:]
        return last[0].since if last and last[0].until is None else None

    @property
    def found(self) -> int | None:
        """The look at which that was found."""
        return None if self.since is None else self.episodes[-1].found

    def broken_at(self, look: int) -> bool:
        """Whether it was broken at that look, as far as is known now."""
        return any(e.since <= look and (e.until is None or look < e.until) for e in self.episodes)

    @property
    def values(self) -> list[float]:
        """The rate at each look, NaN without rows."""
        pairs = zip(self.hits, self.rows, strict=True)
        return [k / n if n else float("nan") for k, n in pairs]

    @property
    def constraint(self) -> str:
        """``recall >= 0.9``."""
        if self.bound is None:
            return self.name
        return f"{self.name} {'>=' if self.sign > 0 else '<='} {self.bound:.3g}"

    def mean(self, first: int = 0, end: int | None = None) -> float:
        """The rate of all looks from ``first`` on, before ``end``."""
        n = sum(self.rows[first:end])
        return sum(self.hits[first:end]) / n if n else float("nan")


def watched_rate(
    name: str,
    hits: Sequence[int] | Ints,
    rows: Sequence[int] | Ints,
    *,
    alpha: float,
    bound: float | None = None,
    sign: int = 1,
    promised: bool = False,
) -> WatchedRate:
    """A rate with its intervals, and the test of its bound at the false-alarm rate ``alpha``.

    >>> week = watched_rate("recall", [9] * 5 + [3] * 5, [10] * 10, alpha=0.05, bound=0.8)
    >>> week.found, week.since
    (6, 5)
    """
    k, n = np.asarray(hits, dtype=np.int64), np.asarray(rows, dtype=np.int64)
    low, high = look_intervals(k, n, alpha)
    if bound is None:
        return WatchedRate(name, k.tolist(), n.tolist(), low, high)
    errors, allowed = (n - k, 1 - bound) if sign > 0 else (k, bound)
    evidence = log_evidence(errors, n, allowed)
    return WatchedRate(
        name,
        k.tolist(),
        n.tolist(),
        low,
        high,
        bound,
        sign,
        promised,
        evidence.tolist(),
        episodes(errors, n, allowed, alpha),
    )


def look_intervals(k: Ints, n: Ints, alpha: float) -> tuple[list[float], list[float]]:
    """The interval of the rate at each look; all of them hold together with probability
    ``1 - alpha``, however many looks there are: look ``t`` may miss with ``alpha / (t (t + 1))``.
    """
    t = np.arange(1, len(n) + 1)
    low, high = exact_intervals(k, n, 1 - alpha / (t * (t + 1.0)))
    return low.tolist(), high.tolist()


# --- without labels -------------------------------------------------------------------------------


def drift_evidence(above: Ints, rows: Ints, expected: Floats, reference_rows: float) -> Floats:
    """Evidence that rates ``above / rows`` (``above (tests, looks)``) are not the ``expected`` of
    the reference: one test, the mean over rates and both sides.

    What holds is an interval around the expected rate: its own uncertainty, and odds that differ
    by ``_TOLERATED``, as the model that predicts is not one of those that gave the reference.
    """
    each = [
        log_evidence(errors, rows, allowed)
        for hits, rate in zip(above, expected, strict=True)
        for errors, allowed in _sides(hits, rows, float(rate), reference_rows)
    ]
    evidence: Floats = np.logaddexp.reduce(np.stack(each), axis=0) - np.log(len(each))
    return evidence


def drift_start(above: Ints, rows: Ints, expected: Floats, reference_rows: float, last: int) -> int:
    """The look since which scores have most likely drifted, seen from look ``last``."""
    best, start = -np.inf, last
    for hits, rate in zip(above, expected, strict=True):
        for errors, allowed in _sides(hits, rows, float(rate), reference_rows):
            value = log_evidence(errors, rows, allowed)[last]
            if value > best:
                best, start = value, likely_start(errors, rows, allowed, last)
    return start


_TOLERATED, _SURE = 1.25, 0.999


def tolerated(rate: float, reference_rows: float) -> tuple[float, float]:
    """The rates that are taken for the expected one."""
    n = max(1, round(reference_rows))
    low, high = exact_intervals(np.array(round(rate * n)), np.array(n), _SURE)
    return (
        float(low / _TOLERATED / (1 - low + low / _TOLERATED)),
        float(high * _TOLERATED / (1 - high + high * _TOLERATED)),
    )


def _sides(hits: Ints, rows: Ints, rate: float, reference_rows: float) -> list[tuple[Ints, float]]:
    low, high = tolerated(rate, reference_rows)
    return [(hits, high), (rows - hits, 1 - low)]
