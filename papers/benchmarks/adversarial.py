"""What a game of the adversarial F1 loss costs, as a ratio to the package that it is taken from.

    pip install 'softset-papers[adversarial]' && python papers/benchmarks/adversarial.py

Batches of 20 rows, one after the other by both; the median of the ratios, and how far the slopes
are apart.
"""

from __future__ import annotations

import statistics
import time

import ap_perf
import torch

from softset_papers.baselines.adversarial import AdversarialF1Loss


class F1(ap_perf.PerformanceMetric):
    """The metric in the package's own words."""

    def define(self, c):
        return (2 * c.tp) / (c.ap + c.pp)


def slopes(loss, z, y):
    """Seconds that it takes, and the gradient."""
    start = time.perf_counter()
    (found,) = torch.autograd.grad(loss(z, y).sum(), z)
    return time.perf_counter() - start, found


def main() -> None:
    """Time both, batch by batch."""
    torch.set_num_threads(1)
    metric = F1()
    metric.initialize()
    metric.enforce_special_case_positive()
    ours, theirs = AdversarialF1Loss(), ap_perf.MetricLayer(metric)
    generator = torch.Generator().manual_seed(0)
    ratios, apart = [], []
    for i in range(62):
        y = (torch.rand(20, generator=generator) < 0.3).double()
        z = torch.randn(20, generator=generator, dtype=torch.float64) * 2.0 ** (i % 6 - 4)
        z.requires_grad_()
        spent, own = slopes(ours, z, y)
        other, its = slopes(theirs, z, y)
        if i >= 2:  # the first calls compile
            ratios.append(spent / other)
            apart.append(float((own - its).abs().max()))
    print(f"time: {statistics.median(ratios):.2f} of the package's; slopes within {max(apart):.4f}")


if __name__ == "__main__":
    main()
