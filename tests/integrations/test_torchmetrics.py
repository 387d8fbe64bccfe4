"""The real library; ``make test-integrations`` installs it."""

from __future__ import annotations

import pytest
import torch

import softset as ss
from tests.reference import TASKS, random_problem

pytest.importorskip("torchmetrics")

from softset.integrations.torchmetrics import CountedMetric


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", ["f1", "mcc", "jaccard", "accuracy"])
def test_it_is_the_metric_of_all_rows(metric, task):
    if metric == "mcc" and task == "multilabel":
        metric = "recall"
    z, y = random_problem(task)
    counted = CountedMetric(metric, task=task, classes=None if task == "binary" else 4)
    for rows in (slice(0, 7), slice(7, 40), slice(40, 60)):
        counted.update(z[rows], y[rows])
    assert float(counted.compute()) == pytest.approx(
        ss.evaluate(z, y, metric, task=task, from_logits=True)
    )
    counted.reset()
    counted.update(z[:20], y[:20])
    part = ss.evaluate(z[:20], y[:20], metric, task=task, from_logits=True)
    assert float(counted.compute()) == pytest.approx(part)


def test_sums_over_ranks():
    """What torchmetrics does on several ranks: it reduces the state by the sum."""
    z, y = random_problem("binary")
    ranks = [CountedMetric("f1"), CountedMetric("f1")]
    for rank, rows in zip(ranks, (slice(0, 11), slice(11, 60)), strict=True):
        rank.update(z[rows], y[rows])
    reduce = ranks[0]._reductions["counts"]
    ranks[0].counts = reduce(torch.stack([rank.counts for rank in ranks]))
    assert float(ranks[0].compute()) == pytest.approx(ss.evaluate(z, y, "f1", from_logits=True))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="metric must be one of counts"):
        CountedMetric("auroc")
    with pytest.raises(ValueError, match="classes must be an integer"):
        CountedMetric("f1", task="multiclass")
    with pytest.raises(ValueError, match="Set classes"):
        CountedMetric("f1", task="multiclass", classes=3).update(*random_problem("multiclass"))
