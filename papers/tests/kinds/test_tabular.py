"""The tables of 002 and 003 run end to end with tiny settings; what they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softset_papers.kinds import tabular
from softset_papers.pages.layout import to_html, to_markdown
from softset_papers.pages.summary import summarize
from softset_papers.results import read_records
from softset_papers.runner import Effort, run_table
from softset_papers.specification import Block, Setting, Table, ours
from softset_papers.tables import find_table

TINY = {
    "hidden": [8],
    "grid": {"batch_size": [128], "learning_rate": [0.01], "dropout": [0.25], "cooling": [0.8]},
    "more_batch_sizes": [256],
    "search_seen": 400,
    "max_seen": 2000,
    "patience_seen": 500,
    "trees": 5,
}
NAMES = ("002-table-1", "002-table-3", "002-annealing", "003-table-2")


def tiny(table: Table) -> Table:
    """The same rows with a small network and a short search."""
    rows = []
    for row in table.rows:
        own = {
            name: Setting(TINY.get(name, setting.value), setting.source)
            for name, setting in row.settings.items()
        }
        rows.append(replace(row, settings=own))
    return replace(table, rows=tuple(rows))


def on_synthetic(table: Table) -> Table:
    return replace(table, blocks=(Block("Adult", "synthetic-33"),))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_runs_end_to_end(name, tmp_path):
    table = on_synthetic(tiny(find_table(name)))
    done = run_table(table, tmp_path, effort=Effort(trials=2, rows=400, max_epochs=5))
    assert {r.get("error") for r in done.records} == {None}
    for protocol in ("fair", "published"):
        summary = summarize(table, read_records(tmp_path), protocol)
        text = to_markdown(summary)
        (rows,) = summary.shown.values()
        assert [s.row for s in rows] == list(table.rows)
        for shown in rows:
            assert all(shown.cells[m].measured is not None for m in table.metrics)
            assert shown.row.label in text
        assert "What the search chose" in text
        assert ("largest probability" in text) is (protocol == "published")
        assert "<table" in to_html([summary])


@pytest.mark.parametrize("name", NAMES)
def test_a_table_runs_on_the_real_data(name, tmp_path, shared_data):
    table = tiny(find_table(name))
    effort = Effort(trials=1, rows=400, max_epochs=3)
    done = run_table(table, tmp_path, data_dir=shared_data, effort=effort)
    assert {r.get("error") for r in done.records} == {None}


def test_published_is_the_decision_for_the_largest_probability(tmp_path):
    table = on_synthetic(tiny(find_table("002-table-3")))
    done = run_table(table, tmp_path, effort=Effort(trials=1, rows=400), rows=["rf"])
    values = done.records[0]["result"]["values"]
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
    table = replace(table, rows=(replace(forest, full=ours(trees=7)),))
    for full in (False, True):
        run_table(table, tmp_path, effort=Effort(trials=1, rows=400, full=full))
    assert [r.run["options"]["trees"] for r in read_records(tmp_path)] == [5, 7]
    assert len(summarize(table, read_records(tmp_path), "fair").records) == 1


def test_settings_found_on_one_split_serve_the_others_and_later_tables(tmp_path, monkeypatch):
    """002-annealing and the ten splits take what 002-table-1 found."""
    table = on_synthetic(tiny(find_table("002-table-1")))
    effort = Effort(trials=2, rows=400, max_epochs=2)
    run_table(table, tmp_path, effort=effort, rows=["f1"])
    tabular._FOUND.clear()
    monkeypatch.setattr(tabular, "search", lambda *a: pytest.fail("searched again"))
    splits = replace(table, blocks=(Block("Splits", "synthetic-33", splits=2),))
    long = on_synthetic(tiny(find_table("002-annealing")))
    for later, rows in ((splits, ["f1"]), (long, ["f1", "f1-fixed"])):
        done = run_table(later, tmp_path, effort=effort, rows=rows)
        assert [r.get("error") for r in done.records] == [None, None]


def test_theorems_run_and_are_shown(tmp_path):
    table = find_table("theory-002-5.2")
    run_table(table, tmp_path)
    summary = summarize(table, read_records(tmp_path), "fair")
    assert "a tie" in to_markdown(summary)
    assert "Proposition 5.2" in to_html([summary])
    nothing = summarize(find_table("theory-004-12"), read_records(tmp_path), "fair")
    assert "Nothing measured yet" in to_markdown(nothing)
    everything = summarize(find_table("theory"), read_records(tmp_path), "fair")
    assert len(everything.records) == 1
