"""A confusion as one vector: to be summed over machines, remembered, and differentiated by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from softset.counting.confusion import Confusion
from softset.tasks import Task

CELLS = ("tp", "fp", "fn", "tn")


@dataclass(frozen=True)
class Form:
    """What the numbers of a vector are: four cells of ``shape``, and a matrix if it has one."""

    task: Task
    shape: tuple[int, ...]
    matrix: tuple[int, ...] | None = None
    left_out: int | None = None

    @property
    def size(self) -> int:
        """How many numbers there are: 8 times as many bytes on the wire."""
        matrix = 0 if self.matrix is None else math.prod(self.matrix)
        return len(CELLS) * math.prod(self.shape) + matrix

    def confusion(self, flat: Tensor) -> Confusion:
        """The confusion of a vector ``[size]``, with its graph."""
        cells = flat[: len(CELLS) * math.prod(self.shape)].reshape(len(CELLS), *self.shape)
        tp, fp, fn, tn = cells.unbind()
        matrix = None if self.matrix is None else flat[cells.numel() :].reshape(self.matrix)
        return Confusion(tp, fp, fn, tn, self.task, matrix, self.left_out)


def flatten(c: Confusion) -> tuple[Tensor, Form]:
    """All cells of ``c`` one after another, with their graph, and what they are.

    Vectors of the same form add up as confusions do.

    >>> c = Confusion.from_matrix([[5, 1], [2, 4]], task="binary")
    >>> flat, form = flatten(c)
    >>> flat.tolist()
    [4.0, 1.0, 2.0, 5.0]
    >>> form.confusion(flat + flat).fp.item()
    2.0
    """
    shape = c.tp.shape
    vectors = [getattr(c, name).expand(shape).reshape(-1) for name in CELLS]
    matrix = c.counted_matrix
    if matrix is not None:
        vectors.append(matrix.reshape(-1))
    sizes = None if matrix is None else tuple(matrix.shape)
    return torch.cat(vectors), Form(c.task, tuple(shape), sizes, c.left_out)


def carried(value: Tensor, part: Tensor, times: float = 1.0) -> Tensor:
    """``value``, with ``times`` the derivative of ``part``.

    >>> part = torch.tensor(2.0, requires_grad=True)
    >>> whole = carried(torch.tensor(10.0), part, 3)
    >>> whole.backward()
    >>> whole.item(), part.grad.item()
    (10.0, 3.0)
    """
    change = part - part.detach()  # zero
    return value.detach() + (change if times == 1 else change * times)
