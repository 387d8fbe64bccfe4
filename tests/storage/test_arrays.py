import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from softset import SavedFileError
from softset.storage.arrays import pack_array, plain, unpack_array

NUMBERS = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.unsigned_integer_dtypes()
    | hnp.floating_dtypes(sizes=(16, 32, 64))
)
# NumPy drops zeros at the end of a text.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(
    hnp.arrays(NUMBERS, st.integers(0, 20)).filter(lambda a: np.isfinite(a).all())
    | hnp.arrays("U5", st.integers(0, 20), elements=TEXT)
)
def test_an_array_comes_back_with_its_dtype(values):
    back = unpack_array(pack_array(values))
    np.testing.assert_array_equal(back, values)
    assert back.dtype == values.dtype


@pytest.mark.parametrize(
    "values", [["a", "b"], [1, "x", None, 2.5, True], [], ["", "a" * 1000]], ids=str
)
def test_objects_come_back_as_they_are(values):
    array = np.empty(len(values), object)
    array[:] = values
    back = unpack_array(pack_array(array))
    assert back.dtype == object
    assert [(type(v), v) for v in back] == [(type(v), v) for v in values]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("<U100000000", ["a", "b"]),
        ("<U1000000", ["a"] * 100),
        ("<U999999999", ["a"]),
        ("<U1", ["ab"]),
        ("<U2", ["a", 1]),
        ("<U2", ["a\0"]),
        ("<U2", [["a"], ["b"]]),
        ("<i8", [1.5]),
        ("<i8", ["1"]),
        ("<i8", [True]),
        ("<i8", [2**63]),
        ("<i8", [[1, 2], [3, 4]]),
        ("|i1", [128]),
        ("|u1", [-1]),
        ("<f4", [0.1]),
        ("<f8", [10**400]),
        ("<f8", [float("nan")]),
        ("<f8", [float("inf")]),
        ("<f2", [1e5]),
        ("O", [float("nan")]),
        ("O", [{"a": 1}]),
        ("O", [[1], [2]]),
        ("|b1", [1, 0]),
        ("|S3", ["abc"]),
        ("|V8", [0]),
        ("<M8[s]", [0]),
        ("<c16", [1.0]),
        ("i4,i4", [1]),
        ("(2,3)<f8", [1.0]),
        ("float", [1.0]),
        ("", [1.0]),
        (None, [1.0]),
        ({"names": ["a"], "formats": ["<f8"]}, [1.0]),
        ("<f8", "12"),
        ("<f8", 3),
        ("<f8", {"0": 1.0}),
    ],
    ids=str,
)
def test_what_pack_array_would_not_write_is_refused(dtype, values):
    with pytest.raises(SavedFileError, match="dtype"):
        unpack_array({"dtype": dtype, "values": values})


def test_parameters_become_what_json_holds():
    given = {"a": np.float32(0.5), "b": (np.arange(2), None), "c": print, np.int64(3): [True]}
    assert plain(given) == {"a": 0.5, "b": ([0, 1], None), "c": None, 3: [True]}
