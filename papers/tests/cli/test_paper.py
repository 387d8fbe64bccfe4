"""``softset paper`` and ``softset datasets``, as a user calls them."""

from __future__ import annotations

import pytest

from softset import cli
from softset_papers.datasets.papers import PAPER_SETS
from softset_papers.tables import all_tables
from tests.datasets.made_up import write_sets


def run(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(a) for a in arguments])
    return stop.value.code, *capsys.readouterr()


def test_list_names_every_table(capsys):
    code, out, _ = run(["paper", "list"], capsys)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(all_tables())


def test_run_then_show(capsys, tmp_path):
    data, output = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    write_sets(data)
    command = ["paper", "run", "000-table-3", "--quick", "--data-dir", data, "--output", output]
    command += ["--row", "f2", "--dataset", "mammography", "--jobs", 1]
    code, out, err = run(command, capsys)
    assert code == 0
    assert "| F2 * (1000 rows, 20 epochs, 2 trials) | 0.63 ± 0.04 |" in out
    assert "1 of 1 runs" in err
    assert "core-minutes on 1 runs" in err
    written = {p.name for p in output.iterdir()}
    assert {"runs.jsonl", "000-table-3-fair.md", "000-table-3-fair.html"} <= written
    code, _, err = run(command, capsys)
    assert (code, "--resume" in err) == (2, True)
    assert run([*command, "--resume"], capsys)[0] == 0
    assert run([*command, "--again"], capsys)[0] == 0
    stale = ["paper", "stale", "--output", output]
    assert run(stale, capsys)[1] == "1 runs, none of them stale\n"
    results = output / "runs.jsonl"
    results.write_text(results.read_text().replace('"pin":[', '"pin":[9,'))
    code, out, _ = run(stale, capsys)
    assert code == 0
    assert "000-table-3, Mammography, F2 *: its loss has changed" in out
    show = ["paper", "show", "--output", output, "--protocol", "published"]
    code, out, _ = run(show, capsys)
    assert code == 0
    assert "mean over thresholds 0.1 … 0.9" in out
    assert run([*show, "--html", tmp_path / "page.html"], capsys)[0] == 0
    assert "0.63 ± 0.04" in (tmp_path / "page.html").read_text(encoding="utf-8")
    code, out, _ = run(["paper", "verdicts", "--output", output], capsys)
    assert code == 0
    assert "COULD NOT BE TESTED  000-table-1" in out
    (tmp_path / "page.md").write_text("Words.\n<!-- 000-table-3 all -->\n<!-- end -->\n")
    code, out, _ = run(["paper", "pages", tmp_path, "--output", output], capsys)
    assert code == 0
    assert "0.63 ± 0.04" in (tmp_path / "page.md").read_text(encoding="utf-8")
    assert (output / "verdicts.svg").is_file()


def test_failed_runs_are_an_error_after_what_worked(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("SOFTSET_DATA", raising=False)
    command = ["paper", "run", "000-table-8", "--quick", "--output", tmp_path, "--jobs", 1]
    code, _, err = run(command, capsys)
    assert code == 2
    assert "4 of 4 runs failed" in err
    assert "--data-dir" in err


@pytest.mark.parametrize(("arguments", "words"), [
    (["paper", "run", "000-tabel-1"], "Did you mean '000-table-1'"),
    (["paper", "run", "000-table-1", "--protocol", "fiar"], "Did you mean 'fair'"),
    (["paper", "run", "000-table-1", "--trials", "0"], "trials must be in [1"),
    (["paper", "run", "000-table-1", "--row", "bec"], "Did you mean 'bce'"),
    (["paper", "show", "--output", "nowhere"], "holds no results"),
    (["paper", "stale", "--output", "nowhere"], "holds no results"),
    (["paper", "verdicts", "--output", "nowhere"], "holds no results"),
    (["datasets", "--data-dir", "nowhere"], "must be a directory"),
    (["datasets", "--download", "adult"], "--data-dir"),
    (["datasets", "--download", "../adult", "--data-dir", "."], "must be one of"),
    (["datasets", "--download", "cocktailparty", "--data-dir", "."], "Zen et al."),
])  # fmt: skip
def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(arguments, capsys)
    assert code == 2
    assert err.startswith("softset: error: ")
    assert words in err
    assert len(err.splitlines()) == 1


def test_datasets_are_listed(capsys, tmp_path):
    code, out, _ = run(["datasets", "--data-dir", write_sets(tmp_path)], capsys)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == [
        "name", "rows", "features", "positives", "%", "equitability", "here", "licence",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2 : 2 + len(PAPER_SETS)]] == list(PAPER_SETS)
    assert all(" yes " in line for line in lines[2 : 2 + len(PAPER_SETS)])
    assert "OpenML 1590" in out
