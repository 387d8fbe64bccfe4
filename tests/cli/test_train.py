"""``softset train``, and a model's way through all commands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import softset as ss
from softset.classifiers import ensemble
from softset.classifiers import model as model_module
from softset.classifiers.model import load_model
from softset.classifiers.recipes import RECIPES
from softset.cli import train
from softset.tables.files import FORMATS
from softset.tasks import BINARY

TASKS = {
    "binary": (["two"], "linear-tuned", ["no", "yes"], "parquet"),
    "multiclass": (["three"], "boosting-tuned", [0, 1, 2], "csv"),
    "multilabel": (["a", "b"], "linear-tuned", ["a", "b"], "csv"),
}
SMALL = ["--drop", "id,who,three,a,b", "--recipe", "linear-tuned"]


@pytest.mark.filterwarnings("ignore:column 'id' has a different text")
@pytest.mark.parametrize("task", TASKS)
def test_a_model_from_training_to_evaluation(run, data, task):
    target, recipe, classes, kind = TASKS[task]
    file, new = f"data.{kind}", f"new.{kind}"
    for part, name in ((data[:150], file), (data[150:], new)):
        part.to_csv(name, index=False) if kind == "csv" else part.to_parquet(name)
    others = [c for c in ("two", "three", "a", "b", "who") if c not in target]
    arguments = [a for name in target for a in ("--target", name)]
    facts = run.json("train", file, *arguments, "--drop", ",".join(others), "--recipe", recipe)
    assert (facts["task"], facts["classes"]) == (task, classes)
    assert facts["model"] == f"data-{recipe}.softset"

    summary = run.json("predict", facts["model"], new, "--keep", "id")
    assert (summary["output"], summary["rows"]) == ("new-predictions.csv", 50)
    found = pd.read_csv("new-predictions.csv")
    model = load_model(facts["model"])
    p = found[[f"p_{c}" for c in classes]].to_numpy()
    np.testing.assert_allclose(p, model.predict_proba(data[150:]), atol=1e-12)
    assert found["id"].tolist() == data["id"][150:].tolist()
    names = ["prediction_a", "prediction_b"] if task == "multilabel" else ["prediction"]
    decided = found[names].to_numpy().squeeze()
    assert (decided == model.predict(data[150:])).all()

    # A file of predictions is judged as the model that made them.
    pd.concat([found, data[target][150:].reset_index(drop=True)], axis=1).to_csv("scored.csv")
    truth = data[target][150:].to_numpy().squeeze()
    codes = truth.astype(int) if task == "multilabel" else truth
    area = roc_auc_score(codes, p[:, 1] if task == BINARY else p, multi_class="ovr")
    for words in ([new, "--model", facts["model"]], ["scored.csv"]):
        judged = run.json("evaluate", *words, *arguments, "-m", "auroc,accuracy")
        assert judged["task"] == task
        value = {row["metric"]: row["value"] for row in judged["metrics"]}
        assert value["auroc"] == pytest.approx(area)
        assert value["accuracy"] == pytest.approx(np.mean(decided == truth))


def test_what_is_printed_for_people(run, data):
    data.to_csv("data.csv", index=False)
    out = run("train", "data.csv", "-t", "two", *SMALL, "-o", "m.softset").splitlines()
    assert out[0] == "m.softset: linear-tuned for f1, 200 rows, 3 inputs"
    share = f"{100 * (data['two'] == 'yes').mean():.2g}"
    assert out[1] == f"positive: yes, {share} % of rows"
    assert out[2].startswith("threshold: 0.")
    assert re.fullmatch(r"f1 on \d+ rows held out: 0\.\d{3} \[0\.\d{3}, [01]\.\d{3}\], .*", out[3])
    assert out[4:] == ["predict: softset predict m.softset NEW_ROWS"]
    out = run("train", "data.csv", "-t", "two", *SMALL, "-o", "c.softset", "--calibrate")
    assert out.splitlines()[3].startswith("probabilities: calibrated on out-of-fold scores")
    arguments = ["evaluate", "data.csv", "-t", "two", "--model", "m.softset", "-m", "f1,mcc"]
    out = run(*arguments, "--level", "0.9")
    assert out.splitlines()[0] == (
        f"data.csv: 200 rows, positive: yes, {share} % of rows, decided by the model"
    )
    assert "90% interval" in out.splitlines()[1]
    assert len(out.splitlines()) == 2 + 2
    out = run("predict", "m.softset", "data.csv", "-o", "p.tsv")
    assert out.startswith("p.tsv: 200 rows, in the order of the file (--keep COLUMN")
    out = run("predict", "m.softset", "data.csv", "-o", "q.tsv", "--keep", "two")
    assert out.splitlines()[0] == "q.tsv: 200 rows"


def test_default_names_do_not_collide(run, data):
    data[["x", "two"]].to_csv("data.csv", index=False)
    arguments = ["train", "data.csv", "-t", "two", "--recipe", "linear-tuned"]
    names = [run.json(*arguments)["model"] for _ in range(2)]
    assert names == ["data-linear-tuned.softset", "data-linear-tuned-2.softset"]
    assert run.json(*arguments, "--force")["model"] == names[0]


def test_the_score_is_of_rows_the_model_did_not_see(run):
    """Labels without any meaning, on rows that trees know by heart."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{k}": random.normal(size=150) for k in range(3)})
    frame["y"] = random.integers(0, 2, 150)
    twice = pd.concat([frame, frame], ignore_index=True)  # equal rows stay on one side
    twice.to_csv("data.csv", index=False)
    arguments = ["train", "data.csv", "-t", "y", "--recipe", "forest-tuned", "-m", "accuracy"]
    facts = run.json(*arguments, "-o", "m.softset")
    held = facts["held_out"]
    assert held["rows"] == pytest.approx(60, abs=6)
    assert held["low"] < held["value"] < held["high"] < 0.75
    seen = (load_model("m.softset").predict(twice) == twice["y"]).mean()
    assert seen > 0.9


def test_too_few_rows_of_a_class_are_a_note_and_no_score(run, data):
    frame = data[["x", "two"]].copy()
    frame.loc[:2, "two"] = "once"
    frame.to_csv("data.csv", index=False)
    facts = run.json("train", "data.csv", "-t", "two", "--recipe", "linear-tuned")
    assert facts["held_out"] is None
    assert "no rows are held out for a score: class 'once' has 3 rows" in run.err


@pytest.mark.parametrize("recipe", ["linear-tuned", "linear-metric"])
def test_linear_models(run, data, recipe):
    data[["x", "city", "three"]].to_csv("data.csv", index=False)
    facts = run.json("train", "data.csv", "-t", "three", "--recipe", recipe)
    model = load_model(facts["model"])
    assert type(model.classifier) is ss.MetricLinearClassifier
    assert (len(model.classifier.path) == 0) == (recipe == "linear-tuned")


def test_every_recipe_and_file_format_is_in_the_help(run):
    text = " ".join(run("train", "--help").split()).replace("- ", "-")  # broken at a hyphen
    assert [name for name in RECIPES if f"{name} (" not in text] == []
    assert [form.name for form in FORMATS if form.endings[0] not in text] == []


def test_the_best_recipe_says_what_it_is_made_of(run, data, monkeypatch):
    kinds = {"linear": ensemble.KINDS["linear"], "own": ensemble.Kind(None, needs="no_such_thing")}
    monkeypatch.setattr(ensemble, "KINDS", kinds)  # for time
    monkeypatch.setattr(train, "_held_out", lambda *_: None)
    data.to_csv("data.csv", index=False)
    given = ["train", "data.csv", "--target", "two", "--drop", "id,who,three,a,b", "--force"]
    facts = run.json(*given, "--recipe", "ensemble")
    assert facts["model"] == "data-ensemble.softset"
    assert sum(facts["base_models"].values()) == pytest.approx(1)
    assert facts["left_out"]["own"].startswith("needs no_such_thing")
    said = run(*given, "--recipe", "ensemble")
    assert "MetricEnsembleClassifier for F1" in said
    assert "left out: own, needs no_such_thing" in said


def test_a_model_that_another_run_has_written_meanwhile_stays(run, data, monkeypatch):  # D21
    data[["x", "city", "two"]].to_csv("data.csv", index=False)
    train = model_module.train_model

    def slowly(*arguments, **settings):
        Path("m.softset").write_text("of another run")
        return train(*arguments, **settings)

    monkeypatch.setattr(model_module, "train_model", slowly)
    words = ["train", "data.csv", "-t", "two", "--recipe", "linear-tuned", "-o", "m.softset"]
    assert "m.softset exists already" in run.refused(*words)
    assert Path("m.softset").read_text() == "of another run"
    monkeypatch.setattr(model_module, "train_model", train)
    run(*words, "--force")
    assert Path("m.softset").read_bytes() != b"of another run"


@pytest.mark.parametrize("command", ["train", "tune-threshold"])
def test_a_metric_that_is_met_by_flagging_everything_is_said(run, data, command):  # C11
    random = np.random.default_rng(0)
    frame = data[["x", "two"]].assign(p=random.random(len(data)))
    frame.to_csv("data.csv", index=False)
    extra = ["--recipe", "linear-tuned", "--drop", "p"] if command == "train" else ["--scores", "p"]
    run(command, "data.csv", "-t", "two", "-m", "recall", *extra)
    assert "every row is flagged: recall alone" in run.err
    assert "Ask for precision@recall>=0.9 or f1" in run.err
    out = run(command, "data.csv", "-t", "two", "-m", "f1", *extra)
    assert "flagged" not in run.err
    assert "threshold for f1 of" not in out


def test_too_many_classes_are_refused_before_the_work(run):  # D23
    frame = pd.DataFrame({"x": np.arange(20_000) % 77, "y": np.arange(20_000) // 2})
    frame.to_csv("data.csv", index=False)
    for recipe in ("forest-tuned", "ensemble"):
        text = run.refused("train", "data.csv", "-t", "y", "--recipe", recipe)
        assert f"10000 classes of 20000 rows need about 310 GB with --recipe {recipe}" in text
        assert text.count("\n") == 1
