from __future__ import annotations

import pytest
import torch

from softset.counting.kernels.layout import Layout
from softset.counting.kernels.native.kernels import SIZE
from softset.counting.kernels.native.library import native


@pytest.mark.skipif(native() is None, reason="the kernels in C are not built")
def test_c_and_python_mean_the_same_task():
    library = native()
    assert library is not None
    assert library.task_size == SIZE


def layout(z, y=None, w=None, batch_dims=0):
    return Layout.of(z, z[..., 0] if y is None else y, w, None, batch_dims)


def test_positions_that_lie_one_behind_the_other_are_one_dimension():
    rows = layout(torch.empty(7, 3))
    assert rows.sizes == (1, 1, 1, 7, 3)
    assert rows.scores == (0, 0, 0, 3, 1)
    image = layout(torch.empty(2, 3, 5, 6).movedim(1, -1), torch.empty(2, 5, 6))
    assert image.sizes == (1, 1, 2, 30, 3)
    assert image.scores == (0, 0, 90, 1, 30)
    last = torch.empty(2, 3, 5, 6).contiguous(memory_format=torch.channels_last)
    assert layout(last.movedim(1, -1), torch.empty(2, 5, 6)).sizes == (1, 1, 1, 60, 3)
    cropped = torch.empty(2, 3, 5, 9)[..., :6].movedim(1, -1)
    assert layout(cropped, torch.empty(2, 5, 6)).sizes == (1, 2, 5, 6, 3)


def test_weights_of_rows_have_no_step_along_their_positions():
    z = torch.empty(2, 3, 5, 6).movedim(1, -1)
    w = torch.empty(2).reshape(2, 1, 1).expand(2, 5, 6)
    assert layout(z, torch.empty(2, 5, 6), w).weight == (0, 0, 1, 0, 0)


def test_batches_are_dimensions_of_their_own():
    z = torch.empty(4, 7, 3)
    assert layout(z, batch_dims=1).sizes == (4, 1, 1, 7, 3)
    assert layout(z, batch_dims=1).target == (21, 0, 0, 3, 0)


def test_too_many_dimensions_are_declined():
    z = torch.empty(4, 6, 6, 6, 6, 3)[:, :5, :5, :5, :5]
    assert layout(z) is None
