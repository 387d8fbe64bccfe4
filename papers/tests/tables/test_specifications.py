"""Every table of every paper: what must hold for all of them."""

import pytest

from softset_papers.specification import SOURCES
from softset_papers.tables import all_tables, find_table

TABLES = all_tables()
TRAINED = [t for t in TABLES.values() if t.rows and t.kind not in ("weights", "counts")]


@pytest.mark.parametrize("table", TRAINED, ids=lambda t: t.id)
def test_every_setting_names_its_source(table):
    for row in table.rows:
        assert row.settings
        for settings in (row.settings, row.full, row.fixed, *row.on.values()):
            assert {setting.source for setting in settings.values()} <= set(SOURCES)


@pytest.mark.parametrize("table", TRAINED, ids=lambda t: t.id)
def test_ids_are_unique_and_blocks_too(table):
    assert len({row.id for row in table.rows}) == len(table.rows)
    assert len({block.key for block in table.blocks}) == len(table.blocks)


def test_settings_that_the_paper_does_not_state_are_not_said_to_be_its():
    settings = find_table("000-table-1").rows[0].settings
    assert settings["dropout"].source == "code"  # the text has dropout, and no rate
    assert settings["max_epochs"].source == "ours"  # no largest number of epochs
    adversarial = find_table("000-table-1").rows[1].settings
    assert adversarial["learning_rate"].source == "code"
    assert adversarial["batch_size"].source == "paper"
    assert find_table("000-table-1").rows[4].settings["gamma"].source == "code"


def test_full_says_what_it_lacks_where_it_lacks_something():
    """No search on images, another network on graphs, and the whole file of Kaggle."""
    others = ("001-table-3", "002-annealing", "002-batches")
    for table in TRAINED:
        east = table.kind == "images" and table.id[:3] in ("002", "003")
        assert bool(table.lacks) == (east or table.id in others)
        kaggle = any(block.title == "Kaggle" for block in table.blocks)
        assert ("whole dataset of Kaggle" in table.lacking) == kaggle


def test_the_search_is_the_papers_in_full():
    full = find_table("002-table-1").rows[0].options(full=True)
    assert full["grid"] == {
        "batch_size": [128, 256, 512, 1024, 2048],
        "learning_rate": [0.01, 0.001, 0.0001],
        "dropout": [0.25, 0.5],
        "cooling": [0.8, 0.9],
    }
    assert full["more_batch_sizes"] == [4096, 8192]  # the paper prints 4069
    assert (full["patience"], full["max_seen"], full["search_seen"]) == (50, None, None)


def test_the_forest_is_compared_in_macro_f1_and_networks_in_that_of_the_positive_class():
    published = find_table("002-table-3").published["Mammography"]
    assert set(published["rf"]) == set(published["ccs"]) == {"f1 macro", "accuracy"}
    assert set(published["f1"]) == {"f1", "accuracy"}


@pytest.mark.parametrize("name", ["004-figures-2-to-4", "004-figures-5-to-7"])
def test_the_losses_of_004_are_all_balanced_for_every_beta(name):
    rows = [row for row in find_table(name).rows if not row.extra]
    betas = {0.5, 1.0, 2.0, 3.0}
    for loss, balance in (("surrogate", None), ("identity", True)):
        own = [r.options() for r in rows if r.options()["loss"] == loss]
        assert {o["beta"] for o in own} == betas
        assert {o.get("balanced") for o in own} == {balance}
    others = [r.options() for r in rows if r.id in ("mae", "bce")]
    assert all(o["balanced"] for o in others)


def test_unknown_tables_are_named():
    with pytest.raises(ValueError, match="Did you mean '000-table-1'"):
        find_table("000-tabel-1")
