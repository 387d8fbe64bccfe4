"""Built-in data to try things on."""

from __future__ import annotations

import numpy as np

from softset.checks import check_number

_BLOB = 5000


def load_synthetic(positives: int = 250) -> tuple[np.ndarray, np.ndarray]:
    """Two wide blobs that overlap, positives thinned (paper 000 supplement, 4.1.1).

    ``X`` is ``[5000 + positives, 3]`` in float32, ``y`` holds 0 and 1. 250 positives make the
    paper's "Synthetic 5 %" (4.76 % exactly), 2500 its "Synthetic 33 %".

    >>> X, y = load_synthetic()
    >>> X.shape, int(y.sum())
    ((5250, 3), 250)
    """
    from sklearn.datasets import make_blobs

    check_number("positives", positives, 1, _BLOB, closed="both")
    X, y = make_blobs(2 * _BLOB, n_features=3, centers=2, cluster_std=10, random_state=42)
    chosen = np.random.default_rng(42).permutation(np.flatnonzero(y == 1))[:positives]
    rows = np.random.default_rng(42).permutation(np.concatenate([np.flatnonzero(y == 0), chosen]))
    return X[rows].astype(np.float32), y[rows].astype(np.int64)
