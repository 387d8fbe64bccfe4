"""Linear models of rows that are not in memory, or on several ranks: each evaluation goes through
the rows once (log-loss), or twice (counts, then the gradient).

The loss of a metric depends on the rows through a few counts, which add up over blocks and ranks;
their derivatives give each block its part of the gradient. So counts and one vector of the size of
the coefficients are all that ranks send each other.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist

from softset.counting.flat import Form
from softset.losses.ranks import RankError, Ranks
from softset.metrics.goals import Goal
from softset.progress import line_of
from softset.storage.files import SavedFileError
from softset.tables.rows import Examples
from softset.training.linear import LinearProblem, LinearRows
from softset.typing import Array, PathLike

T = TypeVar("T")


class RankSums:
    """Sums over the ranks of a process group; ``None`` is one process alone.

    Whatever fails on one rank is told to the others in the same place: all of them stop, and none
    waits longer than the timeout of the group.
    """

    def __init__(self, sync: object = None) -> None:
        self.ranks = None if sync is None else Ranks(sync)
        self.size = 1 if self.ranks is None else self.ranks.size
        self.group = None if self.ranks is None else self.ranks.group
        self.rank = dist.get_rank(self.group) if self.size > 1 else 0

    def sum(self, make: Callable[[], Array], size: int) -> Array:
        """The sum over ranks of vectors of ``size`` numbers."""
        if self.size == 1:
            return make()
        sent = torch.zeros(1 + size, dtype=torch.float64)
        try:
            sent[1:] = torch.from_numpy(make())
        except Exception:
            sent[0] = 1
            self._send(sent)
            raise
        self._send(sent)
        if sent[0] > 0:
            raise RankError("another rank has failed; its own error says why. All ranks stop.")
        return sent[1:].numpy()

    def _send(self, sent: torch.Tensor) -> None:
        try:
            dist.all_reduce(sent, group=self.group)
        except RuntimeError as error:
            if sent[0] == 0:  # else the error of this rank says more
                raise RankError(
                    f"another rank has stopped, or does not answer (sync). {error}"
                ) from error

    def gather(self, make: Callable[[], T]) -> list[T]:
        """What every rank has made, in their order."""
        if self.size == 1:
            return [make()]
        result, failure = None, None
        try:
            result = make()
        except Exception as error:
            failure = error
        everywhere: list[tuple[bool, T]] = [(False, result)] * self.size  # type: ignore[list-item]
        try:
            dist.all_gather_object(everywhere, (failure is None, result), group=self.group)
        except RuntimeError as error:
            if failure is None:
                raise RankError(
                    f"another rank has stopped, or does not answer (sync). {error}"
                ) from error
        if failure is not None:
            raise failure
        failed = [rank for rank, (fine, _) in enumerate(everywhere) if not fine]
        if failed:
            raise RankError(
                f"rank {', '.join(map(str, failed))} has failed; its own error says why. All "
                "ranks stop."
            )
        return [each for _, each in everywhere]


class BlockSum:
    """A sum of vectors with what rounding loses added at the end (Neumaier 1974): the order of the
    blocks matters to the last digits of the result only.

    >>> total = BlockSum()
    >>> for value in (1e16, 1.0, -1e16):
    ...     total.add(np.array([value]))
    >>> total.value
    array([1.])
    """

    def __init__(self) -> None:
        self.total: Array = np.zeros(())
        self.lost: Array = np.zeros(())

    def add(self, vector: Array) -> None:
        """A further vector."""
        total = self.total + vector
        larger = np.abs(self.total) >= np.abs(vector)
        self.lost = self.lost + np.where(
            larger, (self.total - total) + vector, (vector - total) + self.total
        )
        self.total = total

    @property
    def value(self) -> Array:
        """The sum, with the digits that were lost on the way."""
        return np.asarray(self.total + self.lost)


class LinearPasses(LinearRows):
    """Rows of standardized blocks that can be gone through again and again, of one rank or many.

    Of goals whose threshold follows from all scores (``precision@recall>=0.8``) the scores of all
    rows of all ranks are in memory, some 100 bytes for each row while they are counted; nothing
    else is.
    """

    def __init__(
        self,
        blocks: Callable[[], Iterable[Examples]],
        features: int,
        classes: int,
        monotonic_cst: Array | None = None,
        *,
        sums: RankSums | None = None,
        record: Record | None = None,
        shown: Shown | None = None,
    ) -> None:
        self._blocks, self._features = blocks, features
        self.classes, self.monotonic_cst = classes, monotonic_cst
        self.sums, self.record = sums or RankSums(), record or Record()
        self.shown = shown or Shown(0, 0)

    @property
    def features(self) -> int:
        return self._features

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return self.outputs * (self.features + 1)

    def problems(self) -> Iterator[LinearProblem]:
        """The rows of this rank, block by block."""
        for x, y, w in self.shown.watched(self._blocks()):
            yield LinearProblem(x, y, w, self.classes)

    def log_loss(self, flat: Array) -> tuple[float, Array]:
        """As of rows in memory, by one pass."""

        def local() -> Array:
            """Loss and gradient of this rank's rows."""
            total = BlockSum()
            total.add(np.zeros(1 + self.size))
            for block in self.problems():
                loss, grad = block.log_loss(flat)
                total.add(np.append(loss, grad))
            return total.value

        return self._recorded("log-loss", flat, lambda: self.sums.sum(local, 1 + self.size))

    def soft_loss(self, goal: Goal, flat: Array) -> tuple[float, Array]:
        """As of rows in memory: by two passes where counts add up, else by the scores of all
        rows."""
        way = self._by_counts if goal.where.adds_up else self._by_scores
        return self._recorded(goal.name, flat, lambda: way(goal, flat))

    def _recorded(self, name: str, flat: Array, make: Callable[[], Array]) -> tuple[float, Array]:
        recorded = self.record(name, flat, make)
        return float(recorded[0]), recorded[1:].copy()

    def _by_counts(self, goal: Goal, flat: Array) -> Array:
        form = self._form(goal)

        def counts() -> Array:
            """The soft counts of this rank's rows."""
            total = BlockSum()
            total.add(np.zeros(form.size))
            for block in self.problems():
                with torch.no_grad():
                    cells, _ = block.soft_cells(goal, torch.from_numpy(block.scores(flat)))
                total.add(cells.numpy())
            return total.value

        leaf = torch.from_numpy(self.sums.sum(counts, form.size)).requires_grad_()
        loss = 1 - goal.soft_value(form.confusion(leaf), "penalize")
        (by_count,) = torch.autograd.grad(loss, leaf)

        def gradient() -> Array:
            """The gradient of this rank's rows, from derivatives by the counts."""
            total = BlockSum()
            total.add(np.zeros(self.size))
            for block in self.problems():
                z = torch.from_numpy(block.scores(flat)).requires_grad_()
                cells, _ = block.soft_cells(goal, z)
                (by_score,) = torch.autograd.grad((cells * by_count).sum(), z)
                total.add(block.pull_back(by_score.numpy()))
            return total.value

        return np.append(float(loss.detach()), self.sums.sum(gradient, self.size))

    def _form(self, goal: Goal) -> Form:
        """What is counted: that of one row."""
        row = LinearProblem(np.zeros((1, 1)), np.zeros(1, dtype=np.int64), np.ones(1), self.classes)
        z = np.zeros(1) if self.outputs == 1 else np.zeros((1, self.outputs))
        return row.soft_cells(goal, torch.from_numpy(z))[1]

    def _by_scores(self, goal: Goal, flat: Array) -> Array:
        def scores() -> tuple[Array, ...]:
            """Scores, labels and weights of this rank's rows, all in memory."""
            each = [(block.scores(flat), block.y, block.w) for block in self.problems()]
            z = np.empty(0) if self.outputs == 1 else np.empty((0, self.outputs))
            nothing = (z, np.empty(0, dtype=np.int64), np.empty(0))
            return tuple(np.concatenate(c) for c in zip(nothing, *each, strict=True))

        everywhere = self.sums.gather(scores)
        first = sum(len(z) for z, *_ in everywhere[: self.sums.rank])
        z, y, w = (np.concatenate(c) for c in zip(*everywhere, strict=True))
        whole = LinearProblem(np.empty((len(y), 0)), y, w, self.classes)
        loss, by_score = whole.by_scores(goal, z)

        def gradient() -> Array:
            """The gradient of this rank's rows, from derivatives by their scores."""
            total, at = BlockSum(), first
            total.add(np.zeros(self.size))
            for block in self.problems():
                total.add(block.pull_back(by_score[at : at + len(block.y)]))
                at += len(block.y)
            return total.value

        return np.append(loss, self.sums.sum(gradient, self.size))


class Shown:
    """How far a training is: ``pass 12 of 150 | 1,200,000 rows a second | at most 3:20 left``."""

    def __init__(self, rows: int, verbose: int, most: int = 150) -> None:
        self.rows, self.most, self.passes = rows, most, 0
        self.line = line_of("pass", verbose)
        self.started, self.seen = time.monotonic(), 0

    def watched(self, blocks: Iterable[Examples]) -> Iterator[Examples]:
        """The blocks of a further pass."""
        self.passes += 1
        for block in blocks:
            yield block
            self.seen += len(block.y)
            if self.line is not None and self.seen:
                a_second = self.seen / max(time.monotonic() - self.started, 1e-9)
                left = max(self.most * self.rows - self.seen, 0) / a_second
                text = f"{a_second:,.0f} rows a second | at most {left // 60:.0f}:{left % 60:02.0f}"
                self.line.show(self.passes, max(self.most, self.passes), f"{text} left")

    def close(self) -> None:
        """The end, good or bad."""
        if self.line is not None:
            self.line.close()


class Record:
    """Every evaluation of a training, in a file: a run that was stopped asks for the same ones, so
    that it is where it was without a pass over the rows. With no path, nothing is recorded.

    Entries are appended; a torn one at the end is evaluated again. Rank 0 writes.
    """

    def __init__(
        self, path: PathLike | None = None, fingerprint: str = "", sums: RankSums | None = None
    ) -> None:
        self.path = None if path is None else Path(path)
        self.mark = hashlib.sha256(f"softset linear 1 {fingerprint}".encode()).digest()
        sums = sums or RankSums()
        self.writes = self.path is not None and sums.rank == 0
        self.entries = iter(sums.gather(self._read if self.writes else list)[0])

    def __call__(self, name: str, flat: Array, make: Callable[[], Array]) -> Array:
        """What ``make`` gives, or has given for the same question."""
        asked = hashlib.sha256(name.encode() + flat.tobytes()).digest()
        saved = next(self.entries, None)
        if saved is not None and saved[0] == asked:
            return saved[1]
        if saved is not None:
            raise SavedFileError(f"{self.path} is of another training. Delete it.")
        result = make()
        if self.writes:
            assert self.path is not None
            entry = asked + np.ascontiguousarray(result, dtype=np.float64).tobytes()
            with open(self.path, "ab") as file:
                file.write(struct.pack("<QI", len(entry), zlib.crc32(entry)) + entry)
                file.flush()
                os.fsync(file.fileno())
        return result

    def _read(self) -> list[tuple[bytes, Array]]:
        assert self.path is not None
        data = self.path.read_bytes() if self.path.exists() else b""
        if len(data) >= len(self.mark) and not data.startswith(self.mark):
            raise SavedFileError(
                f"{self.path.name} belongs to a run with other data or settings. Delete it, or "
                "give this run a checkpoint of its own."
            )
        entries, at = [], len(self.mark)
        while at + 12 <= len(data):
            length, checksum = struct.unpack("<QI", data[at : at + 12])
            entry = data[at + 12 : at + 12 + length]
            if len(entry) < length or zlib.crc32(entry) != checksum:
                break
            entries.append((entry[:32], np.frombuffer(entry[32:], dtype=np.float64)))
            at += 12 + length
        with open(self.path, "r+b" if data else "wb") as file:
            if len(data) < len(self.mark):
                file.write(self.mark)
            file.truncate(max(min(at, len(data)), len(self.mark)))
        return entries
