"""``softset predict``: names that a spreadsheet would run, and files it must not write over."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from softset.classifiers.model import load_model
from softset.tables.files import read_table

LABELS = ["=1+1", "+x", "-y", "@z", " =1", "\t=2", "＝1", "'quoted", "-1", "plain"]


@pytest.fixture
def model(model, data):
    data[["x", "city", "two"]].to_csv("data.csv", index=False)
    return model


def test_predictions_of_labels_that_look_like_formulas_can_be_evaluated(run):
    random = np.random.default_rng(0)
    y = random.integers(0, len(LABELS), 300)
    frame = pd.DataFrame({"x": np.cos(y), "z": np.sin(y)}) + random.normal(0, 0.3, (300, 2))
    frame["=id"] = [f"-{i}" for i in range(300)]
    frame["two"] = np.array(LABELS)[y]
    frame.to_csv("data.csv", index=False)
    arguments = ["train", "data.csv", "-t", "two", "--drop", "=id", "--recipe", "linear"]
    classes = run.json(*arguments, "-o", "m.softset")["classes"]
    assert sorted(classes) == sorted(LABELS)
    run("predict", "m.softset", "data.csv", "--keep", "two,=id", "-o", "p.csv")
    found = run.json("evaluate", "p.csv", "-t", "two", "-m", "accuracy")
    right = load_model("m.softset").predict(frame) == frame["two"]
    assert 0.3 < found["metrics"][0]["value"] == pytest.approx(right.mean())
    assert found["classes"] == classes
    text = Path("p.csv").read_text(encoding="utf-8").splitlines()
    for cell in [c for line in text for c in line.split(",")]:
        assert not cell.lstrip("\t ").startswith(("=", "+", "@", "＝")), cell


def test_kept_columns_stay_as_they_are(run, data, model):
    frame = data[["x", "city"]].assign(code=["=1", "-2", "'3", "plain"] * 50)
    frame.to_csv("new.csv", index=False)
    run("predict", model, "new.csv", "--keep", "code", "-o", "p.csv")
    assert read_table("p.csv")["code"].tolist() == frame["code"].tolist()


@pytest.mark.parametrize("name", ["data.csv", "./data.csv", "link.csv", "m.softset"])
def test_the_input_is_never_written_over(run, model, tmp_path, name):
    (tmp_path / "link.csv").symlink_to(tmp_path / "data.csv")
    before = {n: (tmp_path / n).read_bytes() for n in ("data.csv", "m.softset")}
    text = run.refused("predict", model, "data.csv", "-o", name, "--force")
    assert "is the input" in text
    assert before == {n: (tmp_path / n).read_bytes() for n in before}


def test_the_input_of_training_is_never_written_over(run, data):
    data[["x", "two"]].to_csv("data.csv", index=False)
    assert "is the input" in run.refused(
        "train", "data.csv", "-t", "two", "-o", "data.csv", "--force"
    )


def test_a_kept_column_cannot_take_the_place_of_a_prediction(run, data, model):
    data[["x", "city"]].assign(prediction=1).to_csv("new.csv", index=False)
    text = run.refused("predict", model, "new.csv", "--keep", "prediction")
    assert "--keep prediction: the predictions have a column of that name" in text


def test_standard_input(run, data, model, monkeypatch):
    content = data[["x", "city"]][:7].to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run.json("predict", model, "-")["output"] == "stdin-predictions.csv"
    expected = load_model(model).predict(data[["x", "city"]][:7])
    assert pd.read_csv("stdin-predictions.csv")["prediction"].tolist() == expected.tolist()
