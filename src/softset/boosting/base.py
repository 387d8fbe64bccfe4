"""One interface for boosting libraries. A further one is one file beside this one and its row in
``LIBRARIES``."""

from __future__ import annotations

import contextlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from softset.tables.rows import Examples
from softset.typing import Array, Settings

if TYPE_CHECKING:
    from softset.boosting.objective import MetricObjective
    from softset.boosting.trees import BoostedTrees

# The class of each library, in the module of that name beside this one; the libraries themselves
# are imported when one of them is used.
LIBRARIES = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}

# The learning rate of the rounds for the metric, as a fraction of that of log-loss.
SLOWER = 0.5


class Library(ABC):
    """One fit: rounds of log-loss, then rounds for a metric, and the trees of both.

    Args:
        settings: ``learning_rate`` and ``seed``.
        threads: of the library.
        n: rows to train on.
        classes: their number; two classes have one score a row, more have one each.
        categorical: the columns that hold category numbers.
        params: further settings, as the library names them; they win over ours.
    """

    name: ClassVar[str]

    @abstractmethod
    def __init__(
        self,
        settings: Settings,
        threads: int,
        n: int,
        classes: int,
        categorical: list[int],
        params: Settings,
    ) -> None: ...

    @abstractmethod
    def load(self, rows: Examples, checks: Examples) -> None:
        """Take the rows to train on and those that are held out."""

    @abstractmethod
    def log_loss(self, rounds: int, patience: int) -> tuple[BoostedTrees, int]:
        """At most so many rounds, stopped early on the held-out rows; the trees, and how many
        rounds were kept."""

    @abstractmethod
    def steps(self, start: Array, checks: Array, objective: MetricObjective) -> Iterator[Array]:
        """Rounds for the metric from the scores ``start`` and ``checks`` of the two parts; after
        each round, the scores of the held-out rows."""

    @abstractmethod
    def kept(self, rounds: int) -> BoostedTrees:
        """The first so many rounds of ``steps``."""

    @staticmethod
    @abstractmethod
    def margins(booster: BoostedTrees, x: Array) -> Array:
        """Scores of rows ``x [n, features]``: ``[n]``, or ``[n, classes]`` for more than two."""

    @staticmethod
    @abstractmethod
    def parse(text: str) -> BoostedTrees:
        """Trees from the library's own text, which may come from anyone: it is read and checked
        here, and never given to the library. ``SavedFileError`` if it is not whole."""

    @staticmethod
    def dump(booster: BoostedTrees) -> str:
        """The text that ``parse`` reads."""
        return booster.text


def library_class(name: str) -> type[Library]:
    """The class behind a name in ``LIBRARIES``.

    >>> library_class("lightgbm").name
    'lightgbm'
    """
    return getattr(importlib.import_module(f"softset.boosting.{name}"), LIBRARIES[name])


def imported(name: str) -> Any:
    """The boosting library itself, or one line that says how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"library={name!r} needs the package {name}, which is not installed: pip install "
            "softset[boosting]",
            name=name,
        ) from None


@contextlib.contextmanager
def refusals(name: str, kind: type[Exception]) -> Iterator[None]:
    """Turn a library's own error about data or ``params`` into a ``ValueError``."""
    try:
        yield
    except kind as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(f"{name} refused the data or its params: {reason}") from error
