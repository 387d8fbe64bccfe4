"""The best constant decision."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from softset.decisions.constants import against_constant
from softset.decisions.decision import Decision
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric

RANDOM = np.random.default_rng(0)
W = RANDOM.integers(1, 4, 50) * 1.0
ORACLES = {
    "f1": f1_score,
    "f1_macro": lambda y, p, **w: f1_score(y, p, average="macro", zero_division=0, **w),
    "accuracy": accuracy_score,
    "mcc": matthews_corrcoef,
}


@pytest.mark.parametrize(
    ("metric", "classes"), [("f1", 2), *((m, c) for m in list(ORACLES)[1:] for c in (2, 3))]
)
def test_the_best_class_for_all_rows(metric, classes):
    y, z = RANDOM.integers(0, classes, 50), RANDOM.normal(size=(50, classes))
    task = "binary" if classes == 2 else "multiclass"
    z = z[:, 0] if classes == 2 else z
    decision = Decision.plain(task, classes)
    found = against_constant(Tuner(get_metric(metric), task), decision, z, y, W)
    value = [ORACLES[metric](y, np.full(50, k), sample_weight=W) for k in range(classes)]
    assert found.constant == pytest.approx(max(value))
    assert value[found.decided] == pytest.approx(max(value))
    assert found.value == pytest.approx(ORACLES[metric](y, decision(z), sample_weight=W))


def test_labels_none_all_and_what_most_rows_have():
    y = (RANDOM.random((50, 3)) < [0.1, 0.9, 0.6]).astype(int)
    z = RANDOM.normal(size=(50, 3))
    for metric, wanted in (("f1_macro", [1, 1, 1]), ("accuracy", [0, 1, 1])):
        tuner = Tuner(get_metric(metric), "multilabel")
        found = against_constant(tuner, Decision.plain("multilabel", 3), z, y, np.ones(50))
        assert found.decided.tolist() == wanted


def test_too_few_rows_and_one_class_tell_nothing():
    tuner, plain = Tuner(get_metric("f1"), "binary"), Decision.plain("binary")
    assert against_constant(tuner, plain, np.ones(10), np.arange(10) % 2, np.ones(10)) is None
    assert against_constant(tuner, plain, np.ones(50), np.ones(50, dtype=int), W) is None
