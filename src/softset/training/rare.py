"""Rare classes: batches that always have some, and a word of warning where they have not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.data import RandomSampler, Sampler, SequentialSampler, TensorDataset

from softset.checks import check_integer, warn_user
from softset.counting.arguments import as_numbers
from softset.losses.soft_metric import MetricLoss
from softset.tasks import Task
from softset.typing import TensorLike

if TYPE_CHECKING:
    from softset.training.accumulation import Batch
    from softset.training.phases import Phase

# A batch that expects fewer rows of a class says little about it.
ENOUGH = 5


class RareClassWarning(UserWarning):
    """Batches that will mostly lack a class."""


class StratifiedBatches(Sampler[list[int]]):
    """Batches with at least ``least`` rows of every class, and weights that make up for it.

    Each batch has ``n_c`` rows of class ``c``, drawn in turn from a shuffled order of them: the
    share of the class, or ``least`` where that is more. A row of the class has the weight
    ``(N_c / N) / (n_c / n)``, ``N`` rows and ``n`` in a batch, so that weighted counts of a batch
    are right on average, and its weighted ``support`` is right in every batch.

    A ``batch_sampler`` for a ``DataLoader``; ``weight`` goes into the data set.

    Args:
        target: class numbers ``(N,)``; or the number of any group of rows that is to be there.
        batch_size: rows in a batch.
        least: by default a quarter of the batch divided by the number of classes.
        generator: of the orders; by default that of torch.

    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> x, y = torch.randn(1000, 2), torch.arange(1000) % 100 == 0
    >>> batches = StratifiedBatches(y, 40)
    >>> rows = TensorDataset(x, y, batches.weight)
    >>> x, y, w = next(iter(DataLoader(rows, batch_sampler=batches)))
    >>> int(y.sum()), round(float(w[y].sum()), 4), round(float(w.sum()), 4)
    (5, 0.4, 40.0)
    """

    def __init__(
        self,
        target: TensorLike,
        batch_size: int,
        *,
        least: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        y = as_numbers("target", target).detach().cpu()
        if y.dim() != 1 or len(y) == 0:
            raise ValueError(f"target must hold a class for each row, got shape {list(y.shape)}.")
        classes, codes, counts = torch.unique(y, return_inverse=True, return_counts=True)
        check_integer("batch_size", batch_size, len(classes))
        least = max(1, batch_size // (4 * len(classes))) if least is None else least
        check_integer("least", least, 1, batch_size // len(classes))
        self.generator = generator
        self.rows = [(codes == c).nonzero().flatten() for c in range(len(classes))]
        self.taken = _allotted(counts.tolist(), batch_size, least)
        self.batches = math.ceil(len(y) / batch_size)
        taken = torch.tensor(self.taken, dtype=torch.float64)
        self.weight: Tensor = ((counts.double() / len(y)) / (taken / batch_size))[codes]

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        queues = [self._in_turn(rows) for rows in self.rows]
        for _ in range(self.batches):
            batch = [next(q) for q, n in zip(queues, self.taken, strict=True) for _ in range(n)]
            order = torch.randperm(len(batch), generator=self.generator).tolist()
            yield [batch[i] for i in order]

    def _in_turn(self, rows: Tensor) -> Iterator[int]:
        """All rows in a random order, again and again."""
        while True:
            yield from rows[torch.randperm(len(rows), generator=self.generator)].tolist()


def _allotted(counts: Sequence[int], batch_size: int, least: int) -> list[int]:
    """Rows of each class in a batch.

    >>> _allotted([970, 20, 10], 100, 8)
    [84, 8, 8]
    """
    total = sum(counts)
    wanted = [max(float(least), n / total * batch_size) for n in counts]
    # What the rare ones get beyond their share is taken from what the others have above `least`.
    spare = sum(w - least for w in wanted)
    scale = (batch_size - least * len(counts)) / spare if spare else 0.0
    exact = [least + (w - least) * scale for w in wanted]
    taken = [math.floor(e) for e in exact]
    missing = batch_size - sum(taken)
    by_remainder = sorted(range(len(counts)), key=lambda c: taken[c] - exact[c])
    for c in by_remainder[:missing]:
        taken[c] += 1
    return taken


def warn_if_rare(phases: Sequence[Phase], loader: Iterable[Batch], task: Task) -> None:
    """Say so, with the arithmetic, if batches of a loader will mostly lack a class that a soft
    metric is trained for. Only what can be known without reading the rows."""
    losses = [p.loss for p in phases if isinstance(p.loss, MetricLoss) and p.loss.running is None]
    rows, batch_size = getattr(loader, "dataset", None), getattr(loader, "batch_size", None)
    usual = isinstance(getattr(loader, "sampler", None), RandomSampler | SequentialSampler)
    if not losses or not usual or batch_size is None or not isinstance(rows, TensorDataset):
        return
    if len(rows.tensors) < 2 or batch_size >= len(rows):
        return
    target = rows.tensors[1]
    if target.numel() > len(target) * (target.shape[1] if task.independent else 1):
        return  # positions of an image go together: the arithmetic is of single rows
    n = batch_size * max(1 if loss.ranks is None else loss.ranks.size for loss in losses)
    share, name = _rarest(target, task)
    if share > 0 and n * share < ENOUGH:
        warn_user(rarity(n, share, name), RareClassWarning)


def rarity(batch_size: int, share: float, name: str = "positives") -> str:
    """What a batch knows of a class that is this rare.

    >>> rarity(128, 0.0017)
    '128 rows at 0.17 % positives: 80 % of batches have none. Use batches of at least 3000 rows, \
ema_decay=0.9 in the loss, or StratifiedBatches.'
    """
    none = (1 - share) ** batch_size
    wanted = ENOUGH / share
    unit = 10 ** max(0, math.floor(math.log10(wanted)) - 1)
    return (
        f"{batch_size} rows at {100 * share:.2g} % {name}: {100 * none:.0f} % of batches have "
        f"none. Use batches of at least {math.ceil(wanted / unit) * unit} rows, ema_decay=0.9 in "
        "the loss, or StratifiedBatches."
    )


def _rarest(target: Tensor, task: Task) -> tuple[float, str]:
    """The fraction of the rarest class present, and its name."""
    if task.exclusive:
        classes, counts = torch.unique(target, return_counts=True)
        rarest = int(counts.argmin())
        return float(counts[rarest]) / target.numel(), f"rows of class {classes[rarest].item()}"
    shares = (target > 0).double().reshape(len(target), -1).mean(0)
    if shares.numel() == 1:
        return float(shares), "positives"
    rarest = int(torch.where(shares > 0, shares, 2.0).argmin())
    return float(shares[rarest]), f"positives of label {rarest}"
