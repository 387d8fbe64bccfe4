"""Tensors in memory, checked once.

``TensorData`` is what training takes: tensors. ``softset.tables.rows.Examples`` is what tables
give: arrays.
``data_of`` makes one from the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from softset.checks import warn_user
from softset.tables.rows import Examples
from softset.tasks import Task
from softset.typing import TensorLike


class AbsentClassWarning(UserWarning):
    """A class that validation does not have."""


class TensorData(NamedTuple):
    """Inputs ``[N, ...]``, targets ``[N]`` or ``[N, L]``, weights ``[N]`` or none."""

    x: Tensor
    y: Tensor
    w: Tensor | None = None

    def take(self, index: Tensor) -> TensorData:
        """Rows by number; an index ``[K, N]`` gives ``[K, N, ...]``."""
        w = None if self.w is None else _take(self.w, index)
        return TensorData(_take(self.x, index), _take(self.y, index), w)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """``values[index]`` along the first dimension; ``index_select`` is 5 times as fast."""
    return values.index_select(0, index.reshape(-1)).reshape(*index.shape, *values.shape[1:])


def data_of(rows: Examples) -> TensorData:
    """Rows as tensors, inputs in float32; weights that are all equal are left out.

    >>> rows = Examples(np.zeros((2, 3)), np.array([0, 1]), np.ones(2))
    >>> x, y, w = data_of(rows)
    >>> x.dtype, x.shape, y.tolist(), w
    (torch.float32, torch.Size([2, 3]), [0, 1], None)
    """
    x, y = torch.from_numpy(rows.x).float(), torch.from_numpy(np.ascontiguousarray(rows.y))
    return TensorData(x, y, None if np.ptp(rows.w) == 0 else torch.from_numpy(rows.w))


def make_data(name: str, tensors: Sequence[TensorLike | None], task: Task) -> TensorData:
    """Checked tensors; rows of weight zero are left out."""
    if not isinstance(tensors, list | tuple) or len(tensors) not in (2, 3):
        raise ValueError(f"{name} must be (x, y) or (x, y, sample_weight), got {type(tensors)}.")
    x, y = torch.as_tensor(tensors[0]), torch.as_tensor(tensors[1])
    w = None if len(tensors) == 2 or tensors[2] is None else torch.as_tensor(tensors[2])
    if task.single and y.dim() == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    dims = 2 if task.independent else 1
    if len(x) == 0 or y.dim() != dims or len(y) != len(x):
        raise ValueError(
            f"{name} must hold as many targets as inputs, at least one, with {dims} dimension(s) "
            f"for task={task!r}: got x {list(x.shape)}, y {list(y.shape)}."
        )
    if x.is_floating_point() and not torch.isfinite(x).all():
        row = int((~torch.isfinite(x)).nonzero()[0, 0])
        raise ValueError(f"{name} holds NaN or infinity in x, first in row {row}.")
    if task.exclusive:
        y = y.long()
        bad = (y < 0).any()
    else:
        bad = ((y != 0) & (y != 1)).any()
        y = y.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())
    if bad:
        wanted = "classes 0, 1, 2, …" if task.exclusive else "0 and 1"
        raise ValueError(f"{name} must hold {wanted} in y, got {y.min():g} to {y.max():g}.")
    if w is not None:
        if w.shape != x.shape[:1]:
            raise ValueError(f"{name}: sample_weight must have shape ({len(x)},), got {w.shape}.")
        if not torch.isfinite(w).all() or (w < 0).any() or not (w > 0).any():
            raise ValueError(
                f"{name}: sample_weight must be finite, not negative and not zero everywhere."
            )
        some = w > 0
        if not some.all():
            x, y, w = x[some], y[some], w[some]
        w = w.double()
    return TensorData(x, y, w)


def outputs_of(data: TensorData, task: Task) -> int:
    """Scores a row: one, or one for each class or label."""
    return task.outputs(data.y.shape[1] if data.y.dim() == 2 else max(2, int(data.y.max()) + 1))


def compare_data(train: TensorData, validation: TensorData, task: Task) -> None:
    """Refuse validation data that training says nothing about."""
    if train.x.shape[1:] != validation.x.shape[1:]:
        raise ValueError(
            f"validation must look like train: inputs {list(validation.x.shape[1:])} against "
            f"{list(train.x.shape[1:])}."
        )
    if task.independent:
        return
    seen, asked = torch.unique(train.y).tolist(), torch.unique(validation.y).tolist()
    unknown = [c for c in asked if c not in seen]
    if unknown:
        raise ValueError(f"validation holds class {unknown[0]:g}, which train never shows.")
    missing = [c for c in seen if c not in asked]
    if missing:
        warn_user(
            f"class {missing[0]:g} is absent from validation: early stopping cannot see it.",
            AbsentClassWarning,
        )


# --- folds: each network leaves one out, which judges it, so that no row is lost -----------------


class Judge(NamedTuple):
    """Rows that some members are not trained on."""

    members: range
    data: TensorData


def checked_folds(folds: TensorLike, train: Sequence[Any]) -> Tensor:
    """The folds of the rows of positive weight.

    >>> checked_folds([0, 1, -1, 0], (torch.zeros(4, 1), torch.zeros(4)))
    tensor([ 0,  1, -1,  0])
    """
    places, rows = torch.as_tensor(folds), len(train[0])
    folds_used = torch.unique(places[places >= 0]) if places.shape == (rows,) else places[:0]
    if len(folds_used) < 2 or not torch.equal(folds_used.long(), torch.arange(len(folds_used))):
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
