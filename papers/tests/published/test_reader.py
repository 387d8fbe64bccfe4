"""The TOML files of published values: read with checks, and in step with the specifications."""

from __future__ import annotations

import pytest

from softset_papers.published import PAPERS, read_values, tables_in
from softset_papers.specification import Value
from softset_papers.tables import all_tables

TABLE = """
[000-table-9]
metrics = ["f1", "accuracy"]
[000-table-9.Adult]
bce = %s
"""


def test_a_row_has_a_value_for_each_metric_or_names_its_own():
    found = read_values(TABLE % '["0.5 ± 0.05", "-0.8"]')["000-table-9"]["Adult"]["bce"]
    assert found == {"f1": Value(0.5, 0.05, "0.5 ± 0.05"), "accuracy": Value(-0.8, None, "-0.8")}
    own = read_values(TABLE % '{ "f1 macro" = "0.7" }')["000-table-9"]["Adult"]["bce"]
    assert own == {"f1 macro": Value(0.7, None, "0.7")}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('["0.5"]', "000-table-9.Adult: bce must have 2 values"),
        ('"0.5"', "must have 2 values"),
        ('["0.5", "0.5±0.1"]', "such as '0.75 ± 0.01'"),
        ('["0.5", 0.5]', "such as"),
        ('["0.5", "about 1"]', "got 'about 1'"),
    ],
)
def test_mistakes_are_named(row, message):
    with pytest.raises(ValueError, match=message):
        read_values(TABLE % row)
    with pytest.raises(ValueError, match="no metrics"):
        read_values('[t.b]\nrow = ["0.5"]')


@pytest.mark.parametrize("paper", PAPERS)
def test_every_published_value_has_its_place_in_a_table(paper):
    tables = all_tables()
    for name, blocks in tables_in(paper).items():
        table = tables[name]
        assert set(blocks) <= {block.title for block in table.blocks}
        for rows in blocks.values():
            assert set(rows) <= {row.id for row in table.rows}
            for values in rows.values():
                assert set(values) <= set(table.metrics)
