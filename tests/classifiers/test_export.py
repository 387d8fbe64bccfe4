"""An exported model says what the model says: as a torch module, and in onnxruntime."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import softset as ss
from softset.classifiers.export import _described, averaged, to_onnx, to_torch
from softset.tasks import get_task

FEATURES = 5
NETWORK = {"n_networks": 3, "hidden_layer_sizes": (8,), "max_epochs": 40, "random_state": 0}
# The name of a case: the classifier, its settings, and the target.
CASES = {
    "network-binary": (ss.MetricMLPClassifier, NETWORK, "binary"),
    "network-positive-first": (ss.MetricMLPClassifier, {**NETWORK, "pos_label": "no"}, "binary"),
    "network-threshold": (ss.MetricMLPClassifier, {**NETWORK, "threshold": 0.1}, "binary"),
    "network-one-member": (ss.MetricMLPClassifier, {**NETWORK, "n_networks": 1}, "binary"),
    "network-no-hidden": (ss.MetricMLPClassifier, {**NETWORK, "hidden_layer_sizes": ()}, "binary"),
    "network-multiclass": (ss.MetricMLPClassifier, NETWORK, "multiclass"),
    "network-offsets": (ss.MetricMLPClassifier, {**NETWORK, "threshold": [0, 1, 2]}, "multiclass"),
    "network-multilabel": (
        ss.MetricMLPClassifier,
        {**NETWORK, "threshold": [0.2, 0.7]},
        "multilabel",
    ),
    "linear-binary": (ss.MetricLinearClassifier, {"path": (0.03,)}, "binary"),
    "linear-positive-first": (
        ss.MetricLinearClassifier, {"pos_label": "no", "path": ()}, "binary"
    ),
    "linear-multiclass": (ss.MetricLinearClassifier, {"path": ()}, "multiclass"),
    "linear-multilabel": (ss.MetricLinearClassifier, {"path": ()}, "multilabel"),
}  # fmt: skip
# One of each network and each decision: the graph is that of the module.
IN_ONNX = ["network-positive-first", "network-offsets", "network-multilabel", "linear-binary"]


def table(rows=400):
    """Columns of different scale, the last one constant, and targets that overlap."""
    random = np.random.RandomState(0)
    x = random.randn(rows, FEATURES) * [1, 100, 0.01, 5, 0] + [0, 1000, 0, -3, 7]
    z = x[:, 0] + (x[:, 1] - 1000) / 100 + 0.7 * random.randn(rows)
    second = x[:, 2] > 0.005
    return x, {
        "binary": np.where(z > 1.2, "yes", "no"),
        "multiclass": np.where(z > 1, "c", np.where(second, "b", "a")),
        "multilabel": np.column_stack([z > 1, second]).astype(int),
    }


def new_rows():
    """Rows as in training, rows far outside, and values whose squares overflow."""
    random = np.random.RandomState(1)
    x, _ = table(3000)
    return np.concatenate([x, x * random.randn(*x.shape) * 1e3, random.randn(9, FEATURES) * 1e200])


@pytest.fixture(scope="module", params=CASES)
def model(request):
    kind, settings, target = CASES[request.param]
    x, targets = table()
    return kind("f1", **settings).fit(x, targets[target])


@pytest.fixture(scope="module")
def linear():
    x, targets = table()
    return ss.MetricLinearClassifier(path=()).fit(x, targets["binary"])


def predicted(model, decision):
    """What ``predict`` would give for the module's decision."""
    found = np.asarray(decision)
    return found if model.task_ == "multilabel" else model.classes_[found]


def test_the_module_says_what_the_classifier_says(model):
    x = new_rows()
    p, decision = model.to_torch()(torch.tensor(x))
    np.testing.assert_allclose(p.numpy(), model.predict_proba(x), rtol=0, atol=1e-12)
    assert decision.dtype == torch.int64
    np.testing.assert_array_equal(predicted(model, decision), model.predict(x))
    assert len(np.unique(decision)) > 1


@pytest.mark.parametrize("name", ["network-threshold", "network-offsets", "network-multilabel"])
def test_the_threshold_is_inside(name):
    kind, settings, target = CASES[name]
    x, targets = table()
    p, decision = kind("f1", **settings).fit(x, targets[target]).to_torch()(torch.tensor(x))
    plain = (p >= 0.5).long() if target == "multilabel" else p.argmax(1)
    assert (plain != decision).any()


def test_the_module_is_in_evaluation_mode_without_parameters(model):
    module = model.to_torch()
    assert not module.training
    assert not list(module.parameters())
    p, _ = module(torch.zeros(1, FEATURES))
    assert not p.requires_grad


def test_a_changed_module_leaves_the_classifier_alone(model):
    x, _ = table()
    before = model.predict_proba(x)
    module = model.to_torch()
    with torch.no_grad():
        for buffer in module.buffers():
            buffer.zero_()
    np.testing.assert_array_equal(model.predict_proba(x), before)


def test_the_module_works_in_float32(model):
    x, _ = table()
    p, _ = model.to_torch().float()(torch.tensor(x))
    assert p.dtype == torch.float32
    np.testing.assert_allclose(p.numpy(), model.predict_proba(x), rtol=0, atol=1e-4)
    if isinstance(model, ss.MetricMLPClassifier):  # inputs are squashed: none is too large
        assert model.to_torch().float()(torch.full((1, FEATURES), 1e38))[0].isfinite().all()


def test_rows_that_predict_refuses_get_no_decision(model):
    x = table()[0][:4]
    x[1, 0], x[2, 1], x[3, 4] = np.nan, np.inf, -np.inf
    p, decision = model.to_torch()(torch.tensor(x))
    assert p[0].isfinite().all()
    assert p[1:].isnan().all()
    assert (decision[0] >= 0).all()
    assert (decision[1:] == -1).all()


@pytest.mark.parametrize("shape", [(FEATURES,), (3, 1), (3, FEATURES + 1), (2, 3, FEATURES)])
def test_other_shapes_are_refused(model, shape):
    with pytest.raises(ValueError, match=rf"x must have shape \(n, {FEATURES}\), got "):
        model.to_torch()(torch.zeros(shape))


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_members_are_averaged_as_probabilities(task):
    task = get_task(task)
    z = torch.randn(4, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = z[..., 0] if task == "binary" else z
    to_p = (lambda s: s.softmax(-1)) if task == "multiclass" else torch.sigmoid
    torch.testing.assert_close(to_p(averaged(z, task)), to_p(z).mean(0), rtol=0, atol=1e-14)
    torch.testing.assert_close(to_p(averaged(z[:1], task)), to_p(z[0]), rtol=0, atol=1e-14)


# --- which models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["yes", "no"])
def test_a_model_takes_what_its_encoder_gives(first):
    x, targets = table()
    frame = pd.DataFrame(x[:, :4], columns=list("abcd"))
    frame["city"] = np.where(x[:, 0] > 0, "Rome", "Oslo")
    model = ss.train_model(
        frame, targets["binary"], recipe="warm", pos_label=first, n_networks=2, max_epochs=5
    )
    p, decision = model.to_torch()(torch.tensor(model.inputs(frame)))
    np.testing.assert_allclose(p.numpy(), model.predict_proba(frame), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[decision], model.predict(frame))


@pytest.mark.parametrize("export", [to_torch, lambda model: to_onnx(model, "never.onnx")])
def test_other_models_are_refused_and_the_error_names_those_that_work(export):
    x, targets = table()
    frame = pd.DataFrame(x, columns=list("abcde"))
    few = {"n_estimators": 2, "n_metric_estimators": 1}
    boosting = ss.MetricBoostingClassifier("f1", **few).fit(x, targets["binary"])
    with pytest.warns(UserWarning, match="is constant"):
        trained = ss.train_model(frame, targets["binary"], recipe="boosting-metric", **few)
    for model in (boosting, trained):
        with pytest.raises(
            ValueError, match=r"MetricMLPClassifier or a MetricLinearClassifier.*got MetricBoosting"
        ):
            export(model)
    with pytest.raises(ValueError, match="got MetricBoostingClassifier"):
        trained.to_torch()


@pytest.mark.parametrize("kind", [ss.MetricMLPClassifier, ss.MetricLinearClassifier])
def test_a_classifier_must_be_fitted(kind, tmp_path):
    with pytest.raises(NotFittedError):
        kind().to_torch()
    with pytest.raises(NotFittedError):
        kind().to_onnx(tmp_path / "never.onnx")


# --- ONNX -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_a_missing_package_comes_with_its_install_line(package, linear, monkeypatch, tmp_path):
    for name in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, None if name == package else sys)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'softset\[onnx\]'"):
        linear.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def runtime():
    """onnxruntime, if it and what the export needs are here."""
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install softset[onnx]")
    reason = "onnxruntime is not installed: pip install softset[onnx]"
    return pytest.importorskip("onnxruntime", reason=reason)


@pytest.mark.parametrize("model", IN_ONNX, indirect=True)
def test_onnxruntime_says_what_the_classifier_says(model, runtime, tmp_path, capfd):
    path = tmp_path / "model.onnx"
    model.to_onnx(path)
    assert capfd.readouterr() == ("", "")
    session = runtime.InferenceSession(path)
    everything = new_rows()
    for x in (everything, everything[:1], everything[:2], everything[:0]):
        p, decision = session.run(["probabilities", "decision"], {"inputs": x})
        if len(x):
            np.testing.assert_allclose(p, model.predict_proba(x), rtol=0, atol=1e-12)
            np.testing.assert_array_equal(predicted(model, decision), model.predict(x))
        assert len(p) == len(decision) == len(x)
    _, decision = session.run(None, {"inputs": np.full((1, FEATURES), np.nan)})
    assert (decision == -1).all()


def test_the_metadata_says_what_the_numbers_mean(runtime, tmp_path):
    x, targets = table()
    frame = pd.DataFrame({"a": x[:, 0], "city": np.where(x[:, 1] > 1000, "Rome", "Łódź")})
    model = ss.train_model(
        frame, targets["binary"], recipe="warm", pos_label="no", n_networks=1, max_epochs=5
    )
    model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    found = session.get_modelmeta().custom_metadata_map
    assert {name: json.loads(value) for name, value in found.items()} == {
        "classes": ["yes", "no"],  # the positive class last, as in the model
        "features": model.encoder.names_,
        "task": "binary",
    }
    p, decision = session.run(None, {"inputs": model.inputs(frame)})
    np.testing.assert_allclose(p, model.predict_proba(frame), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[decision], model.predict(frame))
    (given,) = session.get_inputs()
    assert (given.type, given.shape) == ("tensor(double)", ["rows", len(model.encoder.names_)])


def test_the_columns_of_a_data_frame_are_in_the_metadata(runtime, tmp_path):
    x, targets = table()
    frame = pd.DataFrame(x, columns=list("abcde"))
    ss.MetricLinearClassifier(path=()).fit(frame, targets["binary"]).to_onnx(tmp_path / "m.onnx")
    found = runtime.InferenceSession(tmp_path / "m.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(found["features"]) == list("abcde")


def test_an_older_file_survives_a_failed_write(runtime, linear, tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_text("older")

    def full(self, data):
        with open(self, "wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"could not write model\.onnx .* an older one is intact"):
        linear.to_onnx(path)
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_a_promise_and_its_threshold_travel_with_the_export():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 2))
    y = (x[:, 0] + random.normal(size=300) > 1).astype(int)
    settings = {"path": (), "cv": 2, "confidence": 0.9}
    model = ss.MetricLinearClassifier("precision@recall>=0.8", **settings).fit(x, y)
    module = to_torch(model)
    assert _described(model, module)["promises"] == [model.promise_.packed()]
    flagged = module(torch.from_numpy(x))[0][:, 1].numpy() >= model.promise_.threshold
    assert module(torch.from_numpy(x))[1].tolist() == flagged.tolist()
