"""What all metrics share: averages over classes, and classes without examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.confusion import Confusion
from softset.counting.numerics import Traced, all_positive, ratio, readable
from softset.counting.traced import Taped
from softset.tasks import BINARY, MULTICLASS, Task

AVERAGES = ("macro", "micro", "weighted", None)


@dataclass(frozen=True)
class Metric:
    """What all metrics share: averaging over classes. Keep it small.

    ``average`` over classes or labels: ``"macro"`` (plain mean), ``"micro"`` (counts are summed
    first), ``"weighted"`` (by support) or ``None`` (a value for each class). For ``task="binary"``
    a metric is that of the positive class; ``both_classes=True`` averages over the negative class
    too, as scikit-learn's ``f1_macro`` does.
    """

    average: str | None = "macro"
    both_classes: bool = False

    base_name: ClassVar[str] = ""  # its name in ``METRICS``
    joint: ClassVar[bool] = False  # multiclass, it is one number, not an average
    over_thresholds: ClassVar[bool] = False  # an area: it reads counts at a grid of thresholds
    needs_negatives: ClassVar[bool] = False  # undefined when every example is positive

    def __post_init__(self) -> None:
        check_choice("average", self.average, AVERAGES)

    @property
    def key(self) -> str:
        """Its name in ``METRICS``, without the average."""
        return self.base_name

    def check(self, task: Task) -> None:
        """Raise ValueError for an average that does not apply to the task."""
        if task.exclusive and self.joint and self.average != "macro":
            raise ValueError(
                f"average={self.average!r} does not apply to {type(self).__name__} for "
                "task='multiclass', which is one number. Omit it."
            )

    def score(self, c: Confusion) -> Tensor:
        """The formula, for each class."""
        raise NotImplementedError

    def score_jointly(self, c: Confusion) -> Tensor:
        """The multiclass formula of all classes together, where ``joint``."""
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
        weights = self._class_weights(c, empty)
        if c.left_out is not None:
            weights = weights * others(c)
            values = torch.where(weights > 0, values, 0.0)
        undefined = 1.0 if empty == "ignore" else 0.0
        return ratio((values * weights).sum(-1), weights.sum(-1), undefined)

    def _average_micro(self, c: Confusion, empty: str | None) -> Tensor:
        each = c
        if c.left_out is not None:
            counts = others(c)
            each = c.each(lambda t: t * counts)
        summed = replace(each.each(lambda t: t.sum(-1)), task=BINARY)
        return self._train(self.score(summed), summed, empty)

    def _class_weights(self, c: Confusion, empty: str | None) -> Tensor:
        """The weight of each class in the average."""
        c = self.without_grid(c)
        if self.average == "weighted":
            # In training without any support, all labels count alike.
            return torch.where(c.support.sum(-1, keepdim=True) > 0, c.support, 1.0)
        if c.task.independent and empty != "ignore":
            return torch.ones_like(c.support)
        if empty is None:  # scikit-learn: a class neither present nor predicted does not count
            return ((c.support > 0) | (c.predicted > 0)).to(c.support.dtype)
        return self.defined(c).to(c.support.dtype)

    def _train(self, values: Tensor, c: Confusion, empty: str | None) -> Tensor:
        """Values, replaced where a batch has no positives (or no negatives, and the metric needs
        them): by the fraction of correct decisions, or by 1 with ``empty="ignore"``.

        F-beta is constant there and would not push false positives down.
        """
        if empty is None or c.task.exclusive:
            return values
        if all_positive(c.support) and not (self.needs_negatives and not all_positive(c.negatives)):
            return values
        c = self.without_grid(c)
        defined = self.defined(c)
        if empty == "ignore":
            return torch.where(defined, values, 1.0)
        flagged = ratio(c.predicted, c.total)
        return torch.where(defined, values, torch.where(c.support > 0, flagged, 1 - flagged))

    def defined(self, c: Confusion) -> Tensor:
        """Mask of confusions with positives, and with negatives if the metric needs them."""
        positives = c.support > 0
        return positives & (c.negatives > 0) if self.needs_negatives else positives

    def without_grid(self, c: Confusion) -> Confusion:
        """Counts averaged over the thresholds that the metric integrates over."""
        return c

    @property
    def name(self) -> str:
        """The name in ``METRICS``, with the average unless it is the default."""
        return f"{self.key}_{self.average}" if self.says_average else self.key

    @property
    def says_average(self) -> bool:
        """Whether the average is part of the name: it is not the default."""
        return self.both_classes or self.average in ("micro", "weighted")

    @property
    def separable(self) -> bool:
        """Whether the best threshold of a label does not depend on those of the others."""
        return self.average != "micro"

    def of_label(self, label: int) -> Metric:
        """The metric of one label (or class) alone."""
        return replace(self, average="macro", both_classes=False)

    def wants_matrix(self, task: Task, classes: int, *, training: bool = False) -> bool:
        """Whether it reads the multiclass C x C matrix.

        For ``training`` a custom metric is tried first, and refused if it has no gradient.
        """
        return False


def others(c: Confusion) -> Tensor:
    """Mask of all classes but the one that ``ignore_index`` names."""
    if isinstance(c.tp, Taped) and not isinstance(c.tp.value, Tensor):
        return np.arange(c.tp.shape[-1]) != c.left_out
    return torch.arange(c.tp.shape[-1], device=c.tp.device).ne(c.left_out or 0)


# Totals outside of this are scaled: counts next to 0 would be treated as 0 (see ``ratio``).
REACH = (1e-9, 1e12)


def _in_reach(c: Confusion) -> Confusion:
    """Counts divided by their total where weights are very small or large: metrics do not depend
    on the unit of weights."""
    if isinstance(c.tp, Traced):
        return c  # traced counts are of moderate size
    totals = c.total.detach()  # no metric changes with the unit
    totals = totals if c.task.single else totals.amax(-1, keepdim=True)
    if readable(totals):
        low, high = torch.aminmax(totals)
        if REACH[0] <= float(low) and float(high) <= REACH[1]:
            return c
    unit = torch.where(totals > 0, totals, 1.0)
    scaled = c.each(lambda t: t / unit)
    if c.counted_matrix is None:
        return scaled
    return replace(scaled, counted_matrix=c.counted_matrix / unit.unsqueeze(-1))


def two_classes(c: Confusion) -> Confusion:
    """A binary confusion as a multiclass one of two classes, the negative one first."""
    first, second = (c.tn, c.fn, c.fp, c.tp), (c.tp, c.fp, c.fn, c.tn)
    cells = (torch.stack(both, -1) for both in zip(first, second, strict=True))
    return Confusion.of(cells, MULTICLASS)


@dataclass(frozen=True)
class Fraction(Metric):
    """A metric that is one fraction, of sums of ``tp``, ``fp`` and ``fn``."""

    def fraction(self, c: Confusion) -> tuple[Tensor, Tensor]:
        """Numerator and denominator."""
        raise NotImplementedError

    def score(self, c: Confusion) -> Tensor:
        return ratio(*self.fraction(c))
