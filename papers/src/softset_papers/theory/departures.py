"""Where softset's losses are not literally the papers': both values on the same batches.

``empty="as-published"`` in the settings of a row trains with the papers' (``networks.literal``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from softset.counting.steps import LinearStep
from softset.losses.soft_metric import MetricLoss
from softset_papers.baselines.published_cells import PublishedMetricLoss
from softset_papers.networks.literal import LiteralLoss
from softset_papers.theory.findings import Finding

_CLASSES = 10


def _slope(loss: object, scores: Tensor, target: Tensor) -> tuple[float, float]:
    """The value of a loss, and the size of its gradient."""
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, target)  # type: ignore[operator]
    (gradient,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), float(gradient.abs().sum())


def _both(what: str, papers: float, ours: float, why: str) -> Finding:
    same = abs(papers - ours) < 1e-6
    return Finding(f"{what} (the papers', and softset's)", f"{papers:.4f}", ours, same, why)


def check_departures(seed: int = 0, n: int = 128) -> list[Finding]:
    """A batch without positives, a class that no row has, and the thresholds of AUROC."""
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, dtype=torch.float64, generator=g)
    ours = MetricLoss("f1", step=LinearStep(0.1))
    nobody = torch.zeros(n).long()
    literal, plain = _slope(LiteralLoss(ours), z, nobody), _slope(ours, z, nobody)
    # Six of ten classes are there.
    target = torch.arange(n) % 6
    scores = 2 * torch.nn.functional.one_hot(target, _CLASSES).double()
    scores = scores + torch.randn(n, _CLASSES, dtype=torch.float64, generator=g)
    macro = MetricLoss("f1", task="multiclass")
    of_all, of_present = (1 - float(loss(scores, target)) for loss in (LiteralLoss(macro), macro))
    y = (torch.rand(n, generator=g) < torch.sigmoid(z)).long()
    nine = float(PublishedMetricLoss("auroc", LinearStep(0.2))(z, y))
    whole = float(MetricLoss("auroc", step=LinearStep(0.1))(z, y))
    why = 'empty="penalize" has a slope where the formula has none'
    return [
        _both("soft F1 loss of a batch without positives", literal[0], plain[0], why),
        _both("the size of its gradient", literal[1], plain[1], why),
        _both(
            "soft macro F1 where six of ten classes are in the batch", of_all, of_present,
            "a class that no row has is left out of the mean, not 0 in it",
        ),
        _both(
            "soft AUROC loss", nine, whole,
            "99 thresholds, both ends and the cells of the equations, not nine of each",
        ),
    ]  # fmt: skip
