"""Paper 004, figures 2 to 7: how networks converge, and how closely a loss follows its score."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from softset.decisions.evaluation import evaluate
from softset.metrics.formulas import FBeta
from softset_papers.judging import the_same
from softset_papers.kinds.context import Context
from softset_papers.kinds.images import parts_of
from softset_papers.networks.images import recipe_for, scores_of, train_image_network

POINTS = ("loss", "score", "f1 train", "f1 validation", "accuracy test")


def curve_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train a row for all its epochs; after each, its loss and score on the training images.

    The loss is that of all training images together, in the mode for evaluation and without
    augmentation; the score is F-beta with the loss's own beta. Their correlation over the epochs
    is a number for what figures 3, 4, 6 and 7 show.
    """
    options = run["options"]
    parts = parts_of(run, context.data_dir)
    score = FBeta(options.get("beta", 1.0))
    loss: Any = recipe_for(options, parts.train.y, parts.classes)
    curves: list[dict[str, list[float]]] = []
    for seed in run["seeds"]:
        curve: dict[str, list[float]] = {name: [] for name in POINTS}
        curves.append(curve)

        def look(model: nn.Module, curve: dict[str, list[float]] = curve) -> None:
            train, validation, test = (scores_of(model, p.x) for p in parts[:3])
            with torch.no_grad():
                value = float(loss(train, parts.train.y))
            found = (
                value,
                evaluate(train, parts.train.y, score, from_logits=True),
                evaluate(train, parts.train.y, "f1", from_logits=True),
                evaluate(validation, parts.validation.y, "f1", from_logits=True),
                evaluate(test, parts.test.y, "accuracy", from_logits=True),
            )
            for name, number in zip(POINTS, found, strict=True):
                curve[name].append(round(number, 5))

        train_image_network(parts, options, seed, look)
    return {"values": the_same(curve_values(curves)), "curves": curves}


def curve_values(curves: list[dict[str, list[float]]]) -> dict[str, list[Any]]:
    """For each repeat where its curves end, and how the loss follows the score.

    Pearson's correlation and that of ranks, over all epochs and without the first, whose loss is
    that of a network that knows nothing and can make the correlation alone.
    """
    values: dict[str, list[Any]] = {name: [c[name][-1] for c in curves] for name in POINTS[2:]}
    for name, start in (("", 0), (" after epoch 1", 1)):
        pairs = [(c["loss"][start:], c["score"][start:]) for c in curves]
        values[f"correlation{name}"] = [correlation(a, b) for a, b in pairs]
        values[f"rank correlation{name}"] = [correlation(ranks(a), ranks(b)) for a, b in pairs]
    return values


def correlation(a: list[float], b: list[float]) -> float | None:
    """Pearson's; None where one of the two does not move, or has one value: it is undefined.

    >>> correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]), correlation([1.0, 2.0], [0.5, 0.5])
    (-1.0, None)
    """
    if len(a) < 2:
        return None
    x, y = np.asarray(a) - fmean(a), np.asarray(b) - fmean(b)
    size = float(np.sqrt((x @ x) * (y @ y)))
    return round(float(x @ y) / size, 4) if size > 1e-12 else None


def ranks(values: list[float]) -> list[float]:
    """From 0 on, equal values at their mean rank."""
    a = np.asarray(values)
    return [float((a < v).sum() + ((a == v).sum() - 1) / 2) for v in a]
