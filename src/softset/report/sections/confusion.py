"""The confusion matrix: four cells that follow the slider, or one of all classes."""

from __future__ import annotations

import numpy as np

from softset import formats
from softset.decisions.evaluation import evaluate
from softset.formats import shorten
from softset.metrics.registry import METRICS, get_goal, label_of
from softset.report.context import Content, Page
from softset.tasks import MULTICLASS

ID, GROUP = "confusion", "operating"
TITLE = "Confusion matrix"
_CLASSES = 25  # a matrix with more is a wall of numbers
_CONFUSIONS = 15


def content(page: Page) -> Content | None:
    """The values of the template."""
    operating = page.operating
    if not operating.views:
        return None
    if not operating.has_slider:
        return {"matrix": _matrix(page), "held_out": page.held_out}
    start = operating.views[0].sides[0].scores
    return {
        "matrix": None,
        "at": operating.at_start(),
        "values": operating.values_at_start(),
        "areas": [
            {"name": label_of(key), "data": data, "value": start.area(key)}
            for key, data in (("auroc", "auroc"), ("average_precision", "averagePrecision"))
        ],
    }


def _matrix(page: Page) -> Content:
    """Of the winner, and its most frequent confusions."""
    labels = [shorten(c, 60) for c in page.comparison.classes]
    cells = page.counts(page.shown[0]).matrix.numpy()
    fraction = cells / np.maximum(cells.sum(1, keepdims=True), 1)
    # How often classes are taken for each other, off the diagonal.
    wrong = cells - np.diag(np.diag(cells))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_CONFUSIONS]
    pairs = [np.unravel_index(k, cells.shape) for k in order if wrong.flat[k] > 0]
    small = len(labels) <= _CLASSES
    return {
        "name": page.names[page.shown[0]],
        "metrics": _joint_metrics(page),
        "labels": labels,
        "small": small,
        "right": formats.percent(float(np.trace(cells) / max(cells.sum(), 1))),
        "rows": [
            {
                "label": labels[i],
                "cells": [
                    {
                        "count": formats.count(cells[i, j]) if cells[i, j] else "",
                        "fraction": formats.percent(float(fraction[i, j])),
                        "tint": int(np.ceil(10 * fraction[i, j] - 1e-9)),
                        "right": i == j,
                    }
                    for j in range(len(labels))
                ],
            }
            for i in range(len(labels) if small else 0)
        ],
        "pairs": [
            {
                "true": labels[i],
                "predicted": labels[j],
                "count": formats.count(cells[i, j]),
                "fraction": formats.percent(float(fraction[i, j])),
            }
            for i, j in pairs
        ],
    }


def _joint_metrics(page: Page) -> list[dict[str, object]]:
    """Every metric over all classes, for each candidate with predictions."""
    rows: dict[str, list[float]] = {}
    for key in page.shown:
        held_out, counted = page.comparison.predictions[key], page.counts(key)
        for name in METRICS:
            goal = get_goal(name)
            if goal.by_scores:
                p, y = np.asarray(held_out.scores), np.asarray(held_out.target)
                value = evaluate(p, y, goal, task=MULTICLASS, from_logits=False)
            else:
                value = float(goal(counted))
            rows.setdefault(name, []).append(value)
    averaged = {k for k, row in METRICS.items() if len(row.averages) > 1}
    return [
        {"name": f"macro {label_of(k)}" if k in averaged else label_of(k), "numbers": v}
        for k, v in rows.items()
    ]
