"""The classifiers by name, and the recipes of ``softset train``; nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from softset.training.recipes import DEFAULT
from softset.training.recipes import RECIPES as OF_NETWORKS
from softset.typing import Settings

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

    from softset.classifiers.base import DecidingClassifier
    from softset.metrics.registry import MetricLike

# Networks with a tuned threshold.
DEFAULT_OF_MODELS = f"{DEFAULT}-tuned"
# The module in this package that each classifier is in. A model file may name these alone.
CLASSIFIERS = {
    "MetricMLPClassifier": "network",
    "MetricBoostingClassifier": "boosting",
    "MetricLinearClassifier": "linear",
    "MetricThresholdClassifier": "threshold",
    "MetricEnsembleClassifier": "ensemble",
}


@dataclass(frozen=True)
class ModelRecipe:
    """A classifier with settings, and what it is in a few words; of settings that are functions,
    the value is what they give for the seed."""

    classifier: str
    about: str
    settings: Settings = field(default_factory=dict)

    def make(self, metric: MetricLike, seed: int, **settings: Any) -> DecidingClassifier:
        """The classifier, not fitted; a linear model has no seed, as nothing in it is random."""
        kind = classifier_class(self.classifier)
        preset = {k: v(seed) if callable(v) else v for k, v in self.settings.items()}
        seeded = {"random_state": seed} if "random_state" in kind._get_param_names() else {}
        return kind(metric=metric, **{**seeded, **preset, **settings})


def _forest(seed: int) -> RandomForestClassifier:
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415

    return RandomForestClassifier(200, random_state=seed)


# The names of ``softset.comparison.candidates``, for the same models.
RECIPES: dict[str, ModelRecipe] = {
    **{
        name if name != DEFAULT else DEFAULT_OF_MODELS: ModelRecipe(
            "MetricMLPClassifier", row.about, {"recipe": name}
        )
        for name, row in OF_NETWORKS.items()
    },
    "boosting-tuned": ModelRecipe(
        "MetricBoostingClassifier", "gradient boosting", {"n_metric_estimators": 0}
    ),
    "boosting-metric": ModelRecipe(
        "MetricBoostingClassifier", "gradient boosting, then rounds for the metric"
    ),
    "forest-tuned": ModelRecipe(
        "MetricThresholdClassifier", "random forest", {"estimator": _forest, "cv": "oob"}
    ),
    "linear-tuned": ModelRecipe("MetricLinearClassifier", "logistic regression", {"path": ()}),
    "linear-metric": ModelRecipe(
        "MetricLinearClassifier", "logistic regression fine-tuned for the metric"
    ),
    "ensemble": ModelRecipe("MetricEnsembleClassifier", "all kinds blended"),
}


def default_recipe(beyond_memory: bool) -> str:
    """What ``softset train`` takes if no recipe is named."""
    return DEFAULT_OF_MODELS if beyond_memory else "ensemble"


def classifier_class(name: str) -> type[DecidingClassifier]:
    """The class of that name.

    >>> classifier_class("MetricLinearClassifier").__name__
    'MetricLinearClassifier'
    """
    return getattr(import_module(f"softset.classifiers.{CLASSIFIERS[name]}"), name)
