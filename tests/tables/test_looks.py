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
        (["2026-01-01", None], "must not be missing; row 2 has none"),
        ([1.0, float("nan")], "must not be missing; row 2 has none"),
        (["2026-01-01T00:00Z", "2026-01-02"], "row 2 has '2026-01-02'. Write it in all of them"),
        (["2026-01-02", "2026-01-01"], "not in order: row 2 .2026-01-01. is before row 1"),
        ([2, 1], "not in order: row 2"),
        ([1], "one value for each of 2 rows, got 1"),
    ],
)
def test_bad_times_get_one_line(time, words):
    with pytest.raises(ValueError, match=words):
        read_looks(time, 2)


def test_long_numbers_stay_apart_and_one_time_zone_has_its_own_days():
    assert read_looks([20260105, 20260106], 2).names == ["20260105", "20260106"]
    local = ["2026-01-05T00:30:00+02:00", "2026-01-06T00:30:00+02:00"]
    assert read_looks(local, 2, "day").names == ["2026-01-05", "2026-01-06"]
    summer = ["2026-03-28T12:00:00+01:00", "2026-03-30T00:30:00+02:00"]
    assert read_looks(summer, 2, "day").names == ["2026-03-28", "2026-03-29"]  # in UTC
