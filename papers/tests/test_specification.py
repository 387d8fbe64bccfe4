"""What a table holds: settings with their source, blocks, rows, and when two numbers differ."""

import pytest

from softset_papers.specification import (
    SOURCES,
    Block,
    Row,
    Table,
    Value,
    code,
    differs,
    ours,
    paper,
    sources,
)


def test_two_standard_deviations_and_rounding():
    assert not differs(Value(0.5, 0.0), 0.504, 0.0)  # rounding
    assert differs(Value(0.5, 0.0), 0.52, 0.0)
    assert not differs(Value(0.5, 0.03), 0.59, 0.04)
    assert differs(Value(0.5, 0.03), 0.61, 0.04)


def test_options_are_the_plain_values_on_a_set_and_in_full():
    row = Row("r", "R", paper(a=1) | ours(b=2), full=paper(b=9), on={"x": ours(c=3)})
    assert row.options() == {"a": 1, "b": 2}
    assert row.options(Block("X", "x")) == {"a": 1, "b": 2, "c": 3}
    assert row.options(Block("X", "x"), full=True) == {"a": 1, "b": 9, "c": 3}
    assert row.options(Block("Y", "y")) == {"a": 1, "b": 2}


def test_blocks_are_told_apart():
    blocks = [
        Block("A", "a"),
        Block("A", "a", "together"),
        Block("A", "a", splits=10),
    ]
    assert [b.key for b in blocks] == ["a", "a-together", "a-splits"]


def test_a_block_may_stand_beside_the_values_of_another():
    row, value = Row("r", "R"), Value(0.5)
    table = Table("t", "T", published={"A": {"r": {"f1": value}}})
    assert table.value(Block("A", "a"), row, "f1") == value
    assert table.value(Block("A, ten splits", "a", of="A"), row, "f1") == value
    assert table.value(Block("A, ten splits", "a"), row, "f1") is None


def test_settings_are_named_by_source():
    rows = [
        Row("a", "A", paper(batch_size=20, loss="f1") | code(dropout=0.5) | ours(seen=None)),
        Row("b", "B", paper(batch_size=128, grid={"rate": [0.1, 0.01]}), on={"x": ours(w=True)}),
    ]
    assert sources(rows) == {
        "paper": "batch size 20 or 128, grid (rate 0.1/0.01)",
        "code": "dropout 0.5",
        "ours": "seen none, w yes",
    }
    short = Row("c", "C", ours(max_epochs=1000), full=code(max_epochs=5000))
    assert sources([short], [short]) == {"code": "max epochs 5000", "ours": "max epochs 1000"}


@pytest.mark.parametrize(("make", "source"), [(paper, "paper"), (code, "code"), (ours, "ours")])
def test_every_source_has_words(make, source):
    assert make(x=1)["x"].source == source
    assert source in SOURCES
