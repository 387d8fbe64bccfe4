"""Metrics of the user's own: any function of a ``Confusion``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from softset.counting.cells import Confusion
from softset.metrics.base import Metric


@dataclass(frozen=True)
class Custom(Metric):
    """Any function of a ``Confusion``; it always sees a single one, without batch dimensions."""

    average: str | None = "macro"
    both_classes: bool = False
    function: Callable[[Confusion], Tensor] = None  # type: ignore[assignment]

    def __init__(self, function: Callable[[Confusion], Tensor]) -> None:
        object.__setattr__(self, "function", function)

    def __call__(self, c: Confusion, *, empty: str | None = None) -> Tensor:
        inner = 0 if c.task == "binary" else 1
        value = _unbatched(self.function, c, c.tp.dim() - inner)
        return self._train(value, c, empty) if c.task == "binary" else value

    @property
    def key(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def wants_matrix(self, task: str, classes: int, *, training: bool = False) -> bool:
        if not training or torch.compiler.is_compiling():
            return task == "multiclass"
        key = (task, classes)
        try:
            known = _probed.setdefault(self.function, {})
        except TypeError:  # not hashable, or no weak references: try it every time
            known = {}
        if key not in known:
            known[key] = _probe(self.function, self.name, task, classes)
        return known[key] and task == "multiclass"


_probed: weakref.WeakKeyDictionary[Any, dict[tuple[str, int], bool]] = weakref.WeakKeyDictionary()


def _unbatched(function: Callable[[Confusion], Tensor], c: Confusion, dims: int) -> Tensor:
    if dims == 0:
        value = function(c)
        return value if isinstance(value, Tensor) else torch.as_tensor(value)

    def single(
        tp: Tensor, predicted: Tensor, support: Tensor, total: Tensor, *matrix: Tensor
    ) -> Tensor:
        one = Confusion(tp, predicted, support, total, c.task, matrix[0] if matrix else None)
        return function(one)

    for _ in range(dims):
        single = torch.func.vmap(single)
    matrix = [] if c.counted_matrix is None else [c.counted_matrix]
    return single(c.tp, c.predicted, c.support, c.total, *matrix)


@torch.enable_grad()
def _probe(function: Any, name: str, task: str, classes: int) -> bool:
    refused = f"metric {name} is refused: on made-up {task} counts "
    d = max(2, classes if task == "multiclass" else 2)
    cells = torch.arange(1.0, d * d + 1, dtype=torch.float64).reshape(d, d) + 10 * torch.eye(d)
    cells.requires_grad_()
    if task == "multiclass":
        c = Confusion.from_matrix(cells)
    else:
        c = Confusion.from_matrix(cells, task="binary")
        if task == "multilabel":
            c = replace(c.map(lambda t: t.unsqueeze(-1).repeat(classes)), task=task)
    wants_matrix = False
    try:
        value = function(replace(c, counted_matrix=None))
    except ValueError as error:
        if "matrix=True" not in str(error):
            raise ValueError(f"{refused}it raised {error!r}.") from error
        wants_matrix = True
    except Exception as error:
        raise ValueError(f"{refused}it raised {error!r}.") from error
    if wants_matrix:
        try:
            value = function(c)
        except Exception as error:
            raise ValueError(f"{refused}it raised {error!r}.") from error
    if not isinstance(value, Tensor):
        raise ValueError(f"{refused}it returned {type(value).__name__}, not a tensor.")
    if value.dim() != 0:
        raise ValueError(f"{refused}it returned shape {list(value.shape)}, not one number.")
    if not torch.isfinite(value):
        raise ValueError(f"{refused}it is {value.item()}. Divide with softset.ratio.")
    if not value.requires_grad:
        raise ValueError(f"{refused}it has no gradient: use torch operations, no rounding.")
    (grad,) = torch.autograd.grad(value, cells)
    if not torch.isfinite(grad).all() or not grad.any():
        kind = "zero" if torch.isfinite(grad).all() else "not finite"
        raise ValueError(f"{refused}its gradient is {kind}.")
    return wants_matrix
