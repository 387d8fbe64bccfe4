"""Leakage checks: columns and scores that are too good to be true, and classes with few rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.feature_selection import f_classif
from sklearn.tree import DecisionTreeClassifier

from softset.decisions.evaluation import evaluate
from softset.metrics.registry import MetricLike
from softset.tables.encoder import TableEncoder
from softset.typing import Array

if TYPE_CHECKING:
    from softset.comparison.data import Dataset

# A column is reported if it goes this fraction of the way from a constant to a perfect score.
LEAKING = 0.95
# The most rows and columns that are checked; of more columns those with the largest F ratio.
ROWS, COLUMNS = 4000, 300
# With fewer rows of a class than this, no difference can be significant.
FEW = 20
# If all candidates score at least this, something is wrong.
PERFECT = 0.9995


def leaking_columns(table: Dataset, metric: MetricLike, label: str) -> list[str]:
    """A sentence on each column that alone nearly determines the label.

    A small tree on the column is fitted on one half of the rows and scored on the other, and
    compared with one class for all rows: an accuracy of .99 means nothing where 99 % are negative.
    Multilabel targets are not checked.
    """
    if table.task.independent:
        return []
    rows = np.random.RandomState(0).permutation(len(table.y))[:ROWS]
    y, middle = table.y[rows], len(rows) // 2
    if len(np.unique(y[:middle])) != len(table.classes) or len(np.unique(y[middle:])) < 2:
        return []
    constant = max(
        _value(np.full(len(y) - middle, k), y[middle:], table, metric)
        for k in range(len(table.classes))
    )
    sentences = []
    for name, x in _columns(table, rows, y):
        tree = DecisionTreeClassifier(max_leaf_nodes=16, min_samples_leaf=3, random_state=0)
        decided = tree.fit(x[:middle], y[:middle]).predict(x[middle:])
        value = _value(decided, y[middle:], table, metric)
        if constant < 1 and (value - constant) / (1 - constant) >= LEAKING:
            sentences.append(
                f"too good: column {name!r} alone gives {value:.3f} of {label}. Is it known when "
                "you predict? If it comes from the label, drop it."
            )
    return sentences


def few_rows(table: Dataset, folds: int) -> list[str]:
    """A sentence on a class with too few rows for any difference to be significant."""
    label, rows = min(table.counts(), key=lambda count: count[1])
    if rows >= FEW:
        return []
    return [
        f"{rows} rows of {table.task.unit} {label!r}, about {rows / folds:.0f} in each test fold: "
        "scores of so few are uncertain, and so are their intervals. Collect more of them before "
        "you choose."
    ]


def too_good(means: Sequence[float]) -> list[str]:
    """A sentence if every candidate is nearly perfect."""
    if min(means) < PERFECT:
        return []
    return [
        f"too good: every candidate scores {min(means):.3f} or more. Look for a column that is "
        "computed from the label, or for rows of one case on both sides of a split (groups)."
    ]


def _value(decided: Array, y: Array, table: Dataset, metric: MetricLike) -> float:
    p = decided.astype(np.float64)
    if table.task.exclusive:
        p = np.eye(len(table.classes))[decided]
    return float(evaluate(p, y, metric, task=table.task, from_logits=False))


def _columns(table: Dataset, rows: Array, y: Array) -> Iterator[tuple[str | int, Array]]:
    """Each column with its encoded numbers."""
    if isinstance(table.x, np.ndarray) or table.schema is None:
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
    """Numbers of the columns to check, from the columns that their outputs come from."""
    columns = sorted(set(origin))
    if len(columns) <= COLUMNS:
        return columns
    with np.errstate(all="ignore"):  # constant columns have no ratio of variances
        ratio = np.nan_to_num(f_classif(x, y)[0])
    best = np.zeros(max(columns) + 1)
    np.maximum.at(best, origin, ratio)
    return sorted(np.argsort(-best, kind="stable")[:COLUMNS].tolist())
