"""``compare``, ``report`` and ``demo``: what they print and write."""

import csv
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from softset import cli
from softset.classifiers.model import load_model
from softset.cli.compare import _csv, show
from softset.comparison.result import Comparison

CANDIDATES = ["--candidate", "boosting-tuned,boosting-metric", "--quick", "--folds", "2"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert stop.value.code == 0, err
        return out, err

    return call


def data(n=200):
    random = np.random.default_rng(0)
    x = random.normal(size=n)
    z = x + random.normal(scale=0.5, size=n)
    return pd.DataFrame(
        {
            "x": x,
            "city": random.choice(["Rome", "Oslo"], n),
            "who": np.arange(n) // 4,
            "two": np.where(z > 0.5, "yes", "no"),
            "three": np.digitize(z, [-0.5, 0.5]),
        }
    )


def test_everything_is_written_and_json_is_all_that_is_printed(run, tmp_path):
    data().to_csv("data.csv", index=False)
    arguments = ["compare", "data.csv", "-t", "two", "--drop", "three", "--groups", "who"]
    out, _ = run(*arguments, *CANDIDATES, "--jobs", "1", "--json")
    document = json.loads(out)
    folder = tmp_path / "data-f1"
    assert document["output"] == "data-f1"
    assert set(document["files"]) == {"report", "comparison", "model", "runs"}
    found = Comparison.from_dict(json.loads((folder / "comparison.json").read_text()))
    assert found.verdict == document["verdict"]
    assert found.splits["groups"] == "who"
    assert found.command.startswith("softset ")
    rows = list(csv.DictReader((folder / "comparison.csv").read_text().splitlines()))
    assert [row["candidate"] for row in rows] == [c["id"] for c in found.candidates]
    assert float(rows[0]["mean"]) == found.candidates[0]["mean"]
    page = (folder / "report.html").read_text()
    assert found.verdict.split("[")[0].split(":")[0] in page
    model = load_model(folder / "model.softset")
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(data())) == {"no", "yes"}  # other columns are expected, no warning

    (folder / "report.html").unlink()
    out, _ = run("report", "data-f1")
    assert out == "data-f1/report.html\n"
    assert (folder / "report.html").read_text() == page


def test_the_verdict_comes_first(run):
    data().to_csv("data.csv", index=False)
    arguments = ["compare", "data.csv", "-t", "three", "--drop", "two,who", "-m", "mcc"]
    out, err = run(*arguments, *CANDIDATES, "--jobs", "1", "-o", "there")
    verdict = json.loads(Path("there/comparison.json").read_text())["verdict"]
    assert " ".join(out.split()).startswith(verdict)
    assert out.splitlines()[-2:] == ["report: there/report.html", "model:  there/model.softset"]
    assert err == "data.csv: 200 rows, 2 columns; results go to there/\n"


DOCUMENT = {
    "metric": "f1",
    "outcome": "metric",
    "verdict": "Training on F1 wins: +0.021 [0.008, 0.034] over [bold]x.",
    "winner": "warm",
    "reference": "forest-tuned",
    "splits": {"folds": 5, "repeats": 3, "note": "15 splits"},
    "duration": 75,
    "warnings": ["something"],
    "candidates": [
        {
            "id": "warm",
            "name": "Cross-entropy, then soft F1",
            "family": "metric",
            "mean": 0.7,
            "low": 0.6,
            "high": 0.8,
            "rank": 1.5,
            "difference": {
                "mean": 0.021,
                "low": 0.008,
                "high": 0.034,
                "p": 0.001,
                "p_adjusted": 0.004,
                "probability": 0.99,
            },
            "seconds": 1.25,
            "error": "",
        },
        {
            "id": "forest-tuned",
            "name": "=Random forest [red]",
            "family": "plain",
            "mean": 0.679,
            "low": None,
            "high": None,
            "rank": 2.0,
            "difference": None,
            "seconds": 0.1,
            "error": "",
        },
        {
            "id": "anneal",
            "name": "Annealed",
            "family": "metric",
            "mean": None,
            "low": None,
            "high": None,
            "rank": None,
            "difference": None,
            "seconds": None,
            "error": "ValueError: bad",
        },
    ],
}


@pytest.mark.parametrize(("width", "shown"), [(80, False), (120, True)])
def test_the_table_uses_the_room_there_is(width, shown, capsys, monkeypatch):
    monkeypatch.setattr("softset.cli.compare.console", lambda: _console(width))
    show(DOCUMENT)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == DOCUMENT["verdict"]
    assert ("[+0.008, +0.034]" in out, "0.004" in out) == (shown, shown)
    (winner,) = [line for line in lines if line.startswith("*  Cross-entropy, then soft F1")]
    assert "0.700  [0.600, 0.800]      +0.021" in winner
    assert "=  =Random forest [red]" in out
    assert "Annealed: ValueError: bad" in out
    assert "note: something" in out


def _console(width):
    from rich.console import Console  # noqa: PLC0415

    return Console(width=width, highlight=False, markup=False)


def test_the_exported_table_runs_nothing():
    rows = list(csv.reader(_csv(DOCUMENT).splitlines()))
    assert rows[2][:3] == ["forest-tuned", "'=Random forest [red]", "plain"]
    assert rows[1][3:7] == ["0.7", "0.6", "0.8", "1.5"]
    assert rows[3][3] == ""


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 9}', '{"format": 1}'])
def test_a_damaged_comparison_is_refused(text, tmp_path, capsys):
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(tmp_path)])
    assert stop.value.code == 2
    assert "comparison.json" in capsys.readouterr().err


@pytest.mark.slow
def test_the_demo_takes_less_than_two_minutes(run, tmp_path):
    started = time.monotonic()
    out, _ = run("demo")
    assert time.monotonic() - started < 120
    for name in ("breast-cancer", "synthetic"):
        assert f"softset-demo/{name}/report.html" in out
        assert (tmp_path / "softset-demo" / name / "report.html").exists()
