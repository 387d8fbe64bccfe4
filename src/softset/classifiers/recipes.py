"""The classifiers by name, and the recipes of ``softset train``; nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from softset.training.recipes import RECIPES as OF_NETWORKS

# The module in this package that each classifier is in. A model file may name these alone.
CLASSIFIERS = {
    "MetricClassifier": "network",
    "MetricBoostingClassifier": "boosting",
    "MetricForestClassifier": "forest",
    "MetricLinearClassifier": "linear",
    "MetricThresholdClassifier": "threshold",
    "MetricEnsembleClassifier": "ensemble",
}


@dataclass(frozen=True)
class ModelRecipe:
    """A classifier with settings, and what it is in a few words."""

    classifier: str
    about: str
    settings: dict[str, Any] = field(default_factory=dict)


RECIPES: dict[str, ModelRecipe] = {
    **{
        name: ModelRecipe("MetricClassifier", row.about, {"recipe": name})
        for name, row in OF_NETWORKS.items()
    },
    "boosting": ModelRecipe("MetricBoostingClassifier", "gradient boosting", {"rounds": 0}),
    "boosting-metric": ModelRecipe(
        "MetricBoostingClassifier", "gradient boosting, then rounds for the metric"
    ),
    "forest": ModelRecipe("MetricForestClassifier", "random forest"),
    "linear": ModelRecipe("MetricLinearClassifier", "logistic regression", {"path": ()}),
    "linear-metric": ModelRecipe(
        "MetricLinearClassifier", "logistic regression moved to the metric"
    ),
    "best": ModelRecipe("MetricEnsembleClassifier", "all kinds blended, in about a minute"),
}


def classifier_class(name: str) -> Any:
    """The class of that name.

    >>> classifier_class("MetricForestClassifier").__name__
    'MetricForestClassifier'
    """
    return getattr(import_module(f"softset.classifiers.{CLASSIFIERS[name]}"), name)
