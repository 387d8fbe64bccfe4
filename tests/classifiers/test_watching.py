"""``watch``: promises, expectations and scores of a model over time."""

import numpy as np
import pandas as pd
import pytest

import softset as ss

LOOK = np.arange(4000) // 100


def rows(n, seed, fall=0.0):
    random = np.random.default_rng(seed)
    y = (random.random(n) < 0.25).astype(int)
    x = random.normal(size=(n, 2))
    x[:, 0] += (2.5 - fall * (np.arange(n) >= n // 2)) * y
    return pd.DataFrame(x, columns=["a", "b"]), np.where(y == 1, "yes", "no").astype(object)


@pytest.fixture(scope="module")
def model():
    x, y = rows(3000, 0)
    goal = "precision@recall>=0.8"
    return ss.train_model(x, y, goal, recipe="linear", confidence=0.95, path=())


def test_a_broken_promise_is_dated(model):
    x, y = rows(4000, 1, fall=1.2)
    found = ss.watch(model, x, y, time=LOOK)
    (broken,) = found.broken
    assert broken.promised
    assert abs(broken.since - 20) <= 1
    assert found.verdict.startswith("The promise of recall >= 0.8 is broken since")
    assert found.drift.since is not None
    assert found.to_dict()["verdict"] == found.verdict
    # Rows, hits and the goal, counted apart.
    said, true = model.predict(x) == "yes", y == "yes"
    assert broken.rows == [int(true[t == LOOK].sum()) for t in range(40)]
    assert broken.hits == [int((true & said)[t == LOOK].sum()) for t in range(40)]
    precision = [true[said & (t == LOOK)].mean() for t in range(40)]
    np.testing.assert_allclose(found.goal_values, precision)
    assert all(
        a <= v <= b for a, v, b in zip(found.goal_low, precision, found.goal_high, strict=True)
    )


def test_nothing_is_said_of_what_holds_and_late_labels_are_left_out(model):
    x, y = rows(4000, 2)
    y[3000:] = None
    found = ss.watch(model, x, y, time=LOOK)
    assert not found.broken
    assert found.drift.found is None
    assert sum(found.labeled) == 3000
    assert found.shift.low[0] <= 0.25 <= found.shift.high[0]
    assert abs(found.expected - (y[:3000] == "yes")[model.predict(x[:3000]) == "yes"].mean()) < 0.05


def test_without_labels_only_scores_are_watched(model):
    x, _ = rows(4000, 3, fall=1.5)
    found = ss.watch(model, x, time=LOOK)
    assert not found.rates
    assert abs(found.drift.since - 20) <= 3
    assert "scores differ from those of training" in str(found)


def test_without_a_promise_it_is_what_training_led_to_expect():
    x, y = rows(3000, 0)
    plain = ss.train_model(x, y, "f1", recipe="linear", path=())
    new, labels = rows(4000, 1, fall=1.2)
    broken = ss.watch(plain, new, labels, time=LOOK).broken
    assert {r.name for r in broken} >= {"recall"}
    assert not any(r.promised for r in broken)


def test_few_rows_and_bad_input(model):
    x, y = rows(4000, 4)
    assert "no rows to tell" in str(ss.watch(model, x[:1], np.array(["no"]), time=[1]))
    negatives = ss.watch(model, x[y == "no"], y[y == "no"], time=LOOK[y == "no"])
    assert not [r for r in negatives.broken if r.name == "recall"]
    with pytest.raises(ValueError, match="one label for each of 4000 rows"):
        ss.watch(model, x, y[:5], time=LOOK)
    with pytest.raises(ValueError, match="maybe"):
        ss.watch(model, x[:2], ["yes", "maybe"], time=[1, 2])
    with pytest.raises(ValueError, match="alpha"):
        ss.watch(model, x, y, time=LOOK, alpha=1.5)


def test_several_classes_and_labels():
    random = np.random.default_rng(0)
    x = random.normal(size=(1500, 2))
    y = (x[:, 0] > 0.5).astype(int) + (x[:, 1] > 0)
    classes = ss.MetricLinearClassifier("f1_macro", path=()).fit(x[:1000], y[:1000])
    found = ss.watch(classes, x[1000:], y[1000:], time=LOOK[:500])
    assert [r.name for r in found.rates] == ["accuracy", *(f"recall of {k}" for k in range(3))]
    labels = np.column_stack([y > 0, y > 1]).astype(int)
    several = ss.MetricLinearClassifier("f1_macro", path=()).fit(x[:1000], labels[:1000])
    found = ss.watch(several, x[1000:], labels[1000:], time=LOOK[:500])
    assert [r.name for r in found.alerts] == ["alerts of 0", "alerts of 1"]
    assert found.expected is None or 0 < found.expected <= 1
