"""``train``, ``predict``, ``evaluate``, ``tune-threshold``: what they print and write."""

import json

import numpy as np
import pandas as pd
import pytest

import softset as ss
from softset import cli
from softset.classifiers.model import load_model


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert stop.value.code == 0, err
        return out

    return call


def data(n=200, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=n)
    z = x + random.normal(scale=0.5, size=n)
    return pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(n)],
            "x": x,
            "city": random.choice(["Rome", "Oslo"], n),
            "two": np.where(z > 0.5, "yes", "no"),
            "three": np.digitize(z, [-0.5, 0.5]),
            "a": (z > 0).astype(int),
            "b": z > 1,
        }
    )


TASKS = {
    "binary": (["two"], "boosting", ["no", "yes"]),
    "multiclass": (["three"], "boosting", [0, 1, 2]),
    "multilabel": (["a", "b"], "forest", ["a", "b"]),
}


@pytest.mark.filterwarnings("ignore:column 'id' has a different text")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_model_from_training_to_evaluation(run, task, kind):
    target, recipe, classes = TASKS[task]
    frame = data()
    file, new = f"data.{kind}", f"new.{kind}"
    for part, name in ((frame[:150], file), (frame[150:], new)):
        part.to_csv(name, index=False) if kind == "csv" else part.to_parquet(name)
    others = [c for c in ("two", "three", "a", "b") if c not in target]
    arguments = [a for name in target for a in ("--target", name)]
    out = run("train", file, *arguments, "--drop", ",".join(others), "--recipe", recipe, "--json")
    facts = json.loads(out)
    assert (facts["task"], facts["classes"]) == (task, classes)
    assert facts["model"] == f"data-{recipe}.softset"

    summary = json.loads(run("predict", facts["model"], new, "--keep", "id", "--json"))
    assert (summary["output"], summary["rows"]) == ("new-predictions.csv", 50)
    found = pd.read_csv("new-predictions.csv")
    model = load_model(facts["model"])
    p = found[[f"p_{c}" for c in classes]].to_numpy()
    np.testing.assert_allclose(p, model.predict_proba(frame[150:]), atol=1e-12)
    assert found["id"].tolist() == frame["id"][150:].tolist()
    names = ["prediction_a", "prediction_b"] if task == "multilabel" else ["prediction"]
    decided = found[names].to_numpy().squeeze()
    assert (decided == model.predict(frame[150:])).all()

    by_model = json.loads(run("evaluate", new, *arguments, "--model", facts["model"], "--json"))
    assert by_model["task"] == task
    assert {row["metric"] for row in by_model["metrics"]} == set(ss.METRICS)
    value = {row["metric"]: row["value"] for row in by_model["metrics"]}
    y = model.codes(frame[target][150:].to_numpy().squeeze())
    scores = p[:, 1] if task == "binary" else p
    area = ss.evaluate(scores, y, "auroc", task=task, from_logits=False)
    assert value["auroc"] == pytest.approx(area)
    assert value["accuracy"] == pytest.approx(
        np.mean(decided == frame[target][150:].to_numpy().squeeze())
    )
    # The file of predictions is a file of scores.
    joined = pd.concat([found, frame[target][150:].reset_index(drop=True)], axis=1)
    joined.to_csv("scored.csv", index=False)
    again = json.loads(run("evaluate", "scored.csv", *arguments, "-m", "auroc", "--json"))
    assert again["metrics"][0]["value"] == pytest.approx(area)


@pytest.mark.parametrize("logits", [False, True])
def test_the_threshold_is_that_of_best_threshold(run, logits):
    random = np.random.default_rng(0)
    p = random.random(300).round(3).clip(0.001, 0.999)
    y = np.where(random.random(300) < p**2, "sick", "well")
    score = np.log(p / (1 - p)) if logits else p
    pd.DataFrame({"score": score, "y": y}).to_csv("s.csv", index=False)
    more = ["--logits"] if logits else []
    arguments = ["s.csv", "-t", "y", "--scores", "score", "--pos-label", "sick", *more]
    found = json.loads(run("tune-threshold", *arguments, "-m", "f1", "--json"))
    expected = ss.best_threshold(p, y == "sick", "f1", from_logits=False)
    assert found["threshold"] == pytest.approx(expected, abs=1e-9)
    assert found["value"] > found["value_before"]
    tuned = ["--threshold", found["threshold"], "-m", "f1", "--json"]
    again = json.loads(run("evaluate", *arguments, *tuned))
    assert again["metrics"][0]["value"] == pytest.approx(found["value"])
    text = run("tune-threshold", *arguments)
    assert text.startswith("threshold for f1 of 'sick': 0.")


def test_offsets_and_thresholds_of_several(run):
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 200)
    p = random.dirichlet([1, 1, 1], 200) + 0.3 * np.eye(3)[y]
    p /= p.sum(1, keepdims=True)
    frame = pd.DataFrame(p, columns=["p_0", "p_1", "p_2"]).assign(y=y, u=y > 0, v=y > 1)
    frame.to_csv("s.csv", index=False)
    found = json.loads(run("tune-threshold", "s.csv", "-t", "y", "--json"))
    assert len(found["offsets"]) == 3
    assert found["value"] >= found["value_before"]
    labels = ["s.csv", "-t", "u,v", "--scores", "p_1,p_2"]
    assert len(json.loads(run("tune-threshold", *labels, "--json"))["threshold"]) == 2
    assert "offsets for f1" in run("tune-threshold", "s.csv", "-t", "y")


@pytest.mark.filterwarnings("ignore:column 'id' has a different text")
def test_what_is_printed_for_people(run):
    data().to_csv("data.csv", index=False)
    arguments = ["data.csv", "-t", "two", "--drop", "three,a,b", "--recipe", "boosting"]
    out = run("train", *arguments, "-o", "m.softset").splitlines()
    assert out[0].startswith("m.softset: boosting for f1, 200 rows, 3 inputs")
    assert out[1:] == ["classes: no, yes", out[2]]
    assert out[2].startswith("threshold: 0.")
    out = run("evaluate", "data.csv", "-t", "two", "--model", "m.softset", "--level", "0.9")
    assert out.splitlines()[0] == "data.csv: 200 rows, positive class 'yes'"
    assert "90% interval" in out.splitlines()[1]
    assert len(out.splitlines()) == 2 + len(ss.METRICS)
    out = run("predict", "m.softset", "data.csv", "-o", "p.tsv")
    assert out.splitlines()[0] == "p.tsv: 200 rows"


def test_default_names_do_not_collide(run):
    data()[["x", "two"]].to_csv("data.csv", index=False)
    arguments = ["train", "data.csv", "-t", "two", "--recipe", "boosting", "--json"]
    names = [json.loads(run(*arguments))["model"] for _ in range(2)]
    assert names == ["data-boosting.softset", "data-boosting-2.softset"]


def test_the_positive_class_and_weights_reach_the_model(run):
    frame = data()[["x", "two"]].assign(w=np.linspace(0.1, 2, 200))
    frame.to_csv("data.csv", index=False)
    arguments = ["train", "data.csv", "-t", "two", "--recipe", "boosting", "--sample-weight", "w"]
    run(*arguments, "--pos-label", "no", "-o", "m.softset")
    model = load_model("m.softset")
    assert model.classes_.tolist() == ["yes", "no"]
    assert [c["name"] for c in model.encoder.columns_] == ["x"]
    run(*arguments[:-2], "--drop", "w", "-o", "n.softset")
    plain = load_model("n.softset").predict_proba(frame)[:, ::-1]
    assert not np.allclose(model.predict_proba(frame), plain)
