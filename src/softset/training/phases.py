"""The phases of a training: a loss each, until early stopping. A recipe names a list of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from softset.checks import check_choice, check_number
from softset.counting.steps import LinearStep
from softset.losses.annealing import Annealing
from softset.losses.pointwise import CrossEntropyLoss
from softset.losses.soft_metric import MetricLoss
from softset.metrics.registry import MetricLike
from softset.tasks import Task
from softset.training.recipes import RECIPES
from softset.typing import ClassWeight, Settings

Loss = Callable[..., Tensor]
RecipeLike = str | Loss | Sequence["Phase"]


@dataclass(frozen=True)
class Phase:
    """Train for ``loss`` until early stopping, with the learning rate times ``rate``.

    ``cooling`` are arguments of ``Annealing``: the temperature of the loss's linear step falls at
    each early stop.

    >>> from softset import MetricMLPClassifier
    >>> recipe = [Phase(CrossEntropyLoss()), Phase(MetricLoss("f1"), rate=0.1)]
    >>> model = MetricMLPClassifier("f1", recipe=recipe)  # what "warm" does
    """

    loss: Loss
    rate: float = 1.0
    cooling: Settings | None = None

    def __post_init__(self) -> None:
        check_number("rate", self.rate, 0, math.inf)
        if self.cooling is None:
            return
        if not (isinstance(self.loss, MetricLoss) and isinstance(self.loss.step, LinearStep)):
            raise ValueError(f"cooling needs a MetricLoss with a linear step, got {self.loss!r}.")
        try:
            Annealing(**self.cooling)
        except TypeError:
            raise ValueError(
                "cooling must be arguments of Annealing by name (start, rate, patience, "
                f"cooling_patience), got {self.cooling!r}."
            ) from None

    @property
    def name(self) -> str:
        """What it trains for, in words.

        >>> [phase.name for phase in make_phases("warm", "f1", "binary")]
        ['cross-entropy', 'soft metric']
        """
        if isinstance(self.loss, MetricLoss):
            return "soft metric"
        if type(self.loss) is CrossEntropyLoss:
            return "cross-entropy"
        return getattr(self.loss, "__name__", type(self.loss).__name__)


class Phases:
    """What recipes are made of: phases for one metric and task."""

    def __init__(
        self, metric: MetricLike, task: Task, class_weight: ClassWeight = None, per: str = "batch",
        **counted: Any,
    ) -> None:  # fmt: skip
        self.metric, self.task, self.per = metric, task, per
        self.shared = {"task": task, "class_weight": class_weight, **counted}

    def cross_entropy(self, rate: float = 1.0) -> Phase:
        """The usual loss."""
        return Phase(CrossEntropyLoss(**self.shared), rate)

    def soft_metric(
        self,
        rate: float = 1.0,
        *,
        delta: float | None = None,
        temperature: float | None = None,
        thresholds: Sequence[float] | None = None,
        cooling: Settings | None = None,
    ) -> Phase:
        """The metric itself, made soft, with the linear step of ``delta`` or ``temperature``."""
        step = None if delta is None else LinearStep(delta)
        step = step if temperature is None else LinearStep.at_temperature(temperature)
        if thresholds is not None and self.task.exclusive:
            raise ValueError(
                "the recipe averages over thresholds, which task='multiclass' has not. Use "
                "recipe='metric'."
            )
        settings: Settings = {
            "step": step,
            "thresholds": thresholds,
            "per": self.per,
            **self.shared,
        }
        # Networks give logits: nobody has to be warned that they might be probabilities.
        loss = MetricLoss(self.metric, from_logits=True, **settings)
        return Phase(loss, rate, cooling)


def make_phases(
    recipe: RecipeLike,
    metric: MetricLike,
    task: Task,
    class_weight: ClassWeight = None,
    **counted: Any,
) -> list[Phase]:
    """The phases of a recipe: a name in ``RECIPES``, any loss, or phases of your own.

    ``counted`` (``per``, ``ignore_index``, ``soft_targets``) is for recipes given by name.

    >>> [phase.rate for phase in make_phases("warm", "f1", "binary")]
    [1.0, 0.1]
    """
    if isinstance(recipe, str):
        check_choice("recipe", recipe, RECIPES)
        return RECIPES[recipe].phases(Phases(metric, task, class_weight, **counted))
    if class_weight is not None:
        raise ValueError("class_weight goes into the loss when recipe is a loss or phases.")
    if isinstance(recipe, list | tuple):
        if not recipe or not all(isinstance(phase, Phase) for phase in recipe):
            raise ValueError(f"recipe must hold Phase objects, got {recipe!r}.")
        return list(recipe)
    if callable(recipe):
        return [Phase(recipe)]
    raise ValueError(
        f"recipe must be one of {', '.join(RECIPES)}, a loss or a list of Phase, got {recipe!r}."
    )
