"""Rows of papers 002 and 003: a grid search on validation loss, then the trials.

The papers search batch size, learning rate and dropout for each set and loss (002 appendix E.4),
and train with a patience of 50 or 100 epochs. By default less is done, in rows seen rather than
epochs (``tables.shared.SEARCHED``); ``WHOLE`` there is what the papers did.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from softset.training.members import train_members
from softset.training.stack import Member, Trained
from softset_papers.datasets.splits import Part, Parts
from softset_papers.judging import Fitted
from softset_papers.networks.losses import START, make_recipe
from softset_papers.networks.small import most_epochs, scored, tensors

Tried = list[dict[str, Any]]  # settings, with their validation ``loss`` and ``outcome``
AXES = ("batch_size", "learning_rate", "dropout", "cooling")
TIE = 1e-6  # validation losses closer than that are equal
_RARE = 0.01  # below this share of positives the larger batches are tried
_STACK = 2  # networks of this size trained together: more do not fit the cache


def fit_searched(parts: Parts, options: dict[str, Any], seeds: list[int]) -> Fitted:
    """Choose settings, then train a network for each seed with them.

    ``options``: those of ``make_recipe``, ``hidden``, ``grid`` and ``more_batch_sizes``,
    ``search_seen``, ``max_seen`` and ``patience_seen`` (in rows), ``max_epochs``, ``patience``,
    and perhaps ``tried``, what a search found earlier.
    """
    tried = options.get("tried") or search(parts, options)
    chosen, ties = choose(tried)
    stacks = [
        _train(parts, options, [(seed, chosen) for seed in seeds[start : start + _STACK]])
        for start in range(0, len(seeds), _STACK)
    ]
    fitted = scored(stacks, parts)
    return fitted._replace(info=fitted.info | {"chosen": chosen, "ties": ties, "tried": tried})


# --- the search ---------------------------------------------------------------------------------


def search(parts: Parts, options: dict[str, Any]) -> Tried:
    """Every setting of the grid with its lowest validation loss, one network each."""
    options = search_options(options)
    grid = dict(options["grid"])
    if options["loss"] in ("accuracy", "mcc") and positive_share(parts.train) < _RARE:
        grid["batch_size"] = [*grid["batch_size"], *options["more_batch_sizes"]]
    tried: Tried = []
    for batch, cooling in itertools.product(grid["batch_size"], grid["cooling"]):
        members = [
            {"batch_size": batch, "learning_rate": rate, "dropout": drop, "cooling": cooling}
            for rate, drop in itertools.product(grid["learning_rate"], grid["dropout"])
        ]
        trained = _train(parts, options, [(0, member) for member in members])
        for member, history, outcome in zip(members, trained.history, trained.outcome, strict=True):
            losses = [v for v in history["validation_loss"] if v is not None and math.isfinite(v)]
            lowest = round(min(losses, default=math.inf), 6)
            tried.append({**member, "loss": lowest, "outcome": outcome})
    return tried


def search_options(options: dict[str, Any]) -> dict[str, Any]:
    """What the search trains with: the options themselves, or less where ``search_seen`` is given.

    A short search is at the first temperature throughout, so that it tells nothing of cooling.
    """
    own = {k: v for k, v in options.items() if k not in ("ties", "judged", "tried")}
    anneals = bool(options.get("anneal"))
    if options["search_seen"] is not None:
        own |= {"max_seen": options["search_seen"], "patience_seen": None, "anneal": False}
        own |= {"step": "linear", "delta": START} if anneals else {}
        own.pop("patience", None)
    if options["search_seen"] is not None or not anneals:
        own["grid"] = {**options["grid"], "cooling": options["grid"]["cooling"][-1:]}
    return own


def search_key(run: dict[str, Any]) -> str:
    """What determines a search: the data of a run, and what the search trains with.

    It is always done on split 0, and its settings serve the others.
    """
    data = {name: run[name] for name in ("data", "duplicates", "rows")}
    return json.dumps([data, search_options(run["options"])], sort_keys=True)


def choose(tried: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """The settings with the lowest validation loss, and how many have it.

    Where several tie (on few positives most settings reach the same plateau, and at many of them
    another seed does not): the lowest mean over the settings next to it in the grid, itself
    included; then the larger batch, the smaller rate, the smaller dropout and the slower cooling,
    which are the steadier ones.

    >>> grid = [(64, 0.1, 0.5), (64, 0.01, 0.2), (128, 0.1, 0.2), (128, 0.01, 0.2)]
    >>> tried = [dict(batch_size=b, learning_rate=r, dropout=0, cooling=1, loss=v)
    ...          for b, r, v in grid]
    >>> chosen, ties = choose(tried)
    >>> chosen["batch_size"], chosen["learning_rate"], ties
    (128, 0.01, 3)
    """
    best = min(t["loss"] for t in tried)
    tied = [t for t in tried if t["loss"] <= best + TIE]
    finite = [t["loss"] for t in tried if math.isfinite(t["loss"])]
    worst = max(finite, default=0.0)
    places = {name: sorted({t[name] for t in tried}) for name in AXES}

    def near(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return sum(abs(v.index(a[name]) - v.index(b[name])) for name, v in places.items()) <= 1

    def order(t: dict[str, Any]) -> tuple[float, ...]:
        around = fmean(min(other["loss"], worst) for other in tried if near(t, other))
        return round(around, 9), -t["batch_size"], t["learning_rate"], t["dropout"], -t["cooling"]

    chosen = min(tied, key=order)
    return {name: chosen[name] for name in AXES}, len(tied)


# --- training -----------------------------------------------------------------------------------


def _train(
    parts: Parts, options: dict[str, Any], members: list[tuple[int, dict[str, Any]]]
) -> Trained:
    """Networks that differ in seed, learning rate and dropout."""
    settings = members[0][1]
    rows = len(parts.train.y)
    patience = options.get("patience", options["max_epochs"])
    if options["patience_seen"] is not None:
        patience = min(patience, max(3, math.ceil(options["patience_seen"] / rows)))
    return train_members(
        tuple(options["hidden"]),
        tensors(parts.train),
        tensors(parts.validation),
        members=[_member(seed, m) for seed, m in members],
        recipe=make_recipe(options | {"cooling": settings["cooling"]}),
        optimizer="adamw",
        batch_size=settings["batch_size"],
        max_epochs=most_epochs(options, rows),
        patience=patience,
    )


def _member(seed: int, m: dict[str, Any]) -> Member:
    # 0.01 is the weight decay of AdamW in PyTorch; 002 states none.
    return Member(seed, m["learning_rate"], weight_decay=0.01, dropout=m["dropout"])


def positive_share(part: Part) -> float:
    """Of all rows, counted with their weights."""
    w = np.ones(len(part.y)) if part.w is None else part.w
    return float(w[part.y == 1].sum() / w.sum())
