"""Inputs on one scale."""

import numpy as np
import pytest
from scipy import sparse

from softset.tables.scaling import SQUASH, Moments, Scaler, center_and_spread


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_a_weight_is_a_row_given_so_often(layout):
    x = np.random.default_rng(0).normal(size=(50, 3))
    w = np.random.default_rng(1).integers(0, 4, 50)
    often = np.repeat(x, w, axis=0)
    found = center_and_spread(layout(x), w * 1.0)
    np.testing.assert_allclose(found, center_and_spread(layout(often), np.ones(w.sum())))
    if sparse.issparse(layout(x)):
        return
    square = often.var(0)
    np.testing.assert_allclose(found[1], np.sqrt(square))


def test_the_middle_is_linear_and_tails_stay_within_the_bound():
    x = np.random.default_rng(0).normal(5, 2, (10_000, 1))
    scale = Scaler.of(x, np.ones(len(x)))
    near = np.array([[5.0], [5.2]])
    assert np.ptp(scale(near)) == pytest.approx(0.1, rel=0.02)
    assert abs(scale(np.array([[1e300], [-1e300]]))).max() <= SQUASH


def test_constant_and_huge_columns_are_finite():
    x = np.column_stack([np.full(9, 7.0), np.arange(9) * 1e200, np.zeros(9)])
    found = Scaler.of(x, np.ones(9))(x)
    assert np.isfinite(found).all()
    assert (found[:, [0, 2]] == 0).all()
    assert np.ptp(found[:, 1]) > 1


def test_moments_of_blocks_are_those_of_all_rows():
    g = np.random.default_rng(0)
    x, w = g.normal(3, 5, size=(1000, 4)) * [1, 1e-6, 1e6, 0] + [0, 0, 1e6, 7], g.random(1000)
    moments = Moments()
    for part in np.array_split(np.arange(1000), 7):
        moments.add(x[part], w[part])
    moments.add(x[:3], np.zeros(3))
    found, whole = moments.scaler(), Scaler.of(x, w)
    assert found.center == pytest.approx(whole.center, rel=1e-12)
    assert found.scale == pytest.approx(whole.scale, rel=1e-9)
    assert np.isinf(found.scale[3])


def test_sparse_columns_of_about_one_size_have_one_scale_and_others_their_own():
    x = sparse.random(500, 30, density=0.1, random_state=0, format="csr")
    x.data = 0.2 + x.data / 5
    large = sparse.csr_matrix(1000 * (np.arange(500) % 2)[:, None])
    both = sparse.hstack([x, large, sparse.csr_matrix((500, 1))]).tocsr()
    center, scale = center_and_spread(both, np.ones(500))
    assert not center.any()
    assert len(np.unique(scale[:30])) <= 2
    assert scale[:30] == pytest.approx(np.sqrt(np.mean(x.data**2)), rel=0.3)
    assert scale[30] == pytest.approx(1000)
    assert np.isinf(scale[31])
