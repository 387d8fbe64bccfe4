"""From the scores of trained classifiers to the numbers of a table, under every protocol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softset.counting.cells import Confusion, confusion
from softset.counting.numerics import ratio
from softset.decisions.evaluation import evaluate
from softset.decisions.offsets import best_offsets
from softset.decisions.thresholds import best_threshold
from softset.metrics.base import Metric
from softset.metrics.formulas import FBeta, Precision, Recall
from softset.metrics.registry import get_metric
from softset.training.recipes import GRID
from softset_papers.datasets.splits import Part

PROTOCOLS = ("fair", "published", "code")
"""How trained networks are judged.

- ``fair``: on probabilities, at threshold 0.5 and at one tuned on validation; AUROC is exact.
- ``published``: what the text of paper 000 says: the mean over thresholds 0.1 … 0.9, on
  probabilities; AUROC of the thresholded decisions, which is what its tables hold. Papers 002 and
  003 decide for the largest probability.
- ``code``: as ``published``, but with the *logits* of every loss that does not end in a sigmoid
  (cross-entropy, WMW, adversarial, Dice) at thresholds 0.1 … 0.9, as the published code does.
"""


class Fitted(NamedTuple):
    """Scores (logits; positive means positive) of every trial, ``[trials, rows]``."""

    validation: NDArray[np.float64]
    test: NDArray[np.float64]
    info: dict[str, Any]  # plain values: epochs, outcome, …


def other_f1(c: Confusion) -> Tensor:
    """F1 with the other class as the positive one."""
    return ratio(2 * c.tn, 2 * c.tn + c.fp + c.fn)


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
    "f1 macro": get_metric("f1_macro"),
    "f1 other": get_metric(other_f1),
}
_DECIDED = get_metric(_decided_auroc)
# Precision and recall are read at the threshold that is best for F1: alone they choose an end.
_TUNED_FOR = {"precision": "f1", "recall": "f1"}
Values = dict[str, dict[str, list[float]]]


def the_same(values: dict[str, list[float]]) -> Values:
    """Numbers that no protocol changes."""
    return dict.fromkeys(PROTOCOLS, values)


def judge(fitted: Fitted, validation: Part, test: Part, options: dict[str, Any]) -> Values:
    """``{protocol: {metric: [a value for each trial]}}``; fair also has ``"f1 tuned"`` and so on.

    ``options``: ``judged="argmax"`` for papers 002 and 003, which published the decisions of the
    largest probability (of two classes, threshold 1/2); ``output="logit"`` where the published code
    of 000 thresholds logits, ``output="sign"`` for a classifier without probabilities.
    """
    scores, y = torch.from_numpy(fitted.test), torch.from_numpy(test.y)
    w = None if test.w is None else torch.from_numpy(test.w)
    fair = _fair(fitted, validation, scores, y, w)
    output = options.get("output")
    if options.get("judged") == "argmax":
        decided = {name: fair[name] for name in (*METRICS, "auroc")}
        return {"published": decided, "code": decided, "fair": fair}
    if output == "sign":
        decided = _over_grid(scores, y, w, torch.tensor([0.5], dtype=torch.float64))
        return {"published": decided, "code": decided, "fair": fair}
    thresholds = torch.tensor(GRID, dtype=torch.float64)
    on_logits = torch.sigmoid(thresholds) if output == "logit" else thresholds
    return {
        "published": _over_grid(scores, y, w, thresholds),
        "code": _over_grid(scores, y, w, on_logits),
        "fair": fair,
    }


def _over_grid(
    scores: Tensor, y: Tensor, w: Tensor | None, thresholds: Tensor
) -> dict[str, list[float]]:
    c = confusion(
        scores, y, thresholds=thresholds.tolist(), sample_weight=w, batch_dims=1, from_logits=True
    )
    chosen = {**METRICS, "auroc": _DECIDED}
    return {name: _plain(m(c).mean(-1)) for name, m in chosen.items()}


def _fair(
    fitted: Fitted, validation: Part, scores: Tensor, y: Tensor, w: Tensor | None
) -> dict[str, list[float]]:
    c = confusion(scores, y, sample_weight=w, batch_dims=1, from_logits=True)
    values = {name: _plain(m(c)) for name, m in METRICS.items()}
    values["auroc"] = _plain(
        torch.tensor([evaluate(s, y, "auroc", sample_weight=w, from_logits=True) for s in scores])
    )
    taus: dict[str, list[float]] = {}
    for name, m in METRICS.items():
        if name not in _TUNED_FOR:
            taus[name] = [
                best_threshold(s, validation.y, m, sample_weight=validation.w, from_logits=True)
                for s in fitted.validation
            ]
    for name, m in METRICS.items():
        at = taus[_TUNED_FOR.get(name, name)]
        values[f"{name} tuned"] = _plain(
            torch.tensor(
                [
                    evaluate(s, y, m, threshold=t, sample_weight=w, from_logits=True)
                    for s, t in zip(scores, at, strict=True)
                ]
            )
        )
    values["threshold for f1"] = _plain(torch.tensor(taus["f1"]))
    return values


def _plain(values: Tensor) -> list[float]:
    return np.round(values.double().numpy(), 5).tolist()


def judge_classes(
    validation: list[Tensor], test: list[Tensor], held: Tensor, y: Tensor, classes: tuple[str, ...]
) -> Values:
    """Macro metrics, and precision and recall of dog and frog, of the largest score.

    ``validation`` and ``test`` have scores ``[rows, classes]`` for each trial, ``held`` and ``y``
    the classes of those rows. ``"f1 tuned"`` adds offsets of the classes that are best on
    validation. Nothing else differs between protocols: papers 002 and 003 take the largest
    probability.
    """
    values: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        values.setdefault(name, []).append(round(value, 5))

    for known, scores in zip(validation, test, strict=True):
        for name in ("f1", "accuracy", "mcc"):
            add(name, evaluate(scores, y, name, task="multiclass", from_logits=True))
        precision = evaluate(
            scores, y, Precision(average=None), task="multiclass", from_logits=True
        )
        recall = evaluate(scores, y, Recall(average=None), task="multiclass", from_logits=True)
        for which in ("dog", "frog"):
            if which in classes:
                index = classes.index(which)
                add(f"precision {which}", precision[index])
                add(f"recall {which}", recall[index])
        offsets = best_offsets(known, held, "f1", from_logits=True)
        add(
            "f1 tuned",
            evaluate(scores, y, "f1", task="multiclass", offsets=offsets, from_logits=True),
        )
    return the_same(values)
