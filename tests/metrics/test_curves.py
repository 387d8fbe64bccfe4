from __future__ import annotations

import itertools

import numpy as np
import pytest
import sklearn.metrics as skm
import torch

import softset as ss
from tests.reference import TASKS


def on_a_grid(tp, fp, positives=4.0, negatives=4.0):
    """Counts at ascending thresholds."""
    tp, fp = torch.tensor(tp).double(), torch.tensor(fp).double()
    support, total = (torch.full_like(tp, n) for n in (positives, positives + negatives))
    return ss.Confusion.from_sums(tp, tp + fp, support, total)


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


@pytest.mark.parametrize("max_fpr", [0.01, 0.1, 0.37, 1.0])
@pytest.mark.parametrize("tied", [False, True])
def test_partial_area_equals_scikit_learn(max_fpr, tied):
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.2).astype(int)
    p = rng.beta(2, 3, 300) * 0.5 + 0.2 * y
    p = p.round(1) if tied else p
    for w in (None, rng.uniform(0.1, 2, 300)):
        wanted = skm.roc_auc_score(y, p, max_fpr=max_fpr, sample_weight=w)
        metric = ss.AUROC(max_fpr=max_fpr)
        got = ss.evaluate(p, y, metric, from_logits=False, sample_weight=w)
        assert got == pytest.approx(wanted, abs=1e-12)
        assert ss.get_metric(metric.name).name == metric.name


@pytest.mark.parametrize("fp", [[3, 3, 1, 1], [3.5, 2, 2, 0.5], [1, 1, 1, 1]])
def test_slope_of_the_partial_area_where_neighboring_thresholds_have_equal_rates(fp):
    """A piece without width has no area and still a slope: within the part half of both sides,
    beyond it none."""
    counts = on_a_grid([4.0, 3, 2, 1], fp)
    tp, fp = counts.tp, counts.predicted - counts.tp

    def area(tp, fp):
        c = ss.Confusion.from_sums(tp, tp + fp, counts.support, counts.total)
        return ss.AUROC(max_fpr=0.6)(c)

    assert torch.autograd.gradcheck(area, (tp.requires_grad_(), fp.requires_grad_()))


@pytest.mark.parametrize("name", ["auroc", "partial_auroc", "average_precision"])
@pytest.mark.parametrize("average", ["", "_macro", "_micro", "_weighted"])
@pytest.mark.parametrize("task", TASKS)
def test_a_batch_of_one_class_has_a_finite_loss_and_gradient(name, average, task):
    shape = {"binary": (2, 1, 3), "multiclass": (2, 3, 3), "multilabel": (2, 3, 3)}[task]
    z = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    target = torch.empty(2, 3) if task == "multiclass" else torch.empty(shape)
    for label, empty, per in itertools.product((0, 1), ("penalize", "ignore"), ("batch", "image")):
        y = torch.full_like(target, label).long()
        loss = ss.MetricLoss(name + average, task=task, empty=empty, per=per)(z, y)
        (grad,) = torch.autograd.grad(loss, z)
        assert loss.isfinite()
        assert grad.isfinite().all()
