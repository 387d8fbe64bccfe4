"""Rows of papers 002 and 003: a grid search on validation loss, then the trials; and the forest.

The papers search batch size, learning rate and dropout for each set and loss (002 appendix E.4),
and train with a patience of 50 or 100 epochs. That is days for a network of 512-256-128 on two
cores, so that the default is less (``BUDGET``), in rows seen rather than epochs, which makes the
cost the same for every set; ``FULL`` is what the papers did.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softset.counting.steps import LinearStep
from softset.losses.soft_metric import MetricLoss
from softset.training.members import Member, Trained, train_members
from softset.training.recipes import Phase, RecipeLike
from softset_papers.datasets.splits import Part, Parts
from softset_papers.networks import Fitted, make_loss, most_epochs, tensors

# E.4. "4069" there must be 4096; it and 8192 were tried for the rarest positives only.
FULL: dict[str, Any] = {
    "grid": {
        "batch_size": [128, 256, 512, 1024, 2048],
        "learning_rate": [0.01, 0.001, 0.0001],
        "dropout": [0.25, 0.5],
        "cooling": [0.8, 0.9],
    },
    "more_batch_sizes": [4096, 8192],
    "search_seen": None,
    "max_epochs": 10_000,
    "max_seen": None,
    "patience_seen": None,
}
# The papers' grid, but for the cooling rate: the search is shorter and at T = 0.2 throughout.
# Patience is counted in rows seen (but 3 epochs), which is far less than 50 epochs and leaves no
# difference between 002 and 003.
BUDGET: dict[str, Any] = {
    **FULL,
    "grid": FULL["grid"] | {"cooling": [0.8]},
    "search_seen": 60_000,
    "max_seen": 600_000,
    "patience_seen": 60_000,
}
_RARE = 0.01  # below this share of positives the larger batches are tried
_STACK = 2  # networks of this size trained together: more do not fit the cache


def fit_searched(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """Search, then train a network for each seed with what was found.

    ``options``: ``hidden``, ``loss``, ``step``, ``anneal``, those of ``BUDGET``, and ``patience``
    in epochs.
    """
    chosen, tried = _search_once(parts, options)
    validation, test, epochs, coolings = [], [], [], []
    for start in range(0, len(seeds), _STACK):
        trained = _train(parts, options, [(s, chosen) for s in seeds[start : start + _STACK]])
        validation.append(trained.scores(torch.from_numpy(parts.validation.x)).double().numpy())
        test.append(trained.scores(torch.from_numpy(parts.test.x)).double().numpy())
        epochs += [len(h["loss"]) for h in trained.history]
        coolings += [len(set(h["temperature"])) - 1 for h in trained.history]
    info = {"chosen": chosen, "tried": tried, "epochs": epochs, "coolings": coolings}
    return Fitted(np.concatenate(validation), np.concatenate(test), info)


_FOUND: dict[str, Any] = {}


def _search_once(parts: Parts, options: dict[str, Any]) -> Any:
    """``search``, remembered while the data is."""
    key = f"{id(parts.train.x)} {sorted(options.items())}"
    if key not in _FOUND:
        _FOUND[key] = (parts, search(parts, options))  # with parts, so that its id stays taken
    return _FOUND[key][1]


def search(parts: Parts, options: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings with the lowest validation loss, and all that were tried, one network each."""
    grid = dict(options["grid"])
    if options["loss"] in ("accuracy", "mcc") and positive_share(parts.train) < _RARE:
        grid["batch_size"] = [*grid["batch_size"], *options["more_batch_sizes"]]
    short = options["search_seen"] is not None
    if short or not options.get("anneal", False):
        grid["cooling"] = grid["cooling"][-1:]
    limited = dict(options)
    if short:
        limited |= {"max_seen": options["search_seen"], "patience_seen": None, "anneal": False}
        limited |= {"step": "linear", "delta": 0.2} if options.get("anneal") else {}
    tried = []
    for batch, cooling in itertools.product(grid["batch_size"], grid["cooling"]):
        members = [
            {"batch_size": batch, "learning_rate": rate, "dropout": drop, "cooling": cooling}
            for rate, drop in itertools.product(grid["learning_rate"], grid["dropout"])
        ]
        trained = _train(parts, limited, [(0, member) for member in members])
        for member, history in zip(members, trained.history, strict=True):
            losses = [v for v in history["validation_loss"] if math.isfinite(v)]
            tried.append({**member, "loss": round(min(losses, default=math.inf), 6)})
    best = min(tried, key=lambda t: t["loss"])
    return {k: v for k, v in best.items() if k != "loss"}, tried


def _train(
    parts: Parts, options: dict[str, Any], members: list[tuple[int, dict[str, Any]]]
) -> Trained:
    """Networks that differ in seed, learning rate and dropout."""
    settings = members[0][1]
    rows = len(parts.train.y)
    epochs, patience = most_epochs(options, rows), options.get("patience", options["max_epochs"])
    if options["patience_seen"] is not None:
        patience = min(patience, max(3, math.ceil(options["patience_seen"] / rows)))
    return train_members(
        tuple(options["hidden"]),
        tensors(parts.train),
        tensors(parts.validation),
        members=[_member(seed, m) for seed, m in members],
        recipe=_recipe(options, settings),
        optimizer="adamw",
        batch_size=settings["batch_size"],
        max_epochs=epochs,
        patience=patience,
    )


def _member(seed: int, m: dict[str, Any]) -> Member:
    # 0.01 is the weight decay of AdamW in PyTorch; 002 states none.
    return Member(seed, m["learning_rate"], weight_decay=0.01, dropout=m["dropout"])


def _recipe(options: dict[str, Any], settings: dict[str, Any]) -> RecipeLike:
    if not options.get("anneal", False):
        return make_loss(options, None)
    soft = MetricLoss(options["loss"], step=LinearStep.at_temperature(0.2))
    return [Phase(soft, cooling={"rate": settings["cooling"]})]


def positive_share(part: Part) -> float:
    """Of all rows, counted with their weights."""
    w = np.ones(len(part.y)) if part.w is None else part.w
    return float(w[part.y == 1].sum() / w.sum())


def fit_forest(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """Random forests (scikit-learn), one for each seed; 002 states no settings."""
    from sklearn.ensemble import RandomForestClassifier

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
