from __future__ import annotations

import pytest
import torch

import softset as ss
from softset.counting.kernels.choice import using
from tests.reference import random_problem


@pytest.mark.parametrize("size", [10, 77])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_grid_in_bins_equals_one_threshold_at_a_time(size, weighted):
    z, y = random_problem("binary", n=500)
    w = torch.rand(500, dtype=torch.float64) if weighted else None
    grid = [i / size for i in range(1, size)]
    z1, z2 = z.clone().requires_grad_(), z.clone().requires_grad_()
    step = ss.LinearStep(0.15)
    binned = ss.confusion(z1, y, step=step, thresholds=grid, sample_weight=w, from_logits=True)
    singles = [
        ss.confusion(z2, y, step=step, threshold=t, sample_weight=w, from_logits=True) for t in grid
    ]
    a = torch.linspace(-1, 2, size - 1, dtype=torch.float64)
    for field in ("tp", "predicted", "support", "total"):
        each = torch.stack([getattr(c, field) for c in singles])
        torch.testing.assert_close(getattr(binned, field), each, rtol=1e-10, atol=1e-10)
    (binned.tp @ a + binned.predicted @ a**2).backward()
    sum(c.tp * a[k] + c.predicted * a[k] ** 2 for k, c in enumerate(singles)).backward()
    torch.testing.assert_close(z1.grad, z2.grad, rtol=1e-10, atol=1e-12)


def test_thousands_of_thresholds_need_no_memory_for_each():
    z, y = random_problem("binary", n=200)
    size = 20_000
    grid = [i / size for i in range(1, size)]
    x = z.clone().requires_grad_()
    loss = ss.metric_loss(x, y, "auroc", thresholds=grid)
    loss.backward()
    few = ss.metric_loss(z, y, "auroc", thresholds=[i / 2000 for i in range(1, 2000)])
    assert loss.item() == pytest.approx(few.item(), abs=1e-3)
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_scores_whose_sum_is_not_finite_are_scores(kernels):
    z = torch.tensor([40_000.0, 30_000.0, -60_000.0, -float("inf")]).half()
    with using(kernels):
        loss = ss.metric_loss(z, torch.tensor([1, 1, 0, 0]), "auroc")
        with pytest.raises(ValueError, match="must not be NaN"):
            ss.metric_loss(z * float("nan"), torch.tensor([1, 1, 0, 0]), "auroc")
    assert loss.item() < 0.05
