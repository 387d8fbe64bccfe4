"""Two passes over the papers agree: values in the TOML files, and values read from the text.

``second_pass.json`` was read by position from the text of the papers, without looking at the
tables here. A disagreement is settled by looking at the paper again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softset_papers.specification import Table, Value
from softset_papers.tables import all_tables

SECOND = json.loads((Path(__file__).parent / "second_pass.json").read_text(encoding="utf-8"))
TABLES = {n: t for n, t in all_tables().items() if t.published}
ROWS = {
    "f1": "F1*",
    "f2": "F2*",
    "f3": "F3*",
    "accuracy": "Accuracy*",
    "auroc": "AUROC*",
    "mcc": "MCC*",
    "adversarial": "F1 adversarial",
    "wmw": "AUROC WMW",
    "bce": "BCE",
    "ce": "CE",
    "dice": "Dice",
    "dice-sigmoid": "Dice sigmoid",
    "rf": "RF",
    "ccs": "CCS",
    "svm-error": "SVM-perf error",
    "svm-f1": "SVM-perf F1",
    "svm-roc": "SVM-perf ROC",
    "f1-linear": "F1 linear*",
    "f1-sigmoid": "F1 sigmoid*",
    "accuracy-linear": "Accuracy linear*",
    "accuracy-sigmoid": "Accuracy sigmoid*",
}
METRICS = {
    "f1": "F1",
    "f1 macro": "F1",
    "f2": "F2",
    "f3": "F3",
    "accuracy": "Accuracy",
    "auroc": "AUROC",
    "mcc": "MCC",
    "precision": "Precision",
    "recall": "Recall",
    "precision dog": "Precision (Dog)",
    "recall dog": "Recall (Dog)",
    "precision frog": "Precision (Frog)",
    "recall frog": "Recall (Frog)",
}
STATED = {
    "negative": "negative weight",
    "positive": "positive weight",
    "total": "total",
    "positives": "positive",
    "share": "positive share",
    "train total": "oversampled total",
    "train positives": "oversampled positive",
    "train share": "oversampled share",
}


def place(table: Table, block: str, row: str, metric: str) -> tuple[str, str]:
    """Row and column of a value in the second pass."""
    if table.kind in ("weights", "counts"):
        return block, STATED[metric]
    if table.kind == "runtime":
        return ROWS[row], "median minutes"
    if table.id == "000-table-5":
        row, _, size = row.rpartition("-")
        return ROWS[row], f"{block} / {METRICS[metric]} / batch {size}"
    if table.kind == "images":
        return _image_row(table, row), f"{block} / {_image_column(table, metric)}"
    return ROWS[row], f"{block} / {METRICS[metric]}"


def _image_column(table: Table, metric: str) -> str:
    if table.id[:3] in ("002", "003") and metric == "f1" and table.id != "002-table-1-images":
        tuned = table.id.rpartition("-")[2].title()
        return "Macro F1" + (f" (tuned for {tuned})" if "table-4" in table.id else "")
    return METRICS[metric]


def _image_row(table: Table, row: str) -> str:
    if row in ROWS:
        return "Dice logit" if table.id == "000-table-12" and row == "dice" else ROWS[row]
    if table.id == "002-table-6":
        return f"beta {float(row.rpartition('-')[2])}"
    if table.id == "002-table-7":
        return "F-beta 2.5*"
    return "F-beta precision*" if row.endswith("-0.25") else "F-beta recall*"


def first_pass(table: Table) -> dict[tuple[str, str], Value]:
    return {
        place(table, block, row, metric): value._replace(printed="")
        for block, rows in table.published.items()
        for row, values in rows.items()
        for metric, value in values.items()
    }


def second_pass(name: str) -> dict[tuple[str, str], Value]:
    """All values of a table, or of the part of it that a table of ours holds."""
    whole = SECOND[name.removesuffix("-images").removesuffix("-dog").removesuffix("-frog")]["rows"]
    found = {(r["row"], r["column"]): Value(r["mean"], r["std"]) for r in whole}
    if name.startswith("002-table-1"):
        images = name.endswith("images")
        return {k: v for k, v in found.items() if k[1].startswith(("CIFAR", "Caltech")) is images}
    if name.startswith("002-table-4"):
        which = name.rpartition("-")[2].title()
        return {k: v for k, v in found.items() if k[1].endswith(f"{which})")}
    return found


@pytest.mark.parametrize("name", TABLES)
def test_both_passes_agree(name):
    first, second = first_pass(TABLES[name]), second_pass(name)
    assert {k: (first.get(k), v) for k, v in second.items() if first.get(k) != v} == {}
    assert set(first) == set(second)


def test_every_table_of_the_second_pass_is_here():
    split = {"002-table-4"}  # in two: dog and frog
    assert set(SECOND) - set(TABLES) == split


def test_there_are_813_published_values():
    assert sum(len(first_pass(t)) for t in TABLES.values() if t.kind != "runtime") + 8 == 813


@pytest.mark.parametrize("name", SECOND)
def test_the_number_is_what_was_printed(name):
    for r in SECOND[name]["rows"]:
        mean, _, std = r["text"].rstrip("%").partition(" ± ")
        assert float(mean) == r["mean"]
        assert (float(std) if std else None) == r["std"]


def test_001_prints_the_values_of_000_again():
    pairs = {
        "001-table-1": "000-table-1",
        "001-table-2": "000-table-2",
        "001-table-4": "000-table-3",
    }
    for new, old in pairs.items():
        assert second_pass(new) == second_pass(old)
