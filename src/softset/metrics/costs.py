"""Costs of decisions as metrics: what each of the four outcomes costs, or each pair of classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from softset.counting.confusion import Confusion
from softset.counting.numerics import ratio
from softset.metrics.base import Metric
from softset.tasks import Task
from softset.typing import ArrayLike, Settings

CELLS = ("tp", "fp", "fn", "tn")
Matrix = tuple[tuple[float, ...], ...]
# The cost of an outcome: a number, or the name of the column that holds it for each row.
Price = float | str


@dataclass(frozen=True)
class Cost(Metric):
    """Minus the mean cost of a row, so that larger is better.

    ``tp``, ``fp``, ``fn`` and ``tn`` are the costs of the four outcomes (below 0 if something is
    earned): numbers, or the names of columns that hold them for each row. For
    ``task="multiclass"``, ``matrix`` has the costs: rows are true classes, columns predicted ones.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> Cost(fn=50, fp=1)(c).item()
    -2.6
    >>> Cost([[0, 1], [50, 0]])(c).item()
    -2.6
    """

    average: str | None = "macro"
    both_classes: bool = False
    tp: Price = 0.0
    fp: Price = 0.0
    fn: Price = 0.0
    tn: Price = 0.0
    matrix: Matrix | None = None

    joint = True
    word: ClassVar[str] = "cost"  # of its name
    sign: ClassVar[int] = -1  # of a price in the value

    def __init__(
        self,
        matrix: ArrayLike | None = None,
        *,
        tp: Price = 0.0,
        fp: Price = 0.0,
        fn: Price = 0.0,
        tn: Price = 0.0,
        average: str | None = "macro",
        both_classes: bool = False,
    ) -> None:
        prices = {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
        for name, price in prices.items():
            object.__setattr__(self, name, self._price(name, price))
        object.__setattr__(self, "matrix", None if matrix is None else self._matrix(matrix, prices))
        object.__setattr__(self, "average", average)
        object.__setattr__(self, "both_classes", both_classes)
        self.__post_init__()
        self._check_prices()

    def _price(self, name: str, price: Price) -> Price:
        if isinstance(price, str):
            if not price.strip():
                raise ValueError(f"{self.word}: {name} must be a number or a column, got ''.")
            return price
        try:
            number = float("nan") if isinstance(price, bool) else float(price)
        except (TypeError, ValueError):
            number = float("nan")
        if not np.isfinite(number):
            raise ValueError(f"{self.word}: {name} must be a finite number, got {price!r}.")
        return number

    def _matrix(self, matrix: ArrayLike, prices: dict[str, Price]) -> Matrix:
        try:
            values = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.zeros(0)
        square = values.ndim == 2 and values.shape[0] == values.shape[1] > 1
        if not square or not np.isfinite(values).all():
            raise ValueError(
                f"{self.word}: matrix must be C x C finite numbers (rows are true classes), got "
                f"{matrix!r}."
            )
        if any(prices.values()):
            raise ValueError(f"{self.word}: pass a matrix, or tp, fp, fn and tn, not both.")
        return tuple(tuple(row) for row in values.tolist())

    def _check_prices(self) -> None:
        """Refuse prices by which no decision is better than another."""
        if self.matrix is not None:
            flat = [v for row in self.matrix for v in row]
            if min(flat) == max(flat):
                raise ValueError(f"{self.word}: all elements of matrix are equal.")
            return
        if not self.columns and self.tp == self.fn and self.fp == self.tn:
            raise ValueError(
                f"{self.word} must depend on the decision, such as {self.word}(fn=50, fp=1), got "
                f"{self.key}."
            )

    @classmethod
    def parse(cls, text: str) -> Cost:
        """The cost of ``cost(fn=50, fp=1)``, ``cost(fn=amount, fp=5)``, ``cost([[0, 1], [5, 0]])``
        or ``profit(tp=100, fp=-5)``."""
        match = re.fullmatch(r"\s*(cost|profit)\s*\((.*)\)\s*", text, re.IGNORECASE | re.DOTALL)
        if not match or not match[2].strip():
            raise ValueError(f"metric {text!r} must have prices. {GRAMMAR}")
        kind = Profit if match[1].lower() == "profit" else Cost
        try:
            if match[2].lstrip().startswith("["):
                return kind(ast.literal_eval(match[2].strip()))
            prices: Settings = dict(_prices(match[2]))
            return kind(**prices)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "matrix is malformed."
            raise ValueError(f"metric {text!r}: {reason} {GRAMMAR}") from None

    @property
    def columns(self) -> dict[str, str]:
        """The columns that hold the costs of each row, by outcome."""
        prices = {name: getattr(self, name) for name in CELLS}
        return {name: price for name, price in prices.items() if isinstance(price, str)}

    @property
    def key(self) -> str:
        """The word with its prices, as it is read."""
        if self.matrix is not None:
            rows = ", ".join(f"[{', '.join(f'{v:.12g}' for v in row)}]" for row in self.matrix)
            return f"{self.word}([{rows}])"
        prices = {name: getattr(self, name) for name in ("tp", "fn", "fp", "tn")}
        text = (f"{k}={v if isinstance(v, str) else f'{v:.12g}'}" for k, v in prices.items() if v)
        return f"{self.word}({', '.join(text)})"

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest value."""
        if self.columns:
            return -float("inf"), float("inf")
        flat = [v for row in self.matrix for v in row] if self.matrix is not None else self._numbers
        values = [self.sign * v for v in flat]
        return min(values), max(values)

    @property
    def _numbers(self) -> Sequence[float]:
        """The prices of ``CELLS``."""
        return [float(getattr(self, name)) for name in CELLS]

    def check(self, task: Task) -> None:
        """Prices in columns are of single rows: no metric of counts."""
        super().check(task)
        if self.columns:
            columns = ", ".join(self.columns.values())
            raise ValueError(
                f"metric {self.name!r} has costs of each row, in columns ({columns}), and counts "
                "have no rows. Use a classifier, or softset.cost_decision with scores."
            )
        size = 0 if self.matrix is None else len(self.matrix)
        if task.exclusive and not size:
            raise ValueError(
                f"metric {self.name!r} for task='multiclass' must be a matrix: {self.word}([[0, 1, "
                "2], [1, 0, 1], [2, 1, 0]]), rows are true classes."
            )
        if (task.single and size > 2) or (task.independent and size):
            raise ValueError(f"metric {self.name!r} for task={str(task)!r} must have fn and fp.")

    def defined(self, c: Confusion) -> Tensor:
        """Wherever there are rows."""
        return c.total > 0

    def score(self, c: Confusion) -> Tensor:
        """The mean over rows of the prices of their cells."""
        if self.matrix is not None:
            (tn, fp), (fn, tp) = self.matrix[:2]
        else:
            tp, fp, fn, tn = self._numbers
        return self.sign * ratio(tp * c.tp + fp * c.fp + fn * c.fn + tn * c.tn, c.total)

    def score_jointly(self, c: Confusion) -> Tensor:
        """The mean over rows of the prices in the matrix."""
        prices = torch.tensor(self.matrix, dtype=c.tp.dtype, device=c.tp.device)
        if len(prices) != c.tp.shape[-1]:
            raise ValueError(
                f"{self.word}: matrix is of {len(prices)} classes, the target of {c.tp.shape[-1]}."
            )
        return self.sign * ratio((prices * c.matrix).sum((-2, -1)), c.total[..., 0])

    def of_label(self, label: int) -> Cost:
        """The same prices."""
        return self

    def wants_matrix(self, task: Task, classes: int, *, training: bool = False) -> bool:
        """Of classes: the prices are by true and predicted class."""
        return task.exclusive


@dataclass(frozen=True, init=False)
class Profit(Cost):
    """The mean profit of a row: a ``Cost`` with the other sign.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> Profit(tp=100, fp=-5)(c).item()
    34.5
    """

    word = "profit"
    sign = 1


GRAMMAR = (
    "Expected cost(fn=50, fp=1) or profit(tp=100, fp=-5): prices of tp, fp, fn and tn, numbers or "
    "columns; multiclass cost([[0, 1], [5, 0]])."
)


def _prices(text: str) -> dict[str, Price]:
    """``fn=50, fp=amount`` as a dictionary."""
    prices: dict[str, Price] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if name.lower() not in CELLS or not equals or not value or "=" in value:
            raise ValueError(f"{item.strip()!r} is not a price.")
        if name.lower() in prices:
            raise ValueError(f"{name} is repeated.")
        try:
            prices[name.lower()] = float(value)
        except ValueError:
            prices[name.lower()] = value.strip("'\"")
    return prices
