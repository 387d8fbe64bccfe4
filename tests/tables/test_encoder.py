"""Mixed columns to numbers: statistics of training rows only, nothing lost in a file."""

import copy
import json
import warnings

import numpy as np
import pandas as pd
import pytest

from softset.tables.encoder import TableEncoder, UnseenWarning, infer_schema

N = 60


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
    with pytest.warns(UnseenWarning) as said:
        found = encoder.transform(new)
    assert found.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert [str(w.message) for w in said] == [
        "column 'c': 1 value(s) were never seen in training and count as no category: 'never seen' "
        "in row 3.",
        "column 'c' has 1 missing value(s), and had none in training; they are no category that "
        "the model knows.",
    ]
    many = pd.DataFrame({"c": [f"v{i % 80:02}" for i in range(8000)]})
    assert TableEncoder().fit(many).columns_[0].outputs == 51


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
    assert sum(c.outputs for c in encoder.columns_) == x.shape[1] == len(encoder.names_)


def test_the_order_of_rows_does_not_matter():
    frame = mixed()
    assert TableEncoder().fit(frame).state() == TableEncoder().fit(frame[::-1]).state()


def test_what_the_file_says_now_must_fit_what_it_said_in_training():
    frame = mixed()
    encoder = TableEncoder().fit(frame)
    with pytest.warns(UnseenWarning, match=r"'number': 1 value.* a number is .* 'x' in row 1"):
        encoder.transform(frame[:1].assign(number="x"))
    with pytest.warns(UnseenWarning, match=r"'day': .* since a date as %Y-%m-%d is expected"):
        encoder.transform(frame[:1].assign(day="yesterday"))
    with pytest.warns(UnseenWarning, match="'day': .* since a date is expected: 3 in row 1"):
        encoder.transform(frame[:1].assign(day=3))
    with pytest.raises(ValueError, match="1 infinite"):
        encoder.transform(frame[:1].assign(number=np.inf))
    with pytest.raises(ValueError, match="pandas DataFrame"):
        encoder.transform(np.zeros((2, 4)))
    with pytest.warns(UnseenWarning, match="'city': 1 value.* never seen in training.* 7 in row 1"):
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


# --- files ----------------------------------------------------------------------------------------


def everything():
    """A fitted encoder with a column of every kind, one of them dropped, as plain data."""
    frame = mixed().assign(same=1, words=["unknown", *map(str, range(1, 300))])
    with pytest.warns(UserWarning, match=r"constant|no numbers"):
        encoder = TableEncoder().fit(frame)
    return encoder.state(), frame


WRONG = [
    None,
    [],
    {},
    {"columns": None},
    {"columns": [1]},
    {"columns": [{}]},
    {"columns": [{"kind": "number"}]},
    {"columns": [{"kind": ["number"]}]},
    {"columns": []},
]


@pytest.mark.parametrize("state", WRONG)
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(ValueError, match=r"saved|column|encoder must be an object"):
        TableEncoder.from_state(state)


VALUES = [
    None,
    True,
    -1,
    0,
    2**70,
    10**5000,
    1.5,
    float("inf"),
    float("nan"),
    "x",
    "",
    "%H%H",
    b"x",
]
VALUES += [[], [1], ["a", "a"], {}, {"days": "x"}, {1: 2}, (), "number", "dropped", object()]


def test_a_hostile_state_is_refused_or_harmless():
    """Every entry in turn becomes something else: an error of ours, or an encoder that works."""
    state, frame = everything()
    assert len(TableEncoder.from_state(copy.deepcopy(state)).names_) > 10
    refused = loaded = 0
    for i, column in enumerate(state["columns"]):
        for key in [*column, "new entry"]:
            for value in [*VALUES, ...]:
                hostile = copy.deepcopy(state)
                if value is ...:
                    hostile["columns"][i].pop(key, None)
                else:
                    hostile["columns"][i][key] = value
                try:
                    encoder = TableEncoder.from_state(hostile)
                except ValueError:
                    refused += 1
                    continue
                loaded += 1
                if column["name"] == encoder.columns_[i].name:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UnseenWarning)
                        assert np.isfinite(encoder.transform(frame)).all()
    assert refused > 1000
    assert loaded > 50  # another note, say


def test_a_column_that_is_saved_twice_is_refused():
    state, _ = everything()
    with pytest.raises(ValueError, match=r"names column.s. 'number' twice"):
        TableEncoder.from_state({"columns": [*state["columns"], state["columns"][0]]})
