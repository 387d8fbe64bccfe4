"""The arithmetic of ``CountedMetric``, with a stand-in for its library, which need not be there."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import softset as ss
from tests.reference import TASKS, random_problem


class Metric:
    """What torchmetrics does with a state on one rank."""

    def __init__(self):
        self.kept = {}

    def add_state(self, name, value, dist_reduce_fx):
        assert dist_reduce_fx == "sum"
        setattr(self, name, value)


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", SimpleNamespace(Metric=Metric))
    monkeypatch.delitem(sys.modules, "softset.integrations.torchmetrics", raising=False)
    yield importlib.import_module("softset.integrations.torchmetrics").CountedMetric
    sys.modules.pop("softset.integrations.torchmetrics", None)


NAMES = ["f1", "mcc", "jaccard_micro", "recall@2", "precision@1", "f1@2", "quadratic_kappa"]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", NAMES)
def test_batches_with_weights_are_the_metric_of_all_rows(counted, metric, task):
    if "@" in metric and task == "binary":
        with pytest.raises(ValueError, match="task='multilabel' and 'multiclass'"):
            counted(metric, task=task).update(*random_problem(task))
        return
    z, y = random_problem(task)
    w = torch.tensor(np.random.default_rng(0).integers(0, 3, len(z)) * 1.0)
    given = {} if task == "multiclass" or "@" in metric else {"threshold": 0.3}
    found = counted(metric, task=task, classes=None if task == "binary" else 4, **given)
    for rows in (slice(0, 7), slice(7, 40), slice(40, 60)):
        found.update(z[rows], y[rows], w[rows])
    wanted = ss.evaluate(z, y, metric, task=task, sample_weight=w, **given)
    assert float(found.compute()) == pytest.approx(wanted)


def test_probabilities_are_taken_as_such(counted):
    z, y = random_problem("binary")
    found = counted("f1", from_logits=False, threshold=0.4)
    found.update(torch.sigmoid(z), y)
    assert float(found.compute()) == pytest.approx(ss.evaluate(z, y, "f1", threshold=0.4))
