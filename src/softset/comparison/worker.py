"""One run of a comparison, in a worker: a split, a fit, the scores of the candidates it serves."""

from __future__ import annotations

import hashlib
import pickle
import uuid
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from softset.classifiers.base import DecidingClassifier
from softset.classifiers.parts import pack_part
from softset.classifiers.threshold import MetricThresholdClassifier
from softset.comparison.fits import Candidate, Order, Sizes, first_member, fit_candidates
from softset.comparison.result import History, Threshold
from softset.decisions.constants import ConstantWarning
from softset.metrics.registry import MetricLike, get_goal
from softset.storage.schema import encoded
from softset.tables.encoder import TableEncoder, UnseenWarning
from softset.tasks import Task

try:  # for functions of the user's own; joblib brings it: inside, or from 1.6 on beside itself
    from joblib.externals import cloudpickle  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    import cloudpickle  # type: ignore[no-redef,import-untyped,unused-ignore]

Array = NDArray[Any]


@dataclass
class Experiment:
    """Everything that the runs share. ``x`` is a data frame (with ``schema``) or an array."""

    x: Any
    y: NDArray[np.int64]
    folds: NDArray[np.int8]  # [repeats, rows]; -1 for rows left out
    kind: Task
    metric: MetricLike
    sizes: Sizes
    seed: int
    fits: dict[str, list[Candidate]]
    schema: Any = None
    most_predictions: int = 20_000
    _encoded: dict[int, tuple[Array, Array]] = field(default_factory=dict, repr=False)

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


def encode(
    x: Any, schema: Any, train: Array, test: Array
) -> tuple[TableEncoder | None, Array, Array]:
    """The encoder (none for an array) and the numbers of both parts."""
    if schema is None:
        return None, x[train], x[test]
    encoder = TableEncoder(schema).fit(x.iloc[train])
    with warnings.catch_warnings():  # a rare value on one side of a split is no news
        warnings.simplefilter("ignore", UnseenWarning)
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

_received: dict[str, Experiment] = {}


class Source:
    """A ``Experiment`` that is pickled as the place where it lies, and read once by each worker.

    The file is written by this process into a directory of its own, for its own workers.
    """

    def __init__(self, task: Experiment, folder: Path) -> None:
        self.task: Experiment | None = task
        self.path = folder / "task"
        self.path.write_bytes(cloudpickle.dumps(task))
        # Each task has its own: workers live on, and must not take the next one for it.
        self.token = uuid.uuid4().hex

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "task": None}

    def get(self) -> Experiment:
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


def receive(token: str, task: Experiment) -> None:
    """Keep a task for the runs to come, and none before it."""
    _received.clear()
    _received[token] = task


# --- one run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOut:
    """Class numbers (0 and 1 of labels) and probabilities of test rows."""

    target: list[int] | list[list[int]]
    scores: list[float] | list[list[float]]


@dataclass(frozen=True)
class Outcome:
    """One candidate on one split. Rows are kept of the first repeat, epochs and the bytes of the
    model (``size``) of the first split."""

    score: float
    seconds: float
    threshold: Threshold | None
    predictions: HeldOut | None = None
    history: History | None = None
    size: int | None = None


@dataclass(frozen=True)
class Result:
    """What a run gives, as a line of ``runs.jsonl`` holds it."""

    candidates: dict[str, Outcome]
    warnings: list[str]


def run_one(source: Source, run: dict[str, Any]) -> dict[str, Any]:
    """Fit on the training rows of ``run["split"]``, score on its test rows: a ``Result`` as JSON.

    One thread, so that the table does not depend on how many workers there are.
    """
    task = source.get()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ConstantWarning)  # the scores say so
            found = outcomes(task, run["split"], run["fit"])
    finally:
        torch.set_num_threads(threads)
    said = {str(w.message) for w in caught if issubclass(w.category, UserWarning)}
    return dict(encoded(Result(found, sorted(said))))


def outcomes(task: Experiment, split: int, fit: str) -> dict[str, Outcome]:
    """The candidates of a fit on a split."""
    x, y, x_test, y_test = task.split(split)
    goal = get_goal(task.metric)
    order = Order(task.metric, y, task.sizes, seed_of(task, split))
    found = {}
    for fitted in fit_candidates(task.fits[fit], x, order):
        classifier = fitted.classifier
        found[fitted.candidate] = Outcome(
            score=float(classifier.score(x_test, y_test)),
            seconds=round(fitted.seconds, 4),
            threshold=_threshold(classifier, task.kind) if goal.tunes else None,
            predictions=_rows(task, split, classifier, x_test) if split < task.count else None,
            history=first_member(classifier) if split == 0 else None,
            size=size_of(classifier) if split == 0 else None,
        )
    return found


def seed_of(task: Experiment, split: int) -> int:
    """The seed of every fit on a split."""
    return int(np.random.RandomState([task.seed % 2**32, split]).randint(2**31 - 1))


def size_of(classifier: DecidingClassifier) -> int:
    """Bytes of what a classifier has learned."""
    if not isinstance(classifier, MetricThresholdClassifier):
        return _bytes_of(classifier.state()["fitted"])
    try:
        return _bytes_of([pack_part(model) for model in classifier.estimators_])
    except ValueError:  # those of other libraries
        return len(cloudpickle.dumps(classifier.estimators_))


def _bytes_of(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_bytes_of, value))
    return len(value) if isinstance(value, str | bytes) else 8


def _threshold(classifier: DecidingClassifier, kind: Task) -> Threshold:
    """A threshold, one for each label, or an offset for each class."""
    value = getattr(classifier, f"{kind.parameter}_")
    return float(value) if np.ndim(value) == 0 else [float(v) for v in value]


def _rows(task: Experiment, split: int, classifier: DecidingClassifier, x: Array) -> HeldOut | None:
    """Test rows for the report, thinned, in six digits; None of what gives no probabilities."""
    if not hasattr(classifier, "predict_proba"):
        return None
    y = task.y[task.rows(split)[1]]
    width = task.kind.outputs(len(classifier.classes_))
    most = max(1, task.most_predictions // task.count // max(1, width // 5))
    rows = np.arange(len(y))
    if len(rows) > most:
        random = np.random.RandomState([task.seed % 2**32, split, 1])
        rows = np.sort(random.choice(len(rows), most, replace=False))
    p = task.kind.positive(classifier.predict_proba(x[rows]))
    short = np.reshape([float(f"{v:.6g}") for v in p.ravel().tolist()], p.shape)
    return HeldOut(y[rows].tolist(), short.tolist())
