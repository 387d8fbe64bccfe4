"""Published values of the tables on images and graphs: two passes over the papers agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softset_papers.specification import Table, Value, all_tables

SECOND = json.loads((Path(__file__).parent / "second_pass.json").read_text(encoding="utf-8"))
TABLES = {n: t for n, t in all_tables().items() if t.published and t.kind in ("images", "graphs")}
ROWS = {
    "f1": "F1*",
    "accuracy": "Accuracy*",
    "mcc": "MCC*",
    "bce": "BCE",
    "ce": "CE",
    "dice": "Dice",
    "dice-sigmoid": "Dice sigmoid",
    "rf": "RF",
    "ccs": "CCS",
}
METRICS = {
    "f1": "F1",
    "accuracy": "Accuracy",
    "mcc": "MCC",
    "precision dog": "Precision (Dog)",
    "recall dog": "Recall (Dog)",
    "precision frog": "Precision (Frog)",
    "recall frog": "Recall (Frog)",
}


def place(table: Table, block: str, row: str, metric: str) -> tuple[str, str]:
    """Row and column of a value in the second pass."""
    column = METRICS[metric]
    if table.id[:3] in ("002", "003") and metric == "f1" and table.id != "002-table-1-images":
        column = "Macro F1"
        if table.id.startswith("002-table-4"):
            column += f" (tuned for {table.id.rpartition('-')[2].title()})"
    if row in ROWS:
        name = "Dice logit" if table.id == "000-table-12" and row == "dice" else ROWS[row]
    elif table.id == "002-table-6":
        name = f"beta {float(row.rpartition('-')[2])}"
    elif table.id == "002-table-7":
        name = "F-beta 2.5*"
    else:
        name = "F-beta precision*" if row.endswith("-0.25") else "F-beta recall*"
    return name, f"{block} / {column}"


def second_pass(name: str) -> dict[tuple[str, str], Value]:
    """All values of a table, or of the part of it that a table of ours holds."""
    whole = SECOND[name.removesuffix("-images").removesuffix("-dog").removesuffix("-frog")]["rows"]
    found = {(r["row"], r["column"]): Value(r["mean"], r["std"]) for r in whole}
    if name == "002-table-1-images":
        return {k: v for k, v in found.items() if k[1].startswith(("CIFAR", "Caltech"))}
    if name.startswith("002-table-4"):
        which = name.rpartition("-")[2].title()
        return {k: v for k, v in found.items() if k[1].endswith(f"{which})")}
    return found


@pytest.mark.parametrize("name", TABLES)
def test_both_passes_agree(name):
    table = TABLES[name]
    first = {
        place(table, block, row, metric): value
        for block, rows in table.published.items()
        for row, values in rows.items()
        for metric, value in values.items()
    }
    second = second_pass(name)
    assert {k: (first.get(k), v) for k, v in second.items() if first.get(k) != v} == {}
    assert set(first) == set(second)
