"""From the scores of trained networks to the numbers of a table, under every protocol at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from softset.counting.cells import Confusion, confusion
from softset.counting.numerics import ratio
from softset.decisions.evaluation import evaluate
from softset.decisions.thresholds import best_threshold
from softset.metrics.base import Metric
from softset.metrics.formulas import FBeta
from softset.metrics.registry import get_metric
from softset.training.recipes import GRID
from softset_papers.datasets.splits import Part
from softset_papers.networks import Fitted


def _macro_f1(c: Confusion) -> Tensor:
    """Mean of the F1 of both classes."""
    negative = ratio(2 * c.tn, 2 * c.tn + c.fp + c.fn)
    return (ratio(2 * c.tp, 2 * c.tp + c.fp + c.fn) + negative) / 2


def _decided_auroc(c: Confusion) -> Tensor:
    """AUROC of decisions, not of scores: the area under (0,0), (fpr, tpr), (1,1)."""
    return (ratio(c.tp, c.tp + c.fn) + ratio(c.tn, c.tn + c.fp)) / 2


METRICS: dict[str, Metric] = {
    "f1": get_metric("f1"),
    "f2": FBeta(2),
    "f3": FBeta(3),
    "accuracy": get_metric("accuracy"),
    "precision": get_metric("precision"),
    "recall": get_metric("recall"),
    "mcc": get_metric("mcc"),
    "f1 macro": get_metric(_macro_f1),
}
_DECIDED = get_metric(_decided_auroc)
# Precision and recall are read at the threshold that is best for F1: alone they choose an end.
_TUNED_FOR = {"precision": "f1", "recall": "f1"}
Values = dict[str, dict[str, list[float]]]


def judge(
    fitted: Fitted, validation: Part, test: Part, logit_output: bool, argmax: bool = False
) -> Values:
    """``{protocol: {metric: [a value for each trial]}}``; fair also has ``"f1 tuned"`` and so on.

    Papers 002 and 003 published the decisions of the largest probability (``argmax``): of two
    classes, threshold 1/2.
    """
    scores, y = torch.from_numpy(fitted.test), torch.from_numpy(test.y)
    w = None if test.w is None else torch.from_numpy(test.w)
    cuts = torch.tensor(GRID, dtype=torch.float64)
    on_logits = torch.sigmoid(cuts) if logit_output else cuts
    fair = _fair(fitted, validation, scores, y, w)
    if argmax:
        decided = {name: fair[name] for name in (*METRICS, "auroc")}
        return {"published": decided, "code": decided, "fair": fair}
    return {
        "published": _over_grid(scores, y, w, cuts),
        "code": _over_grid(scores, y, w, on_logits),
        "fair": fair,
    }


def _over_grid(scores: Tensor, y: Tensor, w: Tensor | None, cuts: Tensor) -> Any:
    c = confusion(scores, y, thresholds=cuts.tolist(), sample_weight=w, batch_dims=1)
    chosen = {**METRICS, "auroc": _DECIDED}
    return {name: _plain(m(c).mean(-1)) for name, m in chosen.items()}


def _fair(
    fitted: Fitted, validation: Part, scores: Tensor, y: Tensor, w: Tensor | None
) -> dict[str, list[float]]:
    c = confusion(scores, y, sample_weight=w, batch_dims=1)
    values = {name: _plain(m(c)) for name, m in METRICS.items()}
    values["auroc"] = _plain(
        torch.tensor([evaluate(s, y, "auroc", sample_weight=w) for s in scores])
    )
    taus: dict[str, list[float]] = {}
    for name, m in METRICS.items():
        if name not in _TUNED_FOR:
            taus[name] = [
                best_threshold(s, validation.y, m, sample_weight=validation.w)
                for s in fitted.validation
            ]
    for name, m in METRICS.items():
        at = taus[_TUNED_FOR.get(name, name)]
        values[f"{name} tuned"] = _plain(
            torch.tensor(
                [
                    evaluate(s, y, m, threshold=t, sample_weight=w)
                    for s, t in zip(scores, at, strict=True)
                ]
            )
        )
    values["threshold for f1"] = _plain(torch.tensor(taus["f1"]))
    return values


def _plain(values: Tensor) -> list[float]:
    return np.round(values.double().numpy(), 5).tolist()


def at_zero(fitted: Fitted, test: Part) -> dict[str, list[float]]:
    """What a classifier without probabilities publishes: its decisions, positive above 0."""
    w = None if test.w is None else torch.from_numpy(test.w)
    half = torch.tensor([0.5], dtype=torch.float64)
    return _over_grid(torch.from_numpy(fitted.test), torch.from_numpy(test.y), w, half)
