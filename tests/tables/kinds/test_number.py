"""Numbers, also where some cells are words: number and missing, said; never other predictions."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest

from softset.tables.encoder import TableEncoder, UnseenWarning, infer_schema
from softset.tables.files import read_table
from softset.tables.kinds.number import is_identifier
from softset.tables.numerals import read_numbers

N = 200


def column(values, name="a"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        (found,) = infer_schema(pd.DataFrame({name: values}))
    return found


def texts(*bad, n=N):
    """Numbers as text, the last of them replaced."""
    values = [f"{v:.3f}" for v in np.random.default_rng(0).normal(size=n)]
    return [*values[: n - len(bad)], *bad]


# --- number + missing (2) -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", ["1,000", "0x1F", "\u22125", "1_000", "unknown", "1.2.3", "٣", "12%"]
)
def test_one_bad_cell_does_not_cost_the_column(bad):
    with pytest.warns(UserWarning, match="no numbers") as said:
        (found,) = infer_schema(pd.DataFrame({"a": texts(bad)}))
    assert (found.kind, found.missing, found.words) == ("number", 1, (bad,))
    assert [str(w.message) for w in said] == [
        f"column 'a': 1 of {N} cells are no numbers and count as missing: {bad!r} in row {N}."
    ]


def test_words_in_a_tenth_of_the_cells_are_missing_and_in_more_a_category():
    for words, kind in ((N // 10, "number"), (N // 10 + 1, "category")):
        values = [str(i % 30) for i in range(N - words)] + ["unknown"] * words
        assert column(values).kind == kind
    with pytest.warns(UserWarning, match=r"20 of 200 .*: 'unknown' in row 181, .* and 17 more\."):
        infer_schema(pd.DataFrame({"a": texts(*["unknown"] * 20)}))


def test_the_same_rows_without_the_words_give_the_same_numbers():
    """From a file with "unknown" in 8 %, and in Python as pandas reads the rows without it."""
    random = np.random.default_rng(0)
    x = random.integers(0, 400, N).astype(float) / 4
    words = random.random(N) < 0.08
    cells = np.where(words, "unknown", x.astype(str))
    table = read_table(io.BytesIO(("x,b\n" + "".join(f"{c},1\n" for c in cells)).encode()))
    with pytest.warns(UserWarning, match=f"{words.sum()} of {N} cells are no numbers"):
        encoder = TableEncoder().fit(table[["x"]])
    assert encoder.names_ == ["x", "x (missing)"]
    found = encoder.transform(table[["x"]])
    floats = encoder.transform(pd.DataFrame({"x": np.where(words, np.nan, x)}))
    assert np.array_equal(found, floats)
    assert np.array_equal(found[~words, 0], x[~words])
    one = encoder.transform(pd.DataFrame({"x": ["unknown"]}))  # alone: known from training
    assert one.tolist() == [[np.median(x[~words]), 1]]


def test_new_words_at_prediction_are_missing_whatever_the_other_rows_are():
    encoder = TableEncoder().fit(pd.DataFrame({"a": np.arange(N) * 0.5}))
    frame = pd.DataFrame({"a": [*map(str, range(30)), "n.k.", "1,5"]})
    with pytest.warns(UnseenWarning) as said:
        found = encoder.transform(frame)
    assert (found[30:, 0] == np.median(np.arange(N) * 0.5)).all()
    assert "2 value(s) were never seen in training" in str(said[0].message)
    assert "'n.k.' in row 31, '1,5' in row 32." in str(said[0].message)
    for row in (30, 31):  # alone
        with pytest.warns(UnseenWarning, match=f"1 value.* in row {row + 1}"):
            assert (encoder.transform(frame[row : row + 1]) == found[row]).all()


def test_text_that_is_all_numbers_is_numbers_and_that_is_said():
    with pytest.warns(UserWarning, match="'a' is text, but all of it is numbers"):
        (found,) = infer_schema(pd.DataFrame({"a": texts()}))
    assert (found.kind, found.missing) == ("number", 0)
    assert column(pd.Categorical(["1", "2"] * 30)).kind == "category"  # declared to be names


CODES = [
    (["007", "012"] * 30, "category"),
    (["01234", "91234", "81234"] * 20, "category"),  # codes are of one length
    ([*map(str, range(100)), "007"], "number"),
    ([*map(str, range(20)), *["007", "012"] * 10], "category"),
    ([*(f"{i}.5" for i in range(30)), "00"], "number"),
]


@pytest.mark.parametrize(("values", "kind"), CODES)
def test_codes_are_names_but_one_leading_zero_is_not(values, kind):
    assert column(values).kind == kind


NUMBERS = ["0", "-1", "+2", "3.", ".5", "1e3", "1E-3", " 7 ", "9" * 400]
OTHERS = ["", "-", ".", "e3", "1e", "1 000", "1d", "--1", "１", "nan(1)", "0b1", "1j", "True"]


def test_what_is_a_number_and_what_is_not():
    assert read_numbers(NUMBERS).tolist() == [float(n) for n in NUMBERS]
    numbers = read_numbers([*OTHERS, "5"])
    assert np.isnan(numbers).tolist() == [True] * len(OTHERS) + [False]
    assert read_numbers(["true", "FALSE", "1"], truth=True).tolist() == [1, 0, 1]


def test_true_and_false_are_numbers_only_where_training_had_0_and_1():
    for training, wanted in (([True, False] * 30, [1, 0]), ([0, 1, 2] * 20, None)):
        encoder = TableEncoder().fit(pd.DataFrame({"a": training}))
        new = pd.DataFrame({"a": ["True", "false"]})
        if wanted is None:
            with pytest.warns(UnseenWarning, match="a number is expected"):
                assert encoder.transform(new)[:, 0].tolist() == [1, 1]  # the median
        else:
            assert encoder.transform(new)[:, 0].tolist() == wanted
    mixed = pd.DataFrame({"a": ["0", "1"] * 30 + ["true"]})
    with pytest.warns(UserWarning, match="1 of 61 cells are no numbers"):
        encoder = TableEncoder().fit(mixed)
    assert encoder.transform(mixed)[60].tolist() == [0.5, 1]
    assert encoder.transform(mixed[60:]).tolist() == [[0.5, 1]]


def test_huge_numbers_are_refused_with_the_row():
    for huge in (["1e400", "1"] * 30, [10.0, float("inf")], ["-Infinity", *"12345678901"]):
        with pytest.raises(ValueError, match=r"'a' has .* infinite"):
            column(huge)
    with pytest.raises(ValueError, match="'a' has a number beyond 1e308"):
        column(pd.Series([10**400, 1], dtype=object))


# --- identifiers (18) -----------------------------------------------------------------------------


def shuffled(values):
    return np.random.default_rng(0).permutation(np.asarray(values))


IDENTIFIERS = [
    np.delete(np.arange(100), 40),  # a counter with one gap
    shuffled(np.arange(10_000, 10_100)),
    np.arange(100)[::-1] * 1.0,
    [*map(str, shuffled(np.arange(500, 600)))],
    shuffled(2**60 + 1000 * np.arange(100)),  # as floats, these still differ
    [None, *shuffled(np.arange(1000, 1099))],
]


@pytest.mark.parametrize("values", IDENTIFIERS)
def test_whole_numbers_that_all_differ_are_marked_and_said(values):
    with pytest.warns(UserWarning, match="'a' holds a different integer in every row") as said:
        (found,) = infer_schema(pd.DataFrame({"a": values}))
    assert (found.kind, found.identifier, len(said)) == ("number", True, 1)


ORDINARY = [
    np.arange(100) // 2,
    np.arange(100) * 0.5,
    [True, False] * 50,
    shuffled(np.arange(19)),  # too few to tell
    [*range(5, 99, 2), 5],
]


@pytest.mark.parametrize("values", ORDINARY)
def test_other_numbers_are_not(values):
    assert not column(values).identifier


def test_a_counter_of_the_rows_is_dropped_and_no_identifier_then():
    found = column(np.arange(100))
    assert (found.kind, found.identifier) == ("dropped", False)
    assert not is_identifier(np.arange(100) + 0.5)
