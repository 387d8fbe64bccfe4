"""Which columns drive the winner, measured on rows that it was not fitted on."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from softset.classifiers.explaining import Importance, permutation_importances
from softset.classifiers.model import Model
from softset.comparison.data import Table
from softset.comparison.fits import Order, fit_candidates
from softset.comparison.plan import MARGIN, Plan
from softset.comparison.worker import Outcome, encode, seed_of

Array = NDArray[Any]
REPEATS = 3
# Rows times columns that are shuffled, and rows and columns at most: what it may cost.
CELLS, ROWS, COLUMNS = 50_000, 2000, 500
# A column drives the winner if the metric falls by this much and by twice its spread.
MUCH = 0.05


def winner_importances(
    plan: Plan, winner: str, found: list[dict[str, Outcome]]
) -> list[Importance]:
    """What the metric loses on the test rows of the first split when a column is shuffled.

    The winner is fitted once more on its training rows. None where there are more than 500 columns
    or no time is left.
    """
    columns = plan.table.features
    left = plan.deadline - time.monotonic() - MARGIN
    if columns > COLUMNS or 3 * found[0][winner].seconds > left:
        return []
    task = plan.experiment()
    train, test = task.rows(0)
    encoder, x, _ = encode(task.x, task.schema, train, test)
    candidate = next(c for c in plan.chosen if c.id == winner)
    order = Order(task.metric, task.y[train], task.sizes, seed_of(task, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the runs have said so
        classifier = fit_candidates([candidate], x, order)[0].classifier
        return permutation_importances(
            Model(encoder, classifier, {}),
            task.x[test] if encoder is None else task.x.iloc[test],
            task.y[test],
            repeats=REPEATS,
            most_rows=max(200, min(ROWS, CELLS // columns)),
            random_state=plan.seed,
        )


def suspicious_drivers(table: Table, importances: list[Importance], label: str) -> list[str]:
    """A sentence where a row number or the time matters most: new rows have other values."""
    if not importances:
        return []
    first = importances[0]
    if first.falls < max(MUCH, 2 * first.spread):
        return []
    why = _order_of(table, first.column)
    if not why:
        return []
    return [
        f"column {first.column!r} drives the winner ({label} falls by {first.falls:.3f} when it is "
        f"shuffled) and {why}: new rows will have values that training never saw. Leave it out, or "
        "test on later rows."
    ]


def _order_of(table: Table, name: str) -> str:
    """Why values of a column order the rows; empty if they do not."""
    if name in {str(i) for i in table.identifiers}:
        return "has a different whole number in every row"
    if table.schema is None:
        values = table.x[:, int(name)]
    else:
        if any(c.name == name and c.kind == "date" for c in table.schema):
            return "is a date"
        values = table.x[name].to_numpy()
        if values.dtype.kind not in "iuf":
            return ""
    known = np.isfinite(values.astype(np.float64))
    if len(np.unique(values[known])) < 3:
        return ""
    along = float(spearmanr(np.flatnonzero(known), values[known]).statistic)
    return "rises or falls with the row number" if abs(along) > 0.99 else ""
