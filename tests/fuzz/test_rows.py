"""Hostile X, y and weights in every classifier: a clear error, or predictions as they should be.

Each case is made from its number alone; a failure names it, and ``case(number, tally)`` runs it
again.
"""

from __future__ import annotations

import collections
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

import softset as ss

COUNT, SLOW = 240, 5_000
SMALL = {"n_networks": 2, "max_epochs": 3, "hidden_layer_sizes": (4,)}
TREES = {"n_estimators": 4, "n_metric_estimators": 3}
MAKERS = [
    lambda m: ss.MetricMLPClassifier(m, random_state=0, **SMALL),
    lambda m: ss.MetricLinearClassifier(m, cv=3, path=(0.003,)),
    lambda m: ss.MetricThresholdClassifier(RandomForestClassifier(5, random_state=0), m, cv="oob"),
    lambda m: ss.MetricBoostingClassifier(m, random_state=0, **TREES),
    lambda m: ss.MetricBoostingClassifier(m, random_state=0, library="xgboost", **TREES),
]
METRICS = ["f1", "f2", "mcc", "accuracy", "balanced_accuracy", "auroc", "gmean", "precision"]


def some_inputs(rng, n):
    """X with something wrong or odd about it, most of the time."""
    x = rng.normal(size=(n, rng.choice([1, 2, 5])))
    spoil = [
        lambda: x,
        lambda: x * 10.0 ** rng.choice([-320, -300, -160, 20, 150, 300, 307]),
        lambda: x * 10.0 ** rng.uniform(-200, 200, size=x.shape[1]),
        lambda: np.round(x),
        lambda: np.zeros_like(x),
        lambda: np.repeat(x[:1], n, 0),
        lambda: np.where(rng.random(x.shape) < 0.05, rng.choice([np.nan, np.inf, -np.inf]), x),
        lambda: np.where(rng.random(x.shape) < 0.05, rng.choice([1.79e308, -1.79e308]), x),
        lambda: x + 1e16,
        lambda: x.astype(rng.choice(["float32", "float16", "int8", "bool"])),
        lambda: np.asfortranarray(x)[:, ::-1],
        x.tolist,
        lambda: x[:, 0],
        lambda: x[:, :0],
        lambda: x[:, None],
        lambda: x.astype(complex),
        lambda: x.astype(str),
        lambda: x.astype(object),
        lambda: np.where(rng.random(x.shape) < 0.05, None, x.astype(object)),
        lambda: sparse.csr_matrix(np.round(x)),
        lambda: pd.DataFrame(x),
        lambda: pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])]),
        lambda: pd.DataFrame(x).assign(town=rng.choice(["Rome", "Oslo", None], size=n)),
        lambda: pd.DataFrame(np.round(x), dtype="Int64"),
        lambda: np.column_stack([x, np.arange(n) * 7]),
    ]
    return spoil[rng.choice(len(spoil)) if rng.random() < 0.7 else 0]()


def some_labels(rng, n):
    y = (rng.random(n) < rng.choice([0.05, 0.3, 0.5])).astype(int)
    one, two = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    one[rng.integers(n)] = 1
    two[rng.integers(n, size=2)] = 1
    kinds = [
        lambda: y,
        lambda: one,
        lambda: 1 - one,
        lambda: two,
        lambda: np.zeros(n, dtype=int),
        lambda: 2 * y - 1,
        lambda: y.astype(bool),
        lambda: y.astype(float),
        lambda: np.where(y, "yes", "no"),
        lambda: np.where(y, "=1", " 1").astype(object),
        lambda: y[:, None],
        lambda: y[:-1],
        lambda: rng.normal(size=n),
        lambda: np.where(rng.random(n) < 0.1, np.nan, y),
        lambda: np.where(rng.random(n) < 0.1, None, y.astype(object)),
        lambda: np.where(y, 1, "no").astype(object),
        lambda: rng.integers(0, 3, n),
        lambda: np.minimum(np.arange(n), 4),
        lambda: np.arange(n),
        lambda: np.column_stack([y, 1 - y]),
        lambda: np.column_stack([y, one, np.zeros(n, dtype=int)]),
        lambda: y * 2**62,
        lambda: pd.Series(pd.Categorical(np.where(y, "b", "a"), ["a", "b", "never"])),
        y.tolist,
        lambda: None,
    ]
    return kinds[rng.choice(len(kinds)) if rng.random() < 0.7 else 0]()


def some_weights(rng, n):
    w = rng.random(n) + 0.1
    kinds = [
        lambda: w,
        lambda: np.zeros(n),
        lambda: np.where(np.arange(n) < 2, 1.0, 0.0),
        lambda: w * 10.0 ** rng.choice([-310, -200, 200, 307]),
        lambda: 10.0 ** rng.uniform(-30, 30, size=n),
        lambda: -w,
        lambda: np.where(rng.random(n) < 0.1, np.nan, w),
        lambda: w[:-1],
        lambda: w[:, None],
        lambda: 2.0,
        lambda: np.round(3 * w).astype(int),
        w.tolist,
    ]
    return None if rng.random() < 0.6 else kinds[rng.choice(len(kinds))]()


def case(number, tally):
    rng = np.random.default_rng(number)
    n = int(rng.choice([0, 1, 2, 3, 8, 40, 40, 40, 40]))
    model = MAKERS[number % len(MAKERS)](str(rng.choice(METRICS)))
    if rng.random() < 0.2:
        model.set_params(threshold=rng.choice([None, 0.3, 0.999]))
    if rng.random() < 0.2:
        holder = "" if "class_weight" in model.get_params() else "estimator__"
        model.set_params(**{f"{holder}class_weight": "balanced"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        try:
            x, y, w = some_inputs(rng, n), some_labels(rng, max(n, 1)), some_weights(rng, n)
        except (ValueError, IndexError, TypeError):  # no such thing with so few rows
            tally["none"] += 1
            return
        try:
            model.fit(x, y, sample_weight=w)
        except (ValueError, TypeError) as error:
            assert_clear(error)
            tally["refused"] += 1
            return
        check_predictions(model, x)
        if number % 3 == 0:
            again = type(model).from_state(model.state())
            np.testing.assert_array_equal(again.predict(x), model.predict(x))
            tally["restored"] += 1
        tally["predicts"] += 1


def assert_clear(error):
    """A sentence about what was given, and not what numpy or a library says when it fails."""
    text = str(error)
    assert text.strip(), "an error without words"
    strange = ("broadcast", "out of bounds", "NoneType", "unsupported operand", "'<' not")
    assert not any(word in text for word in strange), text


def check_predictions(model, x):
    n = x.shape[0] if hasattr(x, "shape") else len(x)
    count, several = len(model.classes_), model.task_ == "multilabel"
    found, p, d = model.predict(x), model.predict_proba(x), model.decision_function(x)
    assert found.shape == ((n, count) if several else (n,))
    assert p.shape == (n, count)
    assert d.shape == ((n,) if model.task_ == "binary" else (n, count))
    assert np.isfinite(d).all()
    assert ((p >= 0) & (p <= 1)).all()
    assert several or np.allclose(p.sum(1), 1)
    known = [0, 1] if several else model.classes_.tolist()
    assert set(found.ravel().tolist()) <= set(known)
    if model.task_ == "binary":
        np.testing.assert_array_equal(found == model.classes_[1], d > 0)


def run(numbers, capsys):
    tally = collections.Counter()
    for number in numbers:
        try:
            case(number, tally)
        except Exception as error:
            raise AssertionError(f"case({number}): {type(error).__name__}: {error}") from error
    with capsys.disabled():
        print(f"\n{len(numbers)} hostile X and y: {dict(tally)}", end=" ")
    for outcome, share in (("refused", 0.2), ("predicts", 0.2), ("restored", 0.05)):
        assert tally[outcome] > share * len(numbers)  # all of it was tried


def test_hostile_rows(capsys):
    run(range(COUNT), capsys)


@pytest.mark.slow
def test_five_thousand_hostile_rows(capsys):
    run(range(COUNT, COUNT + SLOW), capsys)
