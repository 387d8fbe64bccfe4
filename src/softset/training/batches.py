"""The order in which members see the examples: sliced permutations, no DataLoader."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def epoch_orders(classes: Tensor, sampling: str, generators: Sequence[torch.Generator]) -> Tensor:
    """Row numbers ``[K, M]`` for one epoch, one order for each generator.

    ``"shuffled"``: a permutation. ``"stratified"``: one in which every stretch has its share of
    each class. ``"oversampled"``: rows of rare classes come again until all classes are equally
    often there (paper 000's comparison).

    >>> import torch
    >>> y = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])
    >>> order = epoch_orders(y, "stratified", [torch.Generator().manual_seed(0)])
    >>> [int(y[part].sum()) for part in order[0].split(4)]
    [1, 1]
    """
    return torch.stack([SAMPLING[sampling](classes, generator) for generator in generators])


def _shuffled(classes: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randperm(len(classes), generator=generator)


def _stratified(classes: Tensor, generator: torch.Generator) -> Tensor:
    # The i-th of n_c rows of class c gets a place in [i, i + 1) / n_c, the same shift for all of
    # its class: then any stretch holds its share of c, give or take one row.
    order = torch.randperm(len(classes), generator=generator)
    place = torch.empty(len(classes), dtype=torch.float64)
    for c in torch.unique(classes):
        rows = order[classes[order] == c]
        shift = torch.rand((), generator=generator, dtype=torch.float64)
        place[rows] = (torch.arange(len(rows)) + shift) / len(rows)
    return order[place[order].argsort(stable=True)]


def _oversampled(classes: Tensor, generator: torch.Generator) -> Tensor:
    counts = torch.unique(classes, return_counts=True)[1]
    wanted = int(counts.max())
    pieces = []
    for c in torch.unique(classes):
        rows = (classes == c).nonzero().flatten()
        # Every row as often as the others of its class, give or take one row.
        copies, remaining = divmod(wanted, len(rows))
        extra = rows[torch.randperm(len(rows), generator=generator)[:remaining]]
        pieces += [rows.repeat(copies), extra]
    rows = torch.cat(pieces)
    return rows[torch.randperm(len(rows), generator=generator)]


SAMPLING = {"shuffled": _shuffled, "stratified": _stratified, "oversampled": _oversampled}


def slices(rows: int, batch_size: int) -> Iterator[slice]:
    """Batches of at most ``batch_size``, as even as can be: no last batch of three rows.

    >>> [part.stop - part.start for part in slices(10, 4)]
    [3, 3, 4]
    """
    batches = -(-rows // batch_size)  # rounded up
    edges = [i * rows // batches for i in range(batches + 1)]
    for start, stop in itertools.pairwise(edges):
        yield slice(start, stop)
