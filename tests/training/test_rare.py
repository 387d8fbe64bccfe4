from __future__ import annotations

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import softset as ss
from softset.training.rare import RareClassWarning, _allotted, rarity

COUNTS = (940, 50, 10)


def classes(counts=COUNTS, seed=0):
    y = torch.cat([torch.full((n,), c) for c, n in enumerate(counts)])
    return y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]


def test_every_batch_has_its_rows_of_every_class():
    y = classes()
    batches = ss.StratifiedBatches(y, 64, least=6)
    assert len(batches) == 16
    for batch in batches:
        assert torch.bincount(y[batch]).tolist() == batches.taken
    assert batches.taken == [52, 6, 6]
    assert batches.taken == _allotted(COUNTS, 64, 6)


def test_the_weights_of_a_class_are_its_share_in_every_batch():
    y = classes()
    batches = ss.StratifiedBatches(y, 50)
    for batch in batches:
        sums = torch.zeros(3, dtype=torch.float64)
        sums = sums.index_add(0, y[batch], batches.weight[batch])
        torch.testing.assert_close(sums, torch.tensor(COUNTS).double() / 1000 * 50)


def test_rows_come_in_turn():
    """All rows of a class come equally often, give or take one."""
    y = classes()
    drawn = torch.tensor(list(itertools.chain(*ss.StratifiedBatches(y, 50, least=4))))
    times = torch.bincount(drawn, minlength=len(y))
    for c in range(3):
        assert times[y == c].max() - times[y == c].min() <= 1


def test_weighted_counts_are_right_on_average():
    """Within five standard errors, where unweighted counts are far off."""
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(4000, generator=g) < 0.02).long()
    z = torch.randn(4000, generator=g, dtype=torch.float64) + 2 * y - 1
    batches = ss.StratifiedBatches(y, 40, generator=g)
    step = ss.LinearStep()
    whole = ss.confusion(z, y, step=step, from_logits=True)
    parts = [b for _ in range(10) for b in batches]
    for name in ("tp", "fp", "fn", "tn"):
        expected = float(getattr(whole, name)) / 4000 * 40
        each = torch.stack(
            [
                getattr(
                    ss.confusion(
                        z[b], y[b], step=step, sample_weight=batches.weight[b], from_logits=True
                    ),
                    name,
                )
                for b in parts
            ]
        )
        error = each.std() / len(each) ** 0.5
        assert abs(each.mean() - expected) < 5 * error
    plain = torch.stack([ss.confusion(z[b], y[b], step=step, from_logits=True).tp for b in parts])
    assert plain.mean() > 5 * float(whole.tp) / 4000 * 40


def test_a_class_with_fewer_rows_than_it_gives_repeats_them():
    y = classes((97, 3))
    batches = ss.StratifiedBatches(y, 20, least=5)
    for batch in batches:
        assert torch.bincount(y[batch]).tolist() == [15, 5]


def test_the_generator_decides():
    y = classes()

    def drawn(seed):
        return list(ss.StratifiedBatches(y, 64, generator=torch.Generator().manual_seed(seed)))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(3, 2), 2), "target must hold a class for each row"),
        ((torch.tensor([]), 2), "target must hold a class for each row"),
        ((classes(), 2), "batch_size must be an integer from 3"),
        ((classes(), 2.5), "batch_size must be an integer"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.StratifiedBatches(*arguments)


def test_too_many_of_each_are_refused():
    with pytest.raises(ValueError, match="least must be an integer from 1 to 21"):
        ss.StratifiedBatches(classes(), 64, least=22)


# the warning


def test_the_arithmetic_of_the_warning():
    said = rarity(128, 0.0017)
    assert "0.17 % positives: 80 % of batches have none" in said
    assert "at least 3000 rows" in said
    assert "at least 50 rows" in rarity(20, 0.1)


def fit(y, loss="metric", batch_size=64, task="binary", **loader):
    x = torch.randn(len(y), 4, generator=torch.Generator().manual_seed(0))
    rows = TensorDataset(x, y, *loader.pop("weight", ()))
    size = {} if "batch_sampler" in loader else {"batch_size": batch_size}
    outputs = {"binary": 1, "multiclass": 3, "multilabel": 2}[task]
    model = nn.Linear(4, outputs)
    ss.training.fit(model, loss, DataLoader(rows, **size, **loader), max_epochs=2, task=task)


RARE = (classes((1960, 40)) == 1).long()  # 64 rows expect 1.28


def test_fit_warns_once_at_the_start():
    said = "64 rows at 2 % positives: 27 % of batches have none"
    with pytest.warns(RareClassWarning, match=said) as caught:
        fit(RARE, "warm", shuffle=True)
    (one,) = caught
    assert one.filename == __file__


def test_of_classes_and_labels_the_rarest_is_named():
    with pytest.warns(RareClassWarning, match=r"64 rows at 1 % rows of class 2"):
        fit(classes(), task="multiclass")
    y = torch.stack([RARE, torch.ones_like(RARE)], 1)
    with pytest.warns(RareClassWarning, match=r"64 rows at 2 % positives of label 0"):
        fit(y, task="multilabel")


@pytest.mark.parametrize(
    "quiet",
    [
        {"batch_size": 250},  # five positives
        {"batch_size": 2000},
        {"loss": "cross-entropy"},
        {"loss": ss.MetricLoss("f1", ema_decay=0.9)},
        {"sampler": WeightedRandomSampler(1 + 40.0 * RARE, 2000)},  # of which we know nothing
        {"batch_sampler": ss.StratifiedBatches(RARE, 64)},
    ],
)
def test_there_is_no_warning_where_there_is_no_need(quiet):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(RARE, **quiet)


def test_fit_takes_stratified_batches_and_their_weights():
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(3000, generator=g) < 0.01).long()
    x = torch.randn(3000, 4, generator=g) + 1.5 * y[:, None]
    batches = ss.StratifiedBatches(y, 32, generator=g)
    loader = DataLoader(TensorDataset(x, y, batches.weight), batch_sampler=batches)
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    ss.training.fit(
        model, "metric", loader, max_epochs=5, optimizer=lambda p: torch.optim.Adam(p, lr=0.03)
    )
    with torch.no_grad():
        assert ss.evaluate(model(x), y, "f1", from_logits=True) > 0.4  # 0.02 is that of all rows
