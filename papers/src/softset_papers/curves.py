"""Paper 004, figures 2 to 7: how networks converge, and how closely a loss follows its score."""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from softset.decisions.evaluation import evaluate
from softset.metrics.formulas import FBeta
from softset_papers.figures import to_svg
from softset_papers.images import _parts_of, make_recipe, scores_of, train_image_network

BETAS = (0.5, 1.0, 2.0, 3.0)
_POINTS = ("loss", "score", "f1 train", "f1 validation", "accuracy test")


def curve_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """Train a row for all its epochs; after each, its loss and score on the training images.

    The loss is that of all training images together, in the mode for evaluation and without
    augmentation; the score is F-beta with the loss's own beta. Their correlation over the epochs
    is a number for what figures 3, 4, 6 and 7 show.
    """
    options = run["options"]
    parts = _parts_of(run, data_dir)
    score = FBeta(options.get("beta", 1.0))
    loss: Any = make_recipe(options, parts.train.y, parts.classes)
    started = time.process_time()
    curves: list[dict[str, list[float]]] = []
    for seed in run["seeds"]:
        curve: dict[str, list[float]] = {name: [] for name in _POINTS}
        curves.append(curve)

        def look(model: nn.Module, curve: dict[str, list[float]] = curve) -> None:
            train, validation, test = (scores_of(model, p.x) for p in parts[:3])
            with torch.no_grad():
                value = float(loss(train, parts.train.y))
            found = (
                value,
                evaluate(train, parts.train.y, score),
                evaluate(train, parts.train.y, "f1"),
                evaluate(validation, parts.validation.y, "f1"),
                evaluate(test, parts.test.y, "accuracy"),
            )
            for name, number in zip(_POINTS, found, strict=True):
                curve[name].append(round(number, 5))

        train_image_network(parts, options, seed, look)
    values = {name: [c[name][-1] for c in curves] for name in _POINTS[2:]}
    values["correlation"] = [correlation(c["loss"], c["score"]) for c in curves]
    values["rank correlation"] = [
        correlation(_ranks(c["loss"]), _ranks(c["score"])) for c in curves
    ]
    return {
        "values": dict.fromkeys(("fair", "published", "code"), values),
        "curves": curves,
        "cpu": round(time.process_time() - started, 2),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def correlation(a: list[float], b: list[float]) -> float:
    """Pearson's; 0 where one of the two does not move.

    >>> correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    -1.0
    """
    x, y = np.asarray(a) - fmean(a), np.asarray(b) - fmean(b)
    size = float(np.sqrt((x @ x) * (y @ y)))
    return round(float(x @ y) / size, 4) if size > 0 else 0.0


def _ranks(values: list[float]) -> list[float]:
    """From 0 on, equal values at their mean rank."""
    a = np.asarray(values)
    return [float((a < v).sum() + ((a == v).sum() - 1) / 2) for v in a]


def draw_all(records: dict[str, dict[str, Any]]) -> list[str]:
    """Convergence, then loss against score: rows of one loss (before the comma) side by side."""
    found = [draw_curves(records)]
    for loss in ("surrogate", "smoothed"):
        own = {label: r for label, r in records.items() if label.startswith(loss)}
        if own:
            found.append(draw_scatter(own))
    return found


def draw_curves(records: dict[str, dict[str, Any]]) -> str:
    """The SVG of convergence: median over the repeats, a line for each row (by its label).

    Rows of one loss (before the comma) have one kind of line, and the same setting (after it) has
    the same colour.
    """
    losses, settings = ([label.partition(", ")[i] for label in records] for i in (0, 2))
    kinds = dict(zip(dict.fromkeys(losses), ("-", "--", ":", "-."), strict=False))
    colours = {s: f"C{i}" for i, s in enumerate(dict.fromkeys(settings))}

    def paint(page: Any) -> None:
        for axes, name in zip(page.subplots(1, 3), _POINTS[2:], strict=True):
            for loss, setting, result in zip(losses, settings, records.values(), strict=True):
                median = np.median([c[name] for c in result["curves"]], axis=0)
                epochs = range(1, len(median) + 1)
                axes.plot(epochs, median, kinds.get(loss, "-"), color=colours[setting], linewidth=1)
            axes.set(title=name, xlabel="epoch")
        page.legend(axes.lines, list(records), loc="outside right center", fontsize=7)

    return to_svg("curves", (11, 3.2), paint)


def draw_scatter(records: dict[str, dict[str, Any]]) -> str:
    """The SVG of loss against score, a panel for each row: the first repeat, late epochs darker."""

    def paint(page: Any) -> None:
        panels = page.subplots(1, len(records), squeeze=False)[0]
        for axes, (label, result) in zip(panels, records.items(), strict=True):
            first = result["curves"][0]
            r = result["values"]["fair"]["correlation"][0]
            shade = np.linspace(0.15, 1, len(first["loss"]))
            axes.scatter(first["loss"], first["score"], c=shade, cmap="Blues", vmin=0, s=14,
                         edgecolors="0.4", linewidths=0.4)  # fmt: skip
            axes.set(title=f"{label}\nr = {r:.2f}", xlabel="loss", ylabel="score")
            axes.title.set_fontsize(8)

    return to_svg("scatter", (2.5 * len(records), 2.6), paint)
