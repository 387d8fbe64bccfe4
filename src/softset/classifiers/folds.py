"""Splits for out-of-fold scores: a number of folds, a splitter, or pairs of rows."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from softset.checks import check_integer, check_number, warn_user
from softset.tables.labels import LabelEncoding
from softset.tables.splits import stratified_folds
from softset.typing import CV, Array, Ints, Labels, Matrix, Rows

Splits = list[tuple[Ints, Ints]]


def is_count(cv: CV) -> TypeGuard[int]:
    """Whether ``cv`` is a number of folds."""
    return isinstance(cv, int | np.integer) and not isinstance(cv, bool)


def cv_splits(
    cv: CV, X: Rows, labels: LabelEncoding, codes: Ints, weight: Array, seed: int, **settings: Any
) -> Splits:
    """Numbers of training and test rows, without those of weight zero.

    A class with fewer rows than there are folds gets fewer folds, with a warning. ``settings`` go
    to the splitter.

    >>> labels = LabelEncoding("binary", np.array([0, 1]))
    >>> x, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    >>> [len(test) for _, test in cv_splits(3, x, labels, y, np.ones(6), seed=0)]
    [2, 2, 2]
    """
    some = np.flatnonzero(weight > 0)
    if is_count(cv):
        check_integer("cv", cv, 2, 100)
        weighted_rows = X if len(some) == len(weight) else _safe_indexing(X, some)
        fold = stratified_folds(
            weighted_rows, codes[some], _fold_count(int(cv), labels, codes[some]), seed
        )
        splits = [(some[fold != k], some[fold == k]) for k in np.unique(fold)]
    else:
        target = labels.decode(codes)
        pairs = check_cv(cv, target, classifier=True).split(X, target, **settings)
        splits = [
            (train[weight[train] > 0], test[weight[test] > 0])
            for train, test in ((np.asarray(a), np.asarray(b)) for a, b in pairs)
        ]
    if not labels.task.independent:
        for train, _ in splits:
            missing = np.setdiff1d(codes[some], codes[train])
            if len(missing):
                raise ValueError(
                    f"cv leaves no row of class {labels.names[missing[0]]!r} to train on in one of "
                    "its splits. Give splits that have every class in every part."
                )
    return splits


_TWENTIETHS = 20


def holdout_split(fraction: float, X: Rows, codes: Ints, weight: Array, seed: int) -> Splits:
    """One split: the rows to train on, and a stratified ``fraction`` of twentieths to hold out.
    Equal rows are on one side."""
    check_number("holdout_fraction", fraction, 0.05, 0.5, closed="both")
    some = np.flatnonzero(weight > 0)
    weighted_rows = X if len(some) == len(weight) else _safe_indexing(X, some)
    held = stratified_folds(weighted_rows, codes[some], _TWENTIETHS, seed) < round(
        _TWENTIETHS * fraction
    )
    return [(some[~held], some[held])]


def _fold_count(cv: int, labels: LabelEncoding, codes: Ints) -> int:
    """``cv``, or as many folds as the rarest class has rows."""
    if labels.task.independent:
        return min(cv, len(codes))
    sizes = np.bincount(codes, minlength=len(labels.classes))
    rarest = int(sizes.argmin())
    if sizes[rarest] < 2:
        raise ValueError(
            "every class needs two rows, one to train on and one to be scored, got "
            f"{sizes[rarest]} of class {labels.names[rarest]!r}. Leave it out or add rows."
        )
    if sizes[rarest] < cv:
        warn_user(
            f"class {labels.names[rarest]!r} has {sizes[rarest]} rows: cv is {sizes[rarest]} folds "
            f"instead of {cv}."
        )
    return int(min(cv, sizes[rarest]))


def given_folds(cv: CV, x: Matrix, y: Labels) -> tuple[Ints, NDArray[np.bool_]] | None:
    """If ``cv`` is splits: the fold of every row, -1 for rows that no split tests, and which rows
    each split trains on, ``[splits, rows]``."""
    if is_count(cv):
        check_number("cv", cv, 2, float("inf"), closed="low")
        return None
    splitter: Any = cv
    fold, trains = np.full(x.shape[0], -1, dtype=np.int64), []
    try:
        splits = splitter.split(x, y) if hasattr(cv, "get_n_splits") else splitter
        for k, (train, test) in enumerate(splits):
            fold[np.asarray(test, dtype=np.int64)] = k
            trains.append(np.zeros(x.shape[0], dtype=bool))
            trains[-1][np.asarray(train, dtype=np.int64)] = True
    except (TypeError, ValueError, IndexError):
        raise ValueError(
            "cv must be a number of folds, a splitter, or pairs of training and test rows, "
            f"got {cv!r}."
        ) from None
    if fold.max(initial=-1) < 1:
        raise ValueError("cv must hold at least two splits.")
    return fold, np.array(trains)
