"""Permutation importances of the winner, on rows that it was not fitted on."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from softset.classifiers.explaining import permutation_importances
from softset.classifiers.model import Importance, Model
from softset.comparison.experiment import encode
from softset.comparison.fits import FitRequest, fit_candidates

if TYPE_CHECKING:
    from softset.comparison.data import Dataset
    from softset.comparison.runs import Plan

REPEATS = 3
# The most rows times columns that are permuted, and the most rows and columns.
CELLS, ROWS, COLUMNS = 50_000, 2000, 500
# A column is reported if the metric falls by this much and by twice its standard deviation.
LARGE = 0.05


def winner_importances(plan: Plan, winner: str, seconds: float) -> list[Importance]:
    """The decrease of the metric on the test rows of the first split when a column is permuted.

    The winner is fitted once more on its training rows, which takes ``seconds``. Empty for more
    than 500 columns, or where no time is left.
    """
    columns = plan.table.features
    left = plan.deadline - time.monotonic() - plan.margin
    if columns > COLUMNS or seconds > left:
        return []
    experiment = plan.experiment()
    train, test = experiment.rows(0)
    x = experiment.x
    encoder, x_train, _ = encode(x, experiment.schema, train, test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fits have reported them
        request = FitRequest.of(experiment, 0)
        classifier = fit_candidates([plan.by_id[winner]], x_train, request)[0].classifier
        return permutation_importances(
            Model(encoder, classifier, {}),
            x[test] if isinstance(x, np.ndarray) else x.iloc[test],
            experiment.y[test],
            repeats=REPEATS,
            most_rows=max(200, min(ROWS, CELLS // columns)),
            random_state=plan.random_state,
            sample_cost=experiment.costs(test),
        )


def order_warning(table: Dataset, importances: list[Importance], label: str) -> list[str]:
    """A sentence if a row number or the time matters most: new rows have other values."""
    if not importances:
        return []
    first = importances[0]
    if first.falls < max(LARGE, 2 * first.spread):
        return []
    reason = _order_of(table, first.column)
    if not reason:
        return []
    return [
        f"column {first.column!r} is the most important one ({label} falls by {first.falls:.3f} "
        f"when it is permuted) and {reason}: new rows will have values that training never saw. "
        "Leave it out, or test on later rows."
    ]


def _order_of(table: Dataset, name: str) -> str:
    """How the values of a column order the rows; empty if they do not."""
    if name in {str(i) for i in table.identifiers}:
        return "has a different integer in every row"
    if isinstance(table.x, np.ndarray):
        values = table.x[:, int(name)]
    else:
        if any(c.name == name and c.kind == "date" for c in table.schema or ()):
            return "is a date"
        values = table.x[name].to_numpy()
        if values.dtype.kind not in "iuf":
            return ""
    finite = np.isfinite(values.astype(np.float64))
    if len(np.unique(values[finite])) < 3:
        return ""
    correlation = float(spearmanr(np.flatnonzero(finite), values[finite]).statistic)
    return "rises or falls with the row number" if abs(correlation) > 0.99 else ""
