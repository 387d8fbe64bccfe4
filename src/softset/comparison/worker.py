"""One run of a comparison, in a worker: a split, a fit, the scores of the candidates it serves."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from softset.comparison.candidates import Sizes, first_member, fit_candidates
from softset.decisions.evaluation import evaluate
from softset.metrics.registry import MetricLike, get_metric
from softset.tables.encoder import TableEncoder

try:  # joblib brings it: inside, or from 1.6 on beside itself
    from joblib.externals import cloudpickle  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    import cloudpickle  # type: ignore[no-redef,import-untyped,unused-ignore]

Array = NDArray[Any]


@dataclass
class Task:
    """Everything that the runs share. ``x`` is a data frame (with ``schema``) or an array."""

    x: Any
    y: NDArray[np.int64]
    folds: NDArray[np.int8]  # [repeats, rows]; -1 for rows left out
    kind: str
    metric: MetricLike
    sizes: Sizes
    seed: int
    fits: dict[str, list[str]]
    schema: list[dict[str, Any]] | None = None
    most_predictions: int = 20_000
    _encoded: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Folds in a repeat."""
        return int(self.folds.max()) + 1

    def rows(self, split: int) -> tuple[Array, Array]:
        """Training and test rows."""
        repeat, fold = divmod(split, self.count)
        place = self.folds[repeat]
        return np.flatnonzero((place != fold) & (place >= 0)), np.flatnonzero(place == fold)

    def split(self, split: int) -> tuple[Array, Array, Array, Array]:
        """Inputs and targets for training and test; encoded by training rows alone."""
        train, test = self.rows(split)
        found = self._encoded.get(split)
        if found is None:
            found = encode(self.x, self.schema, train, test)[1:]
            self._encoded = {split: found}  # the fits of a split come one after another
        x_train, x_test = found
        return x_train, self.y[train], x_test, self.y[test]


def encode(x: Any, schema: Any, train: Array, test: Array) -> tuple[Any, Array, Array]:
    """The encoder (none for an array) and the numbers of both parts."""
    if schema is None:
        return None, x[train], x[test]
    encoder = TableEncoder(schema).fit(x.iloc[train])
    return encoder, encoder.transform(x.iloc[train]), encoder.transform(x.iloc[test])


def fingerprint(x: Any, y: Array) -> str:
    """A hash of the data."""
    digest = hashlib.sha256(np.ascontiguousarray(y).tobytes())
    if hasattr(x, "columns"):
        from pandas.util import hash_pandas_object  # noqa: PLC0415

        digest.update(repr([str(c) for c in x.columns]).encode())
        digest.update(hash_pandas_object(x, index=False).to_numpy().tobytes())
    else:
        digest.update(repr(x.shape).encode())
        digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()


# --- the data, once for each worker --------------------------------------------------------------

_received: dict[str, Task] = {}


class Source:
    """A ``Task`` that is pickled as the place where it lies, and read once by each worker.

    The file is written by this process into a directory of its own, for its own workers.
    """

    def __init__(self, task: Task, folder: Path) -> None:
        self.task: Task | None = task
        self.path = folder / "task"
        with open(self.path, "wb") as file:
            cloudpickle.dump(task, file)  # a metric may be a function of the user's own
        self.token = hashlib.sha256(str(self.path).encode()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "token": self.token, "task": None}

    def get(self) -> Task:
        """The task, wherever this is."""
        if self.task is not None:
            return self.task
        if self.token not in _received:
            with open(self.path, "rb") as file:
                task = pickle.load(file)
            receive(self.token, task)
        return _received[self.token]

    def send_to_dask(self) -> None:
        """Give the task to every worker of the current cluster, which may have other disks."""
        from distributed import get_client  # noqa: PLC0415

        with suppress(ValueError):  # no cluster: joblib will say so
            get_client().run(receive, self.token, self.task)


def receive(token: str, task: Task) -> None:
    """Keep a task for the runs to come, and none before it."""
    _received.clear()
    _received[token] = task


# --- one run -------------------------------------------------------------------------------------


def run_one(source: Source, run: dict[str, Any]) -> dict[str, Any]:
    """Fit on the training rows of ``run["split"]``, score on its test rows; plain values.

    One thread, so that the table does not depend on how many workers there are.
    """
    task = source.get()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = _run(task, run["split"], run["fit"])
    finally:
        torch.set_num_threads(threads)
    said = {str(w.message) for w in caught if issubclass(w.category, UserWarning)}
    return {"candidates": found, "warnings": sorted(said)}


def _run(task: Task, split: int, fit: str) -> dict[str, Any]:
    x, y, x_test, y_test = task.split(split)
    seed = int(np.random.RandomState([task.seed % 2**32, split]).randint(2**31 - 1))
    metric, found = get_metric(task.metric), {}
    for fitted in fit_candidates(task.fits[fit], task.metric, x, y, task.sizes, seed):
        p = probabilities(fitted.classifier, x_test, task.kind)
        threshold = threshold_of(fitted.classifier, task.kind)
        entry = {
            "score": score(p, y_test, metric, task.kind, threshold),
            "seconds": round(fitted.seconds, 4),
            "threshold": None if metric.curve else threshold,
        }
        if split < task.count:
            entry["predictions"] = _predictions(task, split, p, y_test)
        if split == 0:
            entry["history"] = first_member(fitted.classifier)
        found[fitted.candidate] = entry
    return found


def probabilities(classifier: Any, x: Array, kind: str) -> Array:
    """``(n,)`` of the positive class, or ``(n, classes or labels)``."""
    p = classifier.predict_proba(x)
    return p[:, 1] if kind == "binary" else p


def threshold_of(classifier: Any, kind: str) -> Any:
    """A threshold, one for each label, or an offset for each class."""
    if kind == "multiclass":
        return [float(v) for v in classifier.offsets_]
    value = classifier.threshold_
    return float(value) if np.ndim(value) == 0 else [float(v) for v in value]


def score(p: Array, y: Array, metric: Any, kind: str, threshold: Any) -> float:
    """The metric of the decisions, or of the ranking where it is over all thresholds."""
    settings: dict[str, Any] = {"task": kind, "from_logits": False}
    if not metric.curve and kind == "multiclass":
        z = np.log(np.maximum(p, np.finfo(float).tiny)) + np.asarray(threshold)
        p = np.eye(p.shape[1])[z.argmax(1)]
    elif not metric.curve:
        p = (p >= np.asarray(threshold)).astype(float)
    return float(evaluate(p, y, metric, **settings))


def _predictions(task: Task, split: int, p: Array, y: Array) -> dict[str, Any]:
    """Test rows for the report, thinned, in six digits."""
    width = 1 if p.ndim == 1 else p.shape[1]
    most = max(1, task.most_predictions // task.count // max(1, width // 5))
    rows = np.arange(len(y))
    if len(rows) > most:
        random = np.random.RandomState([task.seed % 2**32, split, 1])
        rows = np.sort(random.choice(len(rows), most, replace=False))
    short = [float(f"{v:.6g}") for v in p[rows].ravel().tolist()]
    scores: Any = short if p.ndim == 1 else np.reshape(short, p[rows].shape).tolist()
    return {"target": y[rows].tolist(), "scores": scores}
