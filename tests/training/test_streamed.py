"""Networks trained on rows that come block by block."""

from __future__ import annotations

import pytest
import torch

from softset.tasks import BINARY
from softset.training import Member, streamed
from softset.training.data import TensorData, make_data
from softset.training.streamed import train_streamed


def rows(n=600, weighted=False):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=g)
    y = (x.sum(1) + 0.3 * torch.randn(n, generator=g) > 1).long()
    w = torch.rand(n, generator=g) + 0.5 if weighted else None
    return make_data("train", (x, y, w), BINARY)


def blocks_of(data, size):
    """Blocks of so many rows, in another order in each pass."""

    def blocks(number):
        g = torch.Generator().manual_seed(number)
        parts = torch.arange(len(data.x)).split(size)
        for i in torch.randperm(len(parts), generator=g).tolist():
            yield TensorData(*(None if t is None else t[parts[i]] for t in data))

    return blocks


def trained(stream, held=None, **settings):
    given = {"outputs": 1, "members": [Member(0, 0.03), Member(1, 0.03)], "batch_size": 64}
    given |= {"max_epochs": 6, "patience": 3, "metric": "f1", "recipe": "warm"}
    return train_streamed((4,), stream, held, **{**given, **settings})


@pytest.mark.parametrize("weighted", [False, True])
def test_it_learns(weighted):
    data = rows(weighted=weighted)
    found = trained(blocks_of(data, 50), rows(200), max_epochs=20)
    decided = (found.scores(data.x) > 0).double()
    assert (decided == data.y).double().mean(1).min() > 0.85


def test_a_window_has_every_row_once_and_always_the_same_order(monkeypatch):
    monkeypatch.setattr(streamed, "WINDOW", 100)
    data = rows(600)._replace(y=torch.arange(600.0))
    passes = [list(streamed._windows(blocks_of(data, 40)(k), k)) for k in (0, 0, 1)]
    assert [len(window.x) for window in passes[0]] == [120] * 5
    orders = [torch.cat([window.y for window in one]).tolist() for one in passes]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(600))
    assert orders[0][:40] != sorted(orders[0][:40])  # shuffled, not only put together


def test_an_epoch_ends_after_many_rows_and_the_next_goes_on_there(monkeypatch):
    monkeypatch.setattr(streamed, "WINDOW", 100)
    monkeypatch.setattr(streamed, "EPOCH", 250)
    begun = []

    def stream(number):
        begun.append(number)
        return blocks_of(rows(600), 50)(number)

    trained(stream, rows(100), recipe="cross-entropy", max_epochs=6, patience=6)
    # 300 rows in an epoch: six of them are three passes; the first block was looked at before.
    assert begun == [0, 0, 1, 2]


class StoppedError(Exception):
    """A process that ends in the middle of a pass."""


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(monkeypatch, tmp_path):
    monkeypatch.setattr(streamed, "WINDOW", 100)
    monkeypatch.setattr(streamed, "EPOCH", 250)
    data, held, file = rows(600), rows(100), tmp_path / "run.checkpoint"
    whole = trained(blocks_of(data, 50), held)
    left = [31]

    def breaking(number):
        for block in blocks_of(data, 50)(number):
            left[0] -= 1
            if left[0] == 0:
                raise StoppedError
            yield block

    saved = {"checkpoint": file, "checkpoint_seconds": 0.0, "source": "rows"}
    with pytest.raises(StoppedError):
        trained(breaking, held, **saved)
    again = trained(blocks_of(data, 50), held, **saved)
    assert (again.weights == whole.weights).all()
    assert again.history == whole.history
    with pytest.raises(ValueError, match="other data or settings"):
        trained(blocks_of(data, 50), held, **{**saved, "source": "others"})


@pytest.mark.filterwarnings("ignore:the loss")
def test_a_member_that_is_not_finite_leaves():
    members = [Member(0, 1e30), Member(1, 0.03)]
    found = trained(blocks_of(rows(), 50), rows(100), members=members, recipe="cross-entropy")
    assert found.outcome[0] == "not finite"
    assert torch.isfinite(found.weights[1]).all()


def test_nothing_to_train_on():
    with pytest.raises(ValueError, match="no row"):
        trained(lambda number: [])
