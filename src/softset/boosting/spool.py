"""Rows on disk, from which a boosting library reads them in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from softset.typing import Array, Floats

# Rows that are read together.
BLOCK = 2**14


class Spool:
    """A matrix of float64 in a file: written block by block, read by rows. Nothing is mapped into
    memory, so that what has been read can be forgotten.

    >>> import tempfile
    >>> with Spool(Path(tempfile.mkdtemp(), "rows"), 2) as spool:
    ...     spool.append(np.array([[1.0, 2.0], [3.0, 4.0]]))
    ...     spool.append(np.array([[5.0, 6.0]]))
    ...     spool.shape, spool[1:3].tolist()
    ((3, 2), [[3.0, 4.0], [5.0, 6.0]])
    """

    def __init__(self, path: Path, columns: int) -> None:
        self.path, self.columns, self.rows = path, columns, 0

    def __enter__(self) -> Self:
        self._file = open(self.path, "w+b")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    def __len__(self) -> int:
        return self.rows

    def append(self, x: Array) -> None:
        """Further rows, behind the others."""
        self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(x, dtype=np.float64).tobytes())
        self.rows += len(x)

    def __getitem__(self, part: slice) -> Floats:
        start, stop, _ = part.indices(self.rows)
        self._file.seek(8 * self.columns * start)
        data = self._file.read(8 * self.columns * max(0, stop - start))
        return np.frombuffer(data, dtype=np.float64).reshape(-1, self.columns)


def blocks(rows: int) -> Iterator[slice]:
    """Slices of so many rows that are gone through one after the other.

    >>> [part.stop for part in blocks(40_000)]
    [16384, 32768, 40000]
    """
    for start in range(0, rows, BLOCK):
        yield slice(start, min(rows, start + BLOCK))
