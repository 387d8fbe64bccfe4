"""How closely a loss follows its score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from softset_papers.kinds.curves import POINTS, correlation, curve_values, ranks


def test_correlations_are_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 20).astype(float).tolist(), rng.normal(size=20).tolist()
    assert correlation(a, b) == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-4)
    by_rank = correlation(ranks(a), ranks(b))
    assert by_rank == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-4)
    assert correlation([1.0, 1.0], [0.0, 1.0]) is None


def test_correlations_are_also_given_without_the_first_epoch():
    curve = {name: [0.5, 0.5, 0.5, 0.5] for name in POINTS}
    curve |= {"loss": [9.0, 1.0, 2.0, 3.0], "score": [0.0, 0.5, 0.6, 0.7]}
    values = curve_values([curve, curve | {"score": [0.1] * 4}])
    assert values["correlation"][0] < -0.8
    assert values["correlation after epoch 1"][0] == 1
    assert values["rank correlation after epoch 1"] == [1, None]
    assert values["correlation"][1] is None
