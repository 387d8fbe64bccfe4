"""How closely a loss follows its score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from softset_papers.kinds.curves import correlation, ranks


def test_correlations_are_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 20).astype(float).tolist(), rng.normal(size=20).tolist()
    assert correlation(a, b) == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-4)
    by_rank = correlation(ranks(a), ranks(b))
    assert by_rank == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-4)
    assert correlation([1.0, 1.0], [0.0, 1.0]) == 0
