from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from softset.comparison import leakage
from softset.comparison.data import check_dataset
from softset.metrics.registry import get_metric

F1 = get_metric("f1")


def table(frame, y, folds=5):
    return check_dataset(frame, y, None, None, None, folds, "together")


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"age": random.normal(size=800), "city": random.choice([*"abc"], 800)})
    return frame, np.where(random.random(800) < 0.1, "yes", "no")


def test_a_column_made_from_the_label_is_named(rows):
    frame, y = rows
    frame["refund_code"] = np.where(y == "yes", "R", "-")
    (said,) = leakage.leaking_columns(table(frame, y), F1, "F1")
    assert said.startswith("too good: column 'refund_code' alone gives 1.000 of F1")


@pytest.mark.parametrize("metric", ["f1", "accuracy", "mcc", "balanced_accuracy"])
def test_honest_columns_are_not_named(rows, metric):
    frame, y = rows
    frame["helps"] = (y == "yes") + np.random.default_rng(1).normal(size=800)
    assert leakage.leaking_columns(table(frame, y), get_metric(metric), metric) == []


def test_a_number_that_is_the_class_is_named_in_an_array_too():
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 400)
    x = np.column_stack([random.normal(size=400), y * 2.0, random.normal(size=400)])
    (said,) = leakage.leaking_columns(table(x, y), F1, "F1")
    assert "column 1 alone" in said


def test_of_very_many_columns_the_telling_one_is_still_found(monkeypatch):
    monkeypatch.setattr(leakage, "COLUMNS", 5)
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 200)
    x = random.normal(size=(200, 50))
    x[:, 33] = y + random.normal(size=200) * 0.01
    (said,) = leakage.leaking_columns(table(x, y), F1, "F1")
    assert "column 33 alone" in said


def test_few_rows_of_a_class_are_said(rows):
    frame, _ = rows
    y = np.repeat(["no", "yes"], [792, 8])
    (said,) = leakage.few_rows(table(frame, y), 5)
    assert said.startswith("8 rows of class 'yes', about 2 in each test fold")
    assert leakage.few_rows(table(frame, np.repeat(["no", "yes"], [700, 100])), 5) == []


def test_perfect_scores_everywhere_are_said():
    assert leakage.too_good([1.0, 1.0])[0].startswith("too good: every candidate scores 1.000")
    assert leakage.too_good([1.0, 0.99]) == []
