"""The page of ``watch``: the answer, a picture of each rate over time, and the looks as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from softset.classifiers.watching import Watch
from softset.decisions.watching import WatchedRate
from softset.formats import shorten
from softset.report.drawing import Axis, Plot, Ticks, area, dots
from softset.report.layout import environment, page
from softset.storage.files import write_safely
from softset.typing import Floats, PathLike

_TICKS, _ROWS = 3, 400
# Evidence that is shown, as powers of 10.
_LEAST, _MOST = -2.0, 6.0


def render_watch(found: Watch, title: str = "") -> str:
    """The page as one HTML text that needs nothing else."""
    rates = [{"rate": r, "picture": rate_picture(found, r)} for r in found.rates if sum(r.rows)]
    pictures = {
        "goal": _goal_picture(found),
        "alerts": [rate_picture(found, r) for r in found.alerts],
        "scores": _evidence_picture(found),
    }
    body = (
        environment()
        .get_template("watch.html")
        .render(
            found=found,
            title=shorten(title, 80),
            rates=rates,
            pictures=pictures,
            looks=_table(found),
            shown=[r for r in (*found.rates, *found.alerts) if sum(r.rows)],
        )
    )
    return page(shorten(f"{title or 'Rows over time'}: softset watch", 160), body)


def write_watch(found: Watch, path: PathLike, title: str = "") -> None:
    """Write the page of ``render_watch``, whole or not at all."""
    text = render_watch(found, title)
    write_safely(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def rate_picture(found: Watch, rate: WatchedRate) -> str:
    """A rate at each look with its interval, its bound, and the look since which it is broken."""
    return _over_time(
        found,
        f"{rate.name} over time",
        np.array(rate.values),
        np.array(rate.low),
        np.array(rate.high),
        rate.bound,
        rate.since,
    )


def _goal_picture(found: Watch) -> str:
    metric = found.goal.partition("@")[0]
    if not found.goal_values or metric in [rate.name for rate in found.rates]:
        return ""
    values = np.array(found.goal_values)
    low = np.array(found.goal_low or found.goal_values)
    high = np.array(found.goal_high or found.goal_values)
    return _over_time(found, f"{found.goal} over time", values, low, high, None, None)


def _over_time(
    found: Watch,
    title: str,
    values: Floats,
    low: Floats,
    high: Floats,
    bound: float | None,
    since: int | None,
) -> str:
    some = np.isfinite(values)
    x, plot = _plot(found, title)
    plot.y = Axis.around([*values[some], *([] if bound is None else [bound])], least=0.2)
    plot.y = Axis(max(0.0, plot.y.low), min(1.0, plot.y.high))
    inside = [np.clip(a[some], plot.y.low, plot.y.high) for a in (low, high)]
    across = plot.x(x[some])
    plot.shape(area(across, *(plot.y(a) for a in inside)), "band")
    if bound is not None:
        plot.curve([plot.x.low, plot.x.high], [bound, bound], "soft")
    plot.curve(x[some], values[some], "ours")
    plot.shape(dots(across, plot.y(values[some])), "curve dots ours")
    if since is not None:
        plot.upright(since, "since")
    return str(plot)


def _evidence_picture(found: Watch) -> str:
    """The evidence against the scores of training, as powers of 10."""
    if found.drift is None:
        return ""
    x, plot = _plot(found, "evidence that scores differ from those of training")
    plot.y = Axis(_LEAST, _MOST)
    plot.y_ticks = [(-2, "0.01"), (0, "1"), (2, "100"), (4, "10⁴"), (6, "10⁶")]
    values = np.clip(np.array(found.drift.evidence) / math.log(10), _LEAST, _MOST)
    limit = -math.log10(found.alpha)
    plot.curve([plot.x.low, plot.x.high], [limit, limit], "soft")
    plot.curve(x, values, "ours")
    if found.drift.since is not None:
        plot.upright(found.drift.since, "since")
    return str(plot)


def _plot(found: Watch, title: str) -> tuple[Floats, Plot]:
    """Positions of the looks, and axes for them."""
    count = len(found.looks)
    plot = Plot(title, height=200, x=Axis(-0.5, count - 0.5), left=10)
    plot.x_ticks = _ticks(found.looks)
    return np.arange(count, dtype=np.float64), plot


def _ticks(looks: Sequence[str]) -> Ticks:
    at = np.unique(np.linspace(0, len(looks) - 1, _TICKS + 2).round().astype(int)[1:-1])
    return [(float(i), looks[i]) for i in at]


def _table(found: Watch) -> list[dict[str, object]]:
    """The last looks: rows, labels, and every rate with its interval."""
    shown = [r for r in (*found.rates, *found.alerts) if sum(r.rows)]
    rows = []
    for t in range(max(0, len(found.looks) - _ROWS), len(found.looks)):
        cells = []
        for r in shown:
            n = r.rows[t]
            text = f"{r.values[t]:.2f} [{r.low[t]:.2f}, {r.high[t]:.2f}]" if n else "–"
            cells.append({"text": text, "broken": r.since is not None and t >= r.since})
        rows.append(
            {"look": found.looks[t], "rows": found.rows[t], "labeled": found.labeled[t]}
            | {"cells": cells}
        )
    return rows
