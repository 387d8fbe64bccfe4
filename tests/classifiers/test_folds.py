"""Splits for out-of-fold scores: which rows each model is fitted on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from softset import MetricEnsembleClassifier, MetricThresholdClassifier
from softset.classifiers import ensemble
from softset.classifiers.ensemble import KINDS

N = 60
X = np.random.RandomState(0).randn(N, 3)
Y = (X[:, 0] + np.random.RandomState(1).randn(N) > 0).astype(int)
ROW = {tuple(x): i for i, x in enumerate(X)}
MAKE = {
    "threshold": lambda cv: MetricThresholdClassifier(Seen(), cv=cv, refit=False, random_state=0),
    "ensemble": lambda cv: MetricEnsembleClassifier(base_models=["linear"], cv=cv, random_state=0),
}


class Seen(LogisticRegression):
    """It remembers the rows of each fit."""

    rows: list = []

    def fit(self, X, y, sample_weight=None):
        Seen.rows.append(sorted(ROW[tuple(x)] for x in X))
        return super().fit(X, y, sample_weight)


@pytest.fixture
def seen(monkeypatch):
    Seen.rows.clear()
    kind = KINDS["linear"]

    def fit(rows, order):
        Seen.rows.append(sorted(ROW[tuple(x)] for x in rows.x))
        return kind.fit(rows, order)

    monkeypatch.setitem(ensemble.KINDS, "linear", ensemble.Kind(fit))
    return Seen.rows


SPLITTERS = {
    "stratified": StratifiedKFold(3, shuffle=True, random_state=0),
    "random": ShuffleSplit(2, test_size=0.3, random_state=0),
    "in time": TimeSeriesSplit(3),
    "some": PredefinedSplit(np.arange(N) % 4 - 1),
    "pairs": [(np.arange(20, N), np.arange(20)), (np.arange(40), np.arange(40, N))],
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cv", SPLITTERS)
@pytest.mark.parametrize("kind", MAKE)
def test_models_are_fitted_on_the_rows_of_the_splits(kind, cv, weighted, seen):
    weight = np.where(np.arange(N) % 7 == 3, 0.0, 1.0) if weighted else np.ones(N)
    given = SPLITTERS[cv]
    model = MAKE[kind](given).fit(X, Y, sample_weight=weight)
    pairs = given if isinstance(given, list) else given.split(X, Y)
    wanted = [sorted(i for i in train if weight[i] > 0) for train, _ in pairs]
    assert seen == wanted
    assert 0 < model.threshold_ < 1
    assert model.predict(X).shape == (N,)
    if not weighted:
        area = MAKE[kind](given).set_params(metric="auroc").fit(X, Y)
        assert np.isfinite(area.predict_proba(X)).all()


@pytest.mark.parametrize("kind", MAKE)
def test_a_class_with_fewer_rows_than_folds_gets_fewer_folds(kind, seen):
    few = np.where(np.arange(N) < 3, "rare", "usual")
    with pytest.warns(UserWarning, match=r"class 'rare' has 3 rows: cv is 3 folds instead of 5"):
        MAKE[kind](5).fit(X, few)
    assert len(seen) == 3
    assert all(sum(i < 3 for i in rows) == 2 for rows in seen)
    with pytest.raises(ValueError, match=r"every class needs two rows.* got 1 of class 'rare'"):
        MAKE[kind](5).fit(X, np.where(np.arange(N) < 1, "rare", "usual"))
    weight = np.where(np.isin(np.arange(N), [0, 1]), 0.0, 1.0)  # weight 0 is no row
    with pytest.raises(ValueError, match=r"every class needs two rows.* got 1 of class 'rare'"):
        MAKE[kind](5).fit(X, few, sample_weight=weight)


@pytest.mark.parametrize("kind", MAKE)
def test_splits_that_cannot_be_meant_are_refused(kind):
    for cv, message in (
        (1, "cv must be an integer from 2"),
        ("pre-fit", "cv"),
        ([(np.flatnonzero(Y == 0), np.flatnonzero(Y == 1))], "cv leaves no row of class 1"),
    ):
        with pytest.raises(ValueError, match=message):
            MAKE[kind](cv).fit(X, Y)
