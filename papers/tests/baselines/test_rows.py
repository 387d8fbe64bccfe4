"""Rows without a network: SVM-perf, CCS, and the forest after PCA."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score

from softset_papers.baselines.ccs import CalibratedSurrogates
from softset_papers.baselines.rows import (
    fit_after_pca,
    fit_ccs,
    fit_forest,
    fit_svm_perf,
    weights_of_classes,
)
from softset_papers.datasets.splits import Part, Parts
from softset_papers.judging import judge
from softset_papers.networks.images import ImageParts, Some

NAMES = ("a", "b", "c")


def part(n: int, seed: int) -> Part:
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 5 == 0).astype(np.int64)
    x = rng.normal(size=(n, 3)) + 1.5 * y[:, None]
    return Part(x.astype(np.float32), y, None)


PARTS = Parts(part(300, 0), part(100, 1), part(100, 2))
SVM = {"C": [1e-6, 10.0], "tol": 1e-3, "planes": 100}


@pytest.mark.parametrize("loss", ["error", "f1", "roc"])
def test_svm_perf_takes_the_best_c_of_validation(loss):
    fitted = fit_svm_perf(PARTS, {**SVM, "loss": loss}, [0, 1])
    assert fitted.test.shape == (1, 100)
    if loss != "roc":  # with a tiny C everything is called negative, but well in order
        assert fitted.info["C"] == 10.0
        assert f1_score(PARTS.test.y, fitted.test[0] > 0) > 0.6


def test_decisions_at_zero_are_what_such_a_classifier_publishes():
    fitted = fit_svm_perf(PARTS, {**SVM, "loss": "f1"}, [0])
    values = judge(fitted, PARTS.validation, PARTS.test, {"output": "sign"})["published"]
    said = fitted.test[0] > 0
    y = PARTS.test.y == 1
    assert values["f1"][0] == pytest.approx(f1_score(y, said), abs=1e-5)
    balanced = (said[y].mean() + (~said[~y]).mean()) / 2
    assert values["auroc"][0] == pytest.approx(balanced, abs=1e-5)


def test_ccs_scores_decide_as_its_predictions():
    fitted = fit_ccs(PARTS, {"C": 1.0}, [0, 1])
    said = CalibratedSurrogates(1.0).fit(PARTS.train.x, PARTS.train.y).predict(PARTS.test.x)
    assert fitted.test.shape == (1, 100)
    assert ((fitted.test[0] > 0) == said).all()


def test_weights_count_as_so_many_rows():
    """Each negative three times, or with a weight of three."""
    up = PARTS.train.y == 1
    x, y = PARTS.train.x, PARTS.train.y
    repeated = Part(
        np.vstack([x, x[~up], x[~up]]), np.append(y, np.zeros(2 * (~up).sum(), int)), None
    )
    weighted = PARTS._replace(train=PARTS.train._replace(w=np.where(up, 1.0, 3.0)))
    svm = SVM | {"C": [1e4], "tol": 1e-6, "planes": 2000}
    for fit, options in ((fit_svm_perf, {**svm, "loss": "f1"}),
                         (fit_svm_perf, {**svm, "loss": "error"}), (fit_ccs, {})):  # fmt: skip
        one = fit(PARTS._replace(train=repeated), options, [0])
        two = fit(weighted, options | {"weighted": True}, [0])
        np.testing.assert_allclose(one.test, two.test, atol=2e-2, rtol=2e-2)
        plain = fit(weighted, options, [0])
        assert abs(plain.test - two.test).max() > 0.05


def test_svm_perf_knows_weights_of_classes_alone():
    assert weights_of_classes(PARTS.train) == (1.0, 1.0)
    with pytest.raises(ValueError, match="the same for all rows of a class"):
        weights_of_classes(PARTS.train._replace(w=np.arange(300) + 1.0))


def test_the_forest_decides_as_scikit_learn_does():
    fitted = fit_forest(PARTS, {"trees": 10}, [0, 1])
    for seed, scores in enumerate(fitted.test):
        forest = RandomForestClassifier(10, random_state=seed).fit(PARTS.train.x, PARTS.train.y)
        assert ((scores >= 0) == forest.predict(PARTS.test.x)).all()


def some(n: int, seed: int) -> Some:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.normal(size=(n, 1, 4, 4)) * 0.5 + (y - 1)[:, None, None, None]
    return Some(torch.from_numpy(x).float(), torch.from_numpy(y))


@pytest.mark.parametrize(("kind", "trials"), [("forest", 2), ("ccs", 1)])
def test_forest_and_ccs_after_pca(kind, trials):
    parts = ImageParts(some(90, 0), some(30, 1), some(45, 2), NAMES)
    options = {"variance": 0.8, "trees": 10, "C": 1.0}
    validation, test = fit_after_pca(kind, parts, options, [0, 1])
    assert len(validation) == len(test) == trials
    assert test[0].shape == (45, 3)
    assert (test[0].argmax(1) == parts.test.y).float().mean() > 0.7


def test_a_class_that_training_lacks_has_a_column():
    train = some(90, 0)
    keep = train.y != 1
    parts = ImageParts(Some(train.x[keep], train.y[keep]), some(30, 1), some(45, 2), NAMES)
    _, test = fit_after_pca("forest", parts, {"variance": 0.8, "trees": 5}, [0])
    assert test[0].shape == (45, 3)
    assert (test[0].argmax(1) != 1).all()
