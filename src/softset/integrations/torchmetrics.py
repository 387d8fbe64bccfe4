"""For Lightning, Accelerate and torchmetrics: a metric that sums counts over batches and ranks."""

from __future__ import annotations

import torch
import torchmetrics
from torch import Tensor

from softset.checks import check_integer
from softset.counting.flat import Form, flatten
from softset.counting.problem import arrange
from softset.metrics.registry import MetricLike, one_number
from softset.metrics.top import Top
from softset.tasks import get_task


class CountedMetric(torchmetrics.Metric):  # type: ignore[misc]
    """A metric of *all* rows: counts are summed, and the metric is taken of their sum.

    The mean of F1 over batches, which a logged number is otherwise, is not F1. In a
    LightningModule: ``self.f1 = CountedMetric("f1")``; ``self.f1.update(scores, target)`` in each
    validation step, and ``self.log("f1", self.f1)``.

    Args:
        metric: a name in ``METRICS``, or a metric; one of counts (for AUROC torchmetrics has its
            own, which keeps all scores).
        task: as for ``MetricLoss``.
        classes: how many classes or labels there are, unless it is binary.
        threshold, from_logits: as for ``evaluate``; hard decisions.
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    counts: Tensor

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        task: str = "binary",
        classes: int | None = None,
        threshold: float = 0.5,
        from_logits: bool = True,
        **settings: object,
    ) -> None:
        super().__init__(**settings)
        task = get_task(task)
        self.metric, self.task = one_number(metric).check(task), task
        self.threshold, self.from_logits = threshold, from_logits
        if self.metric.by_scores and not isinstance(self.metric.where, Top):
            raise ValueError(
                f"metric must be one of counts, got {self.metric.name}, which needs all scores. "
                "Use the one of torchmetrics."
            )
        if not task.single:
            check_integer("classes", classes, 2 if task.exclusive else 1)
        width = 1 if classes is None else int(classes)
        shape = (1,) if task.single else (1, width)
        row = torch.zeros((1,) if task.exclusive else shape, dtype=torch.long)
        counts, self.form = self._counts(torch.zeros(shape), row, None)
        self.add_state("counts", torch.zeros_like(counts), dist_reduce_fx="sum")

    def _counts(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Form]:
        problem = arrange(
            scores.detach(),
            target,
            task=self.task,
            from_logits=self.from_logits or len(scores) == 0,
            sample_weight=weight,
        )
        threshold = 0.5 if self.task.exclusive else self.threshold
        (c,) = self.metric.where.hard_cells(self.metric.metric, problem, threshold)
        return flatten(c)

    def update(self, scores: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add the counts of a batch."""
        counts, form = self._counts(scores, target, sample_weight)
        if form != self.form:
            raise ValueError(
                f"scores must be of {self.form.shape} classes, got {form.shape}. Set classes."
            )
        self.counts = self.counts + counts

    def compute(self) -> Tensor:
        """The metric of all rows since the last ``reset``."""
        return self.metric(self.form.confusion(self.counts))
