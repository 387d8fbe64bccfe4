"""The path as the benchmark of linear models watches it."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification

import linear
import softset as ss


def test_every_point_of_the_path_is_the_model_that_it_would_be():
    X, y = make_classification(600, 6, weights=[0.85], random_state=0)
    watched = linear.AllPoints("f1").fit(X[:400], y[:400])
    model = ss.MetricLinearClassifier("f1").fit(X[:400], y[:400])
    assert [p.penalty for p in watched.kept_["path"]] == [p.penalty for p in model.path_]
    decided = watched.decisions(X[400:])
    assert len(decided) == len(model.path_) > 2
    assert np.array_equal(decided[model.chosen_], model.predict(X[400:]))
    assert any(not np.array_equal(decided[0], other) for other in decided[1:])
