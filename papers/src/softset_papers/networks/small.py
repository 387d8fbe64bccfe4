"""Rows that train the small network of papers 000 and 001: all trials of a row at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from softset.training.members import train_members
from softset.training.stack import Member, Trained
from softset_papers.datasets.splits import Part, Parts
from softset_papers.judging import Fitted
from softset_papers.networks.losses import make_recipe


def fit_network(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """Train one network for each seed, and score the validation and test rows.

    ``options``: those of ``make_recipe``, ``hidden``, ``learning_rate``, ``batch_size``,
    ``dropout``, ``patience``, ``max_epochs`` and perhaps ``max_seen``, and ``balance``:
    ``"weights"`` (paper 000 supplement 7.2) or ``"oversampled"``, which trains on rows without
    weights. ``batches="by weight"``: see ``repeated``.
    """
    balance = options.get("balance")
    by_weight = options.get("batches") == "by weight"
    train = tensors(repeated(parts.train) if by_weight else parts.train)
    validation = tensors(parts.validation)
    if balance == "oversampled" or options["loss"] == "adversarial":
        train = train[:2]  # equal classes by repetition; the adversarial loss knows no weights
    if options["loss"] == "adversarial":
        validation = validation[:2]
    trained = train_members(
        tuple(options["hidden"]),
        train,
        validation,
        members=[
            Member(seed=s, learning_rate=options["learning_rate"], dropout=options["dropout"])
            for s in seeds
        ],
        recipe=make_recipe(
            options, class_weight=class_weights(parts.train) if balance == "weights" else None
        ),
        metric="f1",
        optimizer="adam",
        batch_size=options["batch_size"],
        max_epochs=most_epochs(options, len(parts.train.y)),
        patience=options["patience"],
        sampling="oversampled" if balance == "oversampled" else "shuffled",
    )
    return scored([trained], parts)


def scored(stacks: list[Trained], parts: Parts) -> Fitted:
    """Scores of networks trained in one stack or several; how long each took and why it ended.

    ``coolings`` counts how often the temperature fell, for networks that anneal.
    """
    validation, test = (
        np.concatenate([t.scores(torch.from_numpy(part.x)).double().numpy() for t in stacks])
        for part in (parts.validation, parts.test)
    )
    histories = [h for trained in stacks for h in trained.history]
    info: dict[str, Any] = {
        "epochs": [len(h["loss"]) for h in histories],
        "outcome": [outcome for trained in stacks for outcome in trained.outcome],
    }
    coolings = [coolings_in(h["temperature"]) for h in histories]
    return Fitted(validation, test, info | ({"coolings": coolings} if any(coolings) else {}))


def coolings_in(temperatures: list[float | None]) -> int:
    """How often the temperature fell over the epochs.

    >>> coolings_in([0.2, 0.2, 0.16, 0.128]), coolings_in([None, None]), coolings_in([])
    (2, 0, 0)
    """
    return max(len(set(temperatures)) - 1, 0)


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


def repeated(part: Part) -> Part:
    """Each row as often as it weighs, without weights; fractions are drawn.

    So batches have the classes in the proportion of the whole dataset, of which a weighted subset
    has all rows of one class and some of the other.

    >>> import numpy as np
    >>> part = Part(np.zeros((2, 1), np.float32), np.array([0, 1]), np.array([18.0, 1.0]))
    >>> np.bincount(repeated(part).y).tolist()
    [18, 1]
    """
    if part.w is None:
        return part
    whole = np.floor(part.w)
    more = np.random.default_rng(0).random(len(part.w)) < part.w - whole
    rows = np.repeat(np.arange(len(part.y)), (whole + more).astype(int))
    return Part(part.x[rows], part.y[rows], None)


def class_weights(part: Part) -> list[float]:
    """``W_c = n / (2 n_c)`` of the training rows (paper 000 supplement 7.2).

    >>> import numpy as np
    >>> class_weights(Part(np.zeros((4, 1), np.float32), np.array([0, 0, 0, 1]), None))
    [0.6666666666666666, 2.0]
    """
    w = np.ones(len(part.y)) if part.w is None else part.w
    counts = np.bincount(part.y, weights=w, minlength=2)
    return [float(w.sum() / (2 * n)) for n in counts]
