"""Custom metrics: any function of a ``Confusion``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from softset.counting.confusion import Confusion, MatrixNotCountedError
from softset.counting.numerics import without_values
from softset.metrics.base import Metric
from softset.tasks import BINARY, MULTICLASS, Task
from softset.typing import Settings

Function = Callable[[Confusion], Tensor]


@dataclass(frozen=True)
class Custom(Metric):
    """Any function of a ``Confusion``; it always sees a single one, without batch dimensions."""

    average: str | None = "macro"
    both_classes: bool = False
    function: Function = None  # type: ignore[assignment]

    def __init__(self, function: Function) -> None:
        object.__setattr__(self, "function", function)

    def __call__(self, c: Confusion, *, empty: str | None = None) -> Tensor:
        dims = c.tp.dim() - (0 if c.task.single else 1)
        value = _unbatched(self.function, c, dims)
        if value.dim() != dims:
            raise ValueError(
                f"metric {self.name} must return one number for a Confusion, got shape "
                f"{list(value.shape[dims:])}. Return their mean, for example."
            )
        return self._train(value, c, empty) if c.task.single else value

    @property
    def key(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def separable(self) -> bool:
        return False

    def defined(self, c: Confusion) -> Tensor:
        """Of labels or classes together, it is defined wherever the function is."""
        return super().defined(c) if c.task.single else torch.ones_like(c.support, dtype=torch.bool)

    def of_label(self, label: int) -> Custom:
        return self

    def wants_matrix(self, task: Task, classes: int, *, training: bool = False) -> bool:
        # For evaluation it may read the matrix; for training it is tried on example counts.
        reads = self._try(task, classes) if training else True
        return reads and task.exclusive

    def _try(self, task: Task, classes: int) -> bool:
        """Whether it reads the matrix of example counts; raises ValueError if it fails on them."""
        cells = _example(task, classes)
        if without_values(cells):  # values cannot be read
            return True
        try:
            results = _tried.setdefault(self.function, {})
        except TypeError:  # not hashable, or no weak references: try it every time
            results = {}
        key = (task, classes)
        if key not in results:
            results[key] = _reads_matrix(self.function, self.name, task, classes, cells)
        return results[key]


_tried: weakref.WeakKeyDictionary[Function, dict[tuple[str, int], bool]] = (
    weakref.WeakKeyDictionary()
)


def _unbatched(function: Function, c: Confusion, dims: int) -> Tensor:
    """The function of every single confusion: all at once, or one by one where the function reads
    values, as in a plain ``if``."""
    if dims == 0:
        value = function(c)
        return value if isinstance(value, Tensor) else torch.as_tensor(value, device=c.tp.device)
    names = [f.name for f in fields(c) if isinstance(getattr(c, f.name), Tensor)]

    def single(*tensors: Tensor) -> Tensor:
        changed: Settings = dict(zip(names, tensors, strict=True))
        return function(replace(c, **changed))

    tensors = [getattr(c, name) for name in names]
    together = single
    for _ in range(dims):
        together = torch.func.vmap(together)
    try:
        return together(*tensors)
    except (RuntimeError, ValueError):  # one by one, an error of the metric itself comes again
        if without_values(*tensors):
            raise
    shape = c.tp.shape[:dims]
    rows = zip(*(t.reshape(-1, *t.shape[dims:]) for t in tensors), strict=True)
    values = [torch.as_tensor(single(*row), device=c.tp.device) for row in rows]
    return torch.stack(values).reshape(*shape, *values[0].shape)


def _example(task: Task, classes: int) -> Tensor:
    """Example counts: no cell is 0, and most decisions are correct."""
    d = max(2, classes if task.exclusive else 2)
    numbers = torch.arange(1.0, d * d + 1, dtype=torch.float64, device="cpu").reshape(d, d)
    return numbers + 10 * torch.eye(d, dtype=torch.float64, device="cpu")


@torch.enable_grad()
def _reads_matrix(function: Function, name: str, task: Task, classes: int, cells: Tensor) -> bool:
    refused = f"metric {name} is refused: on example {task} counts "
    cells.requires_grad_()
    c = Confusion.from_matrix(cells, task=MULTICLASS if task.exclusive else BINARY)
    if task.independent:
        c = replace(c.map(lambda t: t.unsqueeze(-1).repeat(classes)), task=task)
    reads = False
    try:
        try:
            value = function(replace(c, counted_matrix=None))
        except MatrixNotCountedError:
            reads, value = True, function(c)
    except Exception as error:
        raise ValueError(
            f"{refused}it raised {error!r}. A metric is a function of one Confusion, not of labels "
            "and predictions."
        ) from error
    if not isinstance(value, Tensor):
        raise ValueError(f"{refused}it returned {type(value).__name__}, not a tensor.")
    if value.dim() != 0:
        raise ValueError(f"{refused}it returned shape {list(value.shape)}, not one number.")
    if not torch.isfinite(value):
        raise ValueError(f"{refused}it is {value.item()}. Divide with softset.counting.ratio.")
    if not value.requires_grad:
        raise ValueError(f"{refused}it has no gradient: use torch operations, no rounding.")
    (grad,) = torch.autograd.grad(value, cells)
    if not torch.isfinite(grad).all() or not grad.any():
        kind = "zero" if torch.isfinite(grad).all() else "not finite"
        raise ValueError(f"{refused}its gradient is {kind}.")
    return reads
