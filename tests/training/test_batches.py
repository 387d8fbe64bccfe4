"""The order of the rows: every row as often as promised."""

from __future__ import annotations

import pytest
import torch

from softset.training.batches import epoch_orders, slices


def test_even_batches_cover_every_row_once():
    for rows, size in [(10, 4), (1025, 1024), (7, 7), (7, 100), (1, 1)]:
        parts = list(slices(rows, size))
        lengths = [p.stop - p.start for p in parts]
        assert sum(lengths) == rows
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1


def test_oversampling_balances_and_stratifying_spreads():
    y = torch.cat([torch.zeros(95), torch.ones(5)]).long()
    generators = [torch.Generator().manual_seed(s) for s in range(3)]
    for order in epoch_orders(y, "oversampled", generators):
        assert torch.bincount(y[order]).tolist() == [95, 95]
        assert torch.bincount(order)[95:].tolist() == [19] * 5
    orders = epoch_orders(y, "stratified", generators)
    for order in orders:
        assert sorted(order.tolist()) == list(range(100))
        assert [int(y[part].sum()) for part in order.split(20)] == [1] * 5
    assert not torch.equal(orders[0], orders[1])


@pytest.mark.parametrize("sampling", ["shuffled", "stratified", "oversampled"])
def test_each_generator_gives_its_own_order_and_the_same_again(sampling):
    y = torch.tensor([0, 1] * 10 + [2])
    both = epoch_orders(y, sampling, [torch.Generator().manual_seed(s) for s in (0, 1)])
    alone = epoch_orders(y, sampling, [torch.Generator().manual_seed(1)])
    assert torch.equal(both[1], alone[0])
    assert not torch.equal(both[0], both[1])
    assert set(both[0].tolist()) == set(range(21))


def test_a_batch_may_be_larger_than_any_float():
    assert list(slices(5, 10**400)) == [slice(0, 5)]
