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
    assert list(facts) == ["file", "metric", "positive", "rows", "importances", "mistakes"]
    assert [i["column"] for i in facts["importances"]] == ["x", "city"]
    assert facts["importances"][0]["falls"] > 0.2
    row = facts["mistakes"][0]
    cells = Path("d.csv").read_text().splitlines()[row["row"]].split(",")
    assert cells[-1] == row["truth"] != row["predicted"]
    printed = trained("explain", "m.softset", "d.csv", "--most", "1")
    assert "f1 falls by, shuffled" in printed
    assert facts["positive"] + " in training" in printed.splitlines()[0]
    assert "city" not in printed


def test_a_missing_target_column_is_one_line(trained, data):
    data[["x", "city"]].to_csv("new.csv", index=False)
    assert "'two'" in trained.refused("explain", "m.softset", "new.csv")


def test_one_row_is_explained_by_what_its_columns_add(trained, data):
    facts = trained.json("explain", "m.softset", "d.csv", "--row", "3")
    assert facts["row"] == 3
    assert {c["column"] for c in facts["contributions"]} == {"x", "city"}
    values = {c["column"]: c["value"] for c in facts["contributions"]}
    assert values["x"] == pytest.approx(data["x"].iloc[2])
    assert values["city"] == data["city"].iloc[2]
    total = facts["base"] + sum(c["adds"] for c in facts["contributions"])
    assert total == pytest.approx(facts["score"])
    printed = trained("explain", "m.softset", "d.csv", "--row", "3")
    assert "row 3: " in printed
    assert "adds to the score of yes" in printed
    rows = len(data)
    message = trained.refused("explain", "m.softset", "d.csv", "--row", str(rows + 1))
    assert f"--row must be from 1 to {rows}" in message
