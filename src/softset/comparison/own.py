"""Candidates of the user's own: any classifier of scikit-learn, as it is and cut for the metric."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from softset.classifiers.threshold import MetricThresholdClassifier
from softset.comparison.fits import Candidate, Make, Order
from softset.metrics.goals import Goal


def split_off(wanted: Any, known: Collection[str]) -> tuple[list[Any] | None, dict[str, Any]]:
    """The names that were asked for, None for all of them (``...``), and the user's estimators.

    >>> from sklearn.linear_model import LogisticRegression
    >>> split_off(["warm", ("mine", LogisticRegression())], ["warm"])
    (['warm'], {'mine': LogisticRegression()})
    >>> split_off([..., ("mine", LogisticRegression())], ["warm"])
    (None, {'mine': LogisticRegression()})
    """
    if wanted is None or isinstance(wanted, str):
        return None if wanted is None else [wanted], {}
    names: list[Any] = []
    own: dict[str, Any] = {}
    for each in wanted:
        if not isinstance(each, tuple):
            names.append(each)
            continue
        name, estimator = _checked(each)
        taken = {*known, *own, *(f"{other}-tuned" for other in own)}
        if {name, f"{name}-tuned"} & taken:
            raise ValueError(
                f"candidates must have names of their own, got {name!r}, which is taken. Choose "
                "another name."
            )
        own[name] = estimator
    return None if ... in names else names, own


def _checked(pair: tuple[Any, ...]) -> tuple[str, Any]:
    usable = len(pair) == 2 and isinstance(pair[0], str) and bool(pair[0].strip())
    if not usable or isinstance(pair[1], type) or not is_classifier(pair[1]):
        raise ValueError(
            "candidates of your own must be pairs of a name and a scikit-learn classifier, such as "
            f"('mine', RandomForestClassifier()), got {pair!r}."
        )
    return pair[0], pair[1]


def own_candidates(own: dict[str, Any], label: str, goal: Goal) -> list[Candidate]:
    """Each as it is, unless the goal has its own threshold, and with a tuned one if it has any."""
    found = []
    for name, estimator in own.items():
        kind, fit = type(estimator).__name__, f"own {name}"
        made = _make(estimator, None)
        text = f"your {kind} as it is"
        as_it_is = Candidate(name, name, "plain", "own", fit, text, made, own=repr(estimator))
        if not goal.where.exact:
            found.append(as_it_is)
        if goal.tunes:
            text = f"your {kind}, threshold tuned for {label} on rows out of fold"
            made = _make(estimator, "tuned")
            tuned = Candidate(
                f"{name}-tuned", f"{name}, tuned threshold", "plain", "tuned", fit, text, made
            )
            found.append(replace(tuned, goes_on=True, own=repr(estimator)))
    return found


def _make(estimator: Any, threshold: str | None) -> Make:
    def make(order: Order) -> MetricThresholdClassifier:
        rarest = 5 if order.target.ndim == 2 else int(np.bincount(order.target).min())
        folds = max(2, min(5, rarest))
        return MetricThresholdClassifier(
            estimator, order.metric, cv=folds, threshold=threshold, random_state=order.seed
        )

    return make
