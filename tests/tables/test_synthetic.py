from __future__ import annotations

import numpy as np
import pytest

from softset.tables.synthetic import load_synthetic


@pytest.mark.parametrize(("positives", "share"), [(250, 0.0476), (2500, 0.3333)])
def test_synthetic_has_the_papers_sizes(positives, share):
    X, y = load_synthetic(positives)
    assert X.shape == (5000 + positives, 3)
    assert y.mean() == pytest.approx(share, abs=1e-4)
    assert X[y == 1].std() == pytest.approx(10, rel=0.3)
    again = load_synthetic(positives)
    assert np.array_equal(X, again[0])
    assert np.array_equal(y, again[1])


def test_bad_size_is_refused():
    with pytest.raises(ValueError, match="positives must be in"):
        load_synthetic(0)
