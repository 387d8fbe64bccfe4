"""``cv="oob"``: a forest is fitted once, and its threshold is tuned on rows out of bag."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from softset import MetricForestClassifier, MetricThresholdClassifier


def problem(task, n=400, seed=0):
    if task == "multilabel":
        return make_multilabel_classification(n, n_labels=1, random_state=seed)
    shares = [0.8, 0.2] if task == "binary" else [0.5, 0.2, 0.2, 0.1]
    return make_classification(
        n, 8, n_informative=5, n_classes=len(shares), weights=shares, flip_y=0.1, random_state=seed
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["f1", "mcc", "balanced_accuracy", "f1@recall>=0.7"])
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "constant"])
def test_it_decides_as_the_forest_class_does(task, metric, weighted, extra, seed):
    if "@" in metric and task == "multiclass":
        pytest.skip()
    X, y = problem("multilabel" if task == "constant" else task, seed=seed)
    if task == "constant":
        y[:, 1], y[:, 3] = 0, 1
    w = np.random.RandomState(seed).randint(0, 4, len(y)) / 1.0 if weighted else None
    old = MetricForestClassifier(metric, n_trees=60, extra=extra, random_state=seed).fit(X, y, w)
    inner = (ExtraTreesClassifier if extra else RandomForestClassifier)(
        60, bootstrap=True, random_state=np.random.RandomState(seed).randint(2**31 - 1)
    )
    new = MetricThresholdClassifier(inner, metric, cv="oob").fit(X, y, w)
    assert np.array_equal(new.decision_.cut, old.decision_.cut)
    np.testing.assert_allclose(new._scores(X), old._scores(X), atol=2e-4)  # p of labels is clipped
    assert np.array_equal(new.predict(X), old.predict(X))
