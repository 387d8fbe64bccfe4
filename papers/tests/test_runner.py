"""Tables end to end with tiny settings, on made-up files in the form of the real ones."""

import json

import numpy as np
import pytest

from softset_papers import provenance, runner
from softset_papers.judging import PROTOCOLS, Fitted
from softset_papers.kinds.tabular import FITS
from softset_papers.pages.layout import to_html, to_markdown
from softset_papers.pages.summary import summarize
from softset_papers.results import RESULTS, read_records
from softset_papers.runner import KINDS, Effort, plan, run_table
from softset_papers.specification import Block, Row, Table, ours
from softset_papers.tables import all_tables, find_table
from tests.datasets.made_up import write_sets

TABULAR = ("train", "weights", "counts", "runtime", "figure")
NAMES = [n for n, t in all_tables().items() if n[:3] in ("000", "001") and t.kind in TABULAR]
TINY = Effort(trials=2, max_epochs=2, rows=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sets(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One directory for all tables: they share runs."""
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize("name", NAMES)
def test_every_table_runs_and_is_shown(name, folder, results):
    table = find_table(name)
    rows = [r.id for r in table.rows if not r.slow] if table.kind == "runtime" else None
    done = run_table(table, results, data_dir=folder, effort=Effort(1, 1, 200), rows=rows)
    assert done.records
    assert [r["error"] for r in done.records if "error" in r] == []
    found = read_records(results)
    for protocol in PROTOCOLS:
        summary = summarize(table, found, protocol)
        text, page = to_markdown(summary), to_html([summary])
        assert table.id in text
        assert page.startswith("<!doctype html>")
        if table.kind == "figure":
            assert "data:image/svg+xml" in page
            continue
        for block in table.blocks:
            shown = {s.row.id: s.cells for s in summary.shown[block.key]}
            for row in table.rows:
                if table.runs(block, row):
                    cells = shown[row.id]
                    assert all(cells[m].measured is not None for m in table.metrics)
                    if table.kind == "train":
                        assert all(0 <= cells[m].measured.mean <= 1 for m in table.metrics)


def test_tables_share_their_runs():
    """001's table 1 is 000's; the F1 row of table 3 is that of table 1."""

    def runs(name):
        return {json.dumps(p.run) for p in plan(find_table(name), Effort())}

    assert runs("001-table-1") < runs("000-table-1")
    assert runs("001-table-4") < runs("000-table-3")
    assert len(runs("000-table-3") & runs("000-table-1")) == 2


def test_a_table_goes_on_where_it_stopped(folder, tmp_path):
    table = find_table("000-table-3")
    run_table(table, tmp_path, data_dir=folder, effort=TINY, rows=["f2"])
    before = (tmp_path / RESULTS).read_text()
    told = []
    with pytest.raises(ValueError, match="--resume"):
        run_table(table, tmp_path, data_dir=folder, effort=TINY, resume=False)
    run_table(table, tmp_path, data_dir=folder, effort=TINY, progress=lambda *a: told.append(a))
    after = (tmp_path / RESULTS).read_text()
    assert after.startswith(before)
    assert told[0][:2] == (2, 6)
    run_table(find_table("000-table-8"), tmp_path, data_dir=folder, effort=TINY, resume=False)


def test_the_same_seed_gives_the_same_numbers(folder, tmp_path):
    table = find_table("000-table-7")
    one, two = (
        run_table(table, tmp_path / d, data_dir=folder, effort=TINY, datasets=["mammography"])
        for d in "ab"
    )
    assert [r["result"]["values"] for r in one.records] == [
        r["result"]["values"] for r in two.records
    ]


def test_trials_are_spread_over_splits():
    block = Block("Mammography", "mammography", splits=2)
    table = Table("x", "Two splits", (block,), find_table("000-table-3").rows[:1], ("f1",))
    runs = [p.run for p in plan(table, Effort(trials=5))]
    assert [(run["split"], run["seeds"]) for run in runs] == [(0, [0, 2, 4]), (1, [1, 3])]
    assert {run["splits"] for run in runs} == {2}


def test_a_split_without_a_trial_is_not_run(folder, tmp_path):
    table = find_table("000-table-7")
    done = run_table(
        table, tmp_path, data_dir=folder, effort=TINY, rows=["svm-f1"], datasets=["mammography"]
    )
    assert [r["run"]["seeds"] for r in done.records] == [[0], [1]]


def test_slow_rows_run_only_when_named():
    table = find_table("000-table-1")
    assert "adversarial" not in {p.row.id for p in plan(table, Effort())}
    named = plan(table, Effort(), ["adversarial"], ["cocktailparty"])
    assert [(p.row.id, p.run["options"]["batch_size"]) for p in named] == [("adversarial", 20)]
    for words, choice in [("row must be", {"rows": ["bec"]}), ("dataset", {"datasets": ["x"]})]:
        with pytest.raises(ValueError, match=words):
            plan(table, Effort(), **choice)


def test_a_block_may_have_fewer_rows_and_trials():
    blocks = (Block("A", "adult-as-read", rows=("f1",), trials=3), Block("M", "mammography"))
    table = Table("x", "Some", blocks, find_table("000-table-1").rows[:3], ("f1",))
    found = [(p.block.title, p.row.id, len(p.run["seeds"])) for p in plan(table, Effort())]
    assert found == [("A", "f1", 3), ("M", "f1", 10), ("M", "accuracy", 10)]
    named = plan(table, Effort(), ["accuracy"], ["adult-as-read"])
    assert [p.row.id for p in named] == ["accuracy"]
    assert {len(p.run["seeds"]) for p in plan(table, Effort(full=True))} == {10}


def test_full_reads_the_whole_dataset_where_its_file_is_there(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("SOFTSET_DATA", raising=False)
    table = find_table("000-table-7")

    def data(**choice):
        runs = plan(table, Effort(full=choice.pop("full", False)), ["svm-f1"], **choice)
        return {p.run["data"] for p in runs if p.run["data"].startswith("credit")}

    assert data(full=True, data_dir=folder) == {"creditcard"}
    assert data(full=True, data_dir=tmp_path) == data(full=True) == {"creditcard-subset"}
    assert data(data_dir=folder) == {"creditcard-subset"}
    assert data(datasets=["creditcard"]) == {"creditcard"}
    (run, *_) = plan(table, Effort(), ["svm-f1"], ["creditcard"])
    assert "weighted" not in run.run["options"]  # its rows have no weights
    assert "whole dataset of Kaggle" in table.lacking


def test_what_differs_on_a_set_is_in_its_runs_alone():
    runs = plan(find_table("000-table-7"), Effort(), ["svm-f1"])
    weighted = {p.block.key for p in runs if p.run["options"].get("weighted")}
    assert weighted == {"creditcard-subset"}


def test_a_quick_look_shortens_what_there_is_to_shorten():
    for name, limits in (("000-table-3", {20}), ("002-table-1", {None})):
        runs = plan(find_table(name), Effort.quick())
        assert {p.run["options"]["max_epochs"] for p in runs} == {20}
        assert {p.run["options"].get("patience") for p in runs} == limits


def test_another_kind_of_row_joins_by_name(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(FITS, "constant", fit_constant)
    block = find_table("000-table-3").blocks[0]
    row = Row("c", "Constant", ours(score=1.0), fit="constant")
    table = Table("x", "A constant", (block,), (row,), ("f1", "recall"))
    (record,) = run_table(table, tmp_path, data_dir=folder, effort=TINY).records
    assert record["result"]["values"]["fair"]["recall"] == [1.0]


def fit_constant(parts, options, seeds):
    del seeds
    sizes = len(parts.validation.y), len(parts.test.y)
    return Fitted(*(np.full((1, n), options["score"]) for n in sizes), {})


def test_an_error_in_one_run_leaves_the_others(folder, tmp_path):
    row = find_table("000-table-3").rows[0]
    rows = (Row("bad", "Bad", row.settings | ours(loss="nonsense")), row)
    table = Table("x", "One bad row", find_table("000-table-3").blocks[:1], rows, ("f1",))
    bad, good = run_table(table, tmp_path, data_dir=folder, effort=TINY).records
    assert "loss must be one of" in bad["error"]
    assert "result" in good


def test_a_result_says_what_it_cost_and_which_code_made_it(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "current_commit", lambda: "abc123")
    table, choice = find_table("000-table-3"), {"rows": ["f1"], "datasets": ["mammography"]}
    done = run_table(table, tmp_path, data_dir=folder, effort=TINY, **choice)
    (record,) = read_records(tmp_path)
    assert record.result["commit"] == "abc123"
    assert record.result["pin"] == provenance.pin(record.run)
    assert (done.runs, done.cpu) == (1, record.result["cpu"])
    again = run_table(table, tmp_path, data_dir=folder, effort=TINY, **choice)
    assert (again.runs, again.cpu) == (0, 0)
    monkeypatch.setattr(runner, "current_commit", lambda: "def456")
    new = run_table(table, tmp_path, data_dir=folder, effort=TINY, again=True, **choice)
    assert new.runs == 1
    assert [r.result["commit"] for r in read_records(tmp_path)] == ["def456"]


def test_every_kind_and_fit_of_a_table_is_registered():
    for table in all_tables().values():
        assert table.kind in KINDS
        if table.kind == "train":
            assert {row.fit for row in table.rows} <= set(FITS)
