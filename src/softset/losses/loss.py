"""What a loss is: ``loss(scores, target, sample_weight=None)`` -> one number. Losses add and scale.

``0.5 * CrossEntropyLoss() + MetricLoss("dice")`` is a ``Mixture``, which is a loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from softset.checks import check_integer, check_number, nearest
from softset.typing import Groups, Weights

Weight = float | Callable[[int], float]

# What other libraries call it, and what it is here.
WORDS = {
    "pos_weight": "class_weight=[1, pos_weight] weighs the positives of task='binary', and "
    "sample_weight, the third argument of a call, single positions",
    "weight": "class_weight weighs classes, and sample_weight, the third argument of a call, "
    "single positions",
    "reduction": "a loss is one number; with batch_dims there is one for each problem, and "
    "per='image' is the mean of each image's",
    "label_smoothing": "pass smoothed targets, with soft_targets=True",
}


def refuse_words(name: str, unknown: Mapping[str, object], arguments: Sequence[str] = ()) -> None:
    """Refuse arguments that are not there, with our word for those of other libraries.

    >>> refuse_words("MetricLoss", {"label_smoothing": 0.1})
    Traceback (most recent call last):
    ValueError: MetricLoss has no label_smoothing: pass smoothed targets, with soft_targets=True.
    """
    for word in unknown:
        if word in WORDS:
            raise ValueError(f"{name} has no {word}: {WORDS[word]}.")
        raise TypeError(
            f"{name} got an unexpected keyword argument {word!r}.{nearest(word, arguments)}"
        )


class Loss(nn.Module):
    """What all losses share: they add, and scale by a number or by a schedule."""

    takes_sets: ClassVar[bool] = False  # as a fourth argument, ``per``

    def __mul__(self, weight: Weight) -> Mixture:
        return Mixture([(weight, self)])

    __rmul__ = __mul__

    def __add__(self, other: nn.Module) -> Mixture:
        return Mixture([(1.0, self), (1.0, other)])

    def __radd__(self, other: nn.Module) -> Loss:
        if isinstance(other, int) and other == 0:  # where ``sum`` begins
            return self
        return Mixture([(1.0, other), (1.0, self)])


class Term(NamedTuple):
    """One loss of a mixture; its weight is the product of the factors."""

    factors: tuple[Weight, ...]
    loss: nn.Module

    def weight(self, epoch: int) -> float:
        """The weight in an epoch."""
        product = math.prod(f(epoch) if callable(f) else f for f in self.factors)
        check_number("weight", product, 0, math.inf, closed="low", hint="It is that of a loss.")
        return float(product)

    @property
    def moves(self) -> bool:
        """Whether the weight depends on the epoch."""
        return any(callable(f) for f in self.factors)


class Mixture(Loss):
    """``sum_i weight_i loss_i``, made by adding and scaling losses.

    A weight is a number, or a function of the epoch (from 0) such as ``Ramp(1.0, 0.0, 20)``, which
    ``fit`` and ``train_members`` follow; in a loop of your own, set ``mixture.epoch`` before each.
    Losses of others, ``torch.nn`` modules, may be added to ours.

    >>> from softset import CrossEntropyLoss, MetricLoss
    >>> loss = 0.5 * CrossEntropyLoss() + MetricLoss("dice")
    >>> z, y = torch.zeros(4), torch.tensor([1, 0, 1, 0])
    >>> round(loss(z, y).item(), 4)  # 0.5 log 2 + 0.5
    0.8466
    """

    takes_sets = True

    def __init__(self, terms: Sequence[tuple[Weight, nn.Module]]) -> None:
        super().__init__()
        self.terms: list[Term] = []
        for weight, loss in terms:
            if not isinstance(loss, nn.Module):
                raise ValueError(f"a loss can be added to a loss, got {loss!r}.")
            if not callable(weight) and not isinstance(weight, int | float):
                raise ValueError(
                    f"weight must be a number or a function of the epoch, got {weight!r}."
                )
            inner = loss.terms if isinstance(loss, Mixture) else [Term((), loss)]
            self.terms += [Term((weight, *term.factors), term.loss) for term in inner]
        self.losses = nn.ModuleList([term.loss for term in self.terms])
        self.epoch = 0

    @property
    def epoch(self) -> int:
        """The epoch that the weights are of."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        check_integer("epoch", epoch, 0)
        self._epoch = epoch
        # As tensors, those that move: the compiler takes numbers for constants.
        self.weights: list[float | Tensor] = [
            torch.tensor(term.weight(epoch), dtype=torch.float64)
            if term.moves
            else term.weight(epoch)
            for term in self.terms
        ]

    @property
    def moves(self) -> bool:
        """Whether a weight depends on the epoch: then losses of two epochs can't be compared."""
        return any(term.moves for term in self.terms)

    def weighted(self, values: Sequence[Tensor]) -> Tensor:
        """The sum of what the losses are, in their order."""
        terms = [
            (w.to(value.dtype) if isinstance(w, Tensor) else w) * value
            for w, value in zip(self.weights, values, strict=True)
        ]
        return torch.stack(terms).sum(0)

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        sample_weight: Weights = None,
        per: Groups | None = None,
    ) -> Tensor:
        """The weighted sum of the losses; set numbers and weights go to those that take them."""
        values = []
        for loss in self.losses:
            if per is not None and getattr(loss, "takes_sets", False):
                values.append(loss(scores, target, sample_weight, per))
            elif sample_weight is not None:
                values.append(loss(scores, target, sample_weight))
            else:
                values.append(loss(scores, target))
        return self.weighted(values)

    def extra_repr(self) -> str:
        return " + ".join(" * ".join(map(_worded, term.factors)) for term in self.terms)


@dataclass(frozen=True)
class Ramp:
    """A weight that goes from ``start`` to ``end`` in so many ``epochs``, evenly, and stays there.

    >>> ramp = Ramp(1.0, 0.0, epochs=4)
    >>> [ramp(epoch) for epoch in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """

    start: float
    end: float
    epochs: int

    def __post_init__(self) -> None:
        check_number("start", self.start, 0, math.inf, closed="low")
        check_number("end", self.end, 0, math.inf, closed="low")
        check_integer("epochs", self.epochs, 1)

    def __call__(self, epoch: int) -> float:
        share = min(1.0, epoch / self.epochs)
        return (1 - share) * self.start + share * self.end


def _worded(weight: Weight) -> str:
    """Without an address in memory, which differs between processes."""
    text = repr(weight)
    return getattr(weight, "__qualname__", type(weight).__name__) if " at 0x" in text else text
