"""Classes far apart: the cut belongs into the gap, and no rounding decides."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import softset as ss

MAKERS = {
    "network": lambda **s: ss.MetricMLPClassifier("f1", n_networks=2, max_epochs=60, **s),
    "lightgbm": lambda **s: ss.MetricBoostingClassifier("f1", **s),
    "xgboost": lambda **s: ss.MetricBoostingClassifier("f1", library="xgboost", **s),
    "linear": lambda random_state, **s: ss.MetricLinearClassifier("f1", **s),
    "forest": lambda random_state, **s: ss.MetricThresholdClassifier(
        RandomForestClassifier(100, random_state=random_state), "f1", cv="oob", **s
    ),
    "threshold": lambda random_state, **s: ss.MetricThresholdClassifier(
        ss.MetricLinearClassifier("f1"), "f1", **s
    ),
    "ensemble": lambda **s: ss.MetricEnsembleClassifier(
        "f1", base_models=("linear", "extra-trees", "boosting"), cv=3, **s
    ),
}


def far_apart(seed, rows=2450):
    rng = np.random.default_rng(seed)
    y = np.zeros(rows, dtype=int)
    y[:80] = 1
    rng.shuffle(y)
    x = rng.normal(size=(rows, 20))
    x[y == 1, 0] += 12
    x[y == 1, 1] += 9
    return x, y


@pytest.mark.parametrize("name", MAKERS)
def test_classes_ten_standard_deviations_apart_are_told_apart_on_new_rows(name, tmp_path):
    x, y = far_apart(0)
    model = MAKERS[name](random_state=0).fit(x[:1900], y[:1900])
    assert model.score(x[1900:], y[1900:]) == 1.0
    z = model._scores(x)
    for towards in (-np.inf, np.inf):  # one rounding step decides nothing
        np.testing.assert_array_equal(model.decision_(np.nextafter(z, towards)), model.decision_(z))
    model.save(tmp_path / "m")
    loaded = type(model).load(tmp_path / "m")
    assert loaded.decision_.logit == model.decision_.logit
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
