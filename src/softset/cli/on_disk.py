"""Tables that need not fit into memory: training and prediction block by block."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softset.checks import warn_user
from softset.cli.outputs import say

# The most rows that are held out for the score of a model.
_MOST_HELD = 2**16


@dataclass
class HeldOut:
    """The metric on rows that a model did not see, with its 95 % interval."""

    rows: int
    value: float
    low: float
    high: float


def score_of(model: Any, X: Any, labels: Any, weight: Any = None) -> HeldOut:
    """How good a model is on rows that it has not seen."""
    from softset.decisions.intervals import metric_table

    p, decided = model.predict_both(X)
    y = model.codes(labels)
    if not model.task.independent:
        decided = model.codes(decided)
    p = model.task.positive(p)
    metric = model.classifier.metric
    (row,) = metric_table(p, decided, y, task=model.task, metrics=[metric], sample_weight=weight)
    return HeldOut(len(y), row.value, row.low, row.high)


def train_on_disk(
    rows: Any, metric: str, path: Path, about: dict[str, Any], settings: dict[str, Any]
) -> tuple[Any, HeldOut | None]:
    """Train without a share of the rows, save, and score that share; a network that was stopped
    goes on from the file beside its model."""
    from softset.classifiers.model import train_model
    from softset.classifiers.recipes import RECIPES

    train, test = rows.split(min(0.2, _MOST_HELD / rows.rows))
    is_network = RECIPES[settings["recipe"]].classifier == "MetricMLPClassifier"
    checkpoint = path.with_name(f"{path.name}.checkpoint") if is_network else None
    if checkpoint is not None and checkpoint.exists():
        say(f"softset: note: going on from {checkpoint}")
    model = train_model(train, metric=metric, info=about, checkpoint=checkpoint, **settings)
    model.save(path)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    X, *known = test.table()
    if not len(X):
        return model, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # unseen values have been told of
        return model, score_of(model, X, *known)


def predicted(rows: Any, predict: Callable[[Any], Any]) -> Iterator[Any]:
    """The predictions of each block; what the first blocks with a warning say is passed on, once
    for each kind of warning."""
    told: set[type[Warning]] = set()
    for X, _ in rows:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = predict(X)
        for kind in {one.category for one in caught} - told:
            first = next(one for one in caught if one.category is kind)
            warn_user(f"{first.message} (And maybe in later blocks.)", kind)
            told.add(kind)
        yield found
