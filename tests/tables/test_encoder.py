"""Mixed columns: the right kind, statistics of training rows only, nothing lost in a file."""

import datetime
import decimal
import json
import warnings

import numpy as np
import pandas as pd
import pytest

from softset.tables.columns import infer_schema
from softset.tables.encoder import TableEncoder

N = 60


def kinds(**columns):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        schema = infer_schema(pd.DataFrame(columns))
    return {c["name"]: c["kind"] for c in schema}


# (values, kind)
KINDS = [
    (np.arange(N) ** 2, "number"),
    ([0.5, None] * 30, "number"),
    ([True, False] * 30, "number"),
    (pd.array([True, None, False] * 20, dtype="boolean"), "number"),
    (pd.array([1, None, 3] * 20, dtype="Int64"), "number"),
    ([decimal.Decimal("1.5"), None, decimal.Decimal("2")] * 20, "number"),
    (pd.to_timedelta(np.arange(N) ** 2, unit="s"), "number"),
    (["a", "b"] * 30, "category"),
    (["a", None] * 30, "category"),
    (pd.Categorical([1, 2] * 30), "category"),
    ([1, "a"] * 30, "category"),
    (["007", "012"] * 30, "category"),
    (pd.date_range("2024-01-01", periods=N), "date"),
    (pd.date_range("2024-01-01", periods=N, tz="Europe/Rome"), "date"),
    ([datetime.date(2024, 1, 1 + i % 28) for i in range(N)], "date"),
    (["2024-01-31", "2024-02-01"] * 30, "date"),
    (["2024-01-31T10:00:00Z", "NA"] * 30, "date"),
    (["31.1.2024", "1.2.2024"] * 30, "date"),
    (["1/31/2024", "2/1/2024"] * 30, "date"),
    (["2024-01-31", "2024-02-31"] * 30, "category"),  # there is no such day
    (["1-2", "3-4"] * 30, "category"),
    ([f"id{i}" for i in range(N)], "dropped"),
    (range(N), "dropped"),
    (["x"] * N, "dropped"),
    ([1.5] * N, "dropped"),
    ([None] * N, "dropped"),
]


@pytest.mark.parametrize(("values", "kind"), KINDS)
def test_kinds_of_columns(values, kind):
    assert kinds(a=values) == {"a": kind}


# (number, values, words of the warning)
WARNINGS = [
    (14, [f"{i % 30},5" for i in range(N)], "decimal commas, e.g. '0,5'"),
    (14, [f"1.{100 + i}.000,5" for i in range(N)], "decimal commas"),
    (15, [2**60 + i * i for i in range(N)], "integers above 2^53"),
    (16, [3] * N, "'a' is constant; it is left out"),
    (16, ["x"] * N, "'a' is constant; it is left out"),
    (0, [None] * N, "'a' has no values; it is left out"),
    (0, [f"id{i}" for i in range(N)], "different text in nearly every row; it is left out"),
    (0, range(N), "only counts the rows; it is left out"),
    (0, ["3/4/2021", "25/12/2020"] * 30, "day/month/year"),
]


@pytest.mark.parametrize(("number", "values", "words"), WARNINGS)
def test_what_looks_wrong_is_said_once_and_noted(number, values, words):
    frame = pd.DataFrame({"a": values, "b": [1.5, 2.0] * 30})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        schema = infer_schema(frame)
        encoder = TableEncoder(schema).fit(frame)
        encoder.transform(frame)
    assert [words in str(w.message) for w in caught] == [True]
    assert any(words in note for note in encoder.notes_)


def test_infinite_nested_and_repeated_columns_are_refused():
    with pytest.raises(ValueError, match=r"'a' has 2 infinite value\(s\), the first in row 2"):
        infer_schema(pd.DataFrame({"a": [1, np.inf, -np.inf]}))
    with pytest.raises(ValueError, match=r"'a' holds a list in each cell \(nested"):
        infer_schema(pd.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(ValueError, match="'a' more than once"):
        infer_schema(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="0 rows"):
        infer_schema(pd.DataFrame({"a": []}))
    with pytest.raises(ValueError, match="complex"):
        infer_schema(pd.DataFrame({"a": [1j]}))
    with pytest.warns(UserWarning, match="constant"), pytest.raises(ValueError, match="no column"):
        TableEncoder().fit(pd.DataFrame({"a": [1, 1]}))


def mixed(n=300, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": np.where(random.random(n) < 0.1, np.nan, random.normal(size=n)),
            "city": random.choice(["Rome", "Oslo", "Bonn", None], n, p=[0.5, 0.3, 0.1, 0.1]),
            "day": pd.date_range("2024-01-01", periods=n, freq="7h").strftime("%Y-%m-%d %H:%M"),
            "flag": random.random(n) < 0.5,
        }
    )


def test_missing_numbers_become_the_median_and_are_marked():  # 13
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan, 9.0]})
    encoder = TableEncoder().fit(frame)
    assert encoder.transform(frame).tolist() == [[1, 0], [2, 0], [2, 1], [9, 0]]
    assert "1 missing value(s) are filled with the median, and marked" in encoder.notes_[0]
    with pytest.warns(UserWarning, match="had none in training"):
        found = TableEncoder().fit(frame[:2]).transform(frame[2:3])
    assert found.tolist() == [[1.5]]


def test_rare_values_share_an_output_and_unknown_ones_have_none():
    frame = pd.DataFrame({"c": ["a"] * 50 + ["b"] * 40 + ["x", "y", "z"]})
    encoder = TableEncoder().fit(frame)
    assert encoder.names_ == ["c=a", "c=b", "c (other)"]
    new = pd.DataFrame({"c": ["a", "y", "never seen", None]})
    assert encoder.transform(new).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    many = pd.DataFrame({"c": [f"v{i % 80:02}" for i in range(8000)]})
    assert TableEncoder().fit(many).columns_[0]["outputs"] == 51


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


def test_a_time_zone_keeps_its_clock():
    noon = pd.date_range("2024-07-01 12:00", periods=3, tz="Asia/Tokyo")
    encoder = TableEncoder().fit(pd.DataFrame({"t": noon}))
    found = encoder.transform(pd.DataFrame({"t": noon}))
    assert set(found[:, encoder.names_.index("t second of day")]) == {12 * 3600}


def test_statistics_come_from_the_rows_of_fit_alone():
    frame = mixed()
    schema = infer_schema(frame)
    other = frame.copy()
    other.loc[200:, "number"] = 1e6
    other.loc[200:, "city"] = "Lima"
    a, b = (TableEncoder(schema).fit(f[:200]).state() for f in (frame, other))
    assert a == b


def test_the_state_survives_json_and_the_order_of_columns_does_not_matter():
    frame = mixed()
    encoder = TableEncoder().fit(frame)
    x = encoder.transform(frame)
    assert np.isfinite(x).all()
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert np.array_equal(again.transform(frame[["day", "flag", "city", "number"]]), x)
    assert (again.names_, again.columns_, again.notes_) == (
        encoder.names_,
        encoder.columns_,
        encoder.notes_,
    )
    assert sum(c["outputs"] for c in encoder.columns_) == x.shape[1] == len(encoder.names_)


def test_the_order_of_rows_does_not_matter():
    frame = mixed()
    assert TableEncoder().fit(frame).state() == TableEncoder().fit(frame[::-1]).state()


def test_what_the_file_says_now_must_fit_what_it_said_in_training():
    frame = mixed()
    encoder = TableEncoder().fit(frame)
    with pytest.raises(ValueError, match=r"'number' must hold a number .* 1 value.* 'x' in row 1"):
        encoder.transform(frame[:1].assign(number="x"))
    with pytest.raises(ValueError, match=r"'day' must hold a date as %Y-%m-%d %H:%M"):
        encoder.transform(frame[:1].assign(day="yesterday"))
    with pytest.raises(ValueError, match="'day' must hold a date"):
        encoder.transform(frame[:1].assign(day=3))
    with pytest.raises(ValueError, match="1 infinite"):
        encoder.transform(frame[:1].assign(number=np.inf))
    with pytest.raises(ValueError, match="pandas DataFrame"):
        encoder.transform(np.zeros((2, 4)))
    found = encoder.transform(frame[:1].assign(number="2.5", city=7))
    assert found[0, 0] == 2.5
    for word in ("True", "false", "1"):
        flag = encoder.transform(frame[:1].assign(flag=word))[0, encoder.names_.index("flag")]
        assert flag == (word != "false")


def test_categories_of_numbers_meet_the_same_numbers_as_text():
    frame = pd.DataFrame({"c": pd.Categorical([1, 2] * 30)})
    encoder = TableEncoder().fit(frame)
    assert encoder.transform(pd.DataFrame({"c": ["2"]})).tolist() == [[0, 1]]
    assert encoder.transform(pd.DataFrame({"c": [2.0]})).tolist() == [[0, 1]]


def test_adult_is_encoded(shared_data):
    frame = pd.read_parquet(shared_data / "adult.parquet").drop(columns=["income", "split"])
    encoder = TableEncoder().fit(frame)
    x = encoder.transform(frame)
    assert x.shape == (48842, 107)
    assert "workclass=?" in encoder.names_  # what marks a missing value there is a category
    assert x[:, encoder.names_.index("age")].tolist() == frame["age"].tolist()
