"""What drives a model: columns shuffled on held-out rows, and the rows it is most wrong about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from softset.checks import check_integer
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.model import Importance, Model
from softset.classifiers.row_costs import Costs, prices
from softset.progress import progress
from softset.typing import JSON, Array, ArrayLike, Floats, Frame, Label, Labels, Matrix, Rows

Inputs: TypeAlias = Frame  # of a classifier: a data frame, or an array


@dataclass(frozen=True)
class Mistake:
    """Row ``row`` (the first is 0) is ``truth``, was called ``predicted``, and would have to move
    by ``margin`` logits to be called right."""

    row: int
    truth: Label | list[int]
    predicted: Label | list[int]
    margin: float


@dataclass(frozen=True)
class Contribution:
    """``column`` has ``value`` in the row, and adds ``adds`` to its score."""

    column: str
    value: JSON
    adds: float


@dataclass(frozen=True)
class RowExplanation:
    """Why a row is predicted as it is.

    ``score`` is the logit of the positive class of two, or the log-probability of the predicted
    class. ``base`` and the contributions of a linear model of two classes add up to it (``exact``).
    Those of other models are how much the score falls, on average, when the value of a column is
    replaced by those of other rows: they need not add up, and ``base`` is the mean score.
    """

    row: int
    predicted: Label
    probability: float
    score: float
    base: float
    exact: bool
    contributions: list[Contribution]


def explain_row(
    model: Model | BaseEstimator, X: Rows, row: int, *, most_rows: int = 200, random_state: int = 0
) -> RowExplanation:
    """The contributions of the columns of ``X`` to the score of one row, the largest first.

    Args:
        model: a ``Model``, or a fitted classifier of softset; not for multilabel ones.
        X: what ``model.predict`` takes; other rows than ``row`` are what a value is compared with.
        row: its number, from 0.
        most_rows: so many other rows are drawn.
        random_state: of the drawn rows.

    >>> from softset import MetricLinearClassifier
    >>> X = np.column_stack([np.linspace(-3, 3, 100), np.cos(np.arange(100))])
    >>> model = MetricLinearClassifier("f1").fit(X, X[:, 0] > 1)
    >>> found = explain_row(model, X, 99)
    >>> found.contributions[0].column, found.exact
    ('0', True)
    """
    check_integer("most_rows", most_rows, 1, 10**9)
    model = model if isinstance(model, Model) else Model(None, model, {})
    if model.task.independent:
        raise ValueError("explain_row is for binary and multiclass models, got a multilabel one.")
    x: Inputs = X if model.encoder is None and hasattr(X, "iloc") else model.inputs(X)
    check_integer("row", row, 0, len(x) - 1)
    one = _rows(x, [row])
    scores = model.classifier._scores(model.classifier._checked(one))
    predicted = model._named(model.classifier.predict(one))[0]
    where = model.classes_.tolist().index(predicted)
    code = where if model.task.exclusive else None
    probability = float(model.classifier.predict_proba(one)[0, where])
    score = float(scores[0] if code is None else scores[0, code])
    blocks, values = list(_blocks(model, X)), _values(X, row)
    exact = code is None and isinstance(model.classifier, MetricLinearClassifier)
    if exact:
        terms = _linear_contributions(model.classifier, model.classifier._checked(one))
        adds = [float(terms[block].sum()) for _, block in blocks]
        base = score - float(terms.sum())
    else:
        others = np.delete(np.arange(len(x)), row) if len(x) > 1 else np.array([row])
        drawn = np.random.default_rng(random_state).permutation(others)[:most_rows]
        background = _rows(x, drawn)

        def mean_score(table: Frame | Array) -> float:
            """The mean score of the rows: of the positive class, or of the explained one."""
            z = model.classifier._scores(model.classifier._checked(table))
            return float(np.mean(z if code is None else z[:, code]))

        repeated = _rows(x, [row] * len(drawn))
        adds = [score - mean_score(_replaced(repeated, background, block)) for _, block in blocks]
        base = mean_score(background)
    contributions = [
        Contribution(column, values.get(column), add)
        for (column, _), add in zip(blocks, adds, strict=True)
    ]
    ordered = sorted(contributions, key=lambda c: -abs(c.adds))
    return RowExplanation(row, _item(predicted), probability, score, base, exact, ordered)


def _linear_contributions(classifier: MetricLinearClassifier, x: Matrix) -> Array:
    """What each feature of one row adds to the logit of the positive class of two, ``(features,)``:
    nothing at the mean of training."""
    scaled = classifier._scaled(x)
    dense = scaled.toarray() if hasattr(scaled, "toarray") else scaled
    return np.asarray(dense)[0] * classifier._targets[0].flat[:-1]


def _rows(x: Inputs, which: ArrayLike) -> Inputs:
    return x.iloc[which] if hasattr(x, "iloc") else x[which]


def _replaced(x: Inputs, other: Inputs, block: slice) -> Inputs:
    """``x`` with the columns of ``block`` from ``other``."""
    out = x.copy()
    if hasattr(x, "iloc"):
        for i in range(block.start, block.stop):
            out.isetitem(i, other.iloc[:, i].array)
    else:
        out[:, block] = other[:, block]
    return out


def _values(X: Inputs, row: int) -> dict[str, JSON]:
    """What the row holds, by the names of columns."""
    if hasattr(X, "iloc"):
        return {str(c): _item(X.iloc[row, i]) for i, c in enumerate(X.columns)}
    if isinstance(X, list | tuple) and isinstance(X[row], dict):
        return {str(k): v for k, v in X[row].items()}
    values = np.asarray(X[row].todense() if hasattr(X, "todense") else X[row]).ravel()
    return {str(i): _item(v) for i, v in enumerate(values)}


def _item(value: Label) -> bool | int | float | str:
    return value.item() if isinstance(value, np.generic) else value


def permutation_importances(
    model: Model | BaseEstimator,
    X: Rows,
    y: Labels,
    *,
    repeats: int = 5,
    most_rows: int = 5000,
    random_state: int = 0,
    sample_cost: Costs = None,
    verbose: int = 0,
) -> list[Importance]:
    """How much each column of ``X`` matters to the metric that ``model`` was trained for.

    ``importance_j = metric(X, y) - mean over shuffles of metric(X with column j shuffled, y)``,
    on held-out rows. All numbers that the encoder makes of a column are shuffled
    together. A column whose twin is in the table seems to matter little: the other stands in.

    Args:
        model: a ``Model``, or a fitted classifier of softset.
        X: what ``model.predict`` takes: ``(n, columns)``.
        y: labels ``(n,)``, or ``(n, labels)``.
        repeats: shuffles of each column.
        most_rows: of a longer table so many rows are drawn.
        random_state: of shuffles and drawn rows.
        sample_cost: costs of each row that are not columns of ``X``.
        verbose: 1 shows progress; above 1, seconds between plain lines.

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
    check_integer("repeats", repeats, 1, 10_000)
    check_integer("most_rows", most_rows, 2, 10**9)
    random = np.random.default_rng(random_state)
    model, x, target = _encoded(model, X, y)
    costs = model.classifier._row_costs(X, sample_cost)  # of the rows: they are not shuffled
    if len(x) > most_rows:
        some = np.sort(random.choice(len(x), int(most_rows), replace=False))
        x, target = x.iloc[some] if hasattr(x, "iloc") else x[some], target[some]
        costs = None if costs is None else costs[some]
    score = partial(_score, model.classifier, target, costs)
    unshuffled = score(x)
    importances = []
    blocks = list(_blocks(model, X))
    steps = progress("shuffle column", len(blocks), verbose)
    for column, block in blocks:
        next(steps)
        orders = [random.permutation(len(x)) for _ in range(int(repeats))]
        falls = [unshuffled - score(_shuffled(x, block, o)) for o in orders]
        importances.append(Importance(column, float(np.mean(falls)), float(np.std(falls))))
    steps.close()
    return sorted(importances, key=lambda importance: -importance.falls)


def worst_mistakes(
    model: Model | BaseEstimator, X: Rows, y: Labels, *, most: int = 10
) -> list[Mistake]:
    """The rows that ``model`` gets wrong with the largest margin: look there for wrong labels.

    The margin is the distance of the score from the threshold, in logits; of multiclass models the
    distance between the class that was called and the true one; of multilabel models that of the
    label which is most wrong. Arguments as for ``permutation_importances``.

    >>> from softset import MetricLinearClassifier
    >>> X = np.linspace(-3, 3, 100)[:, None]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[95] = 0                                    # a wrong label
    >>> worst_mistakes(MetricLinearClassifier("f1").fit(X, y), X, y)[0].row
    95
    """
    check_integer("most", most, 1, 10**9)
    model, x, _ = _encoded(model, X, y)
    costs = prices(model.classifier.metric, model.classifier._row_costs(X, None))
    margin = np.asarray(model.classifier.decision_function(x, costs))
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
    ordered = zip(order.tolist(), pairs, strict=True)
    return [Mistake(i, *pair, float(lead[i])) for i, pair in ordered]


def _score(classifier: DecidingClassifier, y: Array, costs: Floats | None, x: Inputs) -> float:
    if costs is None:
        return classifier.score(x, y)
    return classifier.score(x, y, sample_cost=prices(classifier.metric, costs))


def _encoded(model: Model | BaseEstimator, X: Inputs, y: Labels) -> tuple[Model, Inputs, Array]:
    """The model, the numbers that its classifier sees, and labels as its classifier has them."""
    model = model if isinstance(model, Model) else Model(None, model, {})
    # A classifier alone may want the names, or the categories, of a data frame.
    x = X if model.encoder is None and hasattr(X, "iloc") else model.inputs(X)
    target = model.named_for_classifier(y)
    if len(target) != len(x):
        raise ValueError(f"y must have one label for each of {len(x)} rows, got {len(target)}.")
    return model, x, target


def _shuffled(x: Inputs, block: slice, order: Array) -> Inputs:
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
