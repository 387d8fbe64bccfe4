"""Dates: what a calendar says, however they are written; a few bad cells are missing."""

import datetime

import numpy as np
import pandas as pd
import pytest

from softset.tables.encoder import TableEncoder, UnseenWarning, infer_schema

N = 60
DAYS = pd.date_range("2024-01-01", periods=N, freq="26h")


def test_dates_become_what_a_calendar_says():
    moment = datetime.datetime(2024, 2, 29, 13, 30)
    frame = pd.DataFrame({"t": [moment, datetime.datetime(1969, 12, 31, 23, 0)]})
    encoder = TableEncoder().fit(frame)
    rows = [dict(zip(encoder.names_, row, strict=True)) for row in encoder.transform(frame)]
    for row, t in zip(rows, frame["t"], strict=True):
        assert row["t year"] == t.year
        assert row["t month"] == t.month
        assert row["t day"] == t.day
        assert row["t day of week"] == t.weekday()
        assert row["t second of day"] == t.hour * 3600 + t.minute * 60
        assert row["t days"] * 86400 == (t - datetime.datetime(1970, 1, 1)).total_seconds()


def test_text_dates_equal_real_ones():
    days = pd.date_range("2024-01-01", periods=N, freq="26h")
    real = TableEncoder().fit_transform(pd.DataFrame({"t": days}))
    text = pd.DataFrame({"t": days.strftime("%Y-%m-%dT%H:%M:%SZ")})
    assert np.array_equal(TableEncoder().fit_transform(text), real)


def test_the_same_instant_is_the_same_in_every_time_zone():  # D24
    noon = pd.date_range("2024-07-01 12:00", periods=3, freq="5h", tz="UTC")
    encoder = TableEncoder().fit(pd.DataFrame({"t": noon}))
    utc = encoder.transform(pd.DataFrame({"t": noon}))
    rome = noon.tz_convert("Europe/Rome")
    for same in (rome, [str(t) for t in rome], [t.isoformat() for t in rome], list(rome)):
        assert np.array_equal(encoder.transform(pd.DataFrame({"t": same})), utc)


def test_a_date_with_a_time_is_read_alone_as_among_others():  # D20
    days = DAYS.strftime("%Y-%m-%d")
    for training in (days, DAYS):
        encoder = TableEncoder().fit(pd.DataFrame({"t": training}))
        timed = "2024-01-05 06:00"
        alone = encoder.transform(pd.DataFrame({"t": [timed]}))
        batch = encoder.transform(pd.DataFrame({"t": [*days[:20], timed]}))
        assert np.array_equal(alone[0], batch[-1])
        assert alone[0, 0] == 19727.25


def test_a_few_bad_cells_are_missing_and_said():  # 2
    values = [*DAYS.strftime("%d.%m.%Y")[:57], "31.2.2024", "unknown", "?"]
    with pytest.warns(
        UserWarning, match=r"2 of 60 cells are no dates as %d.%m.%Y .*'31.2.2024' in"
    ):
        (found,) = infer_schema(pd.DataFrame({"t": values}))
    assert (found.kind, found.missing, found.format) == ("date", 3, "%d.%m.%Y")
    assert set(found.words) == {"31.2.2024", "unknown"}
    with pytest.warns(UserWarning, match="2 of 60"):
        encoder = TableEncoder().fit(pd.DataFrame({"t": values}))
    found = encoder.transform(pd.DataFrame({"t": ["unknown", "2.1.2024"]}))
    assert found[:, encoder.names_.index("t (missing)")].tolist() == [1, 0]
    assert found[1, encoder.names_.index("t day")] == 2


def test_new_words_at_prediction_are_warned_about():
    encoder = TableEncoder().fit(pd.DataFrame({"t": DAYS.strftime("%Y-%m-%d")}))
    new = pd.DataFrame({"t": [*DAYS.strftime("%Y-%m-%d")[:20], "soon"]})
    with pytest.warns(UnseenWarning, match=r"1 value.* never seen in training.*'soon' in row 21"):
        encoder.transform(new)


def test_of_two_orders_that_fit_nearly_all_the_better_is_taken():
    many = [f"{1 + i % 12}/{1 + i % 9}/2024" for i in range(100)]
    with pytest.warns(UserWarning, match="month/day/year"):
        assert infer_schema(pd.DataFrame({"t": many}))[0].missing == 0
    with pytest.warns(UserWarning, match="day/month/year"):
        assert infer_schema(pd.DataFrame({"t": [*many, "25/12/2024"]}))[0].missing == 0


def test_real_dates_in_training_may_be_written_in_a_file_later():
    encoder = TableEncoder().fit(pd.DataFrame({"t": DAYS}))
    real = encoder.transform(pd.DataFrame({"t": DAYS}))
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M"):
        assert np.array_equal(encoder.transform(pd.DataFrame({"t": DAYS.strftime(form)})), real)


def test_constant_dates_are_dropped_however_they_are_written():
    for value in ("2024-01-31", datetime.date(2024, 1, 31), pd.Timestamp("2024-01-31")):
        with pytest.warns(UserWarning, match="constant"):
            assert infer_schema(pd.DataFrame({"t": [value] * 30}))[0].kind == "dropped"
