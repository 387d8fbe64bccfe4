"""``softset explain``: columns by what the metric loses, and rows that are most wrong."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def trained(run, data, model):
    data[["x", "city", "two"]].to_csv("d.csv", index=False)
    return run


def test_the_column_that_decides_comes_first_and_wrong_rows_are_named(trained):
    facts = trained.json("explain", "m.softset", "d.csv")
    assert list(facts) == ["file", "metric", "rows", "importances", "mistakes"]
    assert [i["column"] for i in facts["importances"]] == ["x", "city"]
    assert facts["importances"][0]["falls"] > 0.2
    row = facts["mistakes"][0]
    cells = Path("d.csv").read_text().splitlines()[row["row"]].split(",")
    assert cells[-1] == row["truth"] != row["predicted"]
    printed = trained("explain", "m.softset", "d.csv", "--most", "1")
    assert "f1 falls by, shuffled" in printed
    assert "city" not in printed


def test_a_missing_target_column_is_one_line(trained, data):
    data[["x", "city"]].to_csv("new.csv", index=False)
    assert "'two'" in trained.refused("explain", "m.softset", "new.csv")
