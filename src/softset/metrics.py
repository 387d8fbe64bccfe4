"""``Confusion`` -> number. Each formula is written once and serves as loss, evaluator, threshold
tuner, boosting objective and report line.

A metric is a frozen dataclass that is called with a ``Confusion`` and returns a tensor with the
confusion's leading dimensions. To add one: write its class and its row in ``METRICS``.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from softset._tools import NOTHING, all_positive, check_choice, check_number, nearest, ratio, root
from softset.counting import Confusion

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

    curve: ClassVar[bool] = False  # wants a grid of thresholds
    joint: ClassVar[bool] = False  # of several classes it is one number, not an average
    needs_negatives: ClassVar[bool] = False  # undefined when every example is positive

    def __post_init__(self) -> None:
        check_choice("average", self.average, AVERAGES)

    def score(self, c: Confusion) -> Tensor:
        """The formula, for every class on its own."""
        raise NotImplementedError

    def score_jointly(self, c: Confusion) -> Tensor:
        """The formula for several classes at once, where ``joint``."""
        raise NotImplementedError

    def __call__(self, c: Confusion, *, empty: str | None = None) -> Tensor:
        """The metric of ``c``, as scikit-learn has it; ``empty`` as in ``MetricLoss`` for training.

        >>> import torch
        >>> c = Confusion.from_matrix(torch.tensor([[5.0, 1.0], [2.0, 4.0]]), task="binary")
        >>> round(float(F1()(c)), 4)
        0.7273
        """
        if c.task == "binary":
            if not self.both_classes:
                return self._train(self.score(c), c, empty)
            c = _two_classes(c)
        if c.task == "multiclass" and self.joint:
            if self.average != "macro":
                raise ValueError(
                    f"average={self.average!r} does not fit {type(self).__name__} of several "
                    "classes, which is one number. Leave it out."
                )
            return self.score_jointly(c)
        if self.average == "micro":
            return self._average_micro(c, empty)
        values = self._train(self.score(c), c, empty)
        if self.average is None:
            return values
        shares = self._class_shares(c, empty)
        nothing = 1.0 if empty == "ignore" else 0.0
        return ratio((values * shares).sum(-1), shares.sum(-1), nothing)

    def _average_micro(self, c: Confusion, empty: str | None) -> Tensor:
        summed = c.map(lambda t: t.sum(-1))
        summed = replace(summed, task="binary", counted_matrix=None)
        return self._train(self.score(summed), summed, empty)

    def _class_shares(self, c: Confusion, empty: str | None) -> Tensor:
        """The weight of each class in the average."""
        c = self._without_grid(c)
        if self.average == "weighted":
            # In training without any support, all labels count alike.
            return torch.where(c.support.sum(-1, keepdim=True) > 0, c.support, 1.0)
        if c.task == "multilabel" and empty != "ignore":
            return torch.ones_like(c.support)
        if empty is None:  # scikit-learn: a class neither present nor predicted does not count
            return ((c.support > 0) | (c.predicted > 0)).to(c.support.dtype)
        return self._defined(c).to(c.support.dtype)

    def _train(self, values: Tensor, c: Confusion, empty: str | None) -> Tensor:
        """Where a batch has no positives (or no negatives, and the metric needs them): the share
        of right decisions, or 1 to leave it out.

        F-beta is constant there and would not push false positives down.
        """
        if empty is None or c.task == "multiclass":
            return values
        if all_positive(c.support) and not (self.needs_negatives and not all_positive(c.negatives)):
            return values
        c = self._without_grid(c)
        defined = self._defined(c)
        if empty == "ignore":
            return torch.where(defined, values, 1.0)
        share = ratio(c.predicted, c.total)
        return torch.where(defined, values, torch.where(c.support > 0, share, 1 - share))

    def _defined(self, c: Confusion) -> Tensor:
        some = c.support > 0
        return some & (c.negatives > 0) if self.needs_negatives else some

    def _without_grid(self, c: Confusion) -> Confusion:
        return c.map(lambda t: t.mean(_grid_axis(c))) if self.curve else c

    @property
    def name(self) -> str:
        """The name in ``METRICS``, with the average where it is not the usual one."""
        base = next(k for k, row in METRICS.items() if row.make is type(self))
        return _with_average(base, self)


def _with_average(base: str, metric: Metric) -> str:
    if metric.both_classes or metric.average in ("micro", "weighted"):
        return f"{base}_{metric.average}"
    return base


def _two_classes(c: Confusion) -> Confusion:
    """A binary confusion as one of two classes, the negative one first."""
    return Confusion(
        torch.stack([c.tn, c.tp], -1),
        torch.stack([c.rejected, c.predicted], -1),
        torch.stack([c.negatives, c.support], -1),
        torch.stack([c.total, c.total], -1),
        "multiclass",
    )


def _grid_axis(c: Confusion) -> int:
    return -2 if c.task == "multilabel" else -1


# --- the formulas -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Accuracy(Metric):
    """``(tp + tn) / total``; of several classes the share of right decisions."""

    joint = True

    def score(self, c: Confusion) -> Tensor:
        return ratio(c.tp + c.tn, c.total)

    def score_jointly(self, c: Confusion) -> Tensor:
        return ratio(c.tp.sum(-1), c.total[..., 0])


@dataclass(frozen=True)
class Fraction(Metric):
    """A metric that is one fraction, of sums of counts without a constant."""

    def fraction(self, c: Any) -> tuple[Any, Any]:
        """Numerator and denominator, by plain arithmetic: ``c`` may hold numbers too."""
        raise NotImplementedError

    def score(self, c: Confusion) -> Tensor:
        return ratio(*self.fraction(c))

    @cached_property
    def _units(self) -> tuple[Any, ...]:
        """Numerator and denominator of one ``tp``, and of one ``predicted``."""
        return tuple(self.fraction(_Numbers(*unit)) for unit in ((1, 0, 0), (0, 1, 0)))

    def slopes(self, tp: Tensor, predicted: Tensor, support: Tensor) -> tuple[Any, ...] | None:
        """The value and its derivatives by ``tp`` and ``predicted``: numbers for one class.

        For several it is the mean over those with support. Nothing where there is no support.
        """
        if tp.dim() == 0:
            c = _Numbers(tp.item(), predicted.item(), support.item())
            num, den = self.fraction(c)
            defined = den > NOTHING
            value = num / den if defined else 0.0
            by = tuple((n - value * d) / den if defined else 0.0 for n, d in self._units)
            return (value, *by) if c.support > 0 else None
        there = torch.gt(support, 0, out=torch.empty_like(support))
        if not (count := there.sum().item()):
            return None
        num, den = self.fraction(_Numbers(tp, predicted, support))
        each = ratio(there, den)
        value, share = num * each, each / count
        change = value * share
        slopes = (
            torch.add(share * n, change, alpha=-d) if d else share * n for n, d in self._units
        )
        return value.sum().item() / count, *slopes


class _Numbers(NamedTuple):
    """The counts a ``Fraction`` is made of."""

    tp: Any
    predicted: Any
    support: Any


@dataclass(frozen=True)
class Precision(Fraction):
    """``tp / (tp + fp)``."""

    def fraction(self, c: Any) -> tuple[Any, Any]:
        return c.tp, c.predicted


@dataclass(frozen=True)
class Recall(Fraction):
    """``tp / (tp + fn)``."""

    def fraction(self, c: Any) -> tuple[Any, Any]:
        return c.tp, c.support


@dataclass(frozen=True)
class Specificity(Metric):
    """``tn / (tn + fp)``, the recall of the negatives."""

    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        return ratio(c.tn, c.negatives)


@dataclass(frozen=True)
class BalancedAccuracy(Metric):
    """The mean recall of the classes that are there."""

    joint = True

    def score(self, c: Confusion) -> Tensor:
        return self.score_jointly(_two_classes(c))

    def score_jointly(self, c: Confusion) -> Tensor:
        present = (c.support > 0).to(c.support.dtype)
        return ratio(ratio(c.tp, c.support).sum(-1), present.sum(-1))


@dataclass(frozen=True)
class FBeta(Fraction):
    """``(1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp)``: recall counts ``b`` times as much.

    ``beta`` is a number, or one for each class (paper 002 section F).
    """

    average: str | None = "macro"
    both_classes: bool = False
    beta: float | tuple[float, ...] = 1.0

    def __init__(
        self, beta: Any = 1.0, average: str | None = "macro", both_classes: bool = False
    ) -> None:
        check_number("beta", beta, 0, float("inf"))
        if isinstance(beta, Tensor):
            beta = beta.tolist()
        beta = float(beta) if isinstance(beta, int | float) else tuple(float(b) for b in beta)
        for key, value in (("beta", beta), ("average", average), ("both_classes", both_classes)):
            object.__setattr__(self, key, value)
        self.__post_init__()

    def fraction(self, c: Any) -> tuple[Any, Any]:
        square: Any
        if isinstance(self.beta, tuple):
            if c.tp.dim() == 0 or c.tp.shape[-1] != len(self.beta) or c.task == "binary":
                raise ValueError(
                    f"beta has {len(self.beta)} values, the confusion is {c.task} of shape "
                    f"{list(c.tp.shape)}. Give one beta, or one for each class."
                )
            square = torch.tensor(self.beta, dtype=c.tp.dtype, device=c.tp.device) ** 2
            wanted = square * c.support
        else:
            square = self.beta**2
            wanted = c.support if square == 1 else square * c.support
        # b^2 fn + fp + (1 + b^2) tp = b^2 support + predicted
        return (1 + square) * c.tp, wanted + c.predicted

    @property
    def name(self) -> str:
        if isinstance(self.beta, tuple):
            return _with_average(f"fbeta({', '.join(f'{b:g}' for b in self.beta)})", self)
        return _with_average(f"f{self.beta:g}", self)


def F1(average: str | None = "macro", both_classes: bool = False) -> FBeta:  # noqa: N802
    """``2 tp / (2 tp + fn + fp)``: ``FBeta`` with ``beta=1``.

    >>> F1()
    FBeta(average='macro', both_classes=False, beta=1.0)
    """
    return FBeta(1.0, average, both_classes)


@dataclass(frozen=True)
class Jaccard(Fraction):
    """``tp / (tp + fp + fn)``."""

    def fraction(self, c: Any) -> tuple[Any, Any]:
        return c.tp, c.support + c.predicted - c.tp


@dataclass(frozen=True)
class GMean(Metric):
    """The geometric mean of the recalls: ``sqrt(tpr tnr)``, or the C-th root of their product."""

    joint = True
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        return root(ratio(c.tp, c.support)) * root(ratio(c.tn, c.negatives))

    def score_jointly(self, c: Confusion) -> Tensor:
        recalls = root(ratio(c.tp, c.support), c.tp.shape[-1])
        return torch.where(c.support > 0, recalls, 1.0).prod(-1)


def _shared(c: Confusion, a: Tensor, b: Tensor) -> Tensor:
    """``sum a b / n^2`` over the classes."""
    return (ratio(a, c.total) * ratio(b, c.total)).sum(-1)


def _covariance(c: Confusion) -> Tensor:
    """``tp tn - fp fn = n tp - predicted support``, without cancelling large products."""
    return _shared(c, c.tp, c.tn) - _shared(c, c.fp, c.fn)


@dataclass(frozen=True)
class MCC(Metric):
    """Matthews' correlation ``cov / sqrt(var var)``; Gorodkin's for several classes.

    Computed from rates: products of four counts overflow integers at 60,000 a cell.
    """

    joint = True
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        return self.score_jointly(_two_classes(c))

    def score_jointly(self, c: Confusion) -> Tensor:
        decided, true = _shared(c, c.predicted, c.rejected), _shared(c, c.support, c.negatives)
        return ratio(_covariance(c), root(decided) * root(true))


@dataclass(frozen=True)
class CohenKappa(Metric):
    """``(observed - chance) / (1 - chance)`` agreement."""

    joint = True
    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        return self.score_jointly(_two_classes(c))

    def score_jointly(self, c: Confusion) -> Tensor:
        return ratio(_covariance(c), _shared(c, c.predicted, c.negatives))


@dataclass(frozen=True)
class Informedness(Metric):
    """Youden's ``tpr + tnr - 1``."""

    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        return ratio(c.tp, c.support) + ratio(c.tn, c.negatives) - 1


@dataclass(frozen=True)
class Markedness(Metric):
    """``precision + negative predictive value - 1``."""

    needs_negatives = True

    def score(self, c: Confusion) -> Tensor:
        return ratio(c.tp, c.predicted) + ratio(c.tn, c.rejected) - 1


@dataclass(frozen=True)
class FowlkesMallows(Metric):
    """``sqrt(precision recall)``."""

    def score(self, c: Confusion) -> Tensor:
        return root(ratio(c.tp, c.predicted)) * root(ratio(c.tp, c.support))


@dataclass(frozen=True)
class Curve(Metric):
    """A metric over all thresholds: ``c`` carries a grid of them, ascending."""

    curve = True

    def integrate(self, c: Confusion) -> Tensor:
        """The area, along the last dimension."""
        raise NotImplementedError

    def score(self, c: Confusion) -> Tensor:
        return self.integrate(c.map(lambda t: t.movedim(_grid_axis(c), -1)))


@dataclass(frozen=True)
class AUROC(Curve):
    """The area under true positive rate against false positive rate.

    The end points (0, 0) and (1, 1) are added: the step is undefined at thresholds 0 and 1.
    """

    needs_negatives = True

    def integrate(self, c: Confusion) -> Tensor:
        tpr, fpr = ratio(c.tp, c.support), ratio(c.fp, c.negatives)
        one, zero = torch.ones_like(tpr[..., :1]), torch.zeros_like(tpr[..., :1])
        tpr, fpr = torch.cat([one, tpr, zero], -1), torch.cat([one, fpr, zero], -1)
        area = ((tpr[..., 1:] + tpr[..., :-1]) * (fpr[..., :-1] - fpr[..., 1:])).sum(-1) / 2
        defined = (c.support > 0) & (c.negatives > 0)
        return torch.where(defined[..., 0], area, torch.nan)


@dataclass(frozen=True)
class AveragePrecision(Curve):
    """``sum (recall_k - recall_k+1) precision_k`` over ascending thresholds."""

    def integrate(self, c: Confusion) -> Tensor:
        recall, precision = ratio(c.tp, c.support), ratio(c.tp, c.predicted)
        one, zero = torch.ones_like(recall[..., :1]), torch.zeros_like(recall[..., :1])
        prevalence = ratio(c.support, c.total)[..., :1]
        recall = torch.cat([one, recall, zero], -1)
        precision = torch.cat([prevalence, precision], -1)
        area = ((recall[..., :-1] - recall[..., 1:]) * precision).sum(-1)
        return torch.where(c.support[..., 0] > 0, area, 0.0)


# --- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What is known of a metric besides its formula."""

    make: Callable[..., Metric]
    oracle: str  # the function of sklearn.metrics it must equal, or "brute force"
    aliases: tuple[str, ...] = ()  # scikit-learn's scorer names among them
    averages: tuple[str | None, ...] = AVERAGES  # of several classes
    degenerate: float = 0.0  # the value without positives and without positive decisions


_JOINT: tuple[str | None, ...] = ("macro",)

METRICS: dict[str, Row] = {
    "f1": Row(F1, "f1_score"),
    "f2": Row(partial(FBeta, 2.0), "fbeta_score"),
    "f0.5": Row(partial(FBeta, 0.5), "fbeta_score"),
    "accuracy": Row(Accuracy, "accuracy_score", averages=_JOINT, degenerate=1.0),
    "balanced_accuracy": Row(
        BalancedAccuracy, "balanced_accuracy_score", averages=_JOINT, degenerate=1.0
    ),
    "precision": Row(Precision, "precision_score"),
    "recall": Row(Recall, "recall_score", ("sensitivity", "tpr")),
    "specificity": Row(Specificity, "brute force", ("tnr",), degenerate=1.0),
    "jaccard": Row(Jaccard, "jaccard_score", ("iou",)),
    "gmean": Row(GMean, "brute force", ("g_mean", "geometric_mean"), averages=_JOINT),
    "mcc": Row(MCC, "matthews_corrcoef", ("matthews_corrcoef",), averages=_JOINT),
    "cohen_kappa": Row(CohenKappa, "cohen_kappa_score", ("kappa",), averages=_JOINT),
    "informedness": Row(Informedness, "brute force", ("youden",)),
    "markedness": Row(Markedness, "brute force"),
    "fowlkes_mallows": Row(FowlkesMallows, "brute force"),
    "auroc": Row(
        AUROC,
        "roc_auc_score",
        ("roc_auc", "roc_auc_ovr"),
        degenerate=float("nan"),
    ),
    "average_precision": Row(AveragePrecision, "average_precision_score", ("auprc", "ap")),
}
"""Every metric by name. ``"f2"``, ``"f0.5"`` and so on stand for ``FBeta``; ``"_macro"``,
``"_micro"`` and ``"_weighted"`` may follow a name that is averaged, with scikit-learn's meaning."""

MetricLike = str | Metric | Callable[[Confusion], Tensor]


def get_metric(metric: MetricLike) -> Metric:
    """A metric from its name, a metric, or any function of a ``Confusion``.

    >>> get_metric("f2")
    FBeta(average='macro', both_classes=False, beta=2.0)
    >>> get_metric("matthews_corrcoef")
    MCC(average='macro', both_classes=False)
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return _parse(metric)
    if isinstance(metric, type):
        raise ValueError(f"metric must be called first: {metric.__name__}().")
    if callable(metric):
        return Custom(metric)
    raise ValueError(
        f"metric must be a name, a metric or a function of a Confusion, got {metric!r}."
    )


def _parse(name: str) -> Metric:
    base, _, suffix = name.lower().rpartition("_")
    average: dict[str, Any] = {}
    if suffix in ("macro", "micro", "weighted") and base:
        average = {"average": suffix, "both_classes": True}
    else:
        base = name.lower()
    found = re.fullmatch(r"f_?(\d+(?:\.\d+)?)", base)
    if found and float(found[1]) > 0:
        return FBeta(float(found[1]), **average)
    for key, row in METRICS.items():
        if base == key or base in row.aliases:
            if average and row.averages == _JOINT:
                raise ValueError(f"metric {name!r}: {key} is not averaged. Use {key!r}.")
            return row.make(**average)
    names = [*METRICS, *(alias for row in METRICS.values() for alias in row.aliases)]
    hint = nearest(base, names)
    raise ValueError(f"metric {name!r} is not known.{hint} Known: {', '.join(METRICS)}.")


# --- your own -----------------------------------------------------------------------------------


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
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def reads_matrix(self, task: str, classes: int) -> bool:
        """Try it on made-up counts: refuse it if that fails, else tell if it wants the matrix."""
        key = (task, classes)
        try:
            known = _probed.setdefault(self.function, {})
        except TypeError:  # not hashable, or no weak references: try it every time
            known = {}
        if key not in known:
            known[key] = _probe(self.function, self.name, task, classes)
        return known[key]


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
