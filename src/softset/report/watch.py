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


def render_watch(watched: Watch, title: str = "") -> str:
    """The page as one HTML text that needs nothing else."""
    rates = [{"rate": r, "picture": rate_picture(watched, r)} for r in watched.rates if sum(r.rows)]
    pictures = {
        "goal": _goal_picture(watched),
        "alerts": [rate_picture(watched, r) for r in watched.alerts],
        "scores": _evidence_picture(watched),
    }
    body = (
        environment()
        .get_template("watch.html")
        .render(
            watched=watched,
            title=shorten(title, 80),
            rates=rates,
            pictures=pictures,
            looks=_table(watched),
            shown=[r for r in (*watched.rates, *watched.alerts) if sum(r.rows)],
        )
    )
    return page(shorten(f"{title or 'Rows over time'}: softset watch", 160), body)


def write_watch(watched: Watch, path: PathLike, title: str = "") -> None:
    """Write the page of ``render_watch``, whole or not at all."""
    text = render_watch(watched, title)
    write_safely(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def rate_picture(watched: Watch, rate: WatchedRate) -> str:
    """A rate at each look with its interval, its bound, and since when it is broken, or better."""
    return _over_time(
        watched,
        f"{rate.name} over time",
        np.array(rate.values),
        np.array(rate.low),
        np.array(rate.high),
        rate.bound,
        [look for e in rate.episodes for look in (e.since, e.until) if look is not None],
    )


def _goal_picture(watched: Watch) -> str:
    metric = watched.goal.partition("@")[0]
    if not watched.goal_values or metric in [rate.name for rate in watched.rates]:
        return ""
    values = np.array(watched.goal_values)
    low = np.array(watched.goal_low or watched.goal_values)
    high = np.array(watched.goal_high or watched.goal_values)
    return _over_time(watched, f"{watched.goal} over time", values, low, high, None, [])


def _over_time(
    watched: Watch,
    title: str,
    values: Floats,
    low: Floats,
    high: Floats,
    bound: float | None,
    marked: Sequence[int],
) -> str:
    some = np.isfinite(values)
    x, plot = _plot(watched, title)
    plot.y = Axis.around([*values[some], *([] if bound is None else [bound])], least=0.2)
    plot.y = Axis(max(0.0, plot.y.low), min(1.0, plot.y.high))
    inside = [np.clip(a[some], plot.y.low, plot.y.high) for a in (low, high)]
    across = plot.x(x[some])
    plot.shape(area(across, *(plot.y(a) for a in inside)), "band")
    if bound is not None:
        plot.curve([plot.x.low, plot.x.high], [bound, bound], "soft")
    plot.curve(x[some], values[some], "ours")
    plot.shape(dots(across, plot.y(values[some])), "curve dots ours")
    for look in marked:
        plot.upright(look, "since")
    return str(plot)


def _evidence_picture(watched: Watch) -> str:
    """The evidence against the scores of training, as powers of 10."""
    if watched.drift is None:
        return ""
    x, plot = _plot(watched, "evidence that scores differ from those of training")
    plot.y = Axis(_LEAST, _MOST)
    plot.y_ticks = [(-2, "0.01"), (0, "1"), (2, "100"), (4, "10⁴"), (6, "10⁶")]
    values = np.clip(np.array(watched.drift.evidence) / math.log(10), _LEAST, _MOST)
    limit = -math.log10(watched.alpha)
    plot.curve([plot.x.low, plot.x.high], [limit, limit], "soft")
    plot.curve(x, values, "ours")
    if watched.drift.since is not None:
        plot.upright(watched.drift.since, "since")
    return str(plot)


def _plot(watched: Watch, title: str) -> tuple[Floats, Plot]:
    """Positions of the looks, and axes for them."""
    count = len(watched.looks)
    plot = Plot(title, height=200, x=Axis(-0.5, count - 0.5), left=10)
    plot.x_ticks = _ticks(watched.looks)
    return np.arange(count, dtype=np.float64), plot


def _ticks(looks: Sequence[str]) -> Ticks:
    at = np.unique(np.linspace(0, len(looks) - 1, _TICKS + 2).round().astype(int)[1:-1])
    return [(float(i), looks[i]) for i in at]


def _table(watched: Watch) -> list[dict[str, object]]:
    """The last looks: rows, labels, and every rate with its interval."""
    shown = [r for r in (*watched.rates, *watched.alerts) if sum(r.rows)]
    rows = []
    for t in range(max(0, len(watched.looks) - _ROWS), len(watched.looks)):
        cells = []
        for r in shown:
            n = r.rows[t]
            text = f"{r.values[t]:.2f} [{r.low[t]:.2f}, {r.high[t]:.2f}]" if n else "–"
            cells.append({"text": text, "broken": r.broken_at(t)})
        rows.append(
            {"look": watched.looks[t], "rows": watched.rows[t], "labeled": watched.labeled[t]}
            | {"cells": cells}
        )
    return rows
