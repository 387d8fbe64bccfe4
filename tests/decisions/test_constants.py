"""The best constant decision."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    matthews_corrcoef,
    roc_auc_score,
)

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


def test_what_most_rows_have_is_by_weight():
    """Rows with the first label weigh little, those with the second much."""
    y = np.repeat([[1, 0], [0, 1]], [30, 20], axis=0)
    w = np.where(y[:, 1] == 1, 3.0, 1.0)
    tuner = Tuner(get_metric("accuracy"), "multilabel")
    plain = Decision.plain("multilabel", 2)
    found = against_constant(tuner, plain, RANDOM.normal(size=(50, 2)), y, w)
    assert found.decided.tolist() == [0, 1]
    assert found.constant == pytest.approx(60 / 90)


def test_areas_are_held_against_equal_scores_with_weights():
    y, z = np.arange(50) % 3 == 0, RANDOM.normal(size=50)
    plain = Decision.plain("binary")
    for metric, oracle, constant in (
        ("auroc", roc_auc_score, 0.5),
        ("average_precision", average_precision_score, W[y].sum() / W.sum()),
    ):
        found = against_constant(Tuner(get_metric(metric), "binary"), plain, z, y.astype(int), W)
        assert found.value == pytest.approx(oracle(y, z, sample_weight=W))
        assert found.constant == pytest.approx(constant)


def test_too_few_rows_and_one_class_tell_nothing():
    tuner, plain = Tuner(get_metric("f1"), "binary"), Decision.plain("binary")
    assert against_constant(tuner, plain, np.ones(10), np.arange(10) % 2, np.ones(10)) is None
    assert against_constant(tuner, plain, np.ones(50), np.ones(50, dtype=int), W) is None
