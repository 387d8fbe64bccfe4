"""The data that all fits of a comparison share, and how they reach the workers."""

from __future__ import annotations

import hashlib
import pickle
import uuid
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softset.metrics.registry import MetricLike
from softset.tables.encoder import Schema, TableEncoder, UnseenWarning
from softset.tasks import Task
from softset.typing import Array, Floats, Frame, Ints

if TYPE_CHECKING:
    from softset.comparison.fits import Candidate, Sizes

try:  # for functions of the user; joblib brings it: inside, or from 1.6 on beside itself
    from joblib.externals import cloudpickle  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    import cloudpickle  # type: ignore[no-redef,import-untyped,unused-ignore]


@dataclass
class Experiment:
    """Everything that the fits share. ``x`` is a data frame (with ``schema``) or an array."""

    x: Frame | Array
    y: Ints
    folds: NDArray[np.int8]  # [repeats, rows]; -1 for rows left out
    task: Task
    metric: MetricLike
    sizes: Sizes
    random_state: int
    fits: dict[str, list[Candidate]]
    schema: Schema | None = None
    most_predictions: int = 20_000
    confidence: float | None = None
    sample_cost: Floats | None = None  # (rows, 4)
    by_time: bool = False  # folds are blocks in time: a split trains on all before its test
    _encoded: dict[int, tuple[Array, Array]] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Splits in a repeat."""
        return int(self.folds.max()) + (0 if self.by_time else 1)

    def rows(self, split: int) -> tuple[Array, Array]:
        """Training and test rows."""
        repeat, fold = divmod(split, self.count)
        folds = self.folds[repeat]
        if self.by_time:
            return np.flatnonzero((folds >= 0) & (folds <= fold)), np.flatnonzero(folds == fold + 1)
        return np.flatnonzero((folds != fold) & (folds >= 0)), np.flatnonzero(folds == fold)

    def seed_of(self, split: int) -> int:
        """The seed of every fit on a split."""
        return int(np.random.RandomState([self.random_state % 2**32, split]).randint(2**31 - 1))

    def costs(self, rows: Array) -> Floats | None:
        """The costs of some rows, where they have their own."""
        return None if self.sample_cost is None else self.sample_cost[rows]

    def split(self, split: int) -> tuple[Array, Array, Array, Array]:
        """Inputs and targets for training and test; encoded by training rows alone."""
        train, test = self.rows(split)
        arrays = self._encoded.get(split)
        if arrays is None:
            arrays = encode(self.x, self.schema, train, test)[1:]
            self._encoded = {split: arrays}  # the fits of a split come one after another
        x_train, x_test = arrays
        return x_train, self.y[train], x_test, self.y[test]


def encode(
    x: Frame | Array, schema: Schema | None, train: Array, test: Array
) -> tuple[TableEncoder | None, Array, Array]:
    """The encoder (None for an array) and the encoded training and test rows."""
    if schema is None or isinstance(x, np.ndarray):
        return None, x[train], x[test]
    encoder = TableEncoder(schema).fit(x.iloc[train])
    with warnings.catch_warnings():  # expected of rare values
        warnings.simplefilter("ignore", UnseenWarning)
        return encoder, encoder.transform(x.iloc[train]), encoder.transform(x.iloc[test])


def fingerprint(x: Frame | Array, y: Array) -> str:
    """A hash of the data."""
    digest = hashlib.sha256(np.ascontiguousarray(y).tobytes())
    if not isinstance(x, np.ndarray):
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
    """An ``Experiment`` that is pickled as the path of its file, and read once by each worker.

    The file is written by this process into a temporary directory, for its workers.
    """

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        self.experiment: Experiment | None = experiment
        self.path = folder / "experiment"
        self.path.write_bytes(cloudpickle.dumps(experiment))
        # Workers outlive an experiment, and must not take the next one for it.
        self.token = uuid.uuid4().hex

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "experiment": None}

    def get(self) -> Experiment:
        """The experiment, in this process or in a worker."""
        if self.experiment is not None:
            return self.experiment
        if self.token not in _received:
            with open(self.path, "rb") as file:
                receive(self.token, pickle.load(file))
        return _received[self.token]

    def send_to_dask(self) -> None:
        """Give the experiment to every worker of the cluster, which may have other disks."""
        from distributed import get_client  # noqa: PLC0415

        with suppress(ValueError):  # no cluster: joblib reports it
            get_client().run(receive, self.token, self.experiment)


def pickled_size(value: object) -> int:
    """Bytes of a pickled object."""
    return len(cloudpickle.dumps(value))


def receive(token: str, experiment: Experiment) -> None:
    """Keep an experiment for the fits to come, and none before it."""
    _received.clear()
    _received[token] = experiment
