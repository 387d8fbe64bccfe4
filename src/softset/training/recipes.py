"""Recipes: what a network is trained for, first and next. To add one, add a row to ``RECIPES``.

Nothing heavy is imported here, so that the command line can list the recipes in its help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softset.training.phases import Phase, Phases

# What is taken if none is named: by networks that are to be used, and by ``train_members``.
DEFAULT, DEFAULT_OF_MEMBERS = "cross-entropy", "warm"
GRID = tuple(i / 10 for i in range(1, 10))


@dataclass(frozen=True)
class Recipe:
    """One row of ``RECIPES``: what it does, in a line, and its phases."""

    about: str
    phases: Callable[[Phases], list[Phase]]


RECIPES: dict[str, Recipe] = {
    "cross-entropy": Recipe("the usual loss", lambda make: [make.cross_entropy()]),
    "metric": Recipe(  # paper 000, its text
        "the soft metric from scratch, at threshold 1/2",
        lambda make: [make.soft_metric()],
    ),
    "metric-grid": Recipe(  # paper 000, its code
        "the soft metric averaged over thresholds 0.1 to 0.9",
        lambda make: [make.soft_metric(delta=0.2, thresholds=GRID)],
    ),
    "anneal": Recipe(  # paper 002 section 4.3
        "the soft metric, with a step that sharpens at each early stop",
        lambda make: [make.soft_metric(temperature=0.2, cooling={})],
    ),
    "warm": Recipe(
        "cross-entropy, then the soft metric from its best weights at a tenth of the rate",
        lambda make: [make.cross_entropy(), make.soft_metric(rate=0.1)],
    ),
}
