"""``softset tune-threshold``."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import softset as ss


@pytest.mark.parametrize("logits", [False, True])
def test_the_threshold_is_that_of_best_threshold(run, logits):
    random = np.random.default_rng(0)
    p = random.random(300).round(3).clip(0.001, 0.999)
    y = np.where(random.random(300) < p**2, "sick", "well")
    score = np.log(p / (1 - p)) if logits else p
    pd.DataFrame({"score": score, "y": y}).to_csv("s.csv", index=False)
    more = ["--logits"] if logits else []
    arguments = ["s.csv", "-t", "y", "--scores", "score", "--pos-label", "sick", *more]
    found = run.json("tune-threshold", *arguments, "-m", "f1")
    expected = ss.best_threshold(p, y == "sick", "f1", from_logits=False)
    assert found["threshold"] == pytest.approx(expected, abs=1e-9)
    assert found["value"] > found["value_before"]
    again = run.json("evaluate", *arguments, "--threshold", found["threshold"], "-m", "f1")
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
    found = run.json("tune-threshold", "s.csv", "-t", "y")
    assert len(found["offsets"]) == 3
    assert found["value"] >= found["value_before"]
    labels = ["s.csv", "-t", "u,v", "--scores", "p_1,p_2"]
    assert len(run.json("tune-threshold", *labels)["threshold"]) == 2
    assert "offsets for f1" in run("tune-threshold", "s.csv", "-t", "y")
