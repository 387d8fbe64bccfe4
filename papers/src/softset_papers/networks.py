"""Rows that train the papers' small network: all trials of a row at once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from softset.checks import nearest
from softset.counting.steps import LinearStep, SigmoidStep, Step
from softset.losses.dice import DiceLoss, ExampleDiceLoss
from softset.losses.pointwise import CrossEntropyLoss, FocalLoss
from softset.losses.soft_metric import MetricLoss
from softset.losses.wmw import WMWLoss
from softset.metrics.formulas import FBeta
from softset.training.members import Member, train_members
from softset.training.recipes import GRID, Phase, RecipeLike
from softset_papers.baselines.adversarial import AdversarialF1Loss
from softset_papers.datasets.splits import Part, Parts


class Fitted(NamedTuple):
    """Scores (logits; positive means positive) of every trial, ``[trials, rows]``."""

    validation: NDArray[np.float64]
    test: NDArray[np.float64]
    info: dict[str, Any]  # plain values: epochs, outcome, …


def fit_network(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """Train one network for each seed, and score the validation and test rows.

    ``options``: ``loss``, ``step`` (``delta`` or ``k``), ``hidden``, ``learning_rate``,
    ``batch_size``, ``dropout``, ``patience``, ``max_epochs`` and perhaps ``max_seen``, and
    ``balance``: ``"weights"`` (paper 000 supplement 7.2) or ``"oversampled"``, which trains on rows
    without weights.
    """
    balance = options.get("balance")
    train = tensors(parts.train)
    if balance == "oversampled" or options["loss"] == "adversarial":
        train = train[:2]  # equal classes by repetition; the adversarial loss knows no weights
    validation = tensors(parts.validation)
    validation = validation[:2] if options["loss"] == "adversarial" else validation
    weights = class_weights(parts.train) if balance == "weights" else None
    trained = train_members(
        tuple(options["hidden"]),
        train,
        validation,
        members=[
            Member(seed=s, learning_rate=options["learning_rate"], dropout=options["dropout"])
            for s in seeds
        ],
        recipe=make_loss(options, weights),
        metric="f1",
        optimizer="adam",
        batch_size=options["batch_size"],
        max_epochs=most_epochs(options, len(parts.train.y)),
        patience=options["patience"],
        sampling="oversampled" if balance == "oversampled" else "shuffled",
    )
    info = {"epochs": [len(h["loss"]) for h in trained.history], "outcome": trained.outcome}
    return Fitted(
        trained.scores(torch.from_numpy(parts.validation.x)).double().numpy(),
        trained.scores(torch.from_numpy(parts.test.x)).double().numpy(),
        info,
    )


def most_epochs(options: dict[str, Any], rows: int) -> int:
    """``max_epochs``, or the epochs in which ``max_seen`` rows are seen, if that is less.

    >>> most_epochs({"max_epochs": 100, "max_seen": 5000}, 2000)
    3
    """
    most, seen = options["max_epochs"], options.get("max_seen")
    return most if seen is None else min(most, math.ceil(seen / rows))


def tensors(part: Part) -> tuple[torch.Tensor, ...]:
    """Rows, labels and, if there are any, weights."""
    both = torch.from_numpy(part.x), torch.from_numpy(part.y)
    return both if part.w is None else (*both, torch.from_numpy(part.w))


def class_weights(part: Part) -> list[float]:
    """``W_c = n / (2 n_c)`` of the training rows (paper 000 supplement 7.2).

    >>> import numpy as np
    >>> class_weights(Part(np.zeros((4, 1), np.float32), np.array([0, 0, 0, 1]), None))
    [0.6666666666666666, 2.0]
    """
    w = np.ones(len(part.y)) if part.w is None else part.w
    counts = np.bincount(part.y, weights=w, minlength=2)
    return [float(w.sum() / (2 * n)) for n in counts]


def make_loss(options: dict[str, Any], class_weight: list[float] | None) -> RecipeLike:
    """The loss, or the phases, that ``options["loss"]`` names."""
    name = options["loss"]
    step = make_step(options)

    def soft(metric: Any, **settings: Any) -> MetricLoss:
        return MetricLoss(metric, step=step, class_weight=class_weight, **settings)

    makers: dict[str, Any] = {
        "f1": lambda: soft("f1"),
        "f2": lambda: soft(FBeta(2)),
        "f3": lambda: soft(FBeta(3)),
        "accuracy": lambda: soft("accuracy"),
        "mcc": lambda: soft("mcc"),
        "auroc": lambda: soft("auroc"),
        # What the published code trains: the mean over thresholds, with delta = 0.2.
        "f1-grid": lambda: MetricLoss("f1", step=LinearStep(0.2), thresholds=GRID),
        "warm": lambda: [Phase(CrossEntropyLoss()), Phase(soft("f1"), rate=0.1)],
        "bce": lambda: CrossEntropyLoss(class_weight=class_weight),
        "focal": lambda: FocalLoss(options.get("gamma", 2.0), class_weight=class_weight),
        "wmw": lambda: WMWLoss(options["gamma"], options["power"]),
        "dice": DiceLoss,
        "dice-example": lambda: ExampleDiceLoss("logit"),
        "adversarial": lambda: AdversarialF1Loss(options["batch_size"]),
    }
    if name not in makers:
        raise ValueError(f"loss must be one of {', '.join(makers)}, got {name!r}."
                         f"{nearest(name, makers)}")  # fmt: skip
    return makers[name]()


def make_step(options: dict[str, Any]) -> Step:
    """The step that the options describe; linear with delta 0.1 if they do not."""
    if options.get("step") == "sigmoid":
        return SigmoidStep(options.get("k", 10))
    return LinearStep(options.get("delta", 0.1))
