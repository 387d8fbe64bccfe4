"""The table of metrics: name, aliases, averages, oracle; and a metric from its name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from softset.checks import nearest
from softset.counting.cells import Confusion
from softset.metrics.base import AVERAGES, Metric
from softset.metrics.curves import AUROC, AveragePrecision
from softset.metrics.custom import Custom
from softset.metrics.formulas import (
    F1,
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
)
from softset.storage.arrays import plain
from softset.storage.files import SavedFileError


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


def pack_metric(metric: MetricLike) -> Any:
    """A name, or a metric of ours by the name of its class and its fields."""
    if isinstance(metric, str):
        return metric
    found = get_metric(metric)
    if isinstance(found, Custom) or type(found) not in _classes().values():
        return None
    return {"class": type(found).__name__, "fields": plain(dataclasses.asdict(found))}


def unpack_metric(packed: Any) -> MetricLike | None:
    """The inverse of ``pack_metric``; ``None`` for a metric of the user\'s own."""
    if packed is None or isinstance(packed, str):
        return packed
    return _classes()[packed["class"]](**packed["fields"])


def _classes() -> dict[str, type[Metric]]:
    """The classes that a file may name."""
    kinds = [type(row.make()) for row in METRICS.values()]
    return {kind.__name__: kind for kind in kinds}


def restored_metric(packed: Any, given: MetricLike | None) -> MetricLike:
    """The metric that was saved, or the one that is ``given``; one of them is needed."""
    metric = unpack_metric(packed) if given is None else given
    if metric is None:
        raise SavedFileError(
            "it was saved with a metric of your own. Pass it: load(path, metric=...)."
        )
    return metric
