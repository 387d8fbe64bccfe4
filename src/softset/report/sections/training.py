"""Training: the soft metric and the hard one, epoch by epoch."""

from __future__ import annotations

from typing import Any

from softset.comparison.result import History
from softset.report import plots
from softset.report.sections.base import Page

ID, GROUP = "training", ""
TITLE = "Training: soft and hard metric"


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads; all panels have the same axes."""
    plain = {c.id for c in page.comparison.candidates if c.family == "plain"}
    kept: dict[str, History] = {}
    # Those trained on the metric first; one fit may serve two candidates, and is shown once.
    for key, history in sorted(page.comparison.history.items(), key=lambda item: item[0] in plain):
        if _can_be_drawn(history) and history not in kept.values():
            kept[key] = history
    if not kept:
        return None
    pictures = plots.training(list(kept.values()), page.metric)
    return {
        "metric": page.metric,
        "panels": [
            {"name": page.names[key], "svg": picture, "words": _last_epoch(history)}
            for (key, history), picture in zip(kept.items(), pictures, strict=True)
        ],
        "some_plain": any(key in plain for key in kept),
        "some_phases": any(len(history.phases) > 1 for history in kept.values()),
        "some_soft": any(v is not None for h in kept.values() for v in h.soft),
    }


def _can_be_drawn(history: History) -> bool:
    known = [v for v in (*history.soft, *history.hard) if v is not None]
    return len(history.epoch) > 1 and bool(known)


def _last_epoch(history: History) -> str:
    soft, hard = history.soft[-1], history.hard[-1]
    if soft is None or hard is None:
        return ""
    return f"Last epoch: soft {soft:.3f}, hard {hard:.3f}."
