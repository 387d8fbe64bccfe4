"""The operating point: what the winner reaches under the constraint, and under others."""

from __future__ import annotations

import torch

from softset import formats
from softset.comparison.operating import constrained_rates, point_at
from softset.comparison.result import point_in_words
from softset.counting.cells import Confusion
from softset.metrics.goals import Goal
from softset.metrics.meeting import RATES
from softset.metrics.registry import get_goal
from softset.report.context import Content, Page, known_goal

ID, GROUP = "frontier", ""
TITLE = "Operating point and alternatives"
# Bounds that are shown beside the one that was asked for.
_AT_LEAST = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
_AT_MOST = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
_PER = 10_000  # rows


def content(page: Page) -> Content | None:
    """The values of the template; None for a goal without a constraint."""
    goal = known_goal(page.comparison.metric)
    rates = [] if goal is None else constrained_rates(goal)
    if goal is None or len(rates) != 1 or not page.operating.views:
        return None
    side = page.operating.views[0].sides[0]
    _, counts = side.scores.at_every_score
    chosen = _best(goal, counts)
    asked = formats.number(_bound(goal), 3).rstrip("0").rstrip(".")
    sign = RATES[rates[0]][0]
    rows = []
    for bound in sorted({*(_AT_LEAST if sign > 0 else _AT_MOST), _bound(goal)}):
        other = _with_bound(goal, rates[0], bound)
        at = _best(other, counts)
        point = point_at(other, at)
        more = float(at.predicted - chosen.predicted) / side.scores.total * _PER
        rows.append(
            {
                "asked": bound == _bound(goal),
                "constraint": other.where.suffix.removeprefix("@"),
                "metric": formats.number(point.metric) if not point.broken else "not reached",
                "rate": formats.number(point.rates[rates[0]]),
                "found": formats.percent(float(at.tp / at.support.clamp(min=1))),
                "alerts": formats.count(float(at.predicted) / side.scores.total * _PER),
                "more": _more(more),
            }
        )
    winner = next(c for c in page.comparison.candidates if c.id == page.shown[0])
    point_words = ""
    if winner.operating is not None:
        count = page.comparison.splits.count
        point_words = point_in_words(winner.operating, page.metric, count)
    return {
        "metric": page.metric.partition("@")[0],
        "rate": rates[0],
        "asked": asked,
        "rows": rows,
        "per": formats.count(_PER),
        "name": page.names[page.shown[0]],
        "fixed": point_words,
        "held_out": page.held_out,
    }


def _bound(goal: Goal) -> float:
    return float(goal.where.suffix.rpartition("=")[2].rstrip("%"))


def _with_bound(goal: Goal, rate: str, bound: float) -> Goal:
    """The same metric under another bound."""
    sign = ">=" if RATES[rate][0] > 0 else "<="
    return get_goal(f"{goal.metric.name}@{rate}{sign}{bound:g}")


def _best(goal: Goal, counts: Confusion) -> Confusion:
    """The counts at the best of all thresholds."""
    index = int(torch.argmax(goal.where.value(goal.metric, counts)))
    return counts.map(lambda t: t[index])


def _more(alerts: float) -> str:
    if round(alerts) == 0:
        return ""
    return f"{formats.count(abs(alerts))} {'more' if alerts > 0 else 'fewer'}"
