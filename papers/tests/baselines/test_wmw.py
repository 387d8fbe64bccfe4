from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from softset_papers.baselines.wmw import WMWLoss


def wmw(z, y, w, gamma=0.2, power=3):
    p, total, pairs = [1 / (1 + np.exp(-v)) for v in z], 0.0, 0.0
    for i, j in itertools.product(range(len(y)), repeat=2):
        if y[i] == 1 and y[j] == 0:
            pairs += w[i] * w[j]
            total += w[i] * w[j] * max(0, gamma - (p[i] - p[j])) ** power
    return total / pairs


def test_ties_among_pairs_count_fully():
    """Equal probabilities are a distance of 0, below gamma: gamma^power each."""
    z = torch.zeros(7, dtype=torch.float64)
    y = torch.tensor([1, 0, 0, 1, 0, 1, 0])
    assert WMWLoss()(z, y).item() == pytest.approx(0.2**3)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: WMWLoss(gamma=0), "gamma"),
        (lambda: WMWLoss(power=2.5), "power"),
    ],
)
def test_bad_arguments_are_named(make, word):
    with pytest.raises(ValueError, match=word):
        make()
