"""The file of results: torn and damaged ones, and what is taken out of it."""

import json
from pathlib import Path

import pytest

from softset.storage.schema import sealed, unsealed
from softset_papers.results import RESULTS, Record, compact, forget, read_records

RUNS = [{"run": {"x": x}, "seconds": 1.0, "result": {"cpu": 2.0}} for x in (1, 2)]


def write(folder, *lines):
    text = "\n".join(json.dumps(line) for line in lines) + "\n"
    (folder / RESULTS).write_text(text)


def test_finished_runs_are_read_and_failed_ones_left_out(tmp_path):
    assert read_records(tmp_path) == []
    write(tmp_path, {"header": 1}, *RUNS, {"run": {}, "seconds": 1.0, "error": "no"})
    assert [r.run for r in read_records(tmp_path)] == [{"x": 1}, {"x": 2}]
    assert read_records(tmp_path)[0].cpu == 2.0
    assert Record({}, 3.0, {}).cpu == 3.0


def test_a_torn_line_is_left_out_and_a_damaged_file_named(tmp_path):
    write(tmp_path, {"header": 1}, *RUNS)
    with open(tmp_path / RESULTS, "a") as file:
        file.write('{"half')
    assert len(read_records(tmp_path)) == 2
    (tmp_path / RESULTS).write_text("{}\nnonsense\n")
    with pytest.raises(ValueError, match="damaged"):
        read_records(tmp_path)


def test_runs_can_be_forgotten(tmp_path):
    assert forget(tmp_path, lambda run: True) == 0
    write(tmp_path, {"header": 1}, *RUNS)
    assert forget(tmp_path, lambda run: run["x"] == 1) == 1
    assert [r.run for r in read_records(tmp_path)] == [{"x": 2}]
    assert json.loads((tmp_path / RESULTS).read_text().splitlines()[0]) == {"header": 1}


def test_a_search_that_several_runs_share_is_in_the_file_once(tmp_path):
    """Also where the run that has it in full is forgotten."""
    search = [{"batch_size": 128, "loss": 0.5}] * 20
    runs = [sealed({"run": {"x": x}, "seconds": 1.0, "result": {"tried": search}}) for x in "abc"]
    write(tmp_path, {"header": 1}, *runs)
    before, records = (tmp_path / RESULTS).stat().st_size, read_records(tmp_path)
    compact(tmp_path)
    assert (tmp_path / RESULTS).stat().st_size < before / 2
    assert read_records(tmp_path) == records
    forget(tmp_path, lambda run: run["x"] == "a")
    assert read_records(tmp_path) == records[1:]
    lines = (tmp_path / RESULTS).read_text().splitlines()[1:]
    assert all(unsealed(json.loads(line))["run"]["x"] in "bc" for line in lines)


def test_the_committed_results_can_be_resumed_from():
    """Every line has the checksum that ``softset.comparison.sweep`` asks for; files stay small."""
    path = Path(__file__).parents[1] / "docs" / "results" / "runs.jsonl"
    assert path.stat().st_size < 2e6
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) > 700
    assert all("checksum" not in unsealed(json.loads(line)) for line in lines)
