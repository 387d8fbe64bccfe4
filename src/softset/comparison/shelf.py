"""What the fits of a split leave for the ensemble, so that it does not make them again."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from softset.classifiers.base import DecidingClassifier
from softset.comparison.pickles import dump
from softset.storage.files import locked


@dataclass(frozen=True)
class Fitted:
    """A candidate on one split: its classifier, the seconds that it took (of a shared fit), and its
    scores of the training rows by models that have not seen them, if it has any."""

    candidate: str
    classifier: DecidingClassifier
    seconds: float
    unseen: NDArray[Any] | None

    @classmethod
    def of(cls, candidate: str, classifier: DecidingClassifier, seconds: float) -> Fitted:
        """With the scores that the classifier has."""
        return cls(candidate, classifier, seconds, classifier.unseen_scores())


class Shelf:
    """Files of one split in a temporary directory of this comparison, for its own workers.

    They save time and change nothing: what is not there is fitted again, with the same result.
    Where the directory is not (on another machine), nothing is kept. ``wanted`` are candidates.
    """

    def __init__(self, folder: Path, split: int, wanted: Collection[str]) -> None:
        self.folder, self.split, self.wanted = folder, split, wanted
        self.taken = 0.0  # seconds that what was taken from here took to fit

    @contextmanager
    def busy(self, fit: str) -> Iterator[None]:
        """While a fit is made: whoever wants to take it waits."""
        if not self.folder.is_dir():
            yield
            return
        with locked(self.folder / f"{self.split}-{fit}", wait=True):
            yield

    def put(self, found: Iterable[Fitted]) -> None:
        """Keep what is wanted."""
        for fitted in found:
            if fitted.candidate in self.wanted and self.folder.is_dir():
                path = self._path(fitted.candidate)
                with suppress(OSError):  # a full disk costs time only
                    part = path.with_suffix(".part")
                    dump(fitted, part)
                    part.replace(path)

    def take(self, fit: str, candidates: Sequence[str]) -> list[Fitted]:
        """Candidates of a fit, which leave the shelf; none if not all are there."""
        with self.busy(fit):
            found = [self._read(self._path(c)) for c in candidates]
        kept = [fitted for fitted in found if fitted is not None]
        if len(kept) < len(found):
            return []
        # One goes on where the other stops.
        self.taken += max(fitted.seconds for fitted in kept)
        return kept

    def _read(self, path: Path) -> Fitted | None:
        try:
            with open(path, "rb") as file:
                found: Fitted = pickle.load(file)
        except FileNotFoundError:
            return None
        path.unlink()
        return found

    def _path(self, candidate: str) -> Path:
        return self.folder / f"{self.split}-{candidate}.fitted"
