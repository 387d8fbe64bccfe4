"""Training: the soft metric and the hard one, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softset.comparison.result import TrainingHistory
from softset.report.context import Content, Page
from softset.report.drawing import Axis, Plot, area, nice_ticks

ID, GROUP = "training", ""
TITLE = "Training: soft and hard metric"


def content(page: Page) -> Content | None:
    """The values of the template; all panels have the same axes."""
    baselines = {c.id for c in page.comparison.candidates if c.family == "baseline"}
    drawn: dict[str, TrainingHistory] = {}
    # Those trained for the metric first; one fit may serve two candidates, and is shown once.
    for key, history in sorted(
        page.comparison.history.items(), key=lambda item: item[0] in baselines
    ):
        if _can_be_drawn(history) and history not in drawn.values():
            drawn[key] = history
    if not drawn:
        return None
    pictures = _pictures(list(drawn.values()), page.metric)
    return {
        "metric": page.metric,
        "panels": [
            {"name": page.names[key], "svg": picture, "words": _last_epoch(history)}
            for (key, history), picture in zip(drawn.items(), pictures, strict=True)
        ],
        "has_baselines": any(key in baselines for key in drawn),
        "has_phases": any(len(history.phases) > 1 for history in drawn.values()),
        "has_soft": any(v is not None for h in drawn.values() for v in h.soft),
    }


def _can_be_drawn(history: TrainingHistory) -> bool:
    values = [v for v in (*history.soft, *history.hard) if v is not None]
    return len(history.epoch) > 1 and bool(values)


def _last_epoch(history: TrainingHistory) -> str:
    soft, hard = history.soft[-1], history.hard[-1]
    if soft is None or hard is None:
        return ""
    return f"Last epoch: soft {soft:.3f}, hard {hard:.3f}."


def _pictures(histories: Sequence[TrainingHistory], metric: str) -> list[str]:
    """Soft and hard metric on validation rows by epoch, and the gap between them: a picture for
    each history, all with the same axes."""
    epochs = Axis(1.0, float(max(2, *(h.epoch[-1] for h in histories))))
    points = [v for h in histories for v in (*h.soft, *h.hard) if v is not None]
    values = Axis.around(points, least=0.02)
    epochs_shown = [t for t in nice_ticks(epochs.low, epochs.high) if t == int(t)]
    pictures = []
    for history in histories:
        plot = Plot(
            f"soft and hard {metric} by epoch",
            height=190,
            x=epochs,
            y=values,
            x_ticks=[(t, f"{t:.0f}") for t in epochs_shown],
            x_name="epoch",
            left=11.0,
        )
        _draw_history(plot, history)
        pictures.append(str(plot))
    return pictures


def _draw_history(plot: Plot, history: TrainingHistory) -> None:
    curves = (history.epoch, history.soft, history.hard)
    epochs, soft, hard = (np.array(c, dtype=np.float64) for c in curves)  # NaN for None
    if np.isfinite(soft).all() and np.isfinite(hard).all():
        x, most = plot.x(epochs), max(1, len(epochs) // 300)
        plot.shape(area(x[::most], plot.y(soft)[::most], plot.y(hard)[::most]), "gap")
    for name, start in history.phases[1:]:
        plot.upright(start, "phase")
        side = "end" if plot.x(start) > 0.6 else "start"
        shift = -5 if side == "end" else 5
        plot.text(start, plot.y.low, name, f"tick named {side}", dx=shift, dy="-0.5em")
    plot.curve(epochs, soft, "soft")
    plot.curve(epochs, hard, "ours")
