"""Classifiers inside of others: what a file may hold of them, and the way back."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from softset.classifiers.recipes import CLASSIFIERS, classifier_class
from softset.classifiers.trees import FORESTS, SavedForest
from softset.metrics.registry import MetricLike
from softset.storage.files import SavedFileError
from softset.tasks import Task
from softset.typing import Array, State

OURS = [name for name in CLASSIFIERS if name != "MetricEnsembleClassifier"]
PARTS = [*OURS, *FORESTS]


def pack_part(model: BaseEstimator) -> State:
    """A fitted classifier of ours or a forest as plain data and tensors; others are refused."""
    kind = type(model).__name__
    if isinstance(model, SavedForest) or type(model) in FORESTS.values():
        saved = SavedForest.of(model)
        return {"classifier": type(saved.forest).__name__, "state": saved.state()}
    if kind not in OURS or type(model) is not classifier_class(kind):
        raise ValueError(
            f"estimator must be one of {', '.join(PARTS)} to be saved without pickle, got {kind}. "
            "Save it with the tools of its own library, or pickle the whole."
        )
    return {"classifier": kind, "state": model.state()}


def unpack_part(packed: State, metric: MetricLike | None = None) -> BaseEstimator:
    """The inverse of ``pack_part``; ``metric`` where it was a function of the user's own."""
    kind, state = packed["classifier"], packed["state"]
    if kind not in PARTS:
        raise SavedFileError(f"it names an unknown classifier, {kind!r}.")
    if kind in FORESTS:
        return SavedForest.from_state(kind, state)
    user_metric = metric if state["metric"] is None else None
    return classifier_class(kind).from_state(state, user_metric)


def is_part(model: BaseEstimator, task: Task, classes: Array, constant: Array | None) -> bool:
    """Whether a base model that was read has the classes of the model; ``constant`` are the labels
    that do not vary, NaN elsewhere."""
    if not isinstance(model, SavedForest):
        same: bool = model.task_ == task
        return same and model.classes_.tolist() == classes.tolist()
    several = isinstance(model.classes_, list)
    if not task.independent:
        return not several and sorted(model.classes_) == sorted(classes)
    if constant is None:
        return several and len(model.classes_) == len(classes)
    varying = np.count_nonzero(np.isnan(constant))
    shaped = constant.shape == (len(classes),)
    return shaped and varying == (len(model.classes_) if several else 1)
