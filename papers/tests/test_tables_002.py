"""The tables of 002 and 003 run end to end with tiny settings; what they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softset_papers.pages import to_html, to_markdown
from softset_papers.runner import Effort, run_table
from softset_papers.specification import Block, Table, find_table
from softset_papers.summary import read_records, summarise

TINY = {
    "hidden": [8],
    "grid": {"batch_size": [128], "learning_rate": [0.01], "dropout": [0.25], "cooling": [0.8]},
    "more_batch_sizes": [256],
    "search_seen": 400,
    "max_seen": 2000,
    "patience_seen": 500,
    "trees": 5,
}
NAMES = ("002-table-1", "002-table-3", "003-table-2")


def tiny(table: Table) -> Table:
    """The same rows with a small network and a short search."""
    rows = tuple(
        replace(r, options={k: TINY.get(k, v) for k, v in r.options.items()}) for r in table.rows
    )
    return replace(table, rows=rows)


def on_synthetic(table: Table) -> Table:
    return replace(table, blocks=(Block("Adult", "synthetic-33"),))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_runs_end_to_end(name, tmp_path):
    table = on_synthetic(tiny(find_table(name)))
    records = run_table(table, tmp_path, effort=Effort(trials=2, rows=400))
    assert [r.get("error") for r in records] == [None] * len(table.rows)
    for protocol in ("fair", "published"):
        summary = summarise(table, read_records(tmp_path), protocol)
        text = to_markdown(summary)
        for row in table.rows:
            cells = summary.cells["synthetic-33"][row.id]
            assert all(cells[m].measured is not None for m in table.metrics)
            assert row.label in text
        assert "What the search chose" in text
        assert ("largest probability" in text) is (protocol == "published")
        assert "<table" in to_html([summary])


@pytest.mark.parametrize("name", NAMES)
def test_a_table_runs_on_the_real_data(name, tmp_path, shared_data):
    table = tiny(find_table(name))
    effort = Effort(trials=1, rows=400)
    records = run_table(table, tmp_path, data_dir=shared_data, effort=effort)
    assert [r.get("error") for r in records] == [None] * 4 * len(table.rows)


def test_published_is_the_decision_for_the_largest_probability(tmp_path):
    table = on_synthetic(tiny(find_table("002-table-3")))
    records = run_table(table, tmp_path, effort=Effort(trials=1, rows=400), rows=["rf"])
    values = records[0]["result"]["values"]
    for metric in ("f1", "f1 macro", "accuracy", "mcc"):
        assert values["published"][metric] == values["fair"][metric]


def test_tables_share_their_runs(tmp_path):
    first, second = (on_synthetic(tiny(find_table(n))) for n in NAMES[:2])
    effort = Effort(trials=1, rows=400)
    run_table(first, tmp_path, effort=effort, rows=["f1"])
    run_table(second, tmp_path, effort=effort, rows=["f1"])
    assert len(read_records(tmp_path)) == 1


def test_full_is_what_the_paper_did_and_takes_the_place_of_less(tmp_path):
    table = on_synthetic(tiny(find_table("002-table-3")))
    forest = next(r for r in table.rows if r.fit == "forest")
    row = replace(forest, full={"trees": 7})
    table = replace(table, rows=(row,))
    for full in (False, True):
        run_table(table, tmp_path, effort=Effort(trials=1, rows=400, full=full))
    assert [r["run"]["options"]["trees"] for r in read_records(tmp_path)] == [5, 7]
    assert summarise(table, read_records(tmp_path), "fair").about["runs"] == 1


def test_the_forest_is_compared_in_macro_f1_and_networks_in_that_of_the_positive_class():
    published = find_table("002-table-3").published["Mammography"]
    assert set(published["rf"]) == set(published["ccs"]) == {"f1 macro", "accuracy"}
    assert set(published["f1"]) == {"f1", "accuracy"}


def test_theorems_run_and_are_shown(tmp_path):
    table = find_table("theory-002-5.2")
    run_table(table, tmp_path)
    summary = summarise(table, read_records(tmp_path), "fair")
    assert "a tie" in to_markdown(summary)
    assert "Proposition 5.2" in to_html([summary])
    nothing = summarise(find_table("theory-004-12"), read_records(tmp_path), "fair")
    assert "Nothing measured yet" in to_markdown(nothing)
    everything = summarise(find_table("theory"), read_records(tmp_path), "fair")
    assert everything.about["runs"] == 1
