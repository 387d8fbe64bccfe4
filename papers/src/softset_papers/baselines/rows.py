"""Rows without a network: SVM-perf, CCS and a forest on tabular sets, the last two on images."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from softset.decisions.evaluation import evaluate
from softset_papers.baselines.ccs import CalibratedSurrogates
from softset_papers.baselines.svm_perf import EQUAL, Pair, SVMPerf
from softset_papers.datasets.splits import Part, Parts
from softset_papers.judging import Fitted

if TYPE_CHECKING:
    from softset_papers.networks.images import ImageParts

# What each loss of SVM-perf is for: C is chosen by it, on validation.
JUDGED_BY = {"error": "accuracy", "f1": "f1", "roc": "auroc"}
_FLOOR = 1e-12  # of a probability, before its logarithm


def fit_svm_perf(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """SVM-perf with the ``C`` of ``options["C"]`` that is best on validation; one trial.

    Nothing is random, so that the seeds do not matter. With ``options["weighted"]`` rows count
    with their weights, which must be the same for all rows of a class.
    """
    del seeds
    metric = JUDGED_BY[options["loss"]]
    settings: dict[str, Any] = {"tol": options["tol"], "max_iter": options["planes"]}
    settings["weights"] = weights_of_classes(parts.train) if options.get("weighted") else EQUAL
    best: tuple[float, Any, float] | None = None
    for C in options["C"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVMPerf(options["loss"], C, **settings).fit(parts.train.x, parts.train.y)
        scores = model.decision_function(parts.validation.x)
        value = evaluate(
            scores, parts.validation.y, metric, sample_weight=parts.validation.w, from_logits=True
        )
        if best is None or value > best[0]:
            best = (value, model, C)
    assert best is not None
    model = best[1]
    info = {"C": best[2], "planes": model.n_iter_}
    return Fitted(
        model.decision_function(parts.validation.x)[None],
        model.decision_function(parts.test.x)[None],
        info,
    )


def weights_of_classes(part: Part) -> Pair:
    """What a negative and a positive row weigh, if that is the same for all rows of a class.

    >>> weights_of_classes(Part(np.zeros((3, 1)), np.array([0, 0, 1]), np.array([2.0, 2.0, 1.0])))
    (2.0, 1.0)
    """
    if part.w is None:
        return EQUAL
    kinds = [np.unique(part.w[part.y == label]) for label in (0, 1)]
    if any(len(kind) != 1 for kind in kinds):
        raise ValueError(
            "weights must be the same for all rows of a class: SVM-perf knows no others."
        )
    return float(kinds[0][0]), float(kinds[1][0])


def fit_ccs(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """CCS of one label: the log-odds of the two events it estimates; one trial.

    With ``options["weighted"]`` rows count with their weights.
    """
    del seeds
    w = parts.train.w if options.get("weighted") else None
    model = CalibratedSurrogates(options.get("C", 1.0)).fit(parts.train.x, parts.train.y, w)

    def scores(x: NDArray[np.float32]) -> NDArray[np.float64]:
        empty, joint = (np.log(np.maximum(p, _FLOOR)) for p in model.event_probabilities(x))
        return (joint[:, 0, 0] - empty)[None]

    return Fitted(scores(parts.validation.x), scores(parts.test.x), {})


def fit_forest(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """Random forests (scikit-learn), one for each seed; 002 states no settings."""
    validation, test = [], []
    for seed in seeds:
        forest = RandomForestClassifier(options["trees"], random_state=seed)
        forest.fit(parts.train.x, parts.train.y, parts.train.w)
        validation.append(_logits(forest.predict_proba(parts.validation.x)[:, 1]))
        test.append(_logits(forest.predict_proba(parts.test.x)[:, 1]))
    return Fitted(np.stack(validation), np.stack(test), {"trees": options["trees"]})


def _logits(p: NDArray[np.float64]) -> NDArray[np.float64]:
    p = np.clip(p, 1e-9, 1 - 1e-9)
    # scikit-learn decides for the first class on a tie, we for the positive one.
    return np.where(p == 0.5, -1e-9, np.log(p / (1 - p)))


def fit_after_pca(
    kind: str, parts: ImageParts, options: dict[str, Any], seeds: list[int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Log-probabilities of the classes on validation and test images, for each seed.

    PCA keeps the components that explain ``options["variance"]`` of the training images (paper 002
    F.1). For CCS with one true class the ``s`` problems of size one are all that vary, and the
    score of a class is its own; nothing is random in it, so that there is one trial.
    """
    train, *others = (p.x.flatten(1).numpy() for p in (parts.train, parts.validation, parts.test))
    many = len(train) > train.shape[1]
    pca = PCA(options["variance"], svd_solver="covariance_eigh" if many else "full").fit(train)
    train, others = pca.transform(train), [pca.transform(x) for x in others]
    y = parts.train.y.numpy()
    found: list[list[NDArray[Any]]] = []
    if kind == "forest":
        for seed in seeds:
            model = RandomForestClassifier(options["trees"], random_state=seed).fit(train, y)
            found.append([_columns(model, x, len(parts.classes)) for x in others])
    else:
        ccs = CalibratedSurrogates(options.get("C", 1.0)).fit(train, y)
        found.append([ccs.event_probabilities(x)[1][:, :, 0] for x in others])
    logs = [[torch.from_numpy(np.log(np.maximum(p, _FLOOR))) for p in pair] for pair in found]
    return [pair[0] for pair in logs], [pair[1] for pair in logs]


def _columns(model: RandomForestClassifier, x: NDArray[Any], classes: int) -> NDArray[Any]:
    """Probabilities with a column for every class, also for one that training had not."""
    p = np.zeros((len(x), classes))
    p[:, model.classes_] = model.predict_proba(x)
    return p
