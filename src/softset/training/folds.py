"""Bagging over folds: each member leaves out a fold, which judges it, so that no row is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softset.training.data import TensorData


class Judge(NamedTuple):
    """Rows that some members are not trained on."""

    members: range
    data: TensorData


def checked_folds(folds: Any, train: Sequence[Any]) -> Tensor:
    """The folds of the rows of positive weight.

    >>> checked_folds([0, 1, -1, 0], (torch.zeros(4, 1), torch.zeros(4)))
    tensor([ 0,  1, -1,  0])
    """
    places, rows = torch.as_tensor(folds), len(train[0])
    known = torch.unique(places[places >= 0]) if places.shape == (rows,) else places[:0]
    if len(known) < 2 or not torch.equal(known.long(), torch.arange(len(known))):
        raise ValueError(
            f"folds must hold a fold from 0 for each of {rows} rows, at least two of them, got "
            f"{folds!r}."
        )
    weighted = len(train) == 3 and train[2] is not None
    return (places[torch.as_tensor(train[2]) > 0] if weighted else places).long()


def fold_of(member: int, count: int) -> int:
    """The fold that a member is not trained on."""
    return member % count


def own_rows(folds: Tensor, members: range) -> list[Tensor]:
    """Numbers of the rows that each member is trained on."""
    count = int(folds.max()) + 1
    return [(folds != fold_of(k, count)).nonzero().flatten() for k in members]


def fold_judges(data: TensorData, folds: Tensor, members: range) -> list[Judge]:
    """Each fold that some members leave out, and these."""
    count = int(folds.max()) + 1
    return [
        Judge(members[fold::count], data.take((folds == fold).nonzero().flatten()))
        for fold in range(min(count, len(members)))
    ]
