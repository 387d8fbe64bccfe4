"""Smoothed counts of many rows: groups of neighbors weigh what their rows weigh."""

import numpy as np
import pytest

from softset.decisions import smoothing
from softset.decisions.smoothing import smooth_threshold
from softset.metrics.registry import get_metric


def test_groups_keep_the_weight_and_the_mean_of_their_rows(monkeypatch):
    monkeypatch.setattr(smoothing, "GROUPS", 7)
    random = np.random.default_rng(0)
    z, w = np.sort(random.normal(size=50)), random.exponential(size=50)
    grouped, weight = smoothing._grouped(z, w)
    assert len(grouped) == 7
    assert weight.sum() == pytest.approx(w.sum())
    assert (grouped * weight).sum() == pytest.approx((z * w).sum())
    assert (np.diff(grouped) > 0).all()


def test_weights_count_beyond_the_rows_that_are_searched_one_by_one():
    """Half of the rows weigh a thousandth and say the opposite: the threshold is the others'."""
    random = np.random.default_rng(1)
    z = random.normal(size=4000)
    heavy = np.arange(4000) % 2 == 0
    y = np.where(heavy, z > 1, z > -1).astype(np.int64)
    cut, _ = smooth_threshold(z, y, np.where(heavy, 1.0, 1e-3), get_metric("f1"))
    assert cut == pytest.approx(1, abs=0.3)
