"""What each column is: the right kind, from the whole table, and what looks wrong is said."""

import datetime
import decimal
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from softset.tables.columns import Cells, as_text
from softset.tables.encoder import TableEncoder, UnseenWarning, infer_schema

N = 60


def kinds(**columns):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        schema = infer_schema(pd.DataFrame(columns))
    return {c.name: c.kind for c in schema}


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
    (0, range(N), "is a row number; it is left out"),
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
    with pytest.raises(ValueError, match=r"'a' has 2 infinite value\(s\) .*, the first in row 2"):
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


class Name(str):
    """A name that counts how often it is compared with others."""

    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    def __str__(self):
        return self


def comparisons(width):
    frame = pd.DataFrame(np.random.default_rng(0).random((5, width)))
    frame.columns = pd.Index([Name(f"column number {i}") for i in range(width)], dtype=object)
    Name.compared = 0
    schema = infer_schema(frame)
    TableEncoder(schema).fit(frame).transform(frame)
    return Name.compared


def test_names_are_looked_up_in_no_list():  # 12: n^2 / 2 comparisons with n names
    comparisons(10)
    narrow, wide = comparisons(100), comparisons(1000)
    assert wide < 20 * (narrow + 100)


def calls(width):
    """Calls of functions, C's included, while a wide table is looked at and encoded."""
    frame = pd.DataFrame(np.random.default_rng(0).random((5, width)))
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        TableEncoder(infer_schema(frame)).fit(frame).transform(frame)
    finally:
        sys.setprofile(None)
    return count


def test_the_work_grows_as_the_columns_do():  # 12
    calls(10)
    assert calls(2000) < 5 * calls(400) * 1.1


def test_warnings_are_grouped():  # C15
    frame = pd.DataFrame({f"same {i}": [i] * N for i in range(15)} | {"x": np.arange(N) ** 0.5})
    frame["a"] = [*map(str, range(5, 62)), "unknown", "?!", "n.k."]
    frame["b"] = [*map(str, range(7, 66)), "unknown"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = TableEncoder(infer_schema(frame)).fit(frame)
    said = [str(w.message) for w in caught]
    assert len(said) == 2
    assert said[0] == (
        "15 columns ('same 0', 'same 1', 'same 2', 'same 3', 'same 4' and 10 more), for example: "
        "column 'same 0' is constant; it is left out."
    )
    assert "column 'a': 3 of 60 cells are no numbers" in said[1]
    assert said[1].startswith("2 columns ('a', 'b'), for example: ")
    assert encoder.notes_[:2] == said
    assert len(encoder.notes_) == 3  # and what is filled with the median
    with pytest.warns(UnseenWarning) as unseen:
        encoder.transform(frame.assign(a="x", b="y"))
    assert len(unseen) == 1


def test_rows_are_numbered_as_in_the_file():  # D20
    encoder = TableEncoder().fit(pd.DataFrame({"a": np.arange(N) * 0.5}))
    frame = pd.DataFrame({"a": ["1"] * 19 + ["x"]}, index=range(1000, 1020))
    with pytest.warns(UnseenWarning, match="'x' in row 1020"):
        encoder.transform(frame)
    with pytest.warns(UnseenWarning, match="'x' in row 20"):
        encoder.transform(frame.set_axis([f"row {i}" for i in range(20)]))


# --- cells ----------------------------------------------------------------------------------------


CELLS = 4
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
