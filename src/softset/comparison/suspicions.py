"""What looks too good, or too little, to be believed: said before anyone acts on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import f_classif
from sklearn.tree import DecisionTreeClassifier

from softset.comparison.data import Table
from softset.decisions.evaluation import evaluate
from softset.metrics.registry import MetricLike
from softset.tables.encoder import TableEncoder

Array = NDArray[Any]
# A column is asked about if it goes this share of the way from a guess to a perfect score.
TELLING = 0.95
# Rows and columns that are looked at, at most; of more columns those that tell classes apart best.
ROWS, COLUMNS = 4000, 300
# With fewer rows of a class than this, nothing can be told from chance.
FEW = 20
# A score from which on all candidates together are too good to be true.
PERFECT = 0.9995


def telling_columns(table: Table, metric: MetricLike, label: str) -> list[str]:
    """A sentence on each column that alone nearly gives the label.

    A small tree on the column is fitted on one half of the rows and judged on the other. One class
    for all rows is the guess that it is compared with: an accuracy of .99 means nothing where 99 %
    are negative. Several labels are not looked at.
    """
    if table.task.independent:
        return []
    rows = np.random.RandomState(0).permutation(len(table.y))[:ROWS]
    y, middle = table.y[rows], len(rows) // 2
    if len(np.unique(y[:middle])) != len(table.classes) or len(np.unique(y[middle:])) < 2:
        return []
    guess = max(
        _value(np.full(len(y) - middle, k), y[middle:], table, metric)
        for k in range(len(table.classes))
    )
    found = []
    for name, x in _columns(table, rows, y):
        tree = DecisionTreeClassifier(max_leaf_nodes=16, min_samples_leaf=3, random_state=0)
        decided = tree.fit(x[:middle], y[:middle]).predict(x[middle:])
        value = _value(decided, y[middle:], table, metric)
        if guess < 1 and (value - guess) / (1 - guess) >= TELLING:
            found.append(
                f"too good: column {name!r} alone gives {value:.3f} of {label}. Is it known when "
                "you predict? If it comes from the label, drop it."
            )
    return found


def few_rows(table: Table, folds: int) -> list[str]:
    """A sentence on a class with too few rows for any difference to mean something."""
    rarest = min(table.counts(), key=lambda count: count.rows)
    if rarest.rows >= FEW:
        return []
    kind = table.task.unit
    return [
        f"{rarest.rows} rows of {kind} {rarest.label!r}, about {rarest.rows / folds:.0f} in each "
        "test part: scores of so few say little, and so do their intervals. Collect more of them "
        "before you choose."
    ]


def too_good(means: Sequence[float]) -> list[str]:
    """A sentence where every candidate is right about everything."""
    if min(means) < PERFECT:
        return []
    return [
        f"too good: every candidate scores {min(means):.3f} or more. Look for a column that is "
        "made from the label, or for rows of one case on both sides of a split (groups)."
    ]


def _value(decided: Array, y: Array, table: Table, metric: MetricLike) -> float:
    p = decided.astype(np.float64)
    if table.task.exclusive:
        p = np.eye(len(table.classes))[decided]
    return float(evaluate(p, y, metric, task=table.task, from_logits=False))


def _columns(table: Table, rows: Array, y: Array) -> Iterator[tuple[Any, Array]]:
    """Each column with the numbers that the encoder makes of it."""
    if table.schema is None:
        x = table.x[rows]
        for i in _best(x, y, list(range(x.shape[1]))):
            yield i, x[:, [i]]
        return
    encoder = TableEncoder(table.schema)
    x = encoder.fit_transform(table.x.iloc[rows])
    origin = [i for i, column in enumerate(encoder.columns_) for _ in range(column.outputs)]
    for i in _best(x, y, origin):
        yield encoder.columns_[i].name, x[:, np.equal(origin, i)]


def _best(x: Array, y: Array, origin: list[int]) -> list[int]:
    """Numbers of the columns to look at, from the columns that their outputs come from."""
    columns = sorted(set(origin))
    if len(columns) <= COLUMNS:
        return columns
    with np.errstate(all="ignore"):  # constant columns have no ratio of variances
        ratio = np.nan_to_num(f_classif(x, y)[0])
    best = np.zeros(max(columns) + 1)
    np.maximum.at(best, origin, ratio)
    return sorted(np.argsort(-best, kind="stable")[:COLUMNS].tolist())
