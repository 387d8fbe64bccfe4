"""Weights, costs and promises in commands: each row with its own, each label and class with its."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from softset.classifiers.model import load_model, train_model
from softset.cli import train as train_command
from softset.cli.on_disk import score_of


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    z = x + 0.7 * rng.normal(size=x.shape)
    frame = pd.DataFrame(x.round(6), columns=["x", "v"])
    frame["amount"] = np.exp(2 + rng.normal(size=n)).round(3)
    frame["w"] = rng.integers(1, 9, n)
    frame["two"] = np.where(z[:, 0] > 0.7, "bad", "good")
    return frame.assign(a=(z[:, 0] > 0.4) * 1, b=(z[:, 1] > 0.9) * 1)


def spent(frame, flagged, positive):
    true = (frame["two"] == positive).to_numpy()
    each = np.where(true, np.where(flagged, 0, frame["amount"]), np.where(flagged, 5, 0))
    return each.mean()


@pytest.mark.parametrize("metric", ["f1", "cost(fn=amount, fp=5)"])
def test_the_score_of_held_out_rows_is_by_their_weights(metric, run, monkeypatch):
    frame, seen = table(), []
    frame.to_csv("t.csv", index=False)
    weight = dict(zip(frame["x"], frame["w"], strict=True))

    def noting(model, X, labels, given):
        seen.append(len(X))
        assert given.tolist() == [weight[v] for v in X["x"]]
        found = score_of(model, X, labels, given)
        some = np.arange(len(X)) % 3 > 0
        fewer = score_of(model, X[some], labels[some], given[some])
        zeros = score_of(model, X, labels, np.where(some, 1000.0 * given, 0))
        for name in ("value", "low", "high"):
            assert getattr(zeros, name) == pytest.approx(getattr(fewer, name), abs=2e-3)
        return found

    monkeypatch.setattr(train_command, "score_of", noting)
    words = ["t.csv", "-t", "two", "--recipe", "linear-tuned", "-m", metric, "--sample-weight", "w"]
    run("train", *words, "--drop", "a,b", "-o", "m.softset")
    assert seen == [80]


@pytest.mark.parametrize("positive", ["bad", "good"])
def test_costs_of_each_row_and_either_positive_class(run, positive):
    frame, new = table(), table(100, seed=1)
    new.drop(columns=["w", "a", "b"]).to_csv("new.csv", index=False)
    goal = "cost(fn=amount, fp=5)"
    model = train_model(
        frame[["x", "v", "amount"]],
        frame["two"].to_numpy(),
        goal,
        recipe="linear-tuned",
        pos_label="bad",
    )
    model.save("m.softset", target=["two"])
    flagged = model.predict(new[["x", "v", "amount"]]) == positive
    words = ["new.csv", "-t", "two", "--model", "m.softset", "-m", goal, "--pos-label", positive]
    (row,) = run.json("evaluate", *words)["metrics"]
    assert row["value"] == pytest.approx(-spent(new, flagged, positive))


def test_each_label_keeps_its_own_promise(run):
    frame, new = table(1200), table(600, seed=1)
    new["b"] = new["b"].sample(frac=1, random_state=0).to_numpy()  # of which nothing holds
    new[["x", "v", "a", "b"]].to_csv("new.csv", index=False)
    goal, names = "precision@recall>=0.6", ["a", "b"]
    model = train_model(
        frame[["x", "v"]], frame[names], goal, recipe="linear-tuned", confidence=0.8
    )
    model.save("m.softset", target=names)
    decided, promises = model.predict(new[["x", "v"]]), load_model("m.softset").classifier.promise_
    facts = run.json("evaluate", "new.csv", "-t", "b,a", "--model", "m.softset", "-m", "f1")
    expected = [
        f"{name}: {check}"
        for k, name in enumerate(names)
        for check in promises[k].check(decided[:, k], new[name])
    ]
    assert facts["promises"] == expected
    recall = [decided[new[name] == 1, k].mean() for k, name in enumerate(names)]
    assert [f"here {r:.3g} " in text for r, text in zip(recall, expected, strict=True)] == [1, 1]
    assert [text.endswith("broken") for text in expected] == [False, True]
