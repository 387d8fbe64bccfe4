"""A user's X and y: duplicate rows are found whatever number each row carries."""

import numpy as np
import pandas as pd
import pytest

from softset.comparison.data import check_dataset
from softset.comparison.experiment import encode


def doubled(n=100):
    random = np.random.default_rng(0)
    x = np.repeat(random.normal(size=(n, 2)), 2, axis=0)
    return pd.DataFrame(x, columns=["a", "b"]), np.repeat(random.integers(0, 2, n), 2)


def test_a_customer_number_does_not_hide_duplicate_rows():  # 18
    frame, y = doubled()
    number = np.random.default_rng(1).permutation(np.delete(np.arange(1000, 1201), 7))
    with pytest.warns(UserWarning, match="'customer' holds a different (integer|whole number)"):
        table = check_dataset(frame.assign(customer=number), y, None, None, None, 5, "together")
    assert table.duplicates == 200
    assert np.array_equal(table.groups, np.arange(200) // 2)
    assert [c.identifier for c in table.schema] == [False, False, True]
    with pytest.warns(UserWarning, match=r"column\(s\) 2 hold a different (integer|whole number)"):
        table = check_dataset(np.column_stack([frame, number]), y, None, None, None, 5, "together")
    assert table.duplicates == 200


def test_a_rare_value_on_one_side_of_a_split_is_no_news():
    frame = pd.DataFrame({"c": ["a", "b"] * 50 + ["rare"], "x": np.linspace(0, 1, 101)})
    table = check_dataset(frame, np.arange(101) % 2, None, None, None, 5, "together")
    _, train, test = encode(table.x, table.schema, np.arange(100), np.array([100]))
    assert train.shape == (100, 3)
    assert test.tolist() == [[0, 0, 1]]


def test_columns_with_the_same_fault_are_one_warning():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(60, 2)), columns=["a", "b"])
    frame = frame.assign(**{f"k{i}": 1 for i in range(7)})
    with pytest.warns(UserWarning, match="7 columns .*'k0'.* and 2 more") as caught:
        table = check_dataset(frame, np.arange(60) % 2, None, None, None, 5, "together")
    assert len(caught) == 1
    assert len(table.warnings) == 1
