from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import softset as ss
from softset.classifiers.model import Importance
from softset.comparison import importances
from softset.comparison.data import check_dataset
from softset.comparison.importances import order_warning


def rows(n=300):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"noise": random.normal(size=n), "age": random.normal(size=n)})
    return frame, (frame["age"] + random.normal(size=n) * 0.3 > 0.8).astype(int).to_numpy()


def test_a_comparison_says_what_drives_the_winner():
    X, y = rows()
    found = ss.compare(
        X, y, "f1", candidates=["linear-tuned", "linear-metric"], n_jobs=1, quick=True
    )
    assert [i.column for i in found.importances] == ["age", "noise"]
    assert found.importances[0].falls > 0.3
    assert "age (" in str(found)
    again = ss.Comparison.from_dict(found.to_dict())
    assert again.importances == found.importances


def test_importances_are_of_as_many_rows_and_columns_as_are_cheap(monkeypatch):
    X, y = rows()
    asked = []

    def noting(*data, most_rows, **given):
        asked.append(most_rows)
        return []

    def compare():
        ss.compare(X, y, candidates=["linear", "linear-tuned"], n_jobs=1, quick=True, cv=2)
        return asked[-1:]

    monkeypatch.setattr(importances, "permutation_importances", noting)
    assert compare() == [2000]
    monkeypatch.setattr(importances, "CELLS", 1400)
    assert compare() == [700]  # of two columns
    monkeypatch.setattr(importances, "ROWS", 300)
    assert compare() == [300]
    asked.clear()
    monkeypatch.setattr(importances, "COLUMNS", 1)
    assert compare() == []


def test_a_column_that_tells_the_label_and_few_rows_are_warned_of():
    X, _ = rows()
    y = np.repeat([0, 1], [288, 12])
    X["code"] = y * 3.0 + 1
    with pytest.warns(UserWarning, match="rows of class|alone gives") as caught:
        found = ss.compare(
            X, y, "f1", candidates=["linear-tuned", "linear-metric"], n_jobs=1, quick=True
        )
    said = [str(w.message) for w in caught]
    assert any(text.startswith("12 rows of class '1'") for text in said)
    assert any("column 'code' alone gives 1.000" in text for text in said)
    assert set(said) <= set(found.warnings)
    assert any(text.startswith("too good: every candidate") for text in found.warnings)


@pytest.mark.parametrize(
    ("column", "values", "why"),
    [
        ("row", np.arange(300) * 0.5, "rises or falls with the row number"),
        ("when", pd.date_range("2020-01-01", periods=300, freq="h"), "is a date"),
        ("age", None, ""),
    ],
)
def test_a_winner_driven_by_row_numbers_or_time_is_warned_of(column, values, why):
    X, y = rows()
    if values is not None:
        X[column] = values
    table = check_dataset(X, y, None, None, None, 5, "together")
    strong = [Importance(column, 0.2, 0.01), Importance("noise", 0.0, 0.01)]
    said = order_warning(table, strong, "F1")
    assert (why in said[0]) if why else said == []
    assert order_warning(table, [Importance(column, 0.01, 0.01)], "F1") == []
    assert order_warning(table, [], "F1") == []
