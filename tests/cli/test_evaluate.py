"""``softset evaluate``: whose decisions it judges."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import f1_score, roc_auc_score


@pytest.fixture
def scored():
    """Rare positives that a threshold of 0.2 finds and one of 0.5 does not."""
    random = np.random.default_rng(0)
    y = random.random(400) < 0.15
    p = np.clip(0.1 + 0.2 * y + random.normal(0, 0.08, 400), 0.001, 0.999)
    frame = pd.DataFrame({"p_no": 1 - p, "p_yes": p, "label": np.where(y, "yes", "no")})
    return frame.assign(prediction=np.where(p >= 0.2, "yes", "no"))


def value(facts, metric="f1"):
    return {row["metric"]: row["value"] for row in facts["metrics"]}[metric]


def test_the_first_line_says_who_decided(run, scored):
    scored.to_csv("p.csv", index=False)
    arguments = ["evaluate", "p.csv", "-t", "label", "-m", "f1"]
    assert run(*arguments).startswith("p.csv: 400 rows, positive: yes, ")
    assert "decided by threshold 0.25" in run(*arguments, "--threshold", "0.25")
    assert "decided by threshold 0.5" in run(*arguments, "--scores", "p_yes")


def test_the_json_keeps_its_shape(run, scored):
    scored.to_csv("p.csv", index=False)
    facts = run.json("evaluate", "p.csv", "-t", "label", "-m", "f1,mcc")
    assert list(facts) == ["file", "task", "rows", "positive", "classes", "level", "metrics"]
    assert [row["metric"] for row in facts["metrics"]] == ["f1", "mcc"]
    assert set(facts["metrics"][0]) == {"metric", "value", "low", "high"}


def test_offsets_of_several_classes_are_in_the_predictions(run):
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 300)
    p = random.dirichlet([1, 1, 1], 300)
    decided = np.where(random.random(300) < 0.8, y, 0)  # nothing to do with the largest p
    frame = pd.DataFrame(p, columns=["p_0", "p_1", "p_2"]).assign(y=y, prediction=decided)
    frame.to_csv("p.csv", index=False)
    facts = run.json("evaluate", "p.csv", "-t", "y", "-m", "accuracy")
    assert value(facts, "accuracy") == pytest.approx((decided == y).mean())
    assert "--threshold is for two classes" in run.refused(
        "evaluate", "p.csv", "-t", "y", "--threshold", "0.3"
    )


def test_labels_have_predictions_of_their_own(run):
    random = np.random.default_rng(0)
    y = random.random((200, 2)) < 0.4
    decided = y ^ (random.random((200, 2)) < 0.1)
    frame = pd.DataFrame({"a": y[:, 0] * 1, "b": y[:, 1] * 1, "p_a": 0.5, "p_b": 0.5})
    frame = frame.assign(prediction_a=decided[:, 0] * 1, prediction_b=decided[:, 1] * 1)
    frame.to_csv("p.csv", index=False)
    facts = run.json("evaluate", "p.csv", "-t", "a,b", "-m", "f1")
    expected = f1_score(y, decided, average="macro")
    assert value(facts) == pytest.approx(expected)


def test_a_prediction_that_is_no_class_is_named(run, scored):
    scored.loc[6, "prediction"] = "maybe"
    scored.to_csv("p.csv", index=False)
    text = run.refused("evaluate", "p.csv", "-t", "label")
    assert "the prediction 'maybe' in row 7 is no class of the target (no, yes)" in text


@pytest.mark.filterwarnings("ignore:positive")
def test_class_names_are_not_numbers(run, scored):
    """01 and 1 are two classes; a column that is read as numbers would join them."""
    for name in ("label", "prediction"):
        scored[name] = scored[name].map({"no": "01", "yes": "1"})
    scored = scored.rename(columns={"p_no": "p_01", "p_yes": "p_1"})
    scored.to_csv("p.csv", index=False)
    agree = (scored["label"] == scored["prediction"]).mean()
    facts = run.json("evaluate", "p.csv", "-t", "label", "-m", "accuracy")
    assert sorted(facts["classes"]) == ["01", "1"]
    assert value(facts, "accuracy") == pytest.approx(agree)


def test_probabilities_that_add_up_to_nearly_1_are_divided_by_their_sum(run):
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 120)
    p = random.dirichlet([1, 1, 1], 120) * 0.6 + 0.4 * np.eye(3)[y]
    off = p * random.uniform(0.991, 1.009, (120, 1))
    frame = pd.DataFrame(off, columns=["p_0", "p_1", "p_2"]).assign(y=y)
    frame.to_csv("p.csv", index=False)
    facts = run.json("evaluate", "p.csv", "-t", "y", "-m", "auroc")
    wanted, other = (
        np.mean([roc_auc_score(y == k, scores[:, k]) for k in range(3)]) for scores in (p, off)
    )
    assert value(facts, "auroc") == pytest.approx(wanted, abs=1e-12)
    assert abs(other - wanted) > 1e-6


def test_costs_of_each_row_are_read_from_the_file(run, scored):
    frame = scored.assign(amount=np.random.default_rng(1).exponential(30, 400).round(1))
    frame.to_csv("p.csv", index=False)
    metric = "cost(fn=amount, fp=5)"
    facts = run.json("evaluate", "p.csv", "-t", "label", "-m", f"{metric},f1")
    missed = (frame["label"] == "yes") & (frame["prediction"] == "no")
    false = (frame["label"] == "no") & (frame["prediction"] == "yes")
    spent = np.where(missed, frame["amount"], np.where(false, 5.0, 0.0))
    assert value(facts, metric) == pytest.approx(-spent.mean())
    assert [row["metric"] for row in facts["metrics"]] == [metric, "f1"]
    assert facts["costs"][0].startswith(f"cost of these 400 rows: {spent.sum():,.6g} ")
    rows = pd.DataFrame({"x": frame["p_yes"], "amount": frame["amount"], "label": frame["label"]})
    rows.to_csv("rows.csv", index=False)
    arguments = ["train", "rows.csv", "-t", "label", "-m", metric, "--recipe", "linear-tuned"]
    assert "Decide by" in run(*arguments, "-o", "m.softset")
    assert "cost of these 400 rows" in run(
        "evaluate", "rows.csv", "-t", "label", "--model", "m.softset"
    )
    wrong = ["evaluate", "p.csv", "-t", "label", "-m", "cost(fn=price, fp=5)"]
    assert "column 'price' has the costs of fn, and is not there" in run.refused(*wrong)


def test_every_interval_is_of_the_level(run, scored):
    """Also that of costs, which is normal, by the standard error of a mean."""
    frame = scored.assign(amount=np.random.default_rng(1).exponential(30, 400).round(1))
    frame.to_csv("p.csv", index=False)
    cost = "cost(fn=amount, fp=5)"
    words = ["evaluate", "p.csv", "-t", "label", "-m", f"{cost},f1,mcc,accuracy", "--level"]
    levels = (0.3, 0.8)
    narrow, wide = (run.json(*words, level)["metrics"] for level in levels)
    assert len(wide) == 4
    for few, many in zip(narrow, wide, strict=True):
        assert many["low"] < few["low"] < few["high"] < many["high"], few["metric"]
    right, yes = frame["label"] == frame["prediction"], frame["label"] == "yes"
    spent = np.where(right, 0.0, np.where(yes, frame["amount"], 5.0))
    for level, (row, *_) in zip(levels, (narrow, wide), strict=True):
        reach = norm.ppf((1 + level) / 2) * spent.std() / np.sqrt(400)
        assert [row["low"], row["high"]] == pytest.approx(-spent.mean() + np.array([-reach, reach]))
