"""Tables that need not fit into memory: training and prediction block by block."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from softset.checks import warn_user
from softset.cli.outputs import say
from softset.storage.files import new_file

if TYPE_CHECKING:
    from softset.classifiers.model import Model
    from softset.tables.parquet_rows import ParquetRows
    from softset.typing import Array, Frame, Labels, Settings

# Classifiers that go on from a file where they were stopped.
CONTINUED = ("MetricMLPClassifier", "MetricLinearClassifier")
# The most rows that are held out for the score of a model.
_MOST_HELD = 2**16


@dataclass
class HeldOut:
    """The metric on rows that a model did not see, with its 95 % interval."""

    rows: int
    value: float
    low: float
    high: float
    flagged: float | None = None  # the fraction of rows that are decided to be positive


def score_of(model: Model, X: Frame, labels: Labels, weight: Array | None = None) -> HeldOut:
    """The metric of a model on rows that it was not trained on."""
    from softset.classifiers.row_costs import row_costs
    from softset.decisions.intervals import cost_interval, metric_table
    from softset.metrics.costs import Cost
    from softset.metrics.registry import get_goal

    p, decided = model.predict_both(X)
    y = model.codes(labels)
    if not model.task.independent:
        decided = model.codes(decided)
    p = model.task.positive(p)
    metric = model.classifier.metric
    flagged = float(decided.mean()) if model.task.single else None
    costs = row_costs(get_goal(metric), X, None)
    if costs is not None:
        cost = get_goal(metric).metric
        row = cost_interval(cast(Cost, cost), decided, y, costs, 0.95, weight)
        return HeldOut(len(y), row.value, row.low, row.high, flagged)
    (row,) = metric_table(p, decided, y, task=model.task, metrics=[metric], sample_weight=weight)
    return HeldOut(len(y), row.value, row.low, row.high, flagged)


def train_on_disk(
    rows: ParquetRows, metric: str, path: Path, force: bool, about: Settings, settings: Settings
) -> tuple[Model, HeldOut | None] | None:
    """Train without a fraction of the rows, save, and score that fraction; a network or linear
    model that was stopped continues from the file beside its model. Of several ranks the first
    saves and scores, and the others get None."""
    from softset.classifiers.model import train_model
    from softset.classifiers.recipes import RECIPES

    train, test = rows.split(min(0.2, _MOST_HELD / rows.rows), settings["random_state"])
    resumable = RECIPES[settings["recipe"]].classifier in CONTINUED
    checkpoint = path.with_name(f"{path.name}.checkpoint") if resumable else None
    rank = start_ranks(settings)
    if checkpoint is not None and checkpoint.exists() and not rank:
        say(f"softset: note: going on from {checkpoint}")
    model = train_model(train, metric=metric, info=about, checkpoint=checkpoint, **settings)
    if rank:
        return None
    save_new(model, path, force)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    X, *labels = test.table()
    if not len(X):
        return model, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # unseen values have been reported
        return model, score_of(model, X, *labels)


def ranks_started() -> int:
    """How many ranks torchrun has started, this one among them; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def start_ranks(settings: Settings) -> int:
    """The number of this rank; several are connected, and train together by ``settings``."""
    if ranks_started() == 1:
        return 0
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo")
    settings["sync"] = "auto"
    if dist.get_rank():
        settings["verbose"] = 0
    return dist.get_rank()


def save_new(model: Model, path: Path, force: bool) -> None:
    """Save a model; without ``force``, a file that another run has written meanwhile stays."""
    if force:
        model.save(path)
        return
    with new_file(path) as temporary:
        model.save(temporary)


def predicted(rows: ParquetRows, predict: Callable[[Frame], Frame]) -> Iterator[Frame]:
    """The predictions of each block; the first warning of each kind is passed on."""
    reported: set[type[Warning]] = set()
    for X, *_ in rows:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            predictions = predict(X)
        for kind in {one.category for one in caught} - reported:
            first = next(one for one in caught if one.category is kind)
            warn_user(f"{first.message} (And maybe in later blocks.)", kind)
            reported.add(kind)
        yield predictions
