from __future__ import annotations

import pytest
import torch

import softset as ss


def on_a_grid(tp, fp, positives=4.0, negatives=4.0):
    """Counts at ascending thresholds."""
    tp, fp = torch.tensor(tp).double(), torch.tensor(fp).double()
    support, total = (torch.full_like(tp, n) for n in (positives, positives + negatives))
    return ss.Confusion(tp, tp + fp, support, total)


def test_area_under_the_roc_by_hand():
    # through (1, 1), (3/4, 1), (1/4, 1/2), (0, 0): 1/4 + (3/4 * 1/2) + (1/2 * 1/4) / 2
    c = on_a_grid([4, 2], [3, 1])
    assert float(ss.AUROC()(c)) == pytest.approx(0.25 + 0.375 + 0.0625)


def test_average_precision_by_hand():
    # recall 1, 1, 1/2, 0 with precision 1/2 (all), 4/7, 2/3
    c = on_a_grid([4, 2], [3, 1])
    assert float(ss.AveragePrecision()(c)) == pytest.approx(0.5 * 4 / 7 + 0.5 * 2 / 3)


def test_few_negatives_by_weight_have_an_area_of_their_own():
    """fp is not what is left of predicted."""
    z, y = torch.linspace(-2, 2, 20).double(), torch.arange(20) % 4 != 0
    even = ss.metric_loss(z, y, "auroc").item()
    for ratio in (1e6, 1e12):
        weighted = ss.metric_loss(z, y, "auroc", class_weight=[1, ratio]).item()
        assert weighted == pytest.approx(even, abs=1e-8)
