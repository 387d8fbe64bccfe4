"""``compare``, ``report`` and ``demo``: what they print and write."""

import csv
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.datasets import make_classification

from softset import cli, compare
from softset.classifiers.model import load_model
from softset.cli import demo
from softset.cli.compare import FILES, as_csv, compared, show
from softset.comparison.result import CandidateResult, Comparison, Difference
from softset.report.writer import render
from tests.report.examples import comparison

CANDIDATES = ["--candidate", "linear,linear-tuned", "--quick", "--cv", "2"]


@pytest.fixture
def data(data):
    return data[["x", "city", "who", "two", "three"]]


def test_everything_is_written_and_json_is_all_that_is_printed(run, data, tmp_path):
    data.to_csv("data.csv", index=False)
    arguments = ["compare", "data.csv", "-t", "two", "--drop", "three", "--groups", "who"]
    document = run.json(*arguments, *CANDIDATES, "--jobs", "1")
    folder = tmp_path / "data-f1"
    assert document["output"] == "data-f1"
    assert set(document["files"]) == {"report", "comparison", "model", "runs"}
    found = Comparison.from_dict(json.loads((folder / "comparison.json").read_text()))
    assert found.verdict == document["verdict"]
    assert found.splits.groups == "who"
    assert found.command.startswith("softset ")
    rows = list(csv.DictReader((folder / "comparison.csv").read_text().splitlines()))
    assert [row["candidate"] for row in rows] == [c.id for c in found.candidates]
    assert float(rows[0]["mean"]) == found.candidates[0].mean
    page = (folder / "report.html").read_text()
    assert found.verdict.split("[")[0].split(":")[0] in page
    model = load_model(folder / "model.softset")
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(data)) == {"no", "yes"}  # other columns are expected, no warning

    (folder / "report.html").unlink()
    out = run("report", "data-f1")
    assert out == "data-f1/report.html\n"
    assert (folder / "report.html").read_text() == page


def test_the_verdict_comes_first(run, data):
    data.to_csv("data.csv", index=False)
    arguments = ["compare", "data.csv", "-t", "three", "--drop", "two,who", "-m", "mcc"]
    out = run(*arguments, *CANDIDATES, "--jobs", "1", "-o", "there")
    verdict = json.loads(Path("there/comparison.json").read_text())["verdict"]
    assert verdict in " ".join(out.split())[: len(verdict) + 60]  # after the positive class
    assert out.splitlines()[-3:] == [
        "report: there/report.html",
        "model:  there/model.softset, fitted on 200 rows",
        "        softset predict there/model.softset NEW_ROWS",
    ]
    assert run.err == "data.csv: 200 rows, 2 columns; results go to there/\n"


def test_several_metrics_are_a_comparison_each(run, data, tmp_path):
    data.to_csv("data.csv", index=False)
    arguments = ["compare", "data.csv", "-t", "two", "--drop", "three,who", "-m", "f1,mcc"]
    arguments += [*CANDIDATES, "--jobs", "1"]
    found = run.json(*arguments, "-o", "out")
    assert [(d["output"], d["metric"]) for d in found] == [("out/f1", "f1"), ("out/mcc", "mcc")]
    for name in ("f1", "mcc"):
        assert Comparison.load(tmp_path / "out" / name / "comparison.json").metric == name
    assert "out/f1 holds a comparison already" in run.refused(*arguments, "-o", "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "out"]


@pytest.fixture
def result():
    names = ("mean", "low", "high", "rank", "difference", "seconds", "size", "thresholds")
    empty = dict.fromkeys(names)
    warm = CandidateResult(
        "warm",
        "Cross-entropy, then soft F1",
        "metric",
        "metric",
        "",
        "",
        [0.7] * 15,
        0.7,
        0.6,
        0.8,
        1.5,
        Difference(0.021, 0.008, 0.034, 0.001, 0.99, 0.074),
        1.25,
        181_297,
        None,
    )
    forest = replace(warm, id="forest-tuned", name="=Random forest [red]", family="baseline")
    forest = replace(forest, mean=0.679, low=None, high=None, difference=None)
    failed = CandidateResult(
        "anneal", "Annealed", "metric", "metric", "", "ValueError: bad", scores=[], **empty
    )
    found = Comparison.from_dict(comparison("binary"))
    return replace(
        found,
        gains=replace(found.gains, stages=found.gains.stages[:1]),  # one is not shown
        verdict="Training on F1 wins: +0.021 [0.008, 0.034] over [bold]x.",
        outcome="significant",
        winner="warm",
        reference="forest-tuned",
        candidates=[warm, forest, failed],
        warnings=["something"],
    )


@pytest.mark.parametrize("width", [40, 60, 80])
def test_names_are_readable_in_a_narrow_terminal(width, capsys, monkeypatch):
    monkeypatch.setattr("softset.cli.compare.console", lambda: _console(width))
    show(Comparison.from_dict(comparison("binary")))
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    table = out.partition("candidate")[2]
    for name in ("Surrogate", "Gradient boosting", "Random forest", "threshold"):
        assert name in table, out


class Stopped(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("checked", [True, False])
def test_a_stopped_comparison_leaves_nothing_of_an_earlier_one(tmp_path, monkeypatch, checked):
    """But a wrong argument, which is found before the first fit, costs nothing."""
    for name in FILES:
        (tmp_path / name).write_text("old")

    def stopped(*_, progress, **__):
        if not checked:
            raise ValueError("bad")
        progress(0, 9, float("nan"))
        raise Stopped

    monkeypatch.setattr("softset.comparison.comparing.compare", stopped)
    with pytest.raises(Stopped if checked else ValueError):
        compared(None, None, tmp_path, resume=False)
    there = {p.name for p in tmp_path.iterdir()} - {"runs.jsonl.lock"}
    assert there == (set() if checked else set(FILES))


@pytest.mark.parametrize(("width", "shown"), [(80, False), (120, True)])
def test_the_table_uses_the_room_there_is(width, shown, result, capsys, monkeypatch):
    monkeypatch.setattr("softset.cli.compare.console", lambda: _console(width))
    show(result)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "positive: left, 9.9 % of rows"
    assert lines[1] == result.verdict
    (winner,) = [line for line in lines if line.startswith("*  Cross-entropy, then soft F1")]
    assert "0.700  [0.600, 0.800]      +0.021" in winner
    assert "=  =Random forest [red]" in out
    assert "Annealed: ValueError: bad" in out
    assert "note: something" in out
    # p is that of the pair, as the interval beside it; the adjusted one has a column of its own.
    assert ("[+0.008, +0.034]  0.001   0.074" in winner) == shown
    assert ("p  p adj.  rank" in out) == shown


def test_the_legend_has_the_marks_that_are_there(result, capsys):
    show(result)
    assert "* winner, = reference (differences are to it)" in capsys.readouterr().out
    show(replace(result, reference=result.winner))
    assert "* winner (differences are to it)" in capsys.readouterr().out


def _console(width):
    from rich.console import Console  # noqa: PLC0415

    return Console(width=width, highlight=False, markup=False)


def test_the_exported_table_runs_nothing(result):
    rows = list(csv.reader(as_csv(result.candidates).splitlines()))
    assert rows[2][:3] == ["forest-tuned", "'=Random forest [red]", "baseline"]
    assert rows[1][3:8] == ["metric", "0.7", "0.6", "0.8", "1.5"]
    assert rows[1][-1] == "181297"
    assert rows[3][4] == ""


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 9}', '{"format": 1}'])
def test_a_damaged_comparison_is_refused(text, tmp_path, capsys):
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(tmp_path)])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert "comparison.json: a comparison in format 3 was expected" in err or "a whole" in err
    assert err.count("\n") == 1


def test_a_changed_score_is_not_reported(run, tmp_path):
    found = Comparison.from_dict(comparison("binary"))
    found.save(tmp_path / "comparison.json")
    run("report", ".")
    (tmp_path / "report.html").unlink()
    text = (tmp_path / "comparison.json").read_text()
    score = repr(found.candidates[0].scores[0])
    assert score in text
    (tmp_path / "comparison.json").write_text(text.replace(score, "0.25"))
    assert "changed after it was written" in run.refused("report", ".")
    assert not (tmp_path / "report.html").exists()


def test_the_input_is_not_among_the_results(run, data, tmp_path):
    (tmp_path / "out").mkdir()
    data.to_csv("out/comparison.csv", index=False)
    before = (tmp_path / "out" / "comparison.csv").read_bytes()
    arguments = ["compare", "out/comparison.csv", "-t", "two", "-o", "out", "--force"]
    assert "is the input" in run.refused(*arguments)
    assert (tmp_path / "out" / "comparison.csv").read_bytes() == before


def test_all_agree_on_how_long_the_demo_takes(run):
    root = Path(__file__).parents[2]
    assert "within a minute" in run("demo", "--help")
    for name, line in (("README.md", "make demo"), ("docs/commands.md", "softset demo")):
        text = (root / name).read_text()
        (found,) = [row for row in text.splitlines() if row.startswith(line)]
        assert " a minute" in found, name


def test_the_demo_replaces_no_earlier_result(run, tmp_path):
    (tmp_path / "out" / "abalone").mkdir(parents=True)
    (tmp_path / "out" / "abalone" / "report.html").write_text("mine")
    text = run.refused("demo", "-o", "out")
    assert "Pass --force to replace it, or choose another --output" in text
    assert (tmp_path / "out" / "abalone" / "report.html").read_text() == "mine"


def test_the_data_of_the_demo_are_whole():
    shapes = {story.name: story.rows()[0].shape for story in demo._STORIES}
    assert shapes == {"cement": (2310, 18), "abalone": (4177, 8), "breast-cancer": (569, 30)}
    counts = [int((story.rows()[1] == story.positive).sum()) for story in demo._STORIES]
    assert counts == [330, 391, 212]


def test_a_promise_of_the_demo_is_kept_where_a_tuned_threshold_is_not(monkeypatch):
    monkeypatch.setattr(demo, "_DRAWS", 20)
    promised, tuned = demo._promise(0).splitlines()
    broken = [int(re.search(r"broken in (\d+) of 20", line)[1]) for line in (promised, tuned)]
    assert broken[0] <= 4 < broken[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_three_verdicts_of_the_demo_hold_and_fit_on_a_screen(run, tmp_path, seed):
    """Within a minute, on two cores that have nothing else to do."""
    started = time.monotonic()
    lines = run("demo", "--seed", seed).splitlines()
    assert time.monotonic() - started < 60
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    results = [
        Comparison.load(tmp_path / "softset-demo" / story.name / "comparison.json")
        for story in demo._STORIES
    ]
    for result in results:
        assert result.splits.count == 10
    significant = [[bool(s.gain.significant) for s in r.gains.stages[1:]] for r in results]
    assert significant == [[True, True], [True, False], [False, False]]
    assert results[0].winner == "linear-metric"
    if seed == 0:
        readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
        excerpt = readme.partition("From the demo")[2].split("```")[1].strip("\n").splitlines()
        assert len(excerpt) <= 14
        assert [line for line in lines if line in excerpt] == excerpt
    assert lines[-1] == "reports: softset-demo/{cement,abalone,breast-cancer}/report.html"


def test_a_single_split_has_neither_intervals_nor_p(capsys, monkeypatch):
    monkeypatch.setattr("softset.cli.compare.console", lambda: _console(120))
    X, y = make_classification(300, weights=[0.8], random_state=0)
    found = compare(X, y, "f1", candidates=["linear", "linear-tuned"], time_limit=6e-3, n_jobs=1)
    assert found.splits.count == 1
    show(found)
    out, page = capsys.readouterr().out, render(found)
    for text in (out, str(found), page):
        assert "too few for intervals and p-values" in text
        assert "chosen on the other splits and scored" not in text
    assert "1.000" not in out.partition("candidate  ")[2]
    assert "p adj." not in out
    assert "p is of that pair alone" not in out
    assert "chance<br>to be better" not in page
    assert "p is of that pair alone" not in page
