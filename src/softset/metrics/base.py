"""What all metrics share: averages over classes, and classes without examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.cells import Confusion
from softset.counting.numerics import all_positive, ratio, under_transform
from softset.counting.traced import Traced
from softset.tasks import BINARY, MULTICLASS, Task

AVERAGES = ("macro", "micro", "weighted", None)


@dataclass(frozen=True)
class Metric:
    """What all metrics share: averaging over classes. Think twice before adding anything here.

    ``average`` over classes or labels: ``"macro"`` (plain mean), ``"micro"`` (counts are summed
    first), ``"weighted"`` (by support) or ``None`` (a value for each class). For ``task="binary"``
    a metric is that of the positive class; ``both_classes=True`` averages over the negative class
    too, as scikit-learn's ``f1_macro`` does.
    """

    average: str | None = "macro"
    both_classes: bool = False

    base_name: ClassVar[str] = ""  # its name in ``METRICS``
    joint: ClassVar[bool] = False  # of several classes it is one number, not an average
    needs_negatives: ClassVar[bool] = False  # undefined when every example is positive

    def __post_init__(self) -> None:
        check_choice("average", self.average, AVERAGES)

    @property
    def key(self) -> str:
        """Its name in ``METRICS``, without the average."""
        return self.base_name

    def check(self, task: Task) -> None:
        """Refuse an average that there is none of."""
        if task.exclusive and self.joint and self.average != "macro":
            raise ValueError(
                f"average={self.average!r} does not fit {type(self).__name__} of several "
                "classes, which is one number. Leave it out."
            )

    def score(self, c: Confusion) -> Tensor:
        """The formula, for every class on its own."""
        raise NotImplementedError

    def score_jointly(self, c: Confusion) -> Tensor:
        """The formula for several classes at once, where ``joint``."""
        raise NotImplementedError

    def __call__(self, c: Confusion, *, empty: str | None = None) -> Tensor:
        """The metric of ``c``, as scikit-learn has it; ``empty`` as in ``MetricLoss`` for training.

        >>> from softset import F1
        >>> c = Confusion.from_matrix([[5, 1], [2, 4]], task="binary")
        >>> round(float(F1()(c)), 4)
        0.7273
        """
        c = _in_reach(c)
        if c.task.single:
            if not self.both_classes:
                return self._train(self.score(c), c, empty)
            c = two_classes(c)
        if c.task.exclusive and self.joint:
            self.check(c.task)
            return self.score_jointly(c)
        if self.average == "micro":
            return self._average_micro(c, empty)
        values = self._train(self.score(c), c, empty)
        if self.average is None:
            return values
        shares = self._class_shares(c, empty)
        if c.left_out is not None:
            shares = shares * others(c)
            values = torch.where(shares > 0, values, 0.0)
        nothing = 1.0 if empty == "ignore" else 0.0
        return ratio((values * shares).sum(-1), shares.sum(-1), nothing)

    def _average_micro(self, c: Confusion, empty: str | None) -> Tensor:
        each = c
        if c.left_out is not None:
            each = c.each(lambda t: t[..., others(c)])
        summed = replace(each.each(lambda t: t.sum(-1)), task=BINARY)
        return self._train(self.score(summed), summed, empty)

    def _class_shares(self, c: Confusion, empty: str | None) -> Tensor:
        """The weight of each class in the average."""
        c = self.of_one(c)
        if self.average == "weighted":
            # In training without any support, all labels count alike.
            return torch.where(c.support.sum(-1, keepdim=True) > 0, c.support, 1.0)
        if c.task.independent and empty != "ignore":
            return torch.ones_like(c.support)
        if empty is None:  # scikit-learn: a class neither present nor predicted does not count
            return ((c.support > 0) | (c.predicted > 0)).to(c.support.dtype)
        return self.defined(c).to(c.support.dtype)

    def _train(self, values: Tensor, c: Confusion, empty: str | None) -> Tensor:
        """Where a batch has no positives (or no negatives, and the metric needs them): the share
        of right decisions, or 1 to leave it out.

        F-beta is constant there and would not push false positives down.
        """
        if empty is None or c.task.exclusive:
            return values
        if all_positive(c.support) and not (self.needs_negatives and not all_positive(c.negatives)):
            return values
        c = self.of_one(c)
        defined = self.defined(c)
        if empty == "ignore":
            return torch.where(defined, values, 1.0)
        share = ratio(c.predicted, c.total)
        return torch.where(defined, values, torch.where(c.support > 0, share, 1 - share))

    def defined(self, c: Confusion) -> Tensor:
        """Where there are positives, and negatives if it needs them."""
        some = c.support > 0
        return some & (c.negatives > 0) if self.needs_negatives else some

    def of_one(self, c: Confusion) -> Confusion:
        """Counts without the thresholds that the metric integrates over: their mean."""
        return c

    @property
    def name(self) -> str:
        """The name in ``METRICS``, with the average where it is not the usual one."""
        return f"{self.key}_{self.average}" if self.says_average else self.key

    @property
    def says_average(self) -> bool:
        """Whether the average is part of the name: it is not the usual one."""
        return self.both_classes or self.average in ("micro", "weighted")

    def of_label(self, label: int) -> Metric:
        """The metric of one label (or class) alone."""
        return replace(self, average="macro", both_classes=False)

    def wants_matrix(self, task: Task, classes: int, *, training: bool = False) -> bool:
        """Whether the C x C matrix of several classes must be counted for it.

        For ``training`` a metric of the user's own is tried first, and refused if it has no
        gradient.
        """
        return False


def others(c: Confusion) -> Any:
    """True for all classes but the one that is left out."""
    if isinstance(c.tp, Traced):
        return np.arange(c.tp.shape[-1]) != c.left_out
    return torch.arange(c.tp.shape[-1], device=c.tp.device).ne(c.left_out or 0)


# Totals outside of this are scaled: next to 0 counts would be taken for nothing (see ``ratio``).
REACH = (1e-9, 1e12)


def _in_reach(c: Confusion) -> Confusion:
    """The same counts in other units, where weights are so small or large that it matters: metrics
    do not depend on it."""
    if isinstance(c.tp, Traced):
        return c  # where it is traced, counts are in reach
    totals = c.total if c.task.single else c.total.amax(-1, keepdim=True)
    if not under_transform(totals):
        low, high = torch.aminmax(totals.detach())
        if REACH[0] <= float(low) and float(high) <= REACH[1]:
            return c
    unit = torch.where(totals > 0, totals, 1.0)
    scaled = c.each(lambda t: t / unit)
    if c.counted_matrix is None:
        return scaled
    return replace(scaled, counted_matrix=c.counted_matrix / unit.unsqueeze(-1))


def two_classes(c: Confusion) -> Confusion:
    """A binary confusion as one of two classes, the negative one first."""
    first, second = (c.tn, c.fn, c.fp, c.tp), (c.tp, c.fp, c.fn, c.tn)
    cells = (torch.stack(both, -1) for both in zip(first, second, strict=True))
    return Confusion.of(cells, MULTICLASS)


def grid_axis(c: Confusion) -> int:
    """The dimension of a grid of thresholds."""
    return c.task.grid_axis
