"""Train K small networks at once on rows that come block by block.

``train_streamed`` -> ``StreamedStack``, which is ``NetworkStack`` with another epoch: batches are
cut from shuffled windows of a stream, and all members see the same.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from softset.metrics.registry import MetricLike, one_number
from softset.progress import Progress
from softset.tasks import BINARY, Task
from softset.training.batches import slices
from softset.training.checkpoints import Checkpoint
from softset.training.data import TensorData
from softset.training.networks import make_network
from softset.training.phases import RecipeLike, make_phases
from softset.training.stack import Member, NetworkStack, StackSettings, Trained
from softset.typing import PathLike, State

# Rows that are shuffled together.
WINDOW = 2**16
# An epoch ends with the stream, or after so many rows: validation and checkpoints do not wait for
# the end of a stream that takes hours.
EPOCH = 2**20

Stream = Callable[[int], Iterable[TensorData]]


def train_streamed(
    network: Sequence[int],
    stream: Stream,
    validation: TensorData | None,
    *,
    outputs: int,
    members: Sequence[Member],
    recipe: RecipeLike,
    metric: MetricLike = "f1",
    task: Task = BINARY,
    batch_size: int = 1024,
    max_epochs: int = 200,
    patience: int = 20,
    source: str = "",
    checkpoint: PathLike | None = None,
    checkpoint_seconds: float = 30.0,
    verbose: int = 0,
) -> Trained:
    """As ``train_members``, on ``stream(0)``, ``stream(1)``, …: the blocks of each pass.

    Blocks are tensors as ``make_data`` gives them. ``source`` is what a checkpoint knows the data
    by. A run that goes on from a checkpoint reads the pass that it was in up to its place.
    """
    first = next(iter(stream(0)), None)
    if first is None:
        raise ValueError("there is no row to train on.")
    settings = StackSettings(
        members=list(members),
        metric=one_number(metric),
        phases=make_phases(recipe, metric, task, None),
        task=task,
        optimizer="adamw",
        batch_size=batch_size,
        max_epochs=max_epochs,
        patience=patience,
        monitor="loss",
        sampling="shuffled",
        shared_order=None,
        network=make_network(network, first.x, outputs),
    )
    run = StreamedStack(settings, first, validation, stream)
    file = None
    if checkpoint is not None:
        fingerprint = settings.fingerprint(validation=validation, source=source)
        file = Checkpoint(checkpoint, fingerprint, checkpoint_seconds)
    run.run(Progress(verbose, max_epochs, len(settings.members), settings.metric.name), file)
    return run.trained()


class StreamedStack(NetworkStack):
    """``data`` is a first block, for its form alone."""

    def __init__(
        self,
        settings: StackSettings,
        first: TensorData,
        validation: TensorData | None,
        stream: Stream,
    ) -> None:
        super().__init__(settings, first, validation)
        self.stream = stream
        self.go_to(0, 0)

    def go_to(self, number: int, used: int) -> None:
        """Pass ``number`` of the stream, of which so many windows have been used."""
        self.number, self.used = number, used
        self.windows = itertools.islice(_windows(self.stream(number), number), used, None)

    def epoch(self) -> list[float]:
        """Windows of the stream until it ends, or ``EPOCH`` rows; the mean loss over them."""
        total, step, rows = torch.zeros(len(self.ids), dtype=torch.float64), self.step(), 0
        while rows == 0:
            for window in self.windows:
                self.used += 1
                for part in slices(len(window.x), self.settings.batch_size):
                    losses, grad, fine = self.gradients(_rows(window, part), True, step)
                    if not fine.all():
                        self.fail(fine.tolist())
                        if not self.ids:
                            return []
                        total, step = total[fine.cpu()], self.step()
                    self.updater.step(self.flat, grad)
                    total += losses.double().cpu() * (part.stop - part.start)
                rows += len(window.x)
                if rows >= EPOCH:
                    break
            else:
                self.go_to(self.number + 1, 0)
        return (total / rows).tolist()

    def own_state(self) -> State:
        """Also the place in the stream."""
        return {**super().own_state(), "place": [self.number, self.used]}

    def load_own_state(self, state: State) -> None:
        """Also go to that place in the stream."""
        super().load_own_state(state)
        self.go_to(*state["place"])


def _windows(blocks: Iterable[TensorData], number: int) -> Iterator[TensorData]:
    """Blocks put together to ``WINDOW`` rows or more, their rows shuffled: always in the same way
    in pass ``number``."""
    waiting: list[TensorData] = []
    blocks = iter(blocks)
    for k in itertools.count():
        rows = sum(len(block.x) for block in waiting)
        for block in blocks:
            waiting.append(block)
            rows += len(block.x)
            if rows >= WINDOW:
                break
        if not waiting:
            return
        seed = hashlib.sha256(f"window {number} {k}".encode()).digest()[:4]
        generator = torch.Generator().manual_seed(int.from_bytes(seed, "little"))
        order = torch.randperm(rows, generator=generator)
        columns = zip(*waiting, strict=True)
        yield TensorData(*(None if c[0] is None else torch.cat(c)[order] for c in columns))  # type: ignore[arg-type]
        waiting = []


def _rows(data: TensorData, part: slice) -> TensorData:
    return TensorData(data.x[part], data.y[part], None if data.w is None else data.w[part])
