"""Intervals of a tuned cut and of what it is worth."""

from __future__ import annotations

import numpy as np
import pytest

from softset.decisions.resampling import cut_interval, worth
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric


def rows(n, seed=0, classes=2):
    """Logits of calibrated probabilities, and labels drawn by them."""
    random = np.random.RandomState(seed)
    if classes > 2:
        z = random.randn(n, classes) + np.linspace(2, 0, classes)
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        return np.log(p), (random.rand(n, 1) > p.cumsum(1)).sum(1)
    p = random.beta(1, 6, n)
    return np.log(p / (1 - p)), (random.rand(n) < p).astype(int)


def tuner(metric="f1", task="binary"):
    return Tuner(get_metric(metric), task)


@pytest.mark.parametrize("rule", ["exact", "smooth"])
def test_the_interval_holds_the_best_cut_and_narrows_with_rows(rule):
    """The cut of n rows is off by about n^(-1/3): 64 times the rows, a quarter of the width."""
    widths = []
    for n in (300, 19200):
        z, y = rows(n)
        chosen = Tuner(get_metric("f1"), "binary", rule)
        low, high = cut_interval(chosen, z, y, np.ones(n), 0)
        assert low <= chosen.best(z, y, np.ones(n)).cut <= high
        widths.append(high - low)
    assert widths[1] < 0.6 * widths[0]


def test_most_intervals_hold_the_cut_of_very_many_rows():
    truth = tuner().best(*rows(400_000, 99), np.ones(400_000)).cut
    hits = 0
    for seed in range(20):
        z, y = rows(400, seed)
        low, high = cut_interval(tuner(), z, y, np.ones(400), seed)
        hits += low <= truth <= high
    assert hits >= 16  # of 19 expected; fewer than 16 by chance in 1 of 400


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_several_classes_or_labels_have_an_interval_each(task):
    z, y = rows(400, classes=3)
    if task == "multilabel":
        y = np.eye(3, dtype=int)[y]
    found = cut_interval(tuner(task=task), z, y, np.ones(400), 0)
    assert found.shape == (3, 2)
    assert (found[:, 0] <= found[:, 1]).all()


def test_offsets_of_very_many_classes_have_no_interval():
    z, y = rows(400, classes=60)
    assert cut_interval(tuner(task="multiclass"), z, y, np.ones(400), 0) is None


def test_worth_is_of_rows_that_the_cut_was_not_tuned_on():
    """Labels without a pattern: the best cut of all rows looks better than it is."""
    random = np.random.RandomState(0)
    gains, honest = [], []
    for _ in range(20):
        z, y, w = random.randn(60), random.randint(0, 2, 60), np.ones(60)
        chosen = Tuner(get_metric("accuracy"), "binary", "exact")
        best = chosen.best(z, y, w)
        gains.append(float((best(z) == y).mean() - ((z >= 0) == y).mean()))
        honest.append(worth(chosen, chosen.crossed(z, y, w), z, y, w, 0).gain)
    assert np.mean(gains) > 0.05 > np.mean(honest)


def test_worth_is_the_metric_of_both_cuts_and_their_difference():
    z, y = rows(3000)
    w = np.random.RandomState(1).rand(3000)
    crossed = tuner().crossed(z, y, w)
    found = worth(tuner(), crossed, z, y, w, 0)
    assert found.value == pytest.approx(tuner().values(crossed, y, w[None])[0])
    assert found.plain == pytest.approx(tuner().values((z >= 0) * 1.0, y, w[None])[0])
    assert found.gain == pytest.approx(found.value - found.plain)
    assert 0 < found.low < found.gain < found.high
    assert worth(tuner(), crossed, z, y, w, 0) == found
    more = worth(tuner(), *(np.tile(a, 4) for a in (crossed, z, y, w)), 0)
    assert more.high - more.low == pytest.approx((found.high - found.low) / 2, rel=0.25)
