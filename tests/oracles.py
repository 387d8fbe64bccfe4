"""What each row of ``METRICS`` must equal: scikit-learn, or brute force where it has none."""

from __future__ import annotations

import numpy as np
import sklearn.metrics as skm

import softset as ss
from tests.reference import brute_force

AREAS = ("auroc", "partial_auroc", "average_precision")


def oracle(
    name: str, task: str, average, true, said, proba, weight, both=False
) -> float | np.ndarray:
    """``said`` are hard decisions, ``proba`` probabilities, all as arrays; with ``both`` a binary
    problem is averaged over its two classes."""
    row = ss.METRICS[name]
    if both and name not in AREAS:  # areas of two classes are not averaged
        task = "multiclass"
    if row.oracle == "brute force":
        return _by_hand(name, task, average, true, said, weight)
    function = getattr(skm, row.oracle)
    kwargs = {"sample_weight": weight}
    if name in ("f2", "f0.5"):
        kwargs["beta"] = float(name[1:])
    if name == "tversky":  # weights of mistakes that are 0.3 and 0.7 of their sum
        kwargs["beta"] = (0.7 / 0.3) ** 0.5
    if name in ("linear_kappa", "quadratic_kappa"):
        kwargs["weights"] = name.removesuffix("_kappa")
    if name == "partial_auroc":
        kwargs["max_fpr"] = 0.1
        if task == "multiclass":  # one against the rest, which scikit-learn has for labels
            task, true = "multilabel", np.eye(proba.shape[1], dtype=int)[true]
    if name in ("f1", "f2", "f0.5", "tversky", "precision", "recall", "jaccard"):
        kwargs |= {"average": "binary" if task == "binary" else average, "zero_division": 0}
        return function(true, said, **kwargs)
    if name in ("auroc", "partial_auroc"):
        if task == "multiclass" and average == "micro":  # one against the rest, as labels
            task, true = "multilabel", np.eye(proba.shape[1], dtype=int)[true]
        if task == "multiclass":
            kwargs |= {"multi_class": "ovr", "average": average}
        elif task == "multilabel":
            kwargs["average"] = average
        return function(true, proba, **kwargs)
    if name == "average_precision":
        if task == "multiclass":
            true = np.eye(proba.shape[1], dtype=int)[true]
        return function(true, proba, **kwargs, **({} if task == "binary" else {"average": average}))
    if task == "multilabel":  # scikit-learn has these for one label at a time
        values = [function(true[:, k], said[:, k], **kwargs) for k in range(true.shape[1])]
        return _mean(values, true, weight, average)
    return function(true, said, **kwargs)


def _by_hand(name, task, average, true, said, weight):
    weight = np.ones(len(true)) if weight is None else weight
    if task == "binary":
        return brute_force(name, true, said, weight)
    if task == "multiclass":
        classes = int(max(true.max(), said.max())) + 1
        if name == "gmean":
            return geometric_mean_score(true, said, weight)
        true, said = np.eye(classes)[true], np.eye(classes)[said]
    if average == "micro":
        weight = np.repeat(weight, true.shape[1])
        return brute_force(name, true.reshape(-1), said.reshape(-1), weight)
    values = [brute_force(name, true[:, k], said[:, k], weight) for k in range(true.shape[1])]
    return _mean(values, true, weight, average)


def geometric_mean_score(true, said, weight) -> float:
    """imbalanced-learn's function of that name, written again: over the classes that are there or
    are predicted; a recall without rows is 0."""
    product, classes = 1.0, np.unique(np.concatenate([true, said]))
    for k in classes:
        rows = weight[true == k].sum()
        product *= weight[(true == k) & (said == k)].sum() / rows if rows else 0.0
    return float(product ** (1 / len(classes)))


def _mean(values, true, weight, average):
    weight = np.ones(len(true)) if weight is None else weight
    if average is None:
        return np.array(values)
    shares = (true * weight[:, None]).sum(0) if average == "weighted" else np.ones(len(values))
    return float(np.average(values, weights=shares))
