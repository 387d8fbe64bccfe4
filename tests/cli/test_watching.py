"""``softset evaluate --time`` and ``softset predict --prevalence``."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from softset.classifiers.model import train_model


def rows(n, seed, prevalence=0.25, fall=0.0):
    random = np.random.default_rng(seed)
    y = random.random(n) < prevalence
    x = random.normal(size=(n, 2))
    x[:, 0] += (2.5 - fall * (np.arange(n) >= n // 2)) * y
    day = pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(n) * 280 // n, unit="D")
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "day": day.strftime("%Y-%m-%d")})
    return frame.assign(churn=np.where(y, "yes", "no"))


@pytest.fixture
def model(run):
    frame = rows(2000, 0)
    goal = "precision@recall>=0.8"
    trained = train_model(
        frame[["a", "b"]], frame["churn"], goal, recipe="linear-tuned", confidence=0.95, path=()
    )
    trained.save("m.softset", target="churn")
    return "m.softset"


def test_a_saved_model_and_next_months_file_give_an_answer(run, model):
    frame = rows(4000, 1, fall=1.5)
    frame.loc[3900:, "churn"] = ""  # not known yet
    frame.to_csv("new.csv", index=False)
    line = ["evaluate", "new.csv", "--model", model, "--time", "day"]
    said = run(*line, "-t", "churn", "--report", "watch.html")
    assert said.startswith("The promise of recall >= 0.8 is broken since 2026-W2")
    assert "with labels 3,900" in said
    page = Path("watch.html").read_text(encoding="utf-8")
    assert page.count('class="plot"') == 4  # recall, precision, alerts, scores
    assert "Broken since 2026-W2" in page
    assert "exists" in run.refused(*line, "-t", "churn", "--report", "watch.html")
    facts = run.json(*line, "-t", "churn", "--every", "month")
    assert facts["looks"][0] == "2026-01"
    assert run(*line).startswith("Without labels only the scores can be watched; scores differ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--time", "b"], "time is not in order: row "),
        (["--time", "churn"], "time must be dates (2026-03-31) or numbers; row 1 has "),
        (["--time", "week"], "has no column 'week'"),
        (["--every", "week"], "name their column, --time"),
        (["--time", "a", "-m", "f1", "--level", "0.9"], "leave out --metric, --level."),
        ([], "--target is needed"),
    ],
)
def test_bad_times_are_one_line(run, model, arguments, words):
    kept = ["a", "b", "churn"] if arguments[:1] == ["--time"] else ["a", "b", "day", "churn"]
    rows(50, 2)[kept].to_csv("new.csv", index=False)
    said = run.refused("evaluate", "new.csv", "--model", model, *arguments)
    assert words in said
    assert len(said.splitlines()) == 1
    assert "--time needs --model" in run.refused("evaluate", "new.csv", "--time", "day")


def test_predict_for_another_prevalence_says_what_it_did(run, model):
    frame = rows(2000, 0)
    train_model(frame[["a", "b"]], frame["churn"], "f1", recipe="linear-tuned", path=()).save(
        "f1.softset"
    )
    rows(3000, 3, prevalence=0.05).drop(columns=["churn", "day"]).to_csv("new.csv", index=False)
    said = run("predict", "f1.softset", "new.csv", "--prevalence", "0.05", "-o", "p.csv")
    assert "prevalence of yes: 24.9 % -> 5 %" in said or "-> 5 %" in said
    assert "threshold: 0." in said
    facts = run.json("predict", "f1.softset", "new.csv", "--prevalence", "estimate", "-o", "e.csv")
    assert facts["shift"]["low"][0] <= 0.05 <= facts["shift"]["high"][0]
    said = run("predict", model, "new.csv", "--prevalence", "0.05", "-o", "q.csv")
    assert "as before\nThe promise stands. Threshold 0." in said


@pytest.mark.parametrize("prevalence", ["0", "1", "nan", "few", "0.1,0.2"])
def test_bad_prevalences_are_one_line(run, model, prevalence):
    rows(20, 3).drop(columns=["churn", "day"]).to_csv("new.csv", index=False)
    said = run.refused("predict", model, "new.csv", "--prevalence", prevalence)
    assert "prevalence must be" in said
    assert len(said.splitlines()) == 1
