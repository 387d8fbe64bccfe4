"""The papers' literal behavior where a class is missing, beside softset's."""

import pytest
import torch

from softset.losses.soft_metric import MetricLoss
from softset_papers.networks.literal import LiteralLoss
from softset_papers.networks.losses import make_recipe


def test_a_batch_without_positives_is_one_without_a_slope():
    z = torch.tensor([-1.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    nobody = torch.zeros(3).long()
    literal = make_recipe({"loss": "f1", "empty": "as-published"})
    value = literal(z, nobody)
    assert value.detach().item() == 1
    assert torch.autograd.grad(value, z)[0].abs().sum() == 0
    ours = make_recipe({"loss": "f1"})(z, nobody)
    assert torch.autograd.grad(ours, z)[0].abs().sum() > 0


def test_a_batch_with_positives_is_the_same():
    z, y = torch.tensor([-1.0, 0.3, 2.0]), torch.tensor([0, 1, 1])
    literal, ours = (make_recipe({"loss": "f1"} | o) for o in ({"empty": "as-published"}, {}))
    assert literal(z, y) == ours(z, y)
    both = literal.of_members(torch.stack([z, z]), torch.stack([y, 0 * y]), None)
    assert both.tolist() == [pytest.approx(ours(z, y).item()), 1.0]


def test_an_absent_class_counts_as_zero_in_the_mean_over_classes():
    torch.manual_seed(0)
    scores, target = torch.randn(20, 5), torch.arange(20) % 3
    ours = MetricLoss("f1", task="multiclass")
    expected = 1 - (1 - ours(scores, target).item()) * 3 / 5
    assert LiteralLoss(ours)(scores, target).item() == pytest.approx(expected)


def test_another_word_is_refused():
    with pytest.raises(ValueError, match="empty must be"):
        make_recipe({"loss": "f1", "empty": "literal"})
