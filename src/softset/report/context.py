"""The comparison as every section reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from softset import formats
from softset.counting.cells import Confusion, confusion
from softset.formats import shorten
from softset.metrics.custom import Custom
from softset.metrics.goals import Goal
from softset.metrics.registry import get_goal
from softset.tasks import get_task

if TYPE_CHECKING:
    from softset.comparison.result import Comparison, Predictions
    from softset.report.operating import Operating

# The values of a template.
Content = dict[str, object]
ROWS = 200  # of a table of columns or classes
PER_CLASS = ("precision", "recall", "f1")  # shown of each class


@dataclass(frozen=True)
class Page:
    """A comparison, and the texts that the sections share."""

    comparison: Comparison
    operating: Operating

    @cached_property
    def metric(self) -> str:
        """The metric in running text."""
        return self.comparison.label

    @cached_property
    def names(self) -> dict[str, str]:
        """Candidates' names by their ids."""
        return names_of(self.comparison)

    @cached_property
    def shown(self) -> list[str]:
        """The ids of the candidates with predictions, the winner first."""
        return list(shown(self.comparison))

    @cached_property
    def unit(self) -> str:
        """``"class"`` or ``"label"``."""
        return get_task(self.comparison.task).unit

    @property
    def words(self) -> dict[str, str]:
        """The words of titles: the metric of the curve, ``"class"`` or ``"label"``."""
        curve = self.operating.metrics[0].name
        return {"Curve": f"{curve[:1].upper()}{curve[1:]}", "unit": self.unit}

    @cached_property
    def held_out(self) -> str:
        """Which rows are scored, as the beginning of a sentence."""
        note = shorten(self.comparison.predictions[self.shown[0]].note, 400).rstrip(".")
        rows = formats.count(len(self.comparison.predictions[self.shown[0]].target))
        return note[:1].upper() + note[1:] if note else f"{rows} rows"

    def counts(self, key: str) -> Confusion:
        """The counts of every class (label) by a candidate's decisions, ``[classes]``."""
        held_out, task = self.comparison.predictions[key], get_task(self.comparison.task)
        tuned = {} if held_out.threshold is None else {task.parameter: held_out.threshold}
        c = confusion(
            np.asarray(held_out.scores),
            np.asarray(held_out.target),
            task=task,
            from_logits=False,
            matrix=task.exclusive,
            **tuned,  # type: ignore[arg-type]
        )
        return Confusion.from_matrix(c.matrix) if task.single else c


def names_of(comparison: Comparison) -> dict[str, str]:
    """Candidates' names by their ids."""
    return {c.id: shorten(c.name, 80) for c in comparison.candidates}


def shown(comparison: Comparison) -> dict[str, Predictions]:
    """The predictions of two candidates at most, the winner's first."""
    held_out = comparison.predictions
    order = dict.fromkeys([comparison.winner, comparison.reference, *held_out])
    return {key: held_out[key] for key in order if key in held_out}


def known_goal(name: str) -> Goal | None:
    """The goal of that name if it can be computed from counts, else ``None``."""
    try:
        goal = get_goal(name)
    except ValueError:
        return None
    of_rows = isinstance(goal.metric, Custom) or getattr(goal.metric, "columns", None)
    return None if of_rows else goal
