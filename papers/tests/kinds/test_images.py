"""Rows on images and graphs: every table end to end with tiny settings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from softset_papers.networks import images
from softset_papers.pages.summary import summarize
from softset_papers.results import read_records
from softset_papers.runner import Effort, plan, run_table
from softset_papers.tables import all_tables
from tests.datasets.made_up import small_images

TABLES = {n: t for n, t in all_tables().items() if t.kind in ("images", "graphs", "curves")}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(images, "load_images", lambda name, data_dir: small_images(name))
    images.all_images.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """CocktailParty with 40 frames, and a place for results that the tables share."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    frame, person = np.divmod(np.arange(240), 6)
    table = {
        "frame": frame,
        "timestamp": frame * 1000,
        "person_id": person,
        "x": rng.uniform(0, 500, 240),
        "y": rng.uniform(0, 600, 240),
        "theta": rng.uniform(-3, 3, 240),
        "group": rng.integers(-1, 2, 240),
    }
    pandas.DataFrame(table).to_parquet(path / "cocktailparty.parquet")
    return path


@pytest.mark.parametrize("name", TABLES)
def test_every_table_runs_from_end_to_end(name, small, folder):
    table = TABLES[name]
    # A correlation over epochs needs two, and three without the first.
    epochs = 3 if name.startswith("004-figures") else 1
    effort = Effort(trials=1, max_epochs=epochs, rows=100)
    done = run_table(table, folder / "results", data_dir=folder, effort=effort)
    assert [r["error"] for r in done.records if "error" in r] == []
    summary = summarize(table, read_records(folder / "results"), "published")
    assert {key: len(rows) for key, rows in summary.shown.items()} == {
        block.key: sum(table.runs(block, row) for row in table.rows) for block in table.blocks
    }
    for rows in summary.shown.values():
        for shown, metric in itertools.product(rows, table.metrics):
            cell = shown.cells[metric]
            if "correlation" in metric and cell.undefined:  # a score that does not move
                continue
            assert cell.measured is not None
            low = -1 if "correlation" in metric or metric == "mcc" else 0
            assert low <= cell.measured.mean <= 1
            if shown.row.extra or shown.block.extra:
                assert cell.published is None


def test_annealed_networks_say_how_often_they_cooled(small, folder, tmp_path):
    effort = Effort(trials=1, max_epochs=3, rows=100)
    done = run_table(
        TABLES["002-table-1-images"], tmp_path, effort=effort, rows=["f1", "ce"],
        datasets=["cifar-10"],
    )  # fmt: skip
    annealed, entropy = (r["result"] for r in done.records)
    assert len(annealed["coolings"]) == 1
    assert "coolings" not in entropy
    assert annealed["outcome"] == entropy["outcome"] == ["max_epochs"]


def test_graphs_say_what_one_group_for_all_scores(folder, tmp_path):
    """All pairs together: recall 1, and the F1 of the other class is 0."""
    done = run_table(TABLES["001-table-3"], tmp_path, data_dir=folder, rows=["all"])
    values = [r["result"]["values"]["fair"] for r in done.records]
    assert len(values) == 11  # ten splits, and split 0 alone
    assert all(v["recall"] == [1.0] and v["f1 other"] == [0.0] for v in values)


def test_full_settings_are_the_papers():
    for name, table in TABLES.items():
        for row in table.rows:
            full = row.options(full=True)
            if table.kind == "graphs" or row.fit != "network":
                assert not row.full  # these are run in full
                continue
            assert full["images"] is None, name
            assert full["width"] == 1.0
            assert full["max_epochs"] >= 120
    full = TABLES["004-figures-2-to-4"].rows[0].options(full=True)
    assert (full["learning_rate"], full["momentum"], full["weight_decay"]) == (0.01, 0.9, 1e-4)
    assert (full["batch_size"], full["max_epochs"], full["augment"]) == (100, 120, True)
    first = TABLES["000-table-2"].rows[0].options(full=True)
    assert (first["learning_rate"], first["batch_size"], first["split"]) == (1e-4, 128, "67/17/17")


def test_full_has_the_trials_of_the_paper():
    for name, trials in (("002-table-1-images", 10), ("004-figures-2-to-4", 5)):
        runs = plan(TABLES[name], Effort(full=True))
        assert {len(p.run["seeds"]) for p in runs} == {trials}
