"""The formulas: ``Confusion`` -> number, each written once.

A metric is a frozen dataclass that is called with a ``Confusion`` and returns a tensor with the
confusion's leading dimensions. To add one: write its class here and its row in ``METRICS``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softset.checks import check_choice, check_number
from softset.counting.confusion import Confusion
from softset.counting.numerics import ratio, root
from softset.metrics.base import Fraction, Metric, others
from softset.tasks import Task


@dataclass(frozen=True)
class Accuracy(Metric):
    """``(tp + tn) / total``; multiclass, the fraction of correct decisions; multilabel, the mean
    over labels (scikit-learn's multilabel ``accuracy_score`` counts rows without any error).

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Accuracy()(c).item(), 4)
    0.85
    """

    base_name = "accuracy"
    joint = True

    def score(self, c: Confusion) -> Tensor:
        """Correct decisions as a fraction of all."""
        return ratio(c.tp + c.tn, c.total)

    def score_jointly(self, c: Confusion) -> Tensor:
        """Rows whose class is right as a fraction of all rows."""
        return ratio(c.tp.sum(-1), c.total[..., 0])


@dataclass(frozen=True)
class Precision(Fraction):
    """``tp / (tp + fp)``.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Precision()(c).item(), 4)
    0.7778
    """

    base_name = "precision"

    def fraction(self, c: Confusion) -> tuple[Tensor, Tensor]:
        """True positives, of those flagged."""
        return c.tp, c.predicted


@dataclass(frozen=True)
class Recall(Fraction):
    """``tp / (tp + fn)``.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Recall()(c).item(), 4)
    0.875
    """

    base_name = "recall"

    def fraction(self, c: Confusion) -> tuple[Tensor, Tensor]:
        """True positives, of all positives."""
        return c.tp, c.support


@dataclass(frozen=True)
class Specificity(Metric):
    """``tn / (tn + fp)``, the recall of the negatives.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Specificity()(c).item(), 4)
    0.8333
    """

    base_name = "specificity"
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        """True negatives as a fraction of all negatives."""
        return ratio(c.tn, c.negatives)


@dataclass(frozen=True)
class BalancedAccuracy(Metric):
    """The mean recall of the classes that have rows.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(BalancedAccuracy()(c).item(), 4)
    0.8542
    """

    base_name = "balanced_accuracy"
    joint = True

    def score(self, c: Confusion) -> Tensor:
        """The mean recall of the two sides, of those that have examples."""
        recalls = ratio(c.tp, c.support) + ratio(c.tn, c.negatives)
        return ratio(recalls, (c.support > 0).to(c.tp.dtype) + (c.negatives > 0))

    def score_jointly(self, c: Confusion) -> Tensor:
        """The mean recall of the classes that have examples."""
        present = (c.support > 0).to(c.support.dtype)
        return ratio(ratio(c.tp, c.support).sum(-1), present.sum(-1))


# Beyond these the square of beta leaves nothing of one of the two kinds of mistakes.
BETAS = (1e-6, 1e6)
# Names such as "f2" end here: "f11" is more likely a typing error.
LARGEST_SHORT_BETA = 10.0


@dataclass(frozen=True)
class FBeta(Fraction):
    """``(1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp)``: recall counts ``b`` times as much.

    ``beta`` is a number, or one for each class (paper 002 section F).

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(FBeta(2.0)(c).item(), 4)
    0.8537
    """

    average: str | None = "macro"
    both_classes: bool = False
    beta: float | tuple[float, ...] = 1.0

    def __init__(
        self,
        beta: float | Sequence[float] | Tensor = 1.0,
        average: str | None = "macro",
        both_classes: bool = False,
    ) -> None:
        if isinstance(beta, Tensor):
            if beta.requires_grad:
                raise ValueError("beta must not require a gradient. Pass beta.detach().")
            beta = beta.tolist()
        hint = "Beyond that use Precision() or Recall(), which it comes to."
        check_number("beta", beta, *BETAS, closed="both", hint=hint)
        beta = float(beta) if isinstance(beta, int | float) else tuple(float(b) for b in beta)
        for key, value in (("beta", beta), ("average", average), ("both_classes", both_classes)):
            object.__setattr__(self, key, value)
        self.__post_init__()

    def check(self, task: Task) -> None:
        """Several betas are for classes or labels, one for each."""
        super().check(task)
        if isinstance(self.beta, tuple) and task.single:
            raise ValueError(
                f"beta has {len(self.beta)} values, and task='binary' one class. Give one beta."
            )

    def fraction(self, c: Confusion) -> tuple[Tensor, Tensor]:
        """``(1 + b^2) tp``, of ``predicted + b^2 support``."""
        square: float | Tensor
        if isinstance(self.beta, tuple):
            if c.tp.dim() == 0 or c.tp.shape[-1] != len(self.beta) or c.task.single:
                raise ValueError(
                    f"beta has {len(self.beta)} values, the confusion is {c.task} of shape "
                    f"{list(c.tp.shape)}. Give one beta, or one for each class."
                )
            square = torch.tensor(self.beta, dtype=c.tp.dtype, device=c.tp.device) ** 2
        else:
            square = self.beta**2
        right = (1 + square) * c.tp
        return right, right + square * c.fn + c.fp

    @property
    def separable(self) -> bool:
        """Not with several betas, which belong to labels in an order."""
        return super().separable and not isinstance(self.beta, tuple)

    def of_label(self, label: int) -> FBeta:
        """With the beta of that label."""
        return FBeta(self.beta[label] if isinstance(self.beta, tuple) else self.beta)

    @property
    def key(self) -> str:
        """With beta as it is written: ``f2``, or ``fbeta(...)`` for long ones."""
        betas = self.beta if isinstance(self.beta, tuple) else (self.beta,)
        digits = ", ".join(f"{b:g}" if float(f"{b:g}") == b else repr(b) for b in betas)
        short = self.beta is betas[0] and betas[0] <= LARGEST_SHORT_BETA and "e" not in digits
        return f"f{digits}" if short else f"fbeta({digits})"


def F1(average: str | None = "macro", both_classes: bool = False) -> FBeta:  # noqa: N802
    """``2 tp / (2 tp + fn + fp)``: ``FBeta`` with ``beta=1``.

    >>> F1()
    FBeta(average='macro', both_classes=False, beta=1.0)
    """
    return FBeta(1.0, average, both_classes)


@dataclass(frozen=True)
class Jaccard(Fraction):
    """``tp / (tp + fp + fn)``.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Jaccard()(c).item(), 4)
    0.7
    """

    base_name = "jaccard"

    def fraction(self, c: Confusion) -> tuple[Tensor, Tensor]:
        """True positives, of those flagged or positive."""
        return c.tp, c.tp + c.fp + c.fn


@dataclass(frozen=True)
class Tversky(Fraction):
    """``tp / (tp + alpha fp + beta fn)`` (Salehi et al. 2017): F-beta with the weights of the two
    kinds of mistakes spelled out; both 1/2 is Dice, both 1 Jaccard.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Tversky(alpha=0.3, beta=0.7)(c).item(), 4)
    0.8434
    """

    alpha: float = 0.3
    beta: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("alpha", "beta"):
            check_number(name, getattr(self, name), 0, BETAS[1], closed="both")
        if self.alpha + self.beta < BETAS[0]:
            raise ValueError("alpha and beta must not both be 0: no mistake would count.")

    def fraction(self, c: Confusion) -> tuple[Tensor, Tensor]:
        """True positives, of these and the weighted errors."""
        return c.tp, c.tp + self.alpha * c.fp + self.beta * c.fn

    @property
    def key(self) -> str:
        """With both weights, unless they are the usual ones."""
        usual = (self.alpha, self.beta) == (0.3, 0.7)
        return "tversky" if usual else f"tversky({self.alpha!r}, {self.beta!r})"

    def of_label(self, label: int) -> Tversky:
        """With the same weights."""
        return Tversky(alpha=self.alpha, beta=self.beta)


@dataclass(frozen=True)
class GMean(Metric):
    """The geometric mean of the recalls: ``sqrt(tpr tnr)``, or of the classes that have rows.

    As in imbalanced-learn, a class that is predicted and has no rows has a recall of 0; a loss,
    in which every class is predicted a little, leaves it out. One that ``ignore_index`` names does
    not count.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(GMean()(c).item(), 4)
    0.8539
    """

    base_name = "gmean"
    joint = True
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        """The geometric mean of recall and specificity."""
        return root(ratio(c.tp, c.support)) * root(ratio(c.tn, c.negatives))

    def score_jointly(self, c: Confusion) -> Tensor:
        """The geometric mean of the recalls of classes with examples."""
        present = c.support > 0
        degree = present.to(c.tp.dtype).sum(-1, keepdim=True).clamp(min=1)
        return torch.where(present, root(ratio(c.tp, c.support), degree), 1.0).prod(-1)

    def __call__(self, c: Confusion, *, empty: str | None = None) -> Tensor:
        value = super().__call__(c, empty=empty)
        if not c.task.exclusive or empty is not None:
            return value
        absent = c.support <= 0
        if c.left_out is not None:
            absent = absent & others(c)
        return torch.where(((c.predicted > 0) & absent).any(-1), 0.0, value)


def _covariance(c: Confusion) -> Tensor:
    """``n tp - predicted support``, without cancelling large products."""
    return c.tp * c.tn - c.fp * c.fn


def _rates(c: Confusion) -> Confusion:
    """Counts as fractions of all rows: products of two of them are fractions of all pairs."""
    total = c.total
    return c.each(lambda t: ratio(t, total))


@dataclass(frozen=True)
class MCC(Metric):
    """Matthews' correlation ``cov / sqrt(var var)``; multiclass, Gorodkin's.

    Computed from rates: products of four counts overflow integers at 60,000 a cell.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(MCC()(c).item(), 4)
    0.6975
    """

    base_name = "mcc"
    joint = True
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        """The covariance of decisions and labels over their standard deviations."""
        c = _rates(c)  # twice each product: summed over both classes, which are alike
        decided, true = 2 * (c.predicted * c.rejected), 2 * (c.support * c.negatives)
        return ratio(2 * _covariance(c), root(decided) * root(true))

    def score_jointly(self, c: Confusion) -> Tensor:
        """The same of all classes, by sums over classes."""
        c = _rates(c)
        left = torch.stack([c.tp, c.fp, c.predicted, c.support], -1)
        products = (left * torch.stack([c.tn, c.fn, c.rejected, c.negatives], -1)).sum(-2)
        roots = root(products[..., 2:])
        return ratio(products[..., 0] - products[..., 1], roots[..., 0] * roots[..., 1])


@dataclass(frozen=True)
class CohenKappa(Metric):
    """``(observed - chance) / (1 - chance)`` agreement.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(CohenKappa()(c).item(), 4)
    0.6939
    """

    base_name = "cohen_kappa"
    joint = True
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        """Agreement beyond chance, as a fraction of the most there can be."""
        c = _rates(c)
        chance = c.predicted * c.negatives + c.support * c.rejected
        return ratio(2 * _covariance(c), chance)

    def score_jointly(self, c: Confusion) -> Tensor:
        """The same of all classes."""
        c = _rates(c)
        return ratio(_covariance(c).sum(-1), (c.predicted * c.negatives).sum(-1))


KAPPA_WEIGHTS = ("linear", "quadratic")


@dataclass(frozen=True)
class WeightedKappa(CohenKappa):
    """``1 - sum W O / sum W E`` for ordered classes (Cohen 1968): ``O`` is the matrix as
    fractions, ``E`` what chance would give, and ``W_ij = |i - j|`` (linear) or its square. For two
    classes it is Cohen's kappa.

    >>> c = Confusion.from_matrix([[8, 2, 0], [1, 8, 1], [0, 3, 7]])
    >>> round(WeightedKappa(weights="quadratic")(c).item(), 4)
    0.8108
    """

    weights: str = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weights", self.weights, KAPPA_WEIGHTS)

    @property
    def key(self) -> str:
        """With the name of the weights."""
        return f"{self.weights}_kappa"

    def wants_matrix(self, task: Task, classes: int, *, training: bool = False) -> bool:
        """Of more than two classes: how far apart they are is in the matrix."""
        return task.exclusive and classes > 2

    def score_jointly(self, c: Confusion) -> Tensor:
        """One minus the weighted disagreement over that of chance."""
        classes = c.tp.shape[-1]
        if classes == 2:
            return super().score_jointly(c)
        number = torch.arange(classes, dtype=c.tp.dtype, device=c.tp.device)
        apart = (number.unsqueeze(-1) - number).abs() ** (1 if self.weights == "linear" else 2)
        m = c.matrix
        m = ratio(m, m.sum((-2, -1), keepdim=True))
        chance = m.sum(-1).unsqueeze(-1) * m.sum(-2).unsqueeze(-2)
        observed, chance = (apart * m).sum((-2, -1)), (apart * chance).sum((-2, -1))
        return ratio(chance - observed, chance)


@dataclass(frozen=True)
class Informedness(Metric):
    """Youden's ``tpr + tnr - 1``.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Informedness()(c).item(), 4)
    0.7083
    """

    base_name = "informedness"
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        """Recall plus specificity, minus 1."""
        return ratio(c.tp, c.support) + ratio(c.tn, c.negatives) - 1


@dataclass(frozen=True)
class Markedness(Metric):
    """``precision + negative predictive value - 1``.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(Markedness()(c).item(), 4)
    0.6869
    """

    base_name = "markedness"
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        """Precision plus that of negatives, minus 1."""
        return ratio(c.tp, c.predicted) + ratio(c.tn, c.rejected) - 1


@dataclass(frozen=True)
class FowlkesMallows(Metric):
    """``sqrt(precision recall)``.

    >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")  # tp 35, fp 10, fn 5, tn 50
    >>> round(FowlkesMallows()(c).item(), 4)
    0.825
    """

    base_name = "fowlkes_mallows"

    def score(self, c: Confusion) -> Tensor:
        """The geometric mean of precision and recall."""
        return root(ratio(c.tp, c.predicted)) * root(ratio(c.tp, c.support))
