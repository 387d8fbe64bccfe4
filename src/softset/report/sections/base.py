"""What every section is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from softset.comparison.result import Comparison
from softset.counting.cells import Confusion, confusion
from softset.metrics.registry import label_of
from softset.report import formats
from softset.report.layout import shorten
from softset.report.operating import Operating, names_of, shown
from softset.tasks import get_task

ROWS = 200  # of a table of columns or classes


@dataclass(frozen=True)
class Page:
    """A comparison, and what the sections share of it."""

    comparison: Comparison
    operating: Operating

    @cached_property
    def metric(self) -> str:
        """The metric in running text."""
        return label_of(self.comparison.metric)

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
        """What a column of the target is called."""
        return get_task(self.comparison.task).unit

    @property
    def words(self) -> dict[str, str]:
        """What stands in titles: the curve's metric, and what a column of the target is called."""
        curve = self.operating.metrics[0].name
        return {"Curve": f"{curve[:1].upper()}{curve[1:]}", "unit": self.unit}

    @cached_property
    def held_out(self) -> str:
        """Which rows are decided, in a sentence to go on with."""
        note = shorten(self.comparison.predictions[self.shown[0]].note, 400).rstrip(".")
        rows = formats.count(len(self.comparison.predictions[self.shown[0]].target))
        return note[:1].upper() + note[1:] if note else f"{rows} rows"

    def counts(self, key: str) -> Confusion:
        """The counts of every class (label) by a candidate's decisions, ``[classes]``."""
        found, task = self.comparison.predictions[key], get_task(self.comparison.task)
        settings: dict[str, Any] = {"task": task, "from_logits": False, "matrix": task.exclusive}
        if found.threshold is not None:
            settings["offsets" if task.exclusive else "threshold"] = found.threshold
        c = confusion(np.asarray(found.scores), np.asarray(found.target), **settings)
        return Confusion.from_matrix(c.matrix) if task.single else c
