"""``softset predict``: names that a spreadsheet would run, and files it must not write over."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

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
    arguments = ["train", "data.csv", "-t", "two", "--drop", "=id", "--recipe", "linear-tuned"]
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
    facts = run.json("predict", model, "-")
    assert facts["output"] == "stdin-predictions.csv"
    assert facts["positive"].startswith("positive: yes, ")
    expected = load_model(model).predict(data[["x", "city"]][:7])
    assert pd.read_csv("stdin-predictions.csv")["prediction"].tolist() == expected.tolist()


IDENTIFIERS = ["12E4", "+49123", "1.10", "1234567", "", "007", "9007199254740993", "=1+1"]


@pytest.mark.parametrize("decimal", [".", ","])
def test_identifiers_are_kept_as_they_are_in_the_file(run, data, model, decimal):  # D19
    frame = data[["x", "city"]][:8].assign(code=IDENTIFIERS)
    frame.to_csv("new.csv", index=False, sep=";", decimal=decimal)
    options = ["--sep", ";", "--decimal", decimal]
    run("predict", model, "new.csv", "--keep", "code,x", "-o", "p.csv", *options)
    lines = Path("p.csv").read_text().splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == [*IDENTIFIERS[:-1], "'=1+1"]
    kept = read_table("p.csv", text=["x"])["x"].tolist()
    assert kept == read_table("new.csv", text=["x"], sep=";")["x"].tolist()
    frame[["x", "city"]].to_csv("new.csv", index=False, sep=";", decimal=decimal)
    run("predict", model, "new.csv", "-o", "q.csv", *options)
    assert read_table("p.csv")["p_yes"].tolist() == read_table("q.csv")["p_yes"].tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("streamed", [False, True])
def test_integers_beside_nothing_keep_their_digits(run, data, model, ending, streamed):  # D19
    ids = [None] * 40 + [9007199254740993 + i for i in range(60)]
    columns = {"x": data["x"][:100], "city": data["city"][:100], "id": pa.array(ids, pa.int64())}
    Path("new").mkdir()
    # The first group of rows has no identifier.
    parquet.write_table(pa.table(columns), "new/a.parquet", row_group_size=20)
    source = "new" if streamed else "new/a.parquet"
    run("predict", model, source, "--keep", "id", "-o", f"p.{ending}")
    if ending == "csv":
        lines = Path("p.csv").read_text().splitlines()[1:]
        assert [line.split(",")[0] for line in lines] == [str(v or "") for v in ids]
    else:
        assert parquet.read_table("p.parquet")["id"].to_pylist() == ids


def test_the_threshold_can_be_moved(run, data, model):  # C10
    data[["x", "city"]].to_csv("new.csv", index=False)
    for threshold in (0.1, 0.9):
        run("predict", model, "new.csv", "--threshold", threshold, "-o", "p.csv", "--force")
        found = read_table("p.csv")
        assert ((found["prediction"] == "yes") == (found["p_yes"] >= threshold)).all()
        assert found["prediction"].nunique() == 2
    assert "threshold must be in (0, 1)" in run.refused(
        "predict", model, "new.csv", "--threshold", "1.5", "-o", "q.csv"
    )


@pytest.mark.filterwarnings("always:column 'x'")
def test_a_row_is_judged_alone(run, data, model):  # D20
    frame = data[["x", "city"]].astype(object)
    frame.loc[7, "x"] = "abc"
    frame.to_csv("new.csv", index=False)
    frame[7:8].to_csv("one.csv", index=False)
    for name in ("new", "one"):
        run("predict", model, f"{name}.csv", "-o", f"{name}-p.csv")
        assert f"'abc' in row {8 if name == 'new' else 1}." in run.err
    assert read_table("new-p.csv")["p_yes"][7] == read_table("one-p.csv")["p_yes"][0]


def test_categories_with_decimal_commas_are_the_same_later(run):  # D18
    random = np.random.default_rng(0)
    size = random.choice(["1,5", "2,5", "XL", "S"], 300)
    y = np.isin(size, ["1,5", "XL"])
    frame = pd.DataFrame({"size": size, "x": random.normal(size=300), "y": y.astype(int)})
    frame.to_csv("data.csv", index=False, sep=";", decimal=",")
    options = ["--sep", ";", "--decimal", ","]
    run("train", "data.csv", "-t", "y", "--recipe", "linear-tuned", "-o", "m.softset", *options)
    run("predict", "m.softset", "data.csv", "-o", "p.csv", *options)
    assert "never seen" not in run.err
    assert (read_table("p.csv")["prediction"] == y).all()
