"""Rows in looks, by dates or numbers."""

import numpy as np
import pandas as pd
import pytest

from softset.tables.looks import read_looks


def test_dates_in_any_form_and_numbers():
    dates = pd.date_range("2026-01-01", periods=90)
    for given in (dates, dates.strftime("%Y-%m-%d"), dates.to_numpy()):
        looks = read_looks(given, 90, "month")
        assert looks.names == ["2026-01", "2026-02", "2026-03"]
        assert np.bincount(looks.number).tolist() == [31, 28, 31]
    assert read_looks(dates, 90).names[0] == "2026-W01"  # by the span
    assert read_looks(["3", "3", "7.5"], 3).names == ["3", "7.5"]


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (["2026-01-01", "soon"], "row 2 has 'soon'"),
        (["2026-01-01", None], "row 2 has (None|nan)"),
        (["2026-01-02", "2026-01-01"], "not in order: row 2 .2026-01-01. is before row 1"),
        ([2, 1], "not in order: row 2"),
        ([1], "one value for each of 2 rows, got 1"),
    ],
)
def test_bad_times_get_one_line(time, words):
    with pytest.raises(ValueError, match=words):
        read_looks(time, 2)
