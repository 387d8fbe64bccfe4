"""``calibrate=True``: probabilities to believe, and no other decision."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

import softset as ss
from softset.classifiers.export import to_onnx
from softset.storage.container import read_file, write_file
from tests.classifiers.test_shift import QUICK, rows


def targets(classes, n=1500, seed=0):
    x, y = rows(n, classes=2 if classes == "labels" else classes, seed=seed)
    return (x, np.column_stack([y, x[:, 2] > 0.3]).astype(int)) if classes == "labels" else (x, y)


def losses(p, y):
    """The log-loss, over labels where there are several."""
    if y.ndim == 1:
        return log_loss(y, p)
    return np.mean([log_loss(y[:, k], p[:, k]) for k in range(y.shape[1])])


# LogisticRegression takes no labels.
CASES = [(k, c) for k in QUICK for c in (2, 3, "labels") if (k, c) != ("threshold", "labels")]


@pytest.mark.parametrize(("kind", "classes"), CASES)
def test_no_decision_changes_and_files_hold_it(kind, classes, tmp_path):
    x, y = targets(classes)
    goal = "f1" if classes == 2 else "f1_macro"
    plain = QUICK[kind](goal).fit(x, y)
    model = QUICK[kind](goal, calibrate=True).fit(x, y)
    new = targets(classes, 800, seed=1)[0]
    np.testing.assert_array_equal(model.predict(new), plain.predict(new))
    np.testing.assert_array_equal(model.decision_function(new), plain.decision_function(new))
    p = model.predict_proba(new)
    assert not plain.calibrated_
    assert model.calibrated_
    assert not np.array_equal(p, plain.predict_proba(new))
    assert p.min() > 0
    assert p.max() < 1
    if classes != "labels":
        np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), p, rtol=1e-9)
    both = model.predict_both(new)
    np.testing.assert_array_equal(both[0], p)
    np.testing.assert_array_equal(both[1], plain.predict(new))
    if not hasattr(model, "estimators_"):  # a LogisticRegression is not one of ours
        model.save(tmp_path / "file")
        again = type(model).load(tmp_path / "file")
        np.testing.assert_array_equal(again.predict_proba(new), p)
        assert again.get_params()["calibrate"]


@pytest.mark.parametrize("classes", [2, 3, "labels"])
def test_what_class_weights_spoilt_is_believed_again(classes):
    x, y = targets(classes, 4000)
    x[:, :2] /= 2  # classes that overlap
    one = {0: 1, 1: 8, 2: 1} if classes == 3 else {0: 1, 1: 8}
    weight = [one] * 2 if classes == "labels" else one
    goal = "f1" if classes == 2 else "f1_macro"
    model = QUICK["linear"](goal, class_weight=weight, calibrate=True).fit(x[:2000], y[:2000])
    spoilt = QUICK["linear"](goal, class_weight=weight).fit(x[:2000], y[:2000])
    plain = QUICK["linear"](goal).fit(x[:2000], y[:2000])
    before, after, good = (
        losses(m.predict_proba(x[2000:]), y[2000:]) for m in (spoilt, model, plain)
    )
    assert before > good + 0.03
    assert after - good < (before - good) / 2


def test_weights_of_rows():
    """No row, k rows, and no scale."""
    x, y = targets(2, 400)
    random = np.random.default_rng(3)
    w = random.integers(0, 4, len(y)).astype(float)
    scores = random.normal(size=len(y)) + 2 * y
    model, maps = QUICK["linear"]("f1", calibrate=True).fit(x, y), []
    for s, t, v in (
        (scores, y, w),
        (scores, y, 1000 * w),
        (scores[w > 0], y[w > 0], w[w > 0]),
        tuple(np.repeat(a, w.astype(int)) for a in (scores, y, np.ones(len(y)))),
    ):
        model._fit_calibrator(s, t, v)
        maps.append([model._calibrator.maps[0].slope, model._calibrator.maps[0].intercept])
    np.testing.assert_allclose(maps, [maps[0]] * 4, rtol=1e-6)


def test_another_prevalence_moves_the_probabilities():
    x, y = rows(4000, 0.3)
    model = QUICK["linear"]("f1", calibrate=True).fit(x, y)
    moved = model.at_prevalence(0.05)
    new, labels = rows(20_000, 0.05, seed=2)
    p = moved.predict_proba(new)[:, 1]
    assert abs(p.mean() - 0.05) < 0.006
    assert abs(model.predict_proba(new)[:, 1].mean() - 0.05) > 0.03
    back = moved.at_prevalence(y.mean())
    np.testing.assert_allclose(back.predict_proba(new), model.predict_proba(new))
    x, y = rows(4000, classes=3)
    several = QUICK["linear"]("f1_macro", calibrate=True).fit(x, y)
    new, labels = rows(4000, classes=3, seed=1)
    some = (labels != 2) | (np.arange(4000) % 4 == 0)
    prior = np.bincount(labels[some]) / some.sum()
    p = several.at_prevalence(prior.tolist()).predict_proba(new[some])
    np.testing.assert_allclose(p.mean(0), prior, atol=0.02)
    assert log_loss(labels[some], p) < log_loss(labels[some], several.predict_proba(new[some]))


@pytest.mark.parametrize("classes", [2, 3, "labels"])
def test_exported_probabilities_are_calibrated_too(classes, tmp_path):
    x, y = targets(classes)
    model = QUICK["linear"]("f1" if classes == 2 else "f1_macro", calibrate=True).fit(x, y)
    model = model.at_prevalence({2: 0.1, 3: [0.2, 0.2, 0.6], "labels": [0.1, 0.2]}[classes])
    p, decided = model.to_torch()(torch.from_numpy(x))
    np.testing.assert_allclose(p.numpy(), model.predict_proba(x), rtol=1e-9)
    np.testing.assert_array_equal(decided.numpy(), model.predict(x))
    if classes == 3:
        runtime = pytest.importorskip("onnxruntime")
        to_onnx(model, tmp_path / "model.onnx")
        found = runtime.InferenceSession(str(tmp_path / "model.onnx")).run(None, {"inputs": x})
        np.testing.assert_allclose(found[0], model.predict_proba(x), rtol=1e-9)


def test_margins_get_probabilities_and_separated_classes_finite_ones():
    x, y = targets(2)
    model = ss.MetricThresholdClassifier(LinearSVC(), "f1", calibrate=True, random_state=0)
    assert not hasattr(clone(model).set_params(calibrate=False).fit(x, y), "predict_proba")
    model.fit(x, y)
    new, labels = targets(2, seed=1)
    logistic = LogisticRegression().fit(x, y).predict_proba(new)
    assert losses(model.predict_proba(new), labels) < 1.05 * losses(logistic, labels)
    apart = QUICK["linear"]("f1", calibrate=True).fit(x + 100 * y[:, None], y)
    assert 0 < losses(apart.predict_proba(x + 100 * y[:, None]), y) < 0.01
    prefit = LogisticRegression(class_weight="balanced").fit(x, y)
    found = ss.MetricThresholdClassifier(prefit, "f1", cv="prefit", calibrate=True).fit(new, labels)
    assert losses(found.predict_proba(new), labels) < losses(prefit.predict_proba(new), labels)


GIVEN = [(k, s) for k in QUICK for s in ({"threshold": 0.3}, {"metric": "auroc"})]
GIVEN.remove(("ensemble", {"threshold": 0.3}))  # it has no such parameter


@pytest.mark.parametrize(("kind", "settings"), GIVEN)
def test_rows_are_held_out_where_no_threshold_is_tuned(kind, settings):
    x, y = targets(2)
    model = QUICK[kind](**{"metric": "f1", **settings}, calibrate=True).fit(x, y)
    assert model.calibrated_
    moved = model.with_threshold(0.4)
    np.testing.assert_array_equal(moved.predict_proba(x), model.predict_proba(x))


def test_streams_and_what_summaries_say():
    x, y = targets(2)
    blocks = [(x[:700], y[:700]), (x[700:], y[700:])]
    for kind in ("linear", "network", "boosting"):
        model = QUICK[kind]("f1", calibrate=True).fit(blocks)
        assert model.calibrated_
        p = model.predict_proba(x)[:, 1]
        assert abs(p.mean() - y.mean()) < 0.03
    model = QUICK["linear"]("f1", calibrate=True).fit(x, y)
    assert "calibrated on out-of-fold scores" in model.summary()
    assert "calibrate=True gives calibrated ones" in QUICK["ensemble"]("f1").fit(x, y).summary()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    said = ss.train_model(frame, y, recipe="boosting-tuned", n_estimators=5).summary()
    assert "not calibrated; calibrate=True" in said


def test_a_damaged_map_is_refused(tmp_path):
    x, y = targets(2)
    QUICK["linear"]("f1", calibrate=True).fit(x, y).save(tmp_path / "file")
    content = read_file(tmp_path / "file", "MetricLinearClassifier")
    for maps in ([], [{"slope": -1.0, "intercept": 0.0, "reach": 50.0}], [{"slope": "1"}]):
        content["fitted"]["calibrator"]["maps"] = maps
        write_file(tmp_path / "file", "MetricLinearClassifier", content)
        with pytest.raises(ss.SavedFileError):
            ss.MetricLinearClassifier.load(tmp_path / "file")
