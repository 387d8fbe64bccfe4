"""Categories: numbers by value, unknown values said, and why a column was no number."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softset.tables.encoder import TableEncoder, UnseenWarning, infer_schema
from softset.tables.kinds.category import value_key

WORDS = ["Rome", "Oslo", "50", "7.25", "007"] * 20


def test_numbers_are_matched_by_value_not_by_text():  # 2
    encoder = TableEncoder().fit(pd.DataFrame({"c": WORDS}))
    for same in ("50", "50.0", "+50", "5e1", " 50", 50, 50.0, np.float32(50)):
        found = encoder.transform(pd.DataFrame({"c": pd.Series([same], dtype=object)}))
        assert dict(zip(encoder.names_, found[0], strict=True))["c=50"] == 1, same
    with pytest.warns(UnseenWarning, match="'7' in row 1"):  # 007 is a name
        assert not encoder.transform(pd.DataFrame({"c": ["7"]})).any()


def test_equal_numbers_are_one_category_in_training():
    frame = pd.DataFrame({"c": ["50", "50.0", "x", "y"] * 20})
    encoder = TableEncoder().fit(frame)
    assert encoder.names_ == ["c=50", "c=x", "c=y"]
    assert encoder.columns_[0].values == 3
    assert encoder.transform(frame)[:, 0].sum() == 40


def test_an_old_encoder_that_tells_the_texts_apart_goes_on_doing_so():
    encoder = TableEncoder().fit(pd.DataFrame({"c": ["a", "b"] * 20}))
    state = encoder.state()
    state["columns"][0].update(kept=["50", "50.0"], outputs=["c=50", "c=50.0"])
    old = TableEncoder.from_state(state)
    frame = pd.DataFrame({"c": ["50.0", "50", "5e1"]})
    assert old.transform(frame).tolist() == [[0, 1], [1, 0], [1, 0]]


def test_truth_is_matched_however_it_is_written():
    encoder = TableEncoder().fit(pd.DataFrame({"c": ["true", "false", "maybe"] * 20}))
    found = encoder.transform(pd.DataFrame({"c": [True, False]}))
    assert found.tolist() == encoder.transform(pd.DataFrame({"c": ["TRUE", "False"]})).tolist()
    assert found.sum(0).tolist() == [1, 0, 1]


def test_words_for_missing_are_missing_unless_training_had_them():
    with_words = TableEncoder().fit(pd.DataFrame({"c": ["a", "b", "NA"] * 20}))
    assert with_words.transform(pd.DataFrame({"c": ["NA"]})).tolist() == [[1, 0, 0]]  # by name
    without = TableEncoder().fit(pd.DataFrame({"c": ["a", "b", None] * 20}))
    assert without.transform(pd.DataFrame({"c": ["NA", "?", None]}))[:, -1].tolist() == [1, 1, 1]


@given(st.text() | st.floats(allow_nan=False).map(str) | st.integers().map(str))
def test_a_key_is_its_own_key_and_keeps_the_value(word):
    key = value_key(word)
    assert value_key(key) == key
    try:
        same = float(word) == float(key) or np.isnan(float(word))
    except ValueError:
        same = key == word or key == word.strip().lower()
    assert same


def test_what_keeps_a_dropped_column_from_being_numbers_is_said():  # 2
    values = [f"{i}.5" if i % 3 else f"\u2212{i}.5" for i in range(60)]
    with pytest.warns(
        UserWarning, match=r"different text in nearly every row \(40 of them are"
    ) as w:
        (found,) = infer_schema(pd.DataFrame({"c": values}))
    assert found.kind == "dropped"
    assert "'\u22120.5' in row 1, " in str(w[0].message)


@pytest.mark.parametrize("digits", [16, 19, 22])
def test_long_codes_keep_their_digits(digits):  # D24
    first = 95 * 10 ** (digits - 2)
    codes = [first + 2, first + 3, first + 4] * 20
    text = pd.Series([str(c) for c in codes], dtype=object)
    frames = [pd.DataFrame({"c": text})]
    if digits == 16:
        frames.append(pd.DataFrame({"c": codes}))
    if digits == 16:
        frames.append(pd.DataFrame({"c": pd.array([*codes, None], dtype="Int64")}))
    for frame in frames:
        with (
            pytest.warns(UserWarning, match="above 2\\^53")
            if frame["c"].dtype != object
            else (contextlib.nullcontext())
        ):
            encoder = TableEncoder(infer_schema(frame)).fit(frame)
        assert encoder.names_[:3] == [f"c={c}" for c in codes[:3]]
        found = encoder.transform(pd.DataFrame({"c": [str(first + 3)] * 2}))
        assert found[0, :3].tolist() == [0, 1, 0]


def test_times_in_nanoseconds_are_numbers():
    times = 1_700_000_000_000_000_000 + np.random.default_rng(0).permutation(100) * 10**9
    with pytest.warns(UserWarning, match="above 2"):
        (found,) = infer_schema(pd.DataFrame({"t": times}))
    assert found.kind == "number"


def test_free_text_is_named_with_a_way_to_use_it():  # A5
    frame = pd.DataFrame({"review": [f"it was fine on day number {i}" for i in range(60)]})
    with pytest.warns(UserWarning, match="'review' is free text.*TfidfVectorizer"):
        schema = infer_schema(frame)
    with pytest.raises(ValueError, match=r"no column is left.*'review' is free text.*Tfidf"):
        TableEncoder(schema).fit(frame)


def test_an_unknown_unit_is_named():  # A5
    frame = pd.DataFrame({"size": [f"{i % 70} pcs" for i in range(280)]})
    with pytest.warns(UserWarning, match="'size' is a category of 70 values .* with 'pcs'"):
        (found,) = infer_schema(frame)
    assert found.kind == "category"
