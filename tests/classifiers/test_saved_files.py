"""Models that version 0.1 saved still load and say the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import softset as ss

OLD = Path(__file__).parents[1] / "data" / "v0.1"
EXPECTED = json.loads((OLD / "expected.json").read_text())
CLASSIFIERS = sorted(name for name, found in EXPECTED.items() if "class" in found)
MODELS = sorted(name for name in EXPECTED if name.startswith("model-"))


def same(name, p, decided):
    np.testing.assert_allclose(p, EXPECTED[name]["proba"], rtol=1e-12, atol=1e-15)
    assert np.asarray(decided).tolist() == EXPECTED[name]["predict"]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_of_version_01_predicts_as_then(name, tmp_path):
    kind = getattr(ss, EXPECTED[name]["class"])
    x = np.loadtxt(OLD / "X.csv", delimiter=",")[:40]
    model = kind.load(OLD / f"{name}.softset")
    same(name, model.predict_proba(x), model.predict(x))
    threshold = model.offsets_ if model.task_ == "multiclass" else model.threshold_
    np.testing.assert_allclose(threshold, EXPECTED[name]["threshold"], rtol=1e-9)
    model.save(tmp_path / "again")
    again = kind.load(tmp_path / "again")
    same(name, again.predict_proba(x), again.predict(x))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_version_01_predicts_as_then(name):
    frame = pd.read_csv(OLD / "rows.csv")
    model = ss.load_model(OLD / f"{name}.softset")
    same(name, model.predict_proba(frame), model.predict(frame))
    assert "Model(Metric" in repr(model)
