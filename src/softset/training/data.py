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


def make_data(name: str, given: Sequence[Any], task: Task) -> TensorData:
    """Checked tensors; rows of weight zero are left out."""
    if not isinstance(given, list | tuple) or len(given) not in (2, 3):
        raise ValueError(f"{name} must be (x, y) or (x, y, sample_weight), got {type(given)}.")
    x, y = torch.as_tensor(given[0]), torch.as_tensor(given[1])
    w = None if len(given) == 2 or given[2] is None else torch.as_tensor(given[2])
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
