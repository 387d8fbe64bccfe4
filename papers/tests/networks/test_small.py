"""The small network of papers 000 and 001."""

import numpy as np
import pytest

from softset_papers.datasets.splits import Part, Parts
from softset_papers.networks.small import class_weights, fit_network

OPTIONS = {
    "loss": "f1",
    "hidden": [4],
    "learning_rate": 0.01,
    "batch_size": 64,
    "dropout": 0.0,
    "patience": 5,
    "max_epochs": 3,
}


def test_weights_of_the_paper():
    """000 table 8: 4800 pairs with 1454 positives give 0.72 and 1.65."""
    y = np.array([1] * 1454 + [0] * 3346)
    part = Part(np.zeros((4800, 1), np.float32), y, None)
    assert class_weights(part) == pytest.approx([0.72, 1.65], abs=0.005)


@pytest.mark.parametrize("more", [{}, {"balance": "weights"}, {"balance": "oversampled"}])
def test_trials_say_how_they_ended(more):
    rng = np.random.default_rng(0)
    y = (np.arange(100) < 30).astype(np.int64)
    part = Part((rng.normal(size=(100, 2)) + y[:, None]).astype(np.float32), y, 1.0 + y)
    fitted = fit_network(Parts(part, part, part), OPTIONS | more, [0, 1])
    assert fitted.test.shape == (2, 100)
    assert fitted.info == {"epochs": [3, 3], "outcome": ["max_epochs"] * 2}
