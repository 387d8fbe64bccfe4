"""The table of metrics: name, aliases, averages, oracle; and a metric from its name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from softset.checks import nearest
from softset.counting.confusion import Confusion
from softset.metrics.base import AVERAGES, Metric
from softset.metrics.costs import Cost
from softset.metrics.curves import AUROC, AveragePrecision
from softset.metrics.custom import Custom
from softset.metrics.formulas import (
    F1,
    LARGEST_SHORT_BETA,
    MCC,
    Accuracy,
    BalancedAccuracy,
    CohenKappa,
    FBeta,
    FowlkesMallows,
    GMean,
    Informedness,
    Jaccard,
    Markedness,
    Precision,
    Recall,
    Specificity,
    Tversky,
    WeightedKappa,
)
from softset.metrics.goals import Fixed, Goal, Where
from softset.metrics.grid import Grid
from softset.metrics.meeting import GRAMMAR, RATES, Constraint, Meeting
from softset.metrics.top import Top
from softset.storage.arrays import plain
from softset.storage.files import SavedFileError
from softset.typing import JSON, Settings


@dataclass(frozen=True)
class Row:
    """What is known of a metric besides its formula: one row a metric, read by everyone."""

    make: Callable[..., Metric]
    label: str  # in running text and in reports
    formula: str  # of one class, for people
    oracle: str  # the function of sklearn.metrics it must equal, or "brute force"
    aliases: tuple[str, ...] = ()  # scikit-learn's scorer names among them
    averages: tuple[str | None, ...] = AVERAGES  # of several classes
    range: tuple[float, float] = (0.0, 1.0)
    degenerate: float = 0.0  # the value without positives and without positive decisions


_JOINT: tuple[str | None, ...] = ("macro",)
_SIGNED = (-1.0, 1.0)
METRICS: dict[str, Row] = {
    "f1": Row(F1, "F1", "2 tp / (2 tp + fp + fn)", "f1_score", ("dice",)),
    "f2": Row(partial(FBeta, 2.0), "F2", "5 tp / (5 tp + 4 fn + fp)", "fbeta_score"),
    "f0.5": Row(partial(FBeta, 0.5), "F0.5", "1.25 tp / (1.25 tp + 0.25 fn + fp)", "fbeta_score"),
    "accuracy": Row(
        Accuracy,
        "accuracy",
        "(tp + tn) / (tp + fp + fn + tn)",
        "accuracy_score",
        averages=_JOINT,
        degenerate=1.0,
    ),
    "balanced_accuracy": Row(
        BalancedAccuracy,
        "balanced accuracy",
        "(tp / (tp + fn) + tn / (tn + fp)) / 2",
        "balanced_accuracy_score",
        averages=_JOINT,
        degenerate=1.0,
    ),
    "precision": Row(Precision, "precision", "tp / (tp + fp)", "precision_score"),
    "recall": Row(Recall, "recall", "tp / (tp + fn)", "recall_score", ("sensitivity", "tpr")),
    "specificity": Row(
        Specificity, "specificity", "tn / (tn + fp)", "brute force", ("tnr",), degenerate=1.0
    ),
    "jaccard": Row(Jaccard, "Jaccard index", "tp / (tp + fp + fn)", "jaccard_score", ("iou",)),
    "tversky": Row(Tversky, "Tversky index", "tp / (tp + 0.3 fp + 0.7 fn)", "fbeta_score"),
    "gmean": Row(
        GMean,
        "G-mean",
        "√(recall · specificity)",
        "brute force",
        ("g_mean", "geometric_mean"),
        averages=_JOINT,
    ),
    "mcc": Row(
        MCC,
        "MCC",
        "(tp tn − fp fn) / √((tp + fp)(tp + fn)(tn + fp)(tn + fn))",
        "matthews_corrcoef",
        ("matthews_corrcoef",),
        averages=_JOINT,
        range=_SIGNED,
    ),
    "cohen_kappa": Row(
        CohenKappa,
        "Cohen's kappa",
        "(observed − chance) / (1 − chance) agreement",
        "cohen_kappa_score",
        ("kappa",),
        averages=_JOINT,
        range=_SIGNED,
    ),
    "linear_kappa": Row(
        partial(WeightedKappa, weights="linear"),
        "linear kappa",
        "1 − Σ W observed / Σ W chance, W = |i − j|",
        "cohen_kappa_score",
        ("linear_weighted_kappa",),
        averages=_JOINT,
        range=_SIGNED,
    ),
    "quadratic_kappa": Row(
        partial(WeightedKappa, weights="quadratic"),
        "quadratic kappa",
        "1 − Σ W observed / Σ W chance, W = (i − j)²",
        "cohen_kappa_score",
        ("quadratic_weighted_kappa", "qwk"),
        averages=_JOINT,
        range=_SIGNED,
    ),
    "informedness": Row(
        Informedness,
        "informedness",
        "recall + specificity − 1",
        "brute force",
        ("youden",),
        range=_SIGNED,
    ),
    "markedness": Row(
        Markedness,
        "markedness",
        "precision + tn / (tn + fn) − 1",
        "brute force",
        range=_SIGNED,
    ),
    "fowlkes_mallows": Row(
        FowlkesMallows, "Fowlkes–Mallows", "√(precision · recall)", "brute force"
    ),
    "auroc": Row(
        AUROC,
        "AUROC",
        "area under recall against false positive rate",
        "roc_auc_score",
        ("roc_auc", "roc_auc_ovr"),
        degenerate=float("nan"),
    ),
    "partial_auroc": Row(
        partial(AUROC, max_fpr=0.1),
        "partial AUROC",
        "AUROC up to a false positive rate of 0.1, 1/2 for chance",
        "roc_auc_score",
        degenerate=float("nan"),
    ),
    "average_precision": Row(
        AveragePrecision,
        "average precision",
        "Σ (recallₖ − recallₖ₋₁) precisionₖ",
        "average_precision_score",
        ("auprc", "ap"),
    ),
}
"""Every metric by name. ``"f2"``, ``"f0.5"`` and so on, up to ``"f10"``, stand for ``FBeta``, and
``"fbeta(20)"`` for any; ``"_macro"``, ``"_micro"`` and ``"_weighted"`` may follow a name that is
averaged, with scikit-learn's meaning. ``"miou"`` is ``"jaccard_macro"``, ``"recall@5"`` takes the 5
largest, and ``"tversky(0.2, 0.8)"`` and ``"partial_auroc(0.05)"`` have their numbers with them.
``"precision@recall>=0.9"`` is a metric where a constraint is met, ``"cost(fn=50, fp=1)"`` a cost.

>>> from softset import METRICS
>>> METRICS["jaccard"].formula, METRICS["jaccard"].oracle
('tp / (tp + fp + fn)', 'jaccard_score')
"""
# Names of a metric together with its average.
AVERAGED = {"miou": "jaccard_macro"}


MetricLike = str | Metric | Goal | Callable[[Confusion], Tensor]
# Where a metric can be taken, by what follows "@" in its name: a pattern, and what is made of it.
PLACES: dict[str, Callable[[re.Match[str]], Where]] = {
    r"(\d+)": lambda found: Top(int(found[1])),
    r".*[<>=≥≤].*": lambda found: Meeting.parse(found[0]),
}


def get_metric(metric: MetricLike) -> Metric:
    """A metric from its name, a metric, or any function of a ``Confusion``.

    >>> get_metric("f2")
    FBeta(average='macro', both_classes=False, beta=2.0)
    >>> get_metric("matthews_corrcoef")
    MCC(average='macro', both_classes=False)
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, Goal):
        raise ValueError(f"metric must be a metric alone, got the goal {metric.name!r}.")
    if isinstance(metric, str):
        return _parse(metric)
    ours = str(getattr(metric, "__module__", "")).startswith("softset.metrics.")
    if isinstance(metric, type) or (ours and hasattr(metric, "__name__")):
        raise ValueError(f"metric must be called first: {metric.__name__}().")
    if callable(metric):
        _refuse_scikit_learn(metric)
        return Custom(metric)
    raise ValueError(
        f"metric must be a name, a metric or a function of a Confusion, got {metric!r}."
        f"{' Give one at a time.' if isinstance(metric, list | tuple) else ''}"
    )


def _refuse_scikit_learn(function: Callable[..., object]) -> None:
    """Name our metric for a function of ``sklearn.metrics``, which is one of labels."""
    if not str(getattr(function, "__module__", "")).startswith("sklearn.metrics"):
        return
    name = getattr(function, "__name__", type(function).__name__)
    try:
        hint = f"Pass {get_metric(name).name!r}, which is the same metric."
    except ValueError:
        hint = f"ss.METRICS has those of softset: {', '.join(METRICS)}."
    raise ValueError(f"metric must be a function of a Confusion, got scikit-learn's {name}. {hint}")


def get_goal(metric: MetricLike) -> Goal:
    """What is wanted, from a name, a metric, a goal or any function of a ``Confusion``.

    >>> get_goal("recall@5")
    Goal(metric=Recall(average='macro', both_classes=False), where=Top(k=5))
    >>> get_goal("auroc").tunes, get_goal("f1").tunes
    (False, True)
    """
    if isinstance(metric, Goal):
        return metric
    if isinstance(metric, str) and "@" in metric:
        return _parse_goal(metric)
    m = get_metric(metric)
    return Goal(m, Grid() if m.over_thresholds else Fixed())


def At(metric: MetricLike, *, k: int | None = None, **rates: float | str) -> Goal:  # noqa: N802
    """A metric at the ``k`` most probable labels of each row, or where constraints are just met.

    ``rates`` are ``recall``, ``precision`` and ``specificity``, at least; ``fpr`` and ``alerts``
    (the fraction of rows that are flagged), at most. ``alerts="200/10000"`` is a count in the next
    10,000 rows, ``alerts=200`` one of the rows at hand. Each label meets them.

    >>> At("recall", k=5).name, At("precision", recall=0.9).name
    ('recall@5', 'precision@recall>=0.9')
    """
    if (k is None) == (not rates):
        raise ValueError(f"At must have k, or constraints: {', '.join(RATES)}.")
    if k is not None:
        return Goal(get_metric(metric), Top(k))
    constraints = (Constraint.parse(rate, str(bound)) for rate, bound in rates.items())
    return Goal(get_metric(metric), Meeting(tuple(constraints)))


def one_number(metric: MetricLike) -> Goal:
    """The goal, if it is one number: ``average=None`` gives one for each class.

    >>> one_number("mcc").name
    'mcc'
    """
    goal = get_goal(metric)
    if goal.metric.average is None:
        raise ValueError(
            "metric with average=None gives several numbers where one is needed. Use 'macro'."
        )
    return goal


def label_of(metric: MetricLike) -> str:
    """A metric in running text; the name of an unknown one stays as it is.

    >>> [label_of(m) for m in ("f1_macro", "mcc", "f0.5", "f3", FBeta(20), "profit")]
    ['macro F1', 'MCC', 'F0.5', 'F3', 'F20', 'profit']
    """
    try:
        goal = get_goal(metric)
    except ValueError:
        return str(metric)
    m = goal.metric
    row = METRICS.get(m.key)
    base = m.key if row is None else row.label
    if row is None and isinstance(m, FBeta) and isinstance(m.beta, float):
        base = f"F{m.beta:g}"
    base += goal.where.suffix
    return f"{m.average} {base}" if m.says_average else base


def range_of(metric: MetricLike) -> tuple[float, float]:
    """The least and the largest value that a metric can have.

    >>> range_of("mcc"), range_of("f3")
    ((-1.0, 1.0), (0.0, 1.0))
    """
    m = get_goal(metric).metric
    if isinstance(m, Cost):
        return m.range
    row = METRICS.get(m.key)
    return (0.0, 1.0) if row is None else row.range


def _parse_goal(name: str) -> Goal:
    base, _, place = name.rpartition("@")
    place, average = _split(place.strip())
    for pattern, make in PLACES.items():
        if match := re.fullmatch(pattern, place):
            try:
                metric = _parse(base.strip())
                return Goal(replace(metric, **average) if average else metric, make(match))
            except ValueError as error:
                grammar = "" if "@" in base or "@" not in name else f" {GRAMMAR}"
                raise ValueError(f"metric {name!r}: {error}{grammar}") from None
    raise ValueError(
        f"metric {name!r} is not known: after '@' comes a number (recall@5), or a constraint. "
        f"{GRAMMAR}"
    )


def _parse(name: str) -> Metric:
    if re.match(r"\s*(cost|profit)\s*(\(|$)", name, re.IGNORECASE):
        return Cost.parse(name)
    base, average = _split(AVERAGED.get(name.lower(), name))
    base = base.removesuffix("_score")  # scikit-learn's functions
    beta = _short_beta(base)
    if beta is not None and beta <= LARGEST_SHORT_BETA:
        return FBeta(beta, **average)
    if match := re.fullmatch(r"fbeta\(([\d., e+-]+)\)", base):
        return FBeta(_betas(name, match[1]), **average)
    if match := re.fullmatch(r"(tversky|partial_auroc)\(([\d., e+-]+)\)", base):
        return _with_numbers(name, match[1], match[2], average)
    for key, row in METRICS.items():
        if base == key or base in row.aliases:
            if average and row.averages == _JOINT:
                raise ValueError(f"metric {name!r}: {key} is not averaged. Use {key!r}.")
            return row.make(**average)
    names = [
        *METRICS,
        *AVERAGED,
        "cost",
        "profit",
        *(alias for row in METRICS.values() for alias in row.aliases),
    ]
    hint = nearest(base, names)
    if base in ("pr_auc", "auprc"):
        hint = " The area under precision and recall is 'average_precision'."
    if base.endswith("_samples"):
        hint = f" The mean over rows of labels is '{base[:-8]}_micro' with per='image'."
    if base == "fbeta":
        hint = " Say which beta: 'f2', 'f0.5' or 'fbeta(3)'."
    if beta is not None:
        hint += f" F-beta with so large a beta is 'fbeta({beta:g})'."
    raise ValueError(f"metric {name!r} is not known.{hint} Known: {', '.join(METRICS)}.")


def _split(name: str) -> tuple[str, Settings]:
    """A name without its average, and the average."""
    base, _, suffix = name.lower().rpartition("_")
    if suffix in ("macro", "micro", "weighted") and base:
        return base, {"average": suffix, "both_classes": True}
    return name.lower(), {}


def _short_beta(base: str) -> float | None:
    """The number in a name such as ``"f2"``."""
    match = re.fullmatch(r"f_?(\d+(?:\.\d+)?)", base)
    beta = float(match[1]) if match else 0.0
    return beta if beta > 0 else None


def _betas(name: str, inside: str) -> float | list[float]:
    """The numbers between the brackets of ``"fbeta(0.5, 2)"``."""
    try:
        numbers = [float(part) for part in inside.split(",")]
    except ValueError:
        raise ValueError(
            f"metric {name!r} must hold numbers, as 'fbeta(20)' or 'fbeta(0.5, 2)' do."
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _with_numbers(name: str, base: str, inside: str, average: Settings) -> Metric:
    """``"tversky(0.2, 0.8)"`` or ``"partial_auroc(0.05)"``."""
    names = ("alpha", "beta") if base == "tversky" else ("max_fpr",)
    try:
        params: Settings = dict(zip(names, map(float, inside.split(",")), strict=True))
    except ValueError:
        raise ValueError(
            f"metric {name!r} must hold {len(names)} number(s): {base}({', '.join(names)})."
        ) from None
    return Tversky(**average, **params) if base == "tversky" else AUROC(**average, **params)


def thresholded(metric: MetricLike) -> Goal:
    """The goal; raises ValueError unless there is a threshold (or offsets) to tune for it."""
    goal = one_number(decided_elsewhere(metric))
    if not goal.tunes:
        raise ValueError(f"metric {goal.name!r} is over all thresholds: there is none to choose.")
    return goal


def decided_elsewhere(metric: MetricLike) -> Goal:
    """The goal, if a classifier can decide for it: not by the k largest of a row.

    >>> decided_elsewhere("recall@3")
    Traceback (most recent call last):
    ValueError: metric 'recall@3' has no threshold to tune. Use it in evaluate, metric_loss and fit.
    """
    goal = get_goal(metric)
    if isinstance(goal.where, Top):
        raise ValueError(
            f"metric {goal.name!r} has no threshold to tune. Use it in evaluate, metric_loss and "
            "fit."
        )
    return goal


def pack_metric(metric: MetricLike) -> JSON:
    """A name, or a metric of ours by the name of its class and its fields."""
    if isinstance(metric, str):
        return metric
    goal = get_goal(metric)
    if isinstance(goal.metric, Custom):
        return None
    if goal.where.suffix or isinstance(goal.metric, Cost):
        return goal.name if get_goal(goal.name) == goal else None
    if type(goal.metric) not in _classes().values():
        return None
    return {"class": type(goal.metric).__name__, "fields": plain(dataclasses.asdict(goal.metric))}


def unpack_metric(packed: Any) -> MetricLike | None:
    """The inverse of ``pack_metric``; ``None`` for a metric of the user's own."""
    if isinstance(packed, str):
        return packed
    if packed is None:
        return None
    return _classes()[packed["class"]](**packed["fields"])


def _classes() -> dict[str, type[Metric]]:
    """The classes that a file may name."""
    kinds = [type(row.make()) for row in METRICS.values()]
    return {kind.__name__: kind for kind in kinds}


def restored_metric(packed: JSON, user_metric: MetricLike | None) -> MetricLike:
    """The metric that was saved, or the one that is ``given``; one of them is needed."""
    metric = unpack_metric(packed) if user_metric is None else user_metric
    if metric is None:
        raise SavedFileError(
            "it was saved with a metric of your own. Pass it: load(path, metric=...)."
        )
    return metric
