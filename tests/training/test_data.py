"""Tensors are checked once; rows of a table become tensors in one place."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softset.tables.rows import Examples
from softset.tasks import BINARY, get_task
from softset.training.data import data_of, make_data, outputs_of
from softset.training.members import train_members
from tests.training.helpers import make_binary


def test_a_class_absent_from_validation_warns():
    x, y = make_binary(60)
    with pytest.warns(UserWarning, match="class 1 is absent from validation"):
        train_members((4,), (x, y), (x[:5], torch.zeros(5)), recipe="cross-entropy", max_epochs=1)


def test_rows_become_tensors_that_hold_the_same():
    rows = Examples(np.array([[1.5, 2.0], [3.0, 4.0]]), np.array([1, 0]), np.array([1.0, 2.0]))
    x, y, w = data_of(rows)
    assert x.dtype == torch.float32
    assert x.tolist() == rows.x.tolist()
    assert y.tolist() == [1, 0]
    assert w.tolist() == [1.0, 2.0]
    assert data_of(rows._replace(w=np.array([2.0, 2.0]))).w is None, "equal weights say nothing"


def test_rows_of_weight_zero_are_left_out():
    x, y = make_binary(4)
    data = make_data("train", (x, y, torch.tensor([1.0, 0.0, 2.0, 0.0])), BINARY)
    assert torch.equal(data.x, x[[0, 2]])
    assert data.w.tolist() == [1.0, 2.0]


def test_targets_in_a_column_are_binary_targets():
    x, y = make_binary(4)
    assert make_data("train", (x, y[:, None]), BINARY).y.shape == (4,)


@pytest.mark.parametrize(
    ("task", "y", "outputs"),
    [("binary", [0, 1], 1), ("multiclass", [0, 0], 2), ("multiclass", [0, 4], 5),
     ("multilabel", [[0, 1, 1], [0, 0, 1]], 3)],
)  # fmt: skip
def test_a_score_for_each_class_or_label(task, y, outputs):
    task = get_task(task)
    data = make_data("train", (torch.zeros(2, 1), torch.tensor(y)), task)
    assert outputs_of(data, task) == outputs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(3, 2), r"train must be \(x, y\)"),
        ((torch.zeros(0, 2), torch.zeros(0)), "at least one"),
        ((torch.zeros(3, 2), torch.zeros(2)), "as many targets as inputs"),
        ((torch.full((2, 2), torch.nan), torch.zeros(2)), "NaN or infinity .* row 0"),
        ((torch.zeros(2, 2), torch.tensor([-1, 1])), "0 and 1 in y, got -1"),
        ((torch.zeros(2, 2), torch.tensor([0, 1]), torch.zeros(2)), "sample_weight"),
        ((torch.zeros(2, 2), torch.tensor([0, 1]), torch.ones(3)), r"shape \(2,\)"),
        ((torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([1.0, torch.inf])), "finite"),
    ],
)
def test_wrong_data_is_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        make_data("train", given, BINARY)
