"""Every way through a command: two classes, several or labels; a table in memory or on disk.

The rows have liars among them (which weigh next to nothing), a text column whose codes look like
numbers, a column that tells all (to be dropped), and labels that are asked for in another order
than they were trained in. What comes out is held against scikit-learn and the truth.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as sk

from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.model import load_model
from softset.tables import parquet_rows
from tests.cli.box import Box, best

TARGETS = {"binary": ["two"], "multiclass": ["three"], "multilabel": ["a", "b"]}
CLASSES = {"binary": [7, 3], "multiclass": ["high", "low", "mid"], "multilabel": ["a", "b"]}
METRICS = {"binary": "f2", "multiclass": "balanced_accuracy", "multilabel": "jaccard"}
POSITIVE = {"binary": ["--pos-label", "3"], "multiclass": [], "multilabel": []}
APART = "leak,who,id,c"


def table(n, seed):
    """Rows, and which of them tell the truth."""
    g = np.random.default_rng(seed)
    x, v = g.normal(size=(2, n))
    code = g.choice(["01", "1", "10"], n)
    z = x + np.where(code == "01", 1.2, 0) + 0.15 * g.normal(size=n)
    frame = pd.DataFrame({"id": [f"r{i:03}" for i in range(n)], "x": x, "v": v, "code": code})
    frame["who"] = [f"g{i // 3}" for i in g.permutation(n)]
    frame["two"] = np.where(z > 1.2, 3, 7)
    frame["three"] = np.array(["low", "mid", "high"])[np.digitize(z, [-0.2, 1.1])]
    frame["a"], frame["b"] = (z > 0.6) * 1, (v + 0.15 * g.normal(size=n) > -0.3) * 1
    frame["c"] = frame["a"]
    true = g.random(n) < 0.7
    turned = frame.assign(two=10 - frame["two"], a=1 - frame["a"], b=1 - frame["b"])
    turned["three"] = frame["three"].map({"low": "mid", "mid": "high", "high": "low"})
    frame.loc[~true] = turned.loc[~true]
    return frame.assign(leak=z, w=np.where(true, 1.0, 1e-3)), true


def write(home, name, frame):
    """As a file, and as a directory of files."""
    frame.to_csv(home / f"{name}.csv", index=False)
    (home / name).mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(home / name / f"{i}.parquet", row_group_size=50, index=False)


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    found = Box(tmp_path_factory.mktemp("ways"))
    found.frame = table(480, 0)[0]
    test, true = table(400, 1)
    found.test = test[true].reset_index(drop=True)
    write(found.home, "train", found.frame)
    write(found.home, "test", found.test)
    return found


@pytest.fixture(params=[".csv", ""], ids=["memory", "disk"])
def place(request, monkeypatch):
    """How the names of files end; on disk, blocks are small."""
    monkeypatch.setattr(parquet_rows, "_ROWS", 32)
    return request.param


def train(box, task, place, *more, weight=True, name="train"):
    gone = [APART, *(c for t in TARGETS if t != task for c in TARGETS[t]), *([] if weight else "w")]
    words = ["-t", ",".join(TARGETS[task]), "--recipe", "boosting-tuned", "--drop", ",".join(gone)]
    words += ["--sample-weight", "w"] if weight else []
    words += [] if "-m" in more else ["-m", METRICS[task]]
    return box("train", box.home / f"{name}{place}", *words, *POSITIVE[task], *more, "--json")


def model(box, task, place=".csv", *more, **given):
    ran = train(box, task, place, *more, **given)
    return ran.folder / ran.json["model"]


def truth(frame, task):
    return frame[TARGETS[task] if task == "multilabel" else TARGETS[task][0]].to_numpy()


def right(found, frame, task):
    """The share of right decisions."""
    return (found.predict(frame) == truth(frame, task)).mean()


@pytest.mark.parametrize("task", TARGETS)
def test_train(box, task, place):
    facts, found = train(box, task, place).json, load_model(model(box, task, place))
    assert facts["classes"] == CLASSES[task]
    assert facts["metric"] == found.metric == METRICS[task]
    assert [c.name for c in found.encoder.columns_] == ["x", "v", "code"]
    assert right(found, box.test, task) > 0.85
    plain = train(box, task, place, weight=False)
    # By less on disk, where the seed draws other rows, and fewer, to be held out.
    gain = 0.15 if place else 0.05
    assert facts["held_out"]["value"] > plain.json["held_out"]["value"] + gain
    assert facts["held_out"]["value"] > 0.75
    other = load_model(model(box, task, place, "--seed", 5))
    assert np.abs(found.predict_proba(box.test) - other.predict_proba(box.test)).max() > 1e-6
    if place:  # on disk, what rows hold decides which are held out
        assert train(box, task, place, "--seed", 5).json["held_out"] != facts["held_out"]


@pytest.mark.parametrize("task", TARGETS)
def test_a_weight_of_0_is_no_row(box, task, place):
    """Whatever it holds: a label that there is not, a code that nothing else has."""
    strange = box.frame.assign(x=-100 * box.frame["x"], code="zz", w=0.0)
    if task != "multilabel":  # whose labels are read before they are counted
        strange[TARGETS[task][0]] = 99 if task == "binary" else "never"
    name = f"strange-{task}{place or '-disk'}".replace(".", "-")
    mixed = pd.concat([box.frame[:200], strange, box.frame[200:]])
    write(box.home, name, mixed)
    found, plain = (train(box, task, place, name=file) for file in (name, "train"))
    for key in ("classes", "held_out", "inputs"):
        assert found.json[key] == plain.json[key], key
    p = [
        load_model(ran.folder / ran.json["model"]).predict_proba(box.test) for ran in (found, plain)
    ]
    np.testing.assert_allclose(*p, rtol=1e-9)


def predicted(box, task, place=".csv"):
    ran = box("predict", model(box, task), box.home / f"test{place}", "--keep", "id", "--json")
    assert ran.err == ""  # columns that were dropped in training may still be there
    return pd.read_csv(ran.folder / ran.json["output"]), ran.json


@pytest.mark.parametrize("task", TARGETS)
def test_predict(box, task, place):
    found, facts = predicted(box, task, place)
    assert found["id"].tolist() == box.test["id"].tolist()
    assert facts["rows"] == len(box.test)
    for name in CLASSES[task]:
        labels = task == "multilabel"
        is_it = truth(box.test, task) == name if not labels else box.test[name] == 1
        assert sk.roc_auc_score(is_it, found[f"p_{name}"]) > 0.93
        decided = found["prediction"] == name if not labels else found[f"prediction_{name}"] == 1
        assert (decided == is_it).mean() > 0.85
    for name, counts in facts["predictions"].items():
        kinds = found[name].value_counts()
        assert counts == {str(k): v for k, v in kinds.items()}
    if task != "multilabel":
        assert len(facts["predictions"]["prediction"]) == len(CLASSES[task])


def scores(found, task):
    """Probabilities, and decisions as numbers of classes."""
    if task == "multilabel":
        return found[["p_a", "p_b"]].to_numpy(), found[["prediction_a", "prediction_b"]].to_numpy()
    names = CLASSES[task]
    decided = found["prediction"].map({name: k for k, name in enumerate(names)}).to_numpy()
    p = found[[f"p_{name}" for name in names]].to_numpy()
    return p[:, 1] if task == "binary" else p, decided


def codes(frame, task):
    if task == "multilabel":
        return truth(frame, task)
    names = {name: k for k, name in enumerate(CLASSES[task])}
    return frame[TARGETS[task][0]].map(names).to_numpy()


def said(task, y, decided, p):
    average = {"average": "binary" if task == "binary" else "macro"}
    area = {"multi_class": "ovr"} if task == "multiclass" else {}
    return {
        "f1": sk.f1_score(y, decided, **average),
        "jaccard": sk.jaccard_score(y, decided, **average),
        "auroc": sk.roc_auc_score(y, p, **area),
    }


BACKWARDS = {"binary": "two", "multiclass": "three", "multilabel": "b,a"}


@pytest.mark.parametrize("task", TARGETS)
def test_evaluate(box, task):
    """By the model, by its predictions, and by a threshold; labels in another order."""
    found, _ = predicted(box, task)
    p, _ = scores(found, task)
    y = codes(box.test, task)
    moved = load_model(model(box, task))  # to a threshold that nothing else has
    cut = {"binary": 0.97, "multiclass": [4.0, 0.0, -4.0], "multilabel": [0.97, 0.03]}[task]
    moved.classifier = moved.classifier.with_threshold(cut)
    moved.save(box.home / f"moved-{task}.softset")
    by_cut = (np.log(p) + cut).argmax(1) if task == "multiclass" else p >= cut
    assert (by_cut != (p.argmax(1) if task == "multiclass" else p >= 0.5)).any()
    file = box.home / f"scored-{task}.csv"
    for k in (3, 50, 51):  # decided otherwise than by any threshold
        for name in [c for c in found if c.startswith("prediction")]:
            found.loc[k, name] = found[name][found[name] != found[name][k]].iloc[0]
    found.drop(columns="id").join(box.test[TARGETS[task]]).to_csv(file, index=False)
    by_model = ["-t", BACKWARDS[task], "--model", box.home / f"moved-{task}.softset"]
    by_file = ["-t", BACKWARDS[task], *POSITIVE[task]]
    ways = ((by_model, box.home / "test.csv", by_cut), (by_file, file, scores(found, task)[1]))
    for words, source, decided in ways:
        words = [*words, "-m", "f1,jaccard,auroc"]
        for name, value in said(task, y, decided, p).items():
            assert box.evaluate(*words, file=source)[name]["value"] == pytest.approx(value), words
        if source == file:  # scores that are named decide, whatever was predicted
            columns = [f"p_{name}" for name in CLASSES[task]]
            columns = columns[1:] if task == "binary" else columns
            columns = columns[::-1] if task == "multilabel" else columns
            plain = p.argmax(1) if task == "multiclass" else p >= 0.5
            got = box.evaluate(*words, "--scores", ",".join(columns), file=source)
            for name, value in said(task, y, plain, p).items():
                assert got[name]["value"] == pytest.approx(value), (words, name)
        if task != "multiclass":
            got = box.evaluate(*words, "--threshold", 0.8, file=source)
            for name, value in said(task, y, p >= 0.8, p).items():
                assert got[name]["value"] == pytest.approx(value), (words, name)
        wide, narrow, other, few = (
            box.evaluate(*words, *more, file=source)
            for more in ([], ["--level", 0.5], ["--seed", 9], ["--resamples", 3])
        )
        for name, row in wide.items():
            half = narrow[name]["high"] - narrow[name]["low"]
            assert 0.15 < half / (row["high"] - row["low"]) < 0.65, name
            if name != "auroc":  # which may be as sure as it can be
                assert len({row["low"], other[name]["low"], few[name]["low"]}) == 3


@pytest.mark.parametrize("task", TARGETS)
def test_tune_threshold(box, task):
    found, _ = predicted(box, task)
    p, _ = scores(found, task)
    y = codes(box.test, task)
    columns = [c for c in found if c.startswith("p_")]
    file = box.home / f"untuned-{task}.csv"
    found[columns].join(box.test[TARGETS[task]]).to_csv(file, index=False)
    tuned = box.tune("-t", BACKWARDS[task], *POSITIVE[task], "-m", "f1", file=file)
    if task == "multiclass":
        moved = (np.log(p) + np.array(tuned["offsets"])).argmax(1)
        assert tuned["value"] == pytest.approx(sk.f1_score(y, moved, average="macro"))
        assert tuned["value_before"] == pytest.approx(sk.f1_score(y, p.argmax(1), average="macro"))
        return
    average = "binary" if task == "binary" else "macro"
    assert tuned["value_before"] == pytest.approx(sk.f1_score(y, p >= 0.5, average=average))
    cuts = tuned["threshold"] if task == "binary" else tuned["threshold"][::-1]
    assert tuned["value"] == pytest.approx(sk.f1_score(y, p >= cuts, average=average))
    p, y = p.reshape(len(p), -1), y.reshape(len(y), -1)
    top = np.mean([best(y[:, k], p[:, k], "f1") for k in range(p.shape[1])])
    assert tuned["value"] == pytest.approx(top)


@pytest.mark.parametrize("task", TARGETS)
def test_explain(box, task):
    found, _ = predicted(box, task)
    y, (_, decided) = codes(box.test, task), scores(found, task)
    words = ["explain", model(box, task), box.home / "test.csv", "-t", BACKWARDS[task], "--json"]
    facts = box(*words, "--most", 1000).json
    wrong = (decided != y).reshape(len(y), -1).any(1)
    assert sorted(m["row"] for m in facts["mistakes"]) == (np.flatnonzero(wrong) + 1).tolist()
    for m in facts["mistakes"]:
        row = m["row"] - 1
        told = decided[row].tolist(), y[row].tolist()
        names = CLASSES[task]
        told = told if task == "multilabel" else tuple(names[k] for k in told)
        assert (m["predicted"], m["truth"]) == told
    falls = {i["column"]: i["falls"] for i in facts["importances"]}
    assert falls["x"] > 0.1
    assert falls["code"] > 0.03  # which numbers would not tell apart
    assert (falls["v"] > 0.1) == (task == "multilabel")
    assert len(box(*words, "--most", 2).json["mistakes"]) == min(2, wrong.sum())
    other = {i["column"]: i["falls"] for i in box(*words, "--seed", 3).json["importances"]}
    assert other["x"] != falls["x"]
    assert all(i["spread"] == 0 for i in box(*words, "--repeats", 1).json["importances"])
    if task != "multilabel":  # whose rows are not explained
        rows = [box(*words, "--row", 1, "--seed", seed).json for seed in (0, 3)]
        assert rows[0]["score"] == rows[1]["score"]
        assert rows[0]["base"] != rows[1]["base"]  # of other rows that were drawn


@pytest.mark.parametrize("command", ["evaluate", "explain"])
def test_labels_of_a_model_are_known_by_their_names(box, command):
    found = model(box, "multilabel")
    file = box.home / "test.csv"
    words = [file, "--model", found] if command == "evaluate" else [found, file]
    for target in ("a", "a,c"):
        ran = box(command, *words, "-t", target)
        assert (ran.code, ran.files) == (2, [])
        named = target.replace(",", ", ")
        assert ran.err == f"softset: error: the model predicts a, b; --target names {named}.\n"


@pytest.mark.parametrize("task", TARGETS)
def test_compare(box, task, monkeypatch):
    """Two metrics at once: the same splits, groups whole, each scored as scikit-learn does."""
    frame, seen, fit = box.test, [], MetricLinearClassifier.fit
    group = dict(zip(frame["x"].round(6), frame["who"], strict=True))

    def noting(self, X, y, sample_weight=None):
        seen.append(np.asarray(X)[:, 0].round(6))
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(MetricLinearClassifier, "fit", noting)
    gone = ["leak", "id", "c", "w", *(c for t in TARGETS if t != task for c in TARGETS[t])]
    words = ["--groups", "who", *POSITIVE[task], "-m", "f1,jaccard", "--output", "out"]
    if task == "binary":  # more than one difference, so that p is adjusted
        words += ["--candidate", "linear,linear-tuned,linear-metric"]
    target = ",".join(TARGETS[task])
    ran = box.compare(*words, drop=",".join(gone), target=target, file=box.home / "test.csv").ran
    assert len(seen) >= 2 * (2 + 1)  # for each metric two folds and the refit
    for xs in seen:
        counts = pd.Series([group[x] for x in xs]).value_counts()
        assert (counts == frame["who"].value_counts()[counts.index]).all()
    y = codes(frame, task)
    for facts, name in zip(json.loads(ran.out), ("f1", "jaccard"), strict=True):
        assert facts["metric"] == name
        assert facts["classes"] == CLASSES[task]
        assert facts["positive"] == (3 if task == "binary" else None)
        runs = _runs(ran.folder / facts["output"] / "runs.jsonl")
        everyone = []
        for run in runs:
            kept = run["linear-tuned"]
            p, known = (np.array(kept["predictions"][k]) for k in ("scores", "target"))
            cut = np.array(kept["threshold"])
            decided = (np.log(p) + cut).argmax(1) if task == "multiclass" else p >= cut
            wanted = said(task, known, decided, p)[name]
            assert kept["score"] == pytest.approx(wanted, abs=1e-4)
            everyone += known.tolist()
        assert sorted(everyone) == sorted(y.tolist())
        with open(ran.folder / facts["output"] / "comparison.csv") as file:
            rows = {row["candidate"]: row for row in csv.DictReader(file)}
        for c in facts["candidates"]:
            row, gap = rows[c["id"]], c["difference"]
            told = {k: c[k] for k in ("mean", "low", "high", "rank", "seconds", "size")}
            told |= {f"difference_{k}": v for k, v in (gap or {}).items()}
            for key, value in told.items():
                assert float(row[key]) == pytest.approx(value), key
            assert (row["name"], row["stage"]) == (c["name"], c["stage"])
        new = ran.folder / facts["output"] / "model.softset"
        assert box("predict", new, box.home / "test.csv", "--json").err == ""
        if task == "binary":
            gaps = [c["difference"] for c in facts["candidates"] if c["difference"]]
            assert any(gap["p_adjusted"] > gap["p"] for gap in gaps)
        best_first = [np.mean([run[c["id"]]["score"] for run in runs]) for c in facts["candidates"]]
        assert [c["mean"] for c in facts["candidates"]] == pytest.approx(best_first)


def _runs(path):
    lines = path.read_text().splitlines()[1:]
    return [json.loads(line)["result"]["candidates"] for line in lines]
