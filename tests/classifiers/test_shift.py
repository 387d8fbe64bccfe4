"""``at_prevalence`` and ``adapt`` of every classifier, and of a model with its table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import softset as ss
from softset.decisions.shift import ShiftWarning

QUICK = {
    "linear": lambda metric, **kw: ss.MetricLinearClassifier(metric, path=(), **kw),
    "network": lambda metric, **kw: ss.MetricMLPClassifier(
        metric, n_networks=2, max_epochs=3, random_state=0, **kw
    ),
    "boosting": lambda metric, **kw: ss.MetricBoostingClassifier(
        metric, n_estimators=10, n_metric_estimators=0, random_state=0, **kw
    ),
    "threshold": lambda metric, **kw: ss.MetricThresholdClassifier(
        LogisticRegression(), metric, random_state=0, **kw
    ),
    "ensemble": lambda metric, **kw: ss.MetricEnsembleClassifier(
        metric, base_models=["linear"], random_state=0, **kw
    ),
}


def rows(n=1500, prevalence=0.3, classes=2, seed=0):
    random = np.random.default_rng(seed)
    if classes == 2:
        y = (random.random(n) < prevalence).astype(int)
    else:
        y = random.integers(0, classes, n)
    x = random.normal(size=(n, 3))
    x[np.arange(n), y % 3] += 2.0
    return x, y


@pytest.mark.parametrize("kind", QUICK)
def test_every_classifier_moves_its_threshold_and_saves_it(kind, tmp_path):
    x, y = rows()
    model = QUICK[kind]("f1").fit(x, y)
    moved = model.at_prevalence(0.05)
    assert moved.threshold_ > model.threshold_
    np.testing.assert_array_equal(moved.predict_proba(x), model.predict_proba(x))
    new = rows(4000, 0.05, seed=1)[0]
    adapted = model.adapt(new)
    assert adapted.shift_.low[0] <= 0.05 <= adapted.shift_.high[0]
    if not hasattr(model, "estimators_"):  # a LogisticRegression is not one of ours
        adapted.save(tmp_path / "file")
        again = type(model).load(tmp_path / "file")
        assert again.shift_ == adapted.shift_
        np.testing.assert_array_equal(again.predict(new), adapted.predict(new))
        assert again.at_prevalence(0.3).threshold_ == adapted.at_prevalence(0.3).threshold_


def test_class_weights_and_the_positive_class_first():
    x, y = rows()
    plain = QUICK["linear"]("f1").fit(x, y)
    weighted = QUICK["linear"]("f1", class_weight="balanced").fit(x, y)
    assert np.isclose(weighted.reference_.prior[0, 1], plain.reference_.prior[0, 1])
    first = QUICK["linear"]("f1", pos_label=0).fit(x, 1 - y)
    assert np.isclose(first.at_prevalence(0.05).threshold_, plain.at_prevalence(0.05).threshold_)


def test_several_classes_and_labels():
    x, y = rows(classes=3)
    model = QUICK["linear"]("f1_macro").fit(x, y)
    moved = model.at_prevalence({0: 0.1, 1: 0.1, 2: 0.8})
    ratio = np.log([0.1, 0.1, 0.8]) - np.log(np.bincount(y) / len(y))
    np.testing.assert_allclose(moved.offsets_ - model.offsets_, ratio)
    assert abs(model.adapt(x[y == 2]).shift_.after[2] - 1) < 0.1
    labels = np.column_stack([y == 0, y == 1]).astype(int)
    several = QUICK["linear"]("f1_macro").fit(x, labels)
    assert (several.at_prevalence([0.05, 0.05]).threshold_ > several.threshold_).all()


def test_a_model_says_what_it_did_and_what_it_cannot():
    x, y = rows()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = ss.train_model(frame, np.where(y == 1, "yes", "no"), "f1", recipe="linear-tuned")
    assert str(model.at_prevalence(0.01).shift).endswith("-> 1 %")
    assert model.at_prevalence({"no": 0.9, "yes": 0.1}).shift.after == [0.1]
    none = frame[y == 0]
    assert model.adapt(none).shift.after[0] < 0.02  # no positives among the new rows
    with pytest.raises(ValueError, match="at least 20 rows to estimate a prevalence, got 1"):
        model.adapt(frame[:1])
    with pytest.raises(ValueError, match="column"):
        model.adapt(frame[["a"]])
    with pytest.raises(ValueError, match=r"prevalence must be in \(0, 1\), got 0"):
        model.at_prevalence(0)
    with pytest.warns(ShiftWarning, match="more than the prevalence"):
        moved = model.adapt(3 * frame)
    assert moved.threshold == model.threshold
    area = ss.train_model(frame, y, "auroc", recipe="linear-tuned")
    with pytest.raises(ValueError, match="at_prevalence needs the out-of-fold scores"):
        area.at_prevalence(0.1)


def test_the_file_stays_small_and_is_checked(tmp_path):
    x, y = rows(20_000)
    model = QUICK["linear"]("f1").fit(x, y)
    model.save(tmp_path / "with")
    model._reference = None
    model.save(tmp_path / "without")
    sizes = [(tmp_path / name).stat().st_size for name in ("with", "without")]
    assert sizes[0] - sizes[1] < 20_000


def test_a_shift_has_the_names_of_the_labels():
    """Those of the target columns; of classes whose numbers a classifier was trained on, too."""
    x, y = rows(300)
    labels = np.column_stack([y, x[:, 1] > 0]).astype(int)
    classifier = QUICK["linear"]("f1_macro").fit(x, labels)
    for info, names in (
        ({}, ["0", "1"]),
        ({"classes": ["churn", "fraud"]}, ["churn", "fraud"]),
        ({"target": ["churn", "fraud"]}, ["churn", "fraud"]),
    ):
        moved = ss.Model(None, classifier, info).at_prevalence([0.1, 0.2])
        assert moved.shift.names == names
        assert f"{names[1]}: " in str(moved.shift)
