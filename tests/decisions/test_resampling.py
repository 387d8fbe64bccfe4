"""What a tuned threshold gains."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from softset.decisions import resampling
from softset.decisions.resampling import tuning_gain
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric
from softset.tables.splits import dealt_folds


def rows(n, seed=0):
    """Logits of calibrated probabilities, and labels drawn by them."""
    random = np.random.RandomState(seed)
    p = random.beta(1, 6, n)
    return np.log(p / (1 - p)), (random.rand(n) < p).astype(int)


def tuner():
    return Tuner(get_metric("f1"), "binary")


def gain_of(chosen, decided, y, w):
    return float(chosen.values(decided, y, w[None])[0])


def test_the_gain_is_not_the_number_that_the_choice_was_made_by():
    """Labels without a pattern: what won on these rows, by the best cut of all of them or of the
    other folds, looks better than it is."""
    random = np.random.RandomState(0)
    chosen = Tuner(get_metric("accuracy"), "binary", "exact", clear=False)
    best, decided, said = [], [], []
    for _ in range(40):
        z, y, w = random.randn(60), random.randint(0, 2, 60), np.ones(60)
        plain, crossed = (z >= 0).astype(float), chosen.crossed(z, y, w)
        gain = gain_of(chosen, crossed, y, w) - gain_of(chosen, plain, y, w)
        if gain > 0:
            best.append(float((chosen.best(z, y, w)(z) == y).mean() - (plain == y).mean()))
            decided.append(gain)
            said.append(tuning_gain(chosen, crossed, z, y, w, 0).gain)
    assert np.mean(best) > np.mean(decided) > np.mean(said) + 0.01


def test_worth_is_the_metric_of_both_decisions_and_their_difference():
    """Each fifth is decided by what the others would choose: a cut, or the default."""
    z, y = rows(600)
    w = np.random.RandomState(1).rand(600)
    fold, tuned = dealt_folds(y, 5), np.empty(600)
    for k in range(5):
        tuned[fold == k] = tuner().tune(z[fold != k], y[fold != k], w[fold != k])(z[fold == k])
    crossed = tuner().crossed(z, y, w)
    found = tuning_gain(tuner(), crossed, z, y, w, 0)
    assert found.value == pytest.approx(f1_score(y, tuned, sample_weight=w))
    assert found.plain == pytest.approx(f1_score(y, z >= 0, sample_weight=w))
    assert found.gain == pytest.approx(found.value - found.plain)
    assert 0 < found.low < found.gain < found.high
    assert tuning_gain(tuner(), crossed, z, y, w, 0) == found


def test_draws_are_of_effective_rows():
    """The interval is that of rows drawn one by one, whatever the scale of the weights."""
    z, y = rows(400)
    random = np.random.RandomState(1)
    w = random.exponential(size=400) ** 2
    crossed = tuner().crossed(z, y, w)
    drawn = w * random.poisson(1, (400, 400))
    tuned, plain = (
        2 * (drawn @ (y * d)) / (drawn @ (y + d))
        for d in (tuner().crossed(z, y, w, tuner().tune), (z >= 0).astype(float))
    )
    low, high = np.quantile(tuned - plain, [0.025, 0.975])
    for scale in (1e-3, 1.0, 1024.0):
        found = tuning_gain(tuner(), crossed, z, y, scale * w, 0)
        assert [found.low, found.high] == pytest.approx([low, high], abs=0.15 * (high - low))


def test_very_many_rows_are_not_decided_again(monkeypatch):
    """Then the choice does not flatter itself, and the rule would take long."""
    z, y = rows(100)
    w = np.ones(100)
    monkeypatch.setattr(resampling, "_MOST_WORK", 99)
    found = tuning_gain(tuner(), np.zeros(100), z, y, w, 0)
    assert found.value == 0
