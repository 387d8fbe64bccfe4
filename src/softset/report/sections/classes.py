"""Precision, recall and F1 of every class or label."""

from __future__ import annotations

from dataclasses import replace

from softset import formats
from softset.formats import shorten
from softset.metrics.registry import get_metric, label_of
from softset.report.context import PER_CLASS, ROWS, Content, Page
from softset.tasks import get_task

ID, GROUP = "classes", ""
TITLE = "Per {unit}"


def content(page: Page) -> Content | None:
    """The values of the template: of the winner, and the last metric of the other too."""
    if not page.operating.views:
        return None
    labels = [shorten(c, 80) for c in page.comparison.classes][:ROWS]
    counts = [page.counts(key) for key in page.shown]
    values = [
        {key: replace(get_metric(key), average=None)(c).tolist() for key in PER_CLASS}
        for c in counts
    ]
    support, predicted = counts[0].support.tolist(), counts[0].predicted.tolist()
    names = [page.names[key] for key in page.shown]
    return {
        "metrics": {key: label_of(key) for key in PER_CLASS},
        "rows": [
            {
                "label": label,
                "side": "positive" if i == len(labels) - 1 else "negative",
                "support": formats.count(support[i]),
                "predicted": formats.count(predicted[i]),
                "values": {key: formats.number(v[i]) for key, v in values[0].items()},
                "other": formats.number(values[1][PER_CLASS[-1]][i]) if values[1:] else "",
            }
            for i, label in enumerate(labels)
        ],
        "more": max(0, len(page.comparison.classes) - ROWS),
        "unit": page.unit,
        "live": get_task(page.comparison.task).single,
        "name": names[0],
        "other": names[1] if names[1:] else "",
    }
