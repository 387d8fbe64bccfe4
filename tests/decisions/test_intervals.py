"""The table of metrics agrees with ``evaluate``; its intervals cover what they should."""

import numpy as np
import pytest

from softset import METRICS, evaluate
from softset.decisions.intervals import metric_table


def data(task, n=400, seed=0):
    random = np.random.default_rng(seed)
    if task == "binary":
        y = random.integers(0, 2, n)
        p = np.clip(0.3 * y + 0.7 * random.random(n), 0, 1)
        return p, (p >= 0.5).astype(int), y
    if task == "multiclass":
        y = random.integers(0, 3, n)
        p = random.dirichlet([1, 1, 1], n) + 0.5 * np.eye(3)[y]
        p /= p.sum(1, keepdims=True)
        return p, p.argmax(1), y
    y = random.integers(0, 2, (n, 3))
    p = np.clip(0.3 * y + 0.7 * random.random((n, 3)), 0, 1)
    return p, (p >= 0.5).astype(int), y


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_values_are_those_of_evaluate_and_lie_in_their_intervals(task):
    p, decided, y = data(task)
    rows = metric_table(p, decided, y, task=task, resamples=300)
    assert [row.metric for row in rows] == list(METRICS)
    for row in rows:
        expected = evaluate(p, y, row.metric, task=task, from_logits=False)
        assert row.value == pytest.approx(expected, abs=1e-12)
        assert row.low < row.value < row.high
        assert row.high - row.low < 0.3


def test_drawing_cells_is_drawing_rows():
    p, decided, y = data("binary")
    row = metric_table(p, decided, y, metrics=["f1"], resamples=4000)[0]
    random = np.random.default_rng(1)
    sample = []
    for _ in range(1000):
        i = random.integers(0, len(y), len(y))
        sample.append(evaluate(p[i], y[i], "f1", from_logits=False))
    assert [row.low, row.high] == pytest.approx(np.quantile(sample, [0.025, 0.975]), abs=0.008)


def test_areas_need_probabilities_and_shapes_must_agree():
    _, decided, y = data("binary")
    names = [row.metric for row in metric_table(None, decided, y, resamples=10)]
    assert "auroc" not in names
    assert "f1" in names
    with pytest.raises(ValueError, match="shape"):
        metric_table(None, decided[:-1], y)
    with pytest.raises(ValueError, match="level"):
        metric_table(None, decided, y, level=95)
