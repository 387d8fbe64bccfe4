"""Cells, whatever the data frame stores them as."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from softset.tables.kinds.cells import Cells, as_text

N = 4
STORED = [
    ([1, 2, 3, 4], "number"),
    ([1.5, None, 2.0, np.nan], "number"),
    ([True, False] * 2, "number"),
    (pd.array([1, None, 3, 4], dtype="Int64"), "number"),
    ([decimal.Decimal("1.5"), None, 1, True], "number"),
    (pd.to_timedelta([1, 2, 3, None], unit="s"), "number"),
    (["a", None, "b", "1"], "text"),
    ([1, "a", None, 2.5], "text"),
    (pd.Categorical(["1", "2"] * 2), "category"),
    (pd.to_datetime(["2024-01-01", None] * 2), "date"),
    ([datetime.date(2024, 1, 1), None] * 2, "date"),
    ([np.datetime64("2024-01-01"), None] * 2, "date"),
]


@pytest.mark.parametrize(("values", "stored"), STORED)
def test_how_cells_are_stored(values, stored):
    series = pd.Series(values)
    cells = Cells.of("a", series)
    assert cells.stored == stored
    assert cells.missing.tolist() == series.isna().tolist()
    assert cells.values.dtype.kind == {"number": "f", "date": "M"}.get(stored, "O")


def test_distinct_words_are_counted_and_numbered():
    cells = Cells.of("a", pd.Series(["x", None, "y", "x"]))
    words, counts, codes = cells.distinct
    assert (words, counts.tolist(), codes.tolist()) == (["x", "y"], [2, 1], [0, -1, 1, 0])


def test_a_sample_names_the_first_cells_and_counts_the_rest():
    cells = Cells.of("a", pd.Series(["x", "y" * 99, "z", "u", "v"]))
    assert cells.sample(np.array([0, 0, 1, 0, 0], dtype=bool)) == "'z' in row 3"
    shown = cells.sample(np.ones(5, dtype=bool))
    assert shown.startswith("'x' in row 1, 'yyy")
    assert shown.endswith("…' in row 2, 'z' in row 3 and 2 more")


def test_the_same_number_is_the_same_text_however_it_is_stored():
    for values in ([1, 2], [1.0, 2.0], np.array([1, 2], dtype=np.float32), ["1", "2"]):
        assert as_text(pd.Series(values)).tolist() == ["1", "2"]
    assert as_text(pd.Series([np.float32(0.1), "x"])).tolist() == [
        repr(float(np.float32(0.1))),
        "x",
    ]
