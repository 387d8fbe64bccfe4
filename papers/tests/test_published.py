"""Two passes over the papers agree: values typed into the tables, and values read from the text.

``second_pass.json`` was read by position from the text of the papers, without looking at the
tables here. A disagreement is settled by looking at the paper again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softset_papers.specification import Table, Value, all_tables

SECOND = json.loads((Path(__file__).parent / "second_pass.json").read_text(encoding="utf-8"))
IMAGES = ("images", "graphs")  # see test_published_images.py
TABLES = {n: t for n, t in all_tables().items() if t.published and t.kind not in IMAGES}
# Values of these sets are in the tables of images.
LATER = ("CIFAR-10", "Caltech256")
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
    return ROWS[row], f"{block} / {METRICS[metric]}"


def first_pass(table: Table) -> dict[tuple[str, str], Value]:
    return {
        place(table, block, row, metric): value
        for block, rows in table.published.items()
        for row, values in rows.items()
        for metric, value in values.items()
    }


def second_pass(name: str) -> dict[tuple[str, str], Value]:
    return {
        (r["row"], r["column"]): Value(r["mean"], r["std"])
        for r in SECOND[name]["rows"]
        if not r["column"].startswith(LATER)
    }


@pytest.mark.parametrize("name", TABLES)
def test_both_passes_agree(name):
    first, second = first_pass(TABLES[name]), second_pass(name)
    assert {k: (first.get(k), v) for k, v in second.items() if first.get(k) != v} == {}
    assert set(first) == set(second)


def test_every_table_of_the_second_pass_is_here_or_on_images():
    images = {n for n, t in all_tables().items() if t.kind in IMAGES}
    split = {"002-table-4"}  # in two: dog and frog
    assert set(SECOND) - set(TABLES) - images == split


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
