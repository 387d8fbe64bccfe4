"""The operating point: what the winner reaches under the constraint, and under others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from softset import formats
from softset.comparison.operating import point_at
from softset.comparison.result import point_in_words
from softset.counting.cells import Confusion
from softset.metrics.costs import Cost
from softset.metrics.goals import Goal
from softset.metrics.meeting import RATES, Meeting
from softset.report.context import Content, Page, known_goal

if TYPE_CHECKING:
    from softset.report.operating import Side

ID, GROUP = "frontier", ""
TITLE = "Operating point and alternatives"
# Bounds that are shown beside the one that was asked for.
_AT_LEAST = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
_AT_MOST = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
_PER = 10_000  # rows


def content(page: Page) -> Content | None:
    """The values of the template; None for a goal without a constraint."""
    costs = page.comparison.costs
    if costs is not None:
        rules = [
            {"name": name, "asked": k == 0, "money": formats.count(mean * _PER)}
            for k, (name, mean) in enumerate(costs.rules.items())
        ]
        return {"rules": rules, "word": costs.word, "per": formats.count(_PER)}
    goal = known_goal(page.comparison.metric)
    views = page.operating.views
    if goal is None or not views or not page.operating.has_slider:
        return None
    if isinstance(goal.metric, Cost) and len(views) == 1:
        return {"money": _money(goal.metric, views[0].sides[0]), "per": formats.count(_PER)}
    if not isinstance(goal.where, Meeting) or len(views) > 1:
        return None
    side = views[0].sides[0]
    _, counts = side.scores.at_every_score
    chosen = _best(goal, counts)
    rate = goal.where.constraints[0].rate
    rows = []
    for where in _alternatives(goal.where, side.scores.total):
        other = replace(goal, where=where)
        at = _best(other, counts)
        point = point_at(other, at)
        more = float(at.predicted - chosen.predicted) / side.scores.total * _PER
        rows.append(
            {
                "asked": where == goal.where,
                "constraint": " and ".join(c.text for c in where.constraints),
                "metric": formats.number(point.metric) if not point.broken else "not reached",
                "rate": formats.number(point.rates[rate]),
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
        "money": None,
        "metric": page.metric.partition("@")[0],
        "rate": rate,
        "rows": rows,
        "per": formats.count(_PER),
        "name": page.names[page.shown[0]],
        "fixed": point_words,
        "promise": formats.shorten(page.comparison.promise, 600),
        "held_out": page.held_out,
    }


def _money(metric: Cost, side: Side) -> list[Content]:
    """Costs (or profits) per so many rows: at the model's threshold and at others."""
    _, counts = side.scores.at_every_score
    best = counts.map(lambda t: t[int(torch.argmax(metric(counts)))])
    at = side.scores.confusion(np.array([side.threshold, 0.5]))
    choices = {
        f"the model's threshold, {formats.threshold(side.threshold)}": at.map(lambda t: t[0]),
        "default threshold, 0.5": at.map(lambda t: t[1]),
        "best threshold for these rows": best,
        "flag every row": counts.map(lambda t: t[0]),
        "flag no row": counts.map(lambda t: t[-1]),
    }
    return [
        {
            "name": name,
            "asked": k == 0,
            "word": metric.word,
            "money": formats.count(metric.sign * float(metric(c)) * _PER),
            "alerts": formats.count(float(c.predicted) / side.scores.total * _PER),
            "missed": formats.count(float(c.fn) / side.scores.total * _PER),
        }
        for k, (name, c) in enumerate(choices.items())
    ]


def _alternatives(where: Meeting, total: float) -> list[Meeting]:
    """The constraints, and others with the first of them changed, from the least bound on."""
    first, *others = where.constraints
    bound = first.bound if first.rows is None else first.bound / (first.rows or total)
    usual = _AT_LEAST if RATES[first.rate][0] > 0 else _AT_MOST
    each = {b: replace(first, bound=b, rows=None) for b in usual} | {bound: first}
    return [Meeting((each[b], *others)) for b in sorted(each)]


def _best(goal: Goal, counts: Confusion) -> Confusion:
    """The counts at the best of all thresholds."""
    index = int(torch.argmax(goal.where.value(goal.metric, counts)))
    return counts.map(lambda t: t[index])


def _more(alerts: float) -> str:
    if round(alerts) == 0:
        return ""
    return f"{formats.count(abs(alerts))} {'more' if alerts > 0 else 'fewer'}"
