"""What drives a model: columns shuffled on held-out rows, and the rows it is most wrong about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from softset.checks import check_whole
from softset.classifiers.model import Model
from softset.typing import Array, Label, Labels, Rows


@dataclass(frozen=True)
class Importance:
    """``falls`` is how much the metric loses, on average, when ``column`` is shuffled among the
    rows; ``spread`` is the standard deviation over shuffles."""

    column: str
    falls: float
    spread: float


@dataclass(frozen=True)
class Mistake:
    """Row ``row`` (the first is 0) is ``truth``, was called ``predicted``, and would have to move
    by ``margin`` logits to be called right."""

    row: int
    truth: Label | list[int]
    predicted: Label | list[int]
    margin: float


def permutation_importances(
    model: Model | BaseEstimator,
    X: Rows,
    y: Labels,
    *,
    repeats: int = 5,
    most_rows: int = 5000,
    random_state: int = 0,
) -> list[Importance]:
    """How much each column of ``X`` matters to the metric that ``model`` was trained for.

    ``importance_j = metric(X, y) - mean over shuffles of metric(X with column j shuffled, y)``,
    on rows that training has not seen. All numbers that the encoder makes of a column are shuffled
    together. A column whose twin is in the table seems to matter little: the other stands in.

    Args:
        model: a ``Model``, or a fitted classifier of softset.
        X: what ``model.predict`` takes: ``(n, columns)``.
        y: labels ``(n,)``, or ``(n, labels)``.
        repeats: shuffles of each column.
        most_rows: of a longer table so many rows are drawn.
        random_state: of shuffles and drawn rows.

    Returns:
        One ``Importance`` for each column, the largest first.

    >>> from sklearn.datasets import make_classification
    >>> from softset import MetricLinearClassifier
    >>> X, y = make_classification(400, 4, n_informative=1, n_redundant=0,
    ...                            n_clusters_per_class=1, shuffle=False, random_state=0)
    >>> model = MetricLinearClassifier("f1").fit(X[::2], y[::2])
    >>> permutation_importances(model, X[1::2], y[1::2])[0].column
    '0'
    """
    check_whole("repeats", repeats, 1, 10_000)
    check_whole("most_rows", most_rows, 2, 10**9)
    random = np.random.default_rng(random_state)
    model, x, target = _encoded(model, X, y)
    if len(x) > most_rows:
        some = np.sort(random.choice(len(x), int(most_rows), replace=False))
        x, target = x.iloc[some] if hasattr(x, "iloc") else x[some], target[some]
    whole = model.classifier.score(x, target)
    found = []
    for column, block in _blocks(model, X):
        orders = [random.permutation(len(x)) for _ in range(int(repeats))]
        falls = [whole - model.classifier.score(_shuffled(x, block, o), target) for o in orders]
        found.append(Importance(column, float(np.mean(falls)), float(np.std(falls))))
    return sorted(found, key=lambda importance: -importance.falls)


def worst_mistakes(
    model: Model | BaseEstimator, X: Rows, y: Labels, *, most: int = 10
) -> list[Mistake]:
    """The rows that ``model`` gets wrong with the largest margin: look there for wrong labels.

    The margin is the distance of the score from the cut, in logits; of several classes the
    distance between the class that was called and the true one; of several labels that of the
    label which is most wrong. Arguments as for ``permutation_importances``.

    >>> from softset import MetricLinearClassifier
    >>> X = np.linspace(-3, 3, 100)[:, None]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[95] = 0                                    # a wrong label
    >>> worst_mistakes(MetricLinearClassifier("f1").fit(X, y), X, y)[0].row
    95
    """
    check_whole("most", most, 1, 10**9)
    model, x, _ = _encoded(model, X, y)
    margin = np.asarray(model.classifier.decision_function(x))
    codes = model.codes(y)
    if model.task.exclusive:
        rows = np.arange(len(x))
        lead = margin.max(1) - margin[rows, codes]
        decided = margin.argmax(1)
        wrong = decided != codes
    else:
        decided = (margin > 0).astype(int)
        beyond = np.where(decided != codes, np.abs(margin), 0.0)
        lead = beyond if beyond.ndim == 1 else beyond.max(1)
        wrong = lead > 0
    order = np.flatnonzero(wrong)
    order = order[np.argsort(-lead[order], kind="stable")][: int(most)]
    names = np.asarray(model.classes_)
    if model.task.independent:
        pairs = [(codes[i].tolist(), decided[i].tolist()) for i in order]
    else:
        pairs = [(names[codes[i]], names[decided[i]]) for i in order]
    found = zip(order.tolist(), pairs, strict=True)
    return [Mistake(i, *pair, float(lead[i])) for i, pair in found]


def _encoded(model: Model | BaseEstimator, X: Any, y: Labels) -> tuple[Model, Array, Array]:
    """The model, the numbers that its classifier sees, and labels as its classifier has them."""
    model = model if isinstance(model, Model) else Model(None, model, {})
    # A classifier alone may want the names, or the categories, of a data frame.
    x = X if model.encoder is None and hasattr(X, "iloc") else model.inputs(X)
    target = model.named_for_classifier(y)
    if len(target) != len(x):
        raise ValueError(f"y must have one label for each of {len(x)} rows, got {len(target)}.")
    return model, x, target


def _shuffled(x: Any, block: slice, order: Array) -> Any:
    """``x`` with some columns, which belong together, in another order of rows."""
    out = x.copy()
    if hasattr(x, "iloc"):
        for i in range(block.start, block.stop):
            out.isetitem(i, x.iloc[order, i].array)
    else:
        out[:, block] = x[order, block]
    return out


def _blocks(model: Model, X: Rows) -> Iterator[tuple[str, slice]]:
    """Each column of the table, and the columns of numbers that come from it."""
    if model.encoder is None:
        names = getattr(X, "columns", range(model.classifier.n_features_in_))
        for i, name in enumerate(names):
            yield str(name), slice(i, i + 1)
        return
    at = 0
    for column in model.encoder.columns_:
        if column.outputs:
            yield column.name, slice(at, at + column.outputs)
        at += column.outputs
