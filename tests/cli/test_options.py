"""Every option of every command changes something, and the change is the right one.

A row of ``CASES`` runs a command without an option and with it, and compares what comes out with
what scikit-learn, pandas or arithmetic say; no other output of ours is the measure.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as sk
import typer
from scipy import stats
from scipy.special import logit

import softset
from softset import cli
from softset.classifiers import ensemble
from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.model import load_model
from softset.cli import demo
from tests.cli.box import METRICS, NO, YES, Box, best

CASES: dict[str, Callable[[Any], None]] = {}


def case(*names: str) -> Callable[[Any], Any]:
    """What the options ``"command --option"`` do."""

    def keep(check: Any) -> Any:
        CASES.update(dict.fromkeys(names, check))
        return check

    return keep


# --- files ----------------------------------------------------------------------------------------


def _reads(command: str, box: Box, file: Any, *more: Any) -> bool:
    """Whether a command finds in a file what is written there."""
    rows, scored = box.rows, box.scored
    two = rows["two"] == YES
    if command == "predict":
        ran = box(command, box.model(), file, *more, "--keep", "who", "--json")
        if ran.code:
            return False
        found = pd.read_csv(ran.folder / ran.json["output"])
        p = found[f"p_{YES}"].to_numpy()
        same = found["who"].tolist() == rows["who"].tolist()
        return bool(same and (np.argsort(p) == np.argsort(rows["x"])).all())
    words = {
        "train": [
            "-t",
            "two",
            "--drop",
            "who,other,w,v",
            "--recipe",
            "linear-tuned",
            "-m",
            "auroc",
        ],
        "compare": ["-t", "two", "--drop", "who,other,w,v", "-m", "auroc"],
        "evaluate": ["-t", "y", "-m", "auroc"],
        "tune-threshold": ["-t", "y"],
        "explain": ["--repeats", "1"],
    }
    given = [box.model(drop="who,other,w")] if command == "explain" else []
    if command == "compare":
        more = (*more, "--cv", "2", "--quick", "--jobs", "1", "--candidate", "linear,boosting")
    ran = box(command, *given, file, *words[command], *more, "--json")
    if ran.code:
        return False
    if command == "train":
        found = load_model(ran.folder / ran.json["model"])
        p = found.predict_proba(rows[["x"]])[:, 1] if ran.json["inputs"] == 1 else np.zeros(1)
        return bool(found.classes_.tolist() == [NO, YES] and len(np.unique(p)) == len(rows))
    if command == "compare":
        (mean,) = (c["mean"] for c in ran.json["candidates"] if c["id"] == "linear")
        return bool(mean > sk.roc_auc_score(two, rows["x"]) - 0.05)
    if command == "explain":
        wrong = {row["row"] - 1: row["truth"] for row in ran.json["mistakes"]}
        called = box.predicted(given[0], box.home / "rows.csv")["prediction"]
        truth = rows["two"].tolist()
        return all(truth[i] == name != called[i] for i, name in wrong.items()) and len(wrong) > 5
    y, p = scored["y"] == YES, scored[f"p_{YES}"]
    if command == "evaluate":
        return ran.json["metrics"][0]["value"] == pytest.approx(sk.roc_auc_score(y, p))
    return ran.json["value"] == pytest.approx(best(y, p, "f1"))


TEXTS: dict[str, tuple[list[str], list[str], dict[str, Any]]] = {
    "--sep": ([], ["--sep", ";"], {"sep": ";"}),
    "--encoding": ([], ["--encoding", "latin-1"], {"encoding": "latin-1"}),
    "--decimal": (["--sep", ";"], ["--decimal", ","], {"sep": ";", "decimal": ","}),
}
TABLES = ("train", "compare", "predict", "evaluate", "explain", "tune-threshold")


def _text_option(command: str, option: str, box: Box) -> None:
    """A file in another form is read right with the option, and not without it."""
    before, words, form = TEXTS[option]
    frame = box.scored if command in ("evaluate", "tune-threshold") else box.rows
    file = box.home / f"{command}{option}.csv"
    frame.to_csv(file, index=False, **form)
    assert not _reads(command, box, file, *before)
    assert _reads(command, box, file, *before, *words)


for _command, _option in itertools.product(TABLES, TEXTS):
    case(f"{_command} {_option}")(partial(_text_option, _command, _option))


_PLAIN = {
    "train": lambda box: ["train", box.home / "rows.csv", "-t", "two", "--recipe", "linear-tuned"],
    "predict": lambda box: ["predict", box.model(), box.home / "rows.csv"],
    "evaluate": lambda box: ["evaluate", box.home / "scored.csv", "-t", "y", "-m", "f1"],
    "tune-threshold": lambda box: ["tune-threshold", box.home / "scored.csv", "-t", "y"],
    "explain": lambda box: ["explain", box.model(), box.home / "rows.csv", "--repeats", "1"],
    "compare": lambda box: [
        *("compare", box.home / "rows.csv", "-t", "two"),
        *("--drop", "who,other,w,v", "--candidate", "linear,linear-tuned"),
        *("--cv", "2", "--quick", "--jobs", "1"),
    ],
}


def _as_json(command: str, box: Box) -> None:
    """One document and nothing else; without the option, something for people."""
    words = _PLAIN[command](box)
    assert isinstance(box(*words, "--json").json, dict)
    plain = box(*words)
    assert plain.code == 0
    with pytest.raises(json.JSONDecodeError):
        json.loads(plain.out)


def _output(command: str, usual: str, name: str, box: Box) -> None:
    """The result has the name that was asked for, and nothing has another."""
    words = _PLAIN[command](box)
    assert box(*words).files == [usual]
    assert box(*words, "--output", name).files == [name]


def _force(command: str, name: str, box: Box) -> None:
    """A file that is there is replaced with the option, and is not touched without it."""
    words = [*_PLAIN[command](box), "--output", name]
    folder = box.folder()
    (folder / name).write_text("precious")
    ran = box(*words, folder=folder)
    assert (ran.code, (folder / name).read_text()) == (2, "precious")
    assert "--force" in ran.err
    assert box(*words, "--force", folder=folder).code == 0
    assert (folder / name).read_bytes() != b"precious"


for _command in TABLES:
    case(f"{_command} --json")(partial(_as_json, _command))
case("train --output")(partial(_output, "train", "rows-linear-tuned.softset", "mine.softset"))
case("predict --output")(partial(_output, "predict", "rows-predictions.csv", "mine.parquet"))
case("compare --output")(partial(_output, "compare", "rows-f1", "mine"))
case("train --force")(partial(_force, "train", "mine.softset"))
case("predict --force")(partial(_force, "predict", "mine.csv"))


# --- evaluate and tune-threshold ------------------------------------------------------------------


def _truth(box: Box) -> tuple[Any, Any]:
    """The positives of scored.csv and their probabilities."""
    return (box.scored["y"] == YES).to_numpy(), box.scored[f"p_{YES}"].to_numpy()


@case("evaluate --target")
def _(box):
    assert "--target" in box("evaluate", box.home / "scored.csv").err
    y, p = (box.scored["t"] == "on").to_numpy(), box.scored["p_on"].to_numpy()
    found = box.evaluate("-t", "t", "--threshold", 0.4, "-m", "f1,auroc")
    for name in ("f1", "auroc"):
        assert found[name]["value"] == pytest.approx(METRICS[name](y, p >= 0.4, p))


@case("evaluate --model")
def _(box):
    file = box.home / "rows.csv"
    assert "give --model" in box("evaluate", file, "-t", "two").err
    found = box.evaluate("-t", "two", "--model", box.model(), "-m", "f1,auroc", file=file)
    y, x = box.rows["two"] == YES, box.rows["x"]
    assert found["auroc"]["value"] == pytest.approx(sk.roc_auc_score(y, x))
    # The cut of x that the model has made of the probability.
    decided = box.predicted(box.model(), file)["prediction"] == YES
    assert x[decided].min() > x[~decided].max()
    assert found["f1"]["value"] == pytest.approx(sk.f1_score(y, decided))


@case("evaluate --metric")
def _(box):
    y, p = _truth(box)
    decided = (box.scored["prediction"] == YES).to_numpy()
    everything = box.evaluate("-t", "y", "--resamples", 2)
    assert set(everything) == set(softset.METRICS)
    for name, metric in METRICS.items():
        assert everything[name]["value"] == pytest.approx(metric(y, decided, p)), name
    some = box.evaluate("-t", "y", "-m", "f1,mcc", "--metric", "recall")
    assert list(some) == ["f1", "mcc", "recall"]


@case("evaluate --level")
def _(box):
    """Widths are those of the normal law: by the binomial for accuracy, in proportion for all."""
    n = len(box.scored)
    widths = {}
    for level in (0.5, 0.95):
        found = box.evaluate("-t", "y", "--level", level, "-m", "accuracy,mcc,auroc")
        widths[level] = {name: row["high"] - row["low"] for name, row in found.items()}
        share = found["accuracy"]["value"]
        normal = 2 * stats.norm.ppf((1 + level) / 2) * np.sqrt(share * (1 - share) / n)
        assert widths[level]["accuracy"] == pytest.approx(normal, rel=0.15)
        out = box("evaluate", box.home / "scored.csv", "-t", "y", "-m", "f1", "--level", level).out
        assert f"{level:.0%} interval" in out
    ratio = stats.norm.ppf(0.75) / stats.norm.ppf(0.975)
    for name, width in widths[0.5].items():
        assert width / widths[0.95][name] == pytest.approx(ratio, rel=0.3), name
    assert box("evaluate", box.home / "scored.csv", "-t", "y", "--level", "95").code == 2


@case("evaluate --resamples", "evaluate --seed")
def _(box):
    """The end of an interval depends on the seed, the less the more resamples there are."""
    spread = {}
    for resamples in (2, 4000):
        words = ["-t", "y", "-m", "mcc", "--resamples", resamples]
        lows = [box.evaluate(*words, "--seed", seed)["mcc"]["low"] for seed in range(6)]
        assert len(set(lows)) == 6
        spread[resamples] = np.std(lows)
    words = ["evaluate", box.home / "scored.csv", *words, "--seed", 5, "--json"]
    assert box(*words, folder=box.folder()).json["metrics"][0]["low"] == lows[-1]
    assert spread[2] > 4 * spread[4000]


@case("evaluate --time", "evaluate --every", "evaluate --report", "evaluate --force")
def _(box):
    """Rates of each look are those of pandas; the page is written, and not over a file."""
    day = pd.date_range("2026-01-05", periods=len(box.rows)).strftime("%Y-%m-%d")
    timed = box.rows.assign(day=day)
    file = box.home / "watched.csv"
    timed.to_csv(file, index=False)
    words = ["evaluate", file, "-t", "two", "--model", box.model(), "--time", "day"]
    found = timed.assign(found=box.predicted(box.model(), file)["prediction"] == YES)
    positives = found[found["two"] == YES]
    names = {"month": day.str[:7].unique().tolist(), "day": day.tolist()}
    for every, length in (("month", 7), ("day", 10)):
        facts = box(*words, "--every", every, "--json").json
        assert facts["looks"] == names[every]
        (recall,) = (rate for rate in facts["rates"] if rate["name"] == "recall")
        by_look = positives["found"].groupby(positives["day"].str[:length]).agg(["sum", "count"])
        by_look = by_look.reindex(names[every], fill_value=0)
        assert recall["hits"] == by_look["sum"].tolist()
        assert recall["rows"] == by_look["count"].tolist()
    assert len(box(*words, "--json").json["looks"]) == 23  # weeks
    folder = box.folder()
    (folder / "w.html").write_text("precious")
    words += ["--report", "w.html"]
    ran = box(*words, folder=folder)
    assert (ran.code, (folder / "w.html").read_text()) == (2, "precious")
    assert "--force" in ran.err
    assert box(*words, "--force", folder=folder).code == 0
    assert (folder / "w.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@case("evaluate --scores", "evaluate --logits", "evaluate --threshold", "evaluate --pos-label")
def _(box):
    """All of them, and whether there is a column of predictions, in all combinations."""
    scored = box.scored[:100]
    scored.to_csv(box.home / "decided.csv", index=False)
    without = box.home / "undecided.csv"
    scored.drop(columns="prediction").to_csv(without, index=False)
    choices = itertools.product(
        (None, NO, YES), (None, "q", "z"), (None, 0.35), (box.home / "decided.csv", without)
    )
    for positive, column, threshold, file in choices:
        y = scored["y"] == (positive or YES)
        p = scored[f"p_{positive or YES}" if column is None else column]
        names = ["f1", "auroc"] if threshold else ["f1"]
        words = ["-t", "y", "-m", ",".join(names)]
        words += ["--pos-label", positive] if positive else []
        words += ["--scores", column] if column else []
        words += ["--threshold", threshold] if threshold else []
        if column == "z":
            p = 1 / (1 + np.exp(-p))
            assert "pass --logits" in box("evaluate", file, *words).err
            words += ["--logits"]
        decided = p >= (threshold or 0.5)
        if not column and not threshold and file != without:
            decided = scored["prediction"] == (positive or YES)
        found = box.evaluate(*words, file=file)
        for name in names:
            expected = METRICS[name](y, decided, p)
            assert found[name]["value"] == pytest.approx(expected), (words, name)


@case("tune-threshold --scores", "tune-threshold --logits", "tune-threshold --pos-label")
@case("tune-threshold --metric", "tune-threshold --target")
def _(box):
    """The threshold is as good as the best of all, whichever scores and classes are meant."""
    scored, file = box.scored, box.home / "scored.csv"
    assert "--target" in box("tune-threshold", file).err
    choices = itertools.product((False, True), (None, "q", "z"), ("f1", "mcc"))
    for k, (first, column, metric) in enumerate(choices):
        target = "t" if k % 3 else "y"
        classes = [NO, YES] if target == "y" else ["off", "on"]
        positive = classes[0 if first else 1]
        y = (scored[target] == positive).to_numpy()
        p = scored[column or f"p_{positive}"].to_numpy()
        words = ["-t", target, "-m", metric]
        words += ["--pos-label", positive] if first else []
        words += ["--scores", column] if column else []
        if column == "z":
            assert "pass --logits" in box("tune-threshold", file, *words).err
            words += ["--logits"]
            p = 1 / (1 + np.exp(-p))
        found = box.tune(*words)
        measure = METRICS[metric]
        assert found["value"] == pytest.approx(best(y, p, metric)), words
        assert found["value"] == pytest.approx(measure(y, p >= found["threshold"], p)), words
        assert found["value_before"] == pytest.approx(measure(y, p >= 0.5, p)), words


# --- train ----------------------------------------------------------------------------------------


@case("train --target")
def _(box):
    assert "--target" in box("train", box.home / "rows.csv").err
    found = load_model(box.model(target="other", drop="who,two,w,v"))
    assert found.classes_.tolist() == ["low", "top"]
    top = found.predict_proba(box.rows)[:, 1]
    assert (np.argsort(-top) == np.argsort(box.rows["x"])).all()  # falls where x rises


@case("train --metric")
def _(box):
    """F2 wants more positives than precision-minded F0.5."""
    x = box.rows["x"]
    flagged = {}
    for metric in ("f2", "f0.5"):
        facts = box.train("-m", metric).json
        assert facts["metric"] == metric
        flagged[metric] = (load_model(box.model("-m", metric)).predict(box.rows) == YES).sum()
    assert load_model(box.model()).metric == "f1"
    assert flagged["f2"] > flagged["f0.5"] + 0.05 * len(x)


@case("train --recipe")
def _(box):
    assert type(load_model(box.model()).classifier) is softset.MetricLinearClassifier
    boosted = box.model("--recipe", "boosting-tuned")
    assert type(load_model(boosted).classifier) is softset.MetricBoostingClassifier
    assert boosted.name == "rows-boosting-tuned.softset"


@case("train --pos-label")
def _(box):
    rows, found = box.rows, load_model(box.model("--pos-label", NO))
    assert found.classes_.tolist() == [YES, NO]
    p = found.predict_proba(rows)[:, 1]
    assert (np.argsort(-p) == np.argsort(rows["x"])).all()
    assert (found.predict(rows) == rows["two"]).mean() > 0.7


@case("train --drop")
def _(box):
    assert [c.name for c in load_model(box.model()).encoder.columns_] == ["x"]
    more = load_model(box.model(drop="who,other,w")).encoder.columns_
    assert [c.name for c in more] == ["x", "v"]
    assert "no column 'nope'" in box.train("--drop", "nope").err


@case("train --seed")
def _(box):
    """Other rows are held out, and what is random in the model is other."""
    given = ["--recipe", "boosting-tuned", "--seed"]
    p = {s: load_model(box.model(*given, s)).predict_proba(box.rows) for s in (0, 1)}
    assert np.abs(p[0] - p[1]).max() > 1e-6
    again = box("train", box.home / "rows.csv", "-t", "two", "--drop", "who,other,w,v", *given, 0,
                "-o", "again.softset")  # fmt: skip
    np.testing.assert_array_equal(
        p[0], load_model(again.folder / "again.softset").predict_proba(box.rows)
    )
    held = [box.train("--seed", s).json["held_out"] for s in (0, 1, 2)]
    assert len({h["value"] for h in held}) > 1


@case("train --confidence", "tune-threshold --confidence")
def _(box):
    goal = ["--metric", "f1@recall>=0.5", "--confidence", "0.9"]
    found = box.train("--recipe", "linear-tuned", *goal)
    assert "keeps recall >= 0.5 with about 90 % confidence" in found.out
    kept = box.tune("-t", "y", *goal)["promises"][0]
    assert kept["confidence"] == 0.9
    assert "no constraint" in box.train("--recipe", "linear-tuned", "--confidence", "0.9").err


@case("train --calibrate")
def _(box):
    """The logits are moved by a slope and an intercept; no decision changes."""
    assert not box.train().json["calibrated"]
    assert box.train("--calibrate").json["calibrated"]
    plain, calibrated = (load_model(box.model(*words)) for words in ((), ("--calibrate",)))
    assert (plain.predict(box.rows) == calibrated.predict(box.rows)).all()
    z, moved = (logit(m.predict_proba(box.rows)[:, 1]) for m in (plain, calibrated))
    slope, intercept = np.polyfit(z, moved, 1)
    np.testing.assert_allclose(moved, slope * z + intercept, atol=1e-6)
    assert abs(slope - 1) + abs(intercept) > 1e-3


@case("train --time-limit")
def _(box):
    limits = []
    fit = ensemble.MetricEnsembleClassifier.fit

    def noting(self, X, y, **given):
        limits.append(self.time_limit)
        return fit(self.set_params(base_models=("linear",)), X, y, **given)

    box.patch.setattr(ensemble.MetricEnsembleClassifier, "fit", noting)
    words = ["--recipe", "ensemble"]
    assert box.train(*words, "--time-limit", 750).code == 0
    assert 300 < limits[0] < 413  # the model, and the one that tells how good it is
    assert limits[1] == limits[0]
    late = box.train(*words, "--time-limit", 0.001)
    assert late.json["held_out"] is None
    assert "no time is left" in late.err
    assert "positive duration" in box.train(*words, "--time-limit", 0).err
    assert box.train("--recipe", "linear-tuned", "--time-limit", 5).err == (
        "softset: error: --time-limit is for recipe ensemble, got recipe linear-tuned. "
        "Leave it out.\n"
    )


@case("train --sample-weight")
def _(box):
    """A weight of 0 is no row, in the model and in its score; a weight counts in the score."""
    rows, file = box.rows, box.home / "weighted.csv"
    rows = rows[["x", "v", "two"]].assign(w=1)
    strange = rows.assign(x=-100 * rows["x"], v=1e6, two="never", w=0)
    noted = ["-t", "two", "--recipe", "linear-tuned", "--sample-weight", "w", "--json"]
    pd.concat([rows[:80], strange, rows[80:]]).to_csv(file, index=False)
    found = box("train", file, *noted)
    plain = box.train(drop="who,other,w")
    for key in ("classes", "rows", "threshold", "held_out"):
        assert found.json[key] == plain.json[key], key
    p = [load_model(ran.folder / ran.json["model"]).predict_proba(rows) for ran in (found, plain)]
    np.testing.assert_array_equal(*p)
    # Rows whose labels are wrong weigh next to nothing.
    wrong = np.arange(len(rows)) % 5 == 0
    true = np.where((rows["x"] > 0.6) != wrong, YES, NO)
    rows.assign(two=true, w=np.where(wrong, 0.001, 1)).to_csv(file, index=False)
    ran = box("train", file, *noted, "-m", "accuracy", folder=box.folder())
    assert ran.json["held_out"]["value"] > 0.97
    without = ["-t", "two", "--recipe", "linear-tuned", "-m", "accuracy", "--drop", "w", "--json"]
    assert box("train", file, *without, folder=box.folder()).json["held_out"]["value"] < 0.9


# --- predict and explain --------------------------------------------------------------------------


@case("predict --keep")
def _(box):
    rows, file = box.rows, box.home / "rows.csv"
    assert [c for c in box.predicted(box.model(), file) if c in rows.columns] == []
    kept = box.predicted(box.model(), file, "--keep", "who,two", "--keep", "x")
    assert list(kept)[:3] == ["who", "two", "x"]
    pd.testing.assert_frame_equal(kept[["who", "two", "x"]], rows[["who", "two", "x"]])


@case("predict --threshold")
def _(box):
    file = box.home / "rows.csv"
    for threshold in (0.2, 0.9):
        found = box.predicted(box.model(), file, "--threshold", threshold)
        assert ((found["prediction"] == YES) == (found[f"p_{YES}"] >= threshold)).all()
        assert 0 < (found["prediction"] == YES).sum() < len(found)


@case("predict --prevalence")
def _(box):
    """The threshold is nearly the best one of rows that are weighted to the prevalence."""
    file, y = box.home / "rows.csv", box.rows["two"] == YES
    usual, flagged = box.predicted(box.model(), file)["prediction"] == YES, []
    for prevalence in (0.1, 0.7):
        found = box.predicted(box.model(), file, "--prevalence", prevalence)
        weight = np.where(y, prevalence / y.mean(), (1 - prevalence) / (1 - y.mean()))
        p, said = found[f"p_{YES}"], found["prediction"] == YES
        most = max(sk.f1_score(y, p >= t, sample_weight=weight) for t in p)
        value = sk.f1_score(y, said, sample_weight=weight)
        assert value > most - 0.02
        assert value > sk.f1_score(y, usual, sample_weight=weight) + 0.02
        flagged.append(said.mean())
    assert flagged[0] < usual.mean() < flagged[1]
    facts = box("predict", box.model(), file, "--prevalence", "estimate", "--json").json["shift"]
    assert facts["low"][0] < y.mean() < facts["high"][0]


@case("explain --row")
def _(box):
    """What the columns add, from the intercept on, is the score of that row; others differ."""
    model, file = box.model(drop="who,other,w"), box.home / "rows.csv"
    p = box.predicted(model, file)[f"p_{YES}"]
    for row in (1, 17):
        found = box("explain", model, file, "--row", row, "--json").json
        says = found["predicted"] == YES
        assert found["probability"] == pytest.approx(p[row - 1] if says else 1 - p[row - 1])
        assert 1 / (1 + np.exp(-found["score"])) == pytest.approx(p[row - 1])
        added = sum(c["adds"] for c in found["contributions"])
        assert found["base"] + added == pytest.approx(found["score"])
    refused = box("explain", model, file, "--row", 161)
    assert (refused.code, "--row must be from 1 to 160" in refused.err) == (2, True)


@case("explain --target")
def _(box):
    """Rows are wrong by the column that is named."""
    rows = box.rows.assign(said=np.where(box.rows["x"] > 0, NO, YES))
    rows.to_csv(box.home / "said.csv", index=False)
    model, file = box.model(drop="who,other,w"), box.home / "said.csv"
    called = box.predicted(model, box.home / "rows.csv")["prediction"]
    for words, column in (([], "two"), (["--target", "said"], "said")):
        ran = box("explain", model, file, *words, "--most", 1000, "--json")
        wrong = np.flatnonzero(called != rows[column]) + 1
        assert sorted(row["row"] for row in ran.json["mistakes"]) == wrong.tolist()


@case("explain --repeats", "explain --seed")
def _(box):
    """A single shuffle has no spread; other seeds shuffle otherwise."""

    def falls(*more):
        return {i["column"]: (i["falls"], i["spread"]) for i in box.explain(*more)["importances"]}

    assert falls()["x"][0] > 0.2 > abs(falls()["v"][0])
    assert falls()["x"][1] > 0
    assert falls("--repeats", 1)["x"][1] == 0
    ones = [falls("--repeats", 1, "--seed", seed)["x"][0] for seed in range(12)]
    assert len(set(ones)) > 6
    assert falls("--repeats", 1, "--seed", 0) == falls("--repeats", 1)
    # The mean of 50 is nearer to the mean of others than a single one.
    many = falls("--repeats", 50, "--seed", 99)["x"]
    assert many[1] == pytest.approx(np.std(ones), rel=0.7)
    assert abs(many[0] - np.mean(ones)) < 3 * many[1] / np.sqrt(12)


@case("explain --most")
def _(box):
    one, all_of_them = box.explain("--most", 1), box.explain("--most", 1000)
    assert len(one["mistakes"]) == len(one["importances"]) == 1
    assert one["importances"][0]["column"] == "x"
    assert one["mistakes"][0]["margin"] == max(m["margin"] for m in all_of_them["mistakes"])
    model = box.model(drop="who,other,w")
    printed = box("explain", model, box.home / "rows.csv", "--most", 1).out
    assert len(printed.splitlines()) == len(["title", "head", "x", "", "title", "head", "row"])
    words = ("explain", model, box.home / "rows.csv", "--row", 3, "--json", "--most")
    adds = [[abs(c["adds"]) for c in box(*words, n).json["contributions"]] for n in (1, 1000)]
    assert adds[0] == [max(adds[1])]
    assert len(adds[1]) == 2


# --- compare --------------------------------------------------------------------------------------


def _check_scores(found: Any, metric: str, y: Any) -> None:
    """Every split is scored as scikit-learn would, and the rows are those of the file."""
    for target, decided, score in found.splits():
        assert score == pytest.approx(METRICS[metric](target, decided, None))
    assert sum(target.sum() for target, _, _ in found.splits()) == np.sum(y)


@case("compare --target", "compare --metric", "compare --pos-label")
def _(box):
    assert "--target" in box("compare", box.home / "rows.csv").err
    rows = box.rows
    _check_scores(box.compare(), "f1", rows["two"] == YES)
    _check_scores(box.compare("-m", "mcc"), "mcc", rows["two"] == YES)
    _check_scores(box.compare("--pos-label", NO), "f1", rows["two"] == NO)
    other = box.compare("--pos-label", "low", target="other", drop="who,two,w,v")
    _check_scores(other, "f1", rows["other"] == "low")
    assert other.facts["metric"] == "f1"


@case("compare --force", "compare --resume")
def _(box):
    """What is there is refused; --resume keeps finished runs, --force none."""
    folder = box.folder()
    words = [*_PLAIN["compare"](box), "--output", "out"]
    assert box(*words, folder=folder).code == 0
    runs = folder / "out" / "runs.jsonl"
    lines = runs.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    ran = box(*words, folder=folder)
    assert ran.code == 2
    assert "--force" in ran.err
    runs.write_text("".join(lines[:2]))  # as after an interruption
    assert box(*words, "--resume", folder=folder).code == 0
    again = runs.read_text().splitlines(keepends=True)
    assert again[:2] == lines[:2]  # with the seconds that it took then
    assert len(again) == 3
    runs.write_text(lines[0] + "no run\n")
    assert box(*words, "--resume", folder=folder).code == 2
    assert box(*words, "--force", folder=folder).code == 0
    assert len(runs.read_text().splitlines()) == 3
    assert box(*words, "--force", "--resume", folder=folder).code == 2


@case("compare --cv", "compare --repeats", "compare --quick")
def _(box):
    """Each repeat has every row once; without --repeats there are two, or one if quick."""
    n = len(box.rows)
    for words, folds, repeats in (
        (["--cv", 2, "--repeats", 1], 2, 1),
        (["--cv", 3, "--repeats", 1], 3, 1),
        (["--cv", 2, "--repeats", 2], 2, 2),
        (["--cv", 2, "--quick"], 2, 1),
        (["--cv", 2, "--quick", "--repeats", 2], 2, 2),
    ):
        found = box.compare(*words)
        sizes = [len(target) for target, _, _ in found.splits()]
        assert len(found.runs) == folds * repeats, words
        assert (len(sizes), sum(sizes)) == (folds, n), words
        assert max(sizes) < n / folds + 3, words
    usual = [word for word in _PLAIN["compare"](box) if word != "--quick"]
    assert box(*usual, "--json").json["splits"]["count"] == 4
    assert box("compare", box.home / "rows.csv", "-t", "two", "--cv", 1).code == 2


@case("compare --time-limit")
def _(box):
    assert len(box.compare().splits()) == 2
    found = box.compare("--time-limit", "0.006s")
    assert len(found.splits()) == 1
    assert (
        "positive duration"
        in box("compare", box.home / "rows.csv", "-t", "two", "--time-limit", 0).err
    )


@case("compare --candidate")
def _(box):
    def ids(*more):
        return sorted(c["id"] for c in box.compare(*more).facts["candidates"])

    assert ids() == ["linear", "linear-tuned"]
    assert ids("--candidate", "linear", "--candidate", "linear-metric") == [
        "linear",
        "linear-metric",
    ]
    refused = box("compare", box.home / "rows.csv", "-t", "two", "--candidate", "linaer")
    assert "Did you mean 'linear'" in refused.err


@case("compare --drop")
def _(box):
    """Without the column that tells, nothing is known."""
    assert max(c["mean"] for c in box.compare("-m", "mcc").facts["candidates"]) > 0.5
    gone = box.compare("-m", "mcc", drop="who,other,w,x")
    assert max(c["mean"] for c in gone.facts["candidates"]) < 0.25


@case("compare --seed")
def _(box):
    scores = {s: [split[2] for split in box.compare("--seed", s).splits()] for s in (0, 1)}
    assert scores[0] == [split[2] for split in box.compare().splits()]
    assert scores[0] != scores[1]


@case("compare --time")
def _(box):
    """Every split trains on earlier rows than it tests."""
    file, seen = box.home / "timed.csv", []
    day = np.argsort(np.argsort(box.rows["v"]))
    box.rows.assign(day=day).to_csv(file, index=False)
    when = dict(zip(box.rows["x"], day, strict=True))
    fit = MetricLinearClassifier.fit

    def noting(self, X, y, sample_weight=None):
        seen.append(np.asarray(X)[:, 0])
        return fit(self, X, y, sample_weight)

    box.patch.setattr(MetricLinearClassifier, "fit", noting)
    found = box.compare("--time", "day", file=file)
    for x in seen:
        assert sorted(when[v] for v in x) == list(range(len(x)))
    assert len({len(x) for x in seen}) > 1
    assert found.facts["splits"]["count"] >= 1


@case("compare --scores")
def _(box):
    """A column of scores is a candidate, judged by its own numbers, and no input of the others."""
    file = box.home / "given.csv"
    p = 1 / (1 + np.exp(-3 * (box.rows["x"] - 0.6)))
    box.rows.assign(old=p).to_csv(file, index=False)
    found = box.compare("--scores", "old", "-m", "auroc", "--candidate", "linear", file=file)
    assert {c["id"] for c in found.facts["candidates"]} == {"linear", "old"}
    truth = dict(zip(p.round(12), box.rows["two"] == YES, strict=True))
    judged = [run["old"] for run in found.runs if "old" in run]
    assert len(judged) == found.facts["splits"]["count"]
    for run in judged:
        scores = np.array(run["predictions"]["scores"])
        target = [truth[v] for v in scores.round(12)]
        assert run["score"] == pytest.approx(sk.roc_auc_score(target, scores))
    saved = found.folder / "model.softset"  # none if the scores are the best
    if saved.exists():
        assert "old" not in [c.name for c in load_model(saved).encoder.columns_]


@case("compare --confidence")
def _(box):
    """A promised recall costs precision: thresholds are lower than those that just meet it."""
    words = ["-m", "precision@recall>=0.6", "--candidate", "linear-tuned,linear-metric"]
    plain, sure = (box.compare(*words, *more) for more in ([], ["--confidence", "0.9"]))
    thresholds = [
        np.mean([run["linear-tuned"]["threshold"] for run in found.runs if "linear-tuned" in run])
        for found in (plain, sure)
    ]
    assert thresholds[1] < thresholds[0]
    refused = box("compare", box.home / "rows.csv", "-t", "two", "--confidence", "0.9")
    assert refused.code == 2


@case("compare --groups")
def _(box):
    """No fit sees a part of a group; without the option most fits do."""
    rows = box.rows
    group = dict(zip(rows["x"], rows["who"], strict=True))
    size = rows["who"].value_counts()
    seen: list[Any] = []
    fit = MetricLinearClassifier.fit

    def noting(self, X, y, sample_weight=None):
        seen.append(np.asarray(X)[:, 0])
        return fit(self, X, y, sample_weight)

    box.patch.setattr(MetricLinearClassifier, "fit", noting)

    def parts():
        """Groups that a fit had a part of, in all fits since the last call."""
        found = [pd.Series([group[round(x, 4)] for x in xs]).value_counts() for xs in seen]
        seen.clear()
        return sum((counts != size[counts.index]).sum() for counts in found)

    box.compare("--groups", "who", drop="other,w,v")
    assert len(seen) >= 2
    assert parts() == 0
    box.compare("--seed", 7)
    assert parts() > 20


def _at_once(box: Box, run: Callable[[], Any]) -> int:
    """How many runs of a comparison were going on at once, at most."""
    most, going, lock = [0], [0], threading.Lock()
    both = threading.Event()
    fit = MetricLinearClassifier.fit

    def noting(self, X, y, sample_weight=None):
        with lock:
            going[0] += 1
            most[0] = max(most[0], going[0])
            if going[0] == 2:
                both.set()
        if threading.current_thread() is not threading.main_thread():
            both.wait(5)  # for the other one
        try:
            return fit(self, X, y, sample_weight)
        finally:
            with lock:
                going[0] -= 1

    with box.patch.context() as patch:
        patch.setattr(MetricLinearClassifier, "fit", noting)
        run()
    return most[0]


@case("compare --jobs", "compare --backend")
def _(box):
    assert _at_once(box, lambda: box.compare("--jobs", 1, "--backend", "threading")) == 1
    assert _at_once(box, lambda: box.compare("--jobs", 2, "--backend", "threading")) == 2
    assert box("compare", box.home / "rows.csv", "-t", "two", "--jobs", 0).code == 2
    assert box("compare", box.home / "rows.csv", "-t", "two", "--backend", "thraeding").code == 2


# --- demo and softset itself ----------------------------------------------------------------------


@case("demo --output", "demo --force", "demo --seed", "demo --jobs")
def _(box):
    rows = box.rows
    small = rows[["x"]], np.where(rows["two"] == YES, "malignant", "benign")
    story = demo._Story("rare", "Which?", lambda: small, "malignant", ("linear", "linear-tuned"))
    box.patch.setattr(demo, "_STORIES", (story,))
    box.patch.setattr(demo, "_promise", "   by seed {}".format)

    def scores(ran, name):
        assert ran.code == 0
        lines = (ran.folder / name / "rare" / "runs.jsonl").read_text().splitlines()[1:]
        return [json.loads(line)["result"]["candidates"]["linear"]["score"] for line in lines]

    usual = box("demo", "--jobs", 1)
    assert usual.files == ["softset-demo"]
    assert box("demo", "--jobs", 1, "-o", usual.folder / "softset-demo").code == 2
    assert box("demo", "--jobs", 1, "-o", usual.folder / "softset-demo", "--force").code == 0
    other = box("demo", "--jobs", 1, "--seed", 1, "-o", "there")
    assert other.files == ["there"]
    assert scores(usual, "softset-demo") != scores(other, "there")
    with joblib.parallel_config(backend="threading"):
        for jobs in (1, 2):
            assert _at_once(box, lambda: box("demo", "--jobs", jobs, "-o", "all")) == jobs  # noqa: B023


@case(" --version")
def _(box):
    assert box("--version").out == f"softset {softset.__version__}\n"


# --- two at a time --------------------------------------------------------------------------------


def test_a_model_with_a_positive_class_and_a_threshold(box):
    """The threshold is of the class that is meant; the model's own decisions stay."""
    file = box.home / "rows.csv"
    for trained in (NO, YES):
        model = box.model("--pos-label", trained)
        wrote = box.predicted(model, file)
        for meant, threshold in itertools.product((None, NO, YES), (None, 0.2)):
            y, p = box.rows["two"] == (meant or trained), wrote[f"p_{meant or trained}"]
            decided = p >= threshold if threshold else wrote["prediction"] == (meant or trained)
            words = ["-t", "two", "--model", model, "-m", "f1,auroc"]
            words += ["--pos-label", meant] if meant else []
            words += ["--threshold", threshold] if threshold else []
            found = box.evaluate(*words, file=file)
            for name in ("f1", "auroc"):
                expected = METRICS[name](y, decided, p)
                assert found[name]["value"] == pytest.approx(expected), (words, name)
    words = ["evaluate", file, "-t", "two", "--model", model]
    assert "not both" in box(*words, "--logits").err
    assert "not both" in box(*words, "--scores", "x").err
    assert "--pos-label must be one of" in box(*words, "--pos-label", "maybe").err


def _several(box: Box) -> tuple[Any, Any, Any]:
    """A file with logits of three classes, which are also three labels."""
    g = np.random.default_rng(3)
    y = g.integers(0, 3, 200)
    z = (g.normal(size=(200, 3)) + 1.5 * np.eye(3)[y]).round(6)
    frame = pd.DataFrame(z, columns=["z0", "z1", "z2"]).assign(c=y)
    for k in range(3):
        frame[f"is{k}"] = (y == k) * 1
    file = box.home / "several.csv"
    frame.to_csv(file, index=False)
    return file, y, z


def test_logits_of_classes_and_labels(box):
    file, y, z = _several(box)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    words = ["--scores", "z0,z1,z2", "--logits"]
    found = box.evaluate("-t", "c", *words, "-m", "f1_macro,auroc,accuracy", file=file)
    assert found["accuracy"]["value"] == pytest.approx(sk.accuracy_score(y, z.argmax(1)))
    macro = sk.f1_score(y, z.argmax(1), average="macro")
    assert found["f1_macro"]["value"] == pytest.approx(macro)
    area = sk.roc_auc_score(y, p, multi_class="ovr")
    assert found["auroc"]["value"] == pytest.approx(area)
    labels, q = np.eye(3)[y], 1 / (1 + np.exp(-z))
    for threshold in (0.5, 0.7):
        given = ["-t", "is0,is1,is2", *words, "--threshold", threshold, "-m", "f1_macro,auroc"]
        found = box.evaluate(*given, file=file)
        macro = sk.f1_score(labels, q >= threshold, average="macro")
        assert found["f1_macro"]["value"] == pytest.approx(macro)
        assert found["auroc"]["value"] == pytest.approx(sk.roc_auc_score(labels, q))
    tuned = box.tune("-t", "is0,is1,is2", *words, "-m", "f1", file=file)
    plain = sk.f1_score(labels, q >= 0.5, average="macro")
    assert tuned["value_before"] == pytest.approx(plain)
    for k, threshold in enumerate(tuned["threshold"]):
        top = best(labels[:, k], q[:, k], "f1")
        assert sk.f1_score(labels[:, k], q[:, k] >= threshold) == pytest.approx(top)
    tuned = box.tune("-t", "c", *words, "-m", "f1", file=file)
    moved = (z + np.array(tuned["offsets"])).argmax(1)
    assert tuned["value"] == pytest.approx(sk.f1_score(y, moved, average="macro"))
    macro = sk.f1_score(y, z.argmax(1), average="macro")
    assert tuned["value"] >= tuned["value_before"] == pytest.approx(macro)
    refused = box("evaluate", file, "-t", "c", *words, "--pos-label", "1")
    assert "pos_label is for two classes" in refused.err


def test_logits_are_ranked_and_cut_as_they_are(box):
    """Probabilities of logits above 37 are all 1."""
    z = np.linspace(38, 60, 50)
    y = np.where(np.arange(50) % 10 < np.arange(50) / 5, "b", "a")
    pd.DataFrame({"z": z, "y": y}).to_csv(box.home / "high.csv", index=False)
    words = ["-t", "y", "--scores", "z", "--logits"]
    found = box.evaluate(*words, "-m", "auroc", file=box.home / "high.csv")
    assert found["auroc"]["value"] == pytest.approx(sk.roc_auc_score(y == "b", z))


def test_text_options_with_kept_columns(box):
    """Kept cells are the text of the file."""
    frame = box.rows[["x", "who"]].assign(kept=box.rows["x"] / 2)
    file = box.home / "odd.csv"
    frame.to_csv(file, index=False, sep=";", decimal=",", encoding="utf-16")
    words = ["--sep", ";", "--decimal", ",", "--encoding", "utf-16", "--keep", "who,kept,x"]
    found = box.predicted(box.model(), file, *words)
    columns = ["who", "kept", "x"]
    cells = pd.read_csv(file, sep=";", encoding="utf-16", dtype=str)[columns]
    assert (found[columns].astype(str).to_numpy() == cells.to_numpy()).all()
    assert (np.argsort(found[f"p_{YES}"]) == np.argsort(frame["x"])).all()


@pytest.mark.parametrize("option", TEXTS)
def test_text_options_are_refused_of_what_is_no_text(box, option):
    folder = box.home / f"parts{option}"
    folder.mkdir()
    box.rows.to_parquet(folder / "0.parquet")
    for file in (folder, folder / "0.parquet"):
        for words in (["predict", box.model(), file], ["train", file, "-t", "two"]):
            ran = box(*words, *TEXTS[option][1])
            assert (ran.code, ran.files) == (2, [])
            assert f"no text: leave out {option[2:]}" in ran.err
    assert "no column 'nope'" in box("train", folder, "-t", "two", "--drop", "nope").err


def test_weights_with_a_positive_class_and_dropped_columns(box):
    """Weights are no input, whether or not columns are left out, and whichever class is meant."""
    words = ["--sample-weight", "w"]
    for more in ([], ["--pos-label", NO]):
        ran = box.train(*words, *more, drop="who,other,v")
        found = load_model(ran.folder / ran.json["model"])
        assert [c.name for c in found.encoder.columns_] == ["x"]
        assert ran.json["rows"] == (box.rows["w"] > 0).sum()
        assert found.classes_.tolist() == ([NO, YES] if not more else [YES, NO])
        p = found.predict_proba(box.rows)[:, 1]
        assert (np.argsort(p if not more else -p) == np.argsort(box.rows["x"])).all()
    assert "all weights in column 'w' are zero" in _weighed(box, 0).err
    assert "negative" in _weighed(box, -1).err
    assert "is missing in 1 row(s): 3 " in _weighed(box, np.where(np.arange(160) == 2, None, 1)).err


def _weighed(box: Box, weights: Any) -> Any:
    file = box.folder() / "weighed.csv"
    box.rows[["x", "two"]].assign(w=weights).to_csv(file, index=False)
    return box("train", file, "-t", "two", "--sample-weight", "w", "--recipe", "linear-tuned")


def test_groups_with_dropped_columns_and_a_positive_class(box):
    found = box.compare("--groups", "who", "--pos-label", NO, drop="other,w,v")
    _check_scores(found, "f1", box.rows["two"] == NO)
    assert found.facts["splits"]["groups"] == "who"
    model = load_model(found.folder / "model.softset")
    assert [c.name for c in model.encoder.columns_] == ["x"]


# --- all of them ----------------------------------------------------------------------------------


def _options(command: Any, path: str = "") -> list[str]:
    """``"command --option"`` of a command and those below it; those of other packages have tests of
    their own."""
    found = []
    for name, below in getattr(command, "commands", {}).items():
        found += _options(below, f"{path} {name}".strip())
    own = command.callback is not None and command.callback.__module__.startswith("softset.cli")
    # The two that Typer adds are for shells (test_words_can_be_completed).
    by_typer = ("--install-completion", "--show-completion")
    named = [p.opts[0] for p in command.params if p.param_type_name == "option"]
    return found + [f"{path} {o}" for o in named if own and o not in by_typer]


def test_every_option_has_a_case():
    options = _options(typer.main.get_command(cli.app))
    assert len(options) > 70
    assert sorted(options) == sorted(CASES)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    return Box(tmp_path_factory.mktemp("commands"))


@pytest.fixture
def box(home, monkeypatch):
    home.patch = monkeypatch
    return home


CHECKS = {check: name for name, check in reversed(CASES.items())}  # each once


@pytest.mark.parametrize("check", CHECKS, ids=CHECKS.values())
def test_an_option_changes_what_it_says(check, box):
    check(box)


def test_offsets_are_tuned_on_the_scores_that_are_meant(box):
    """Probabilities, and logits of the same: the same offsets, which scikit-learn's F1 confirms."""
    g = np.random.default_rng(3)
    y = g.choice(3, 300, p=[0.7, 0.2, 0.1])
    z = g.normal(size=(300, 3)) + 1.2 * np.eye(3)[y] + [2.0, 0.0, -1.0]
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    found = []
    for name, scores, more in (("p", p, []), ("z", z, ["--logits"])):
        file = box.folder() / f"{name}.csv"
        table = pd.DataFrame(scores, columns=[f"s_{k}" for k in range(3)])
        table.assign(y=y).to_csv(file, index=False)
        words = ["-t", "y", "--scores", "s_0,s_1,s_2", "-m", "f1", *more]
        found.append(box.tune(*words, file=file))
    offsets = np.array(found[0]["offsets"])
    np.testing.assert_allclose(found[1]["offsets"], offsets, atol=1e-6)
    decided = (np.log(p) + offsets).argmax(1)
    assert found[0]["value"] == pytest.approx(sk.f1_score(y, decided, average="macro"))
    assert found[0]["value"] > sk.f1_score(y, p.argmax(1), average="macro") + 0.02
