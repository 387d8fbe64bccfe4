from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as skm
import torch

import softset as ss
from tests.oracles import geometric_mean_score
from tests.reference import random_problem


def test_f_beta_by_hand():
    # tp 4, fp 1, fn 2: precision 0.8, recall 2/3
    c = ss.Confusion.from_matrix([[5, 1], [2, 4]], task="binary")
    assert float(ss.F1()(c)) == pytest.approx(8 / 11)
    for beta in (0.5, 1.0, 2.0):
        b = beta**2
        expected = (1 + b) * 0.8 * (2 / 3) / (b * 0.8 + 2 / 3)
        assert float(ss.FBeta(beta)(c)) == pytest.approx(expected)


def test_beta_for_each_class():
    z, y = random_problem("multiclass", classes=3)
    each = ss.evaluate(
        z, y, ss.FBeta((0.5, 1, 2), average=None), task="multiclass", from_logits=True
    )
    for k, beta in enumerate((0.5, 1, 2)):
        expected = skm.fbeta_score(y, z.argmax(1), beta=beta, average=None)[k]
        assert each[k] == pytest.approx(expected)
    with pytest.raises(ValueError, match="beta has 2 values"):
        ss.metric_loss(z, y, ss.FBeta((1, 2)), task="multiclass")


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "x", [1, 0]])
def test_bad_beta_is_refused(bad):
    with pytest.raises(ValueError, match="beta must be"):
        ss.FBeta(bad)


def test_mcc_does_not_overflow():
    cell = 100_000_000
    c = ss.Confusion.from_matrix(torch.tensor([[cell, cell // 2], [cell // 4, cell]]), "binary")
    small = ss.Confusion.from_matrix([[4, 2], [1, 4]], "binary")
    assert float(ss.MCC()(c)) == pytest.approx(float(ss.MCC()(small)))


@pytest.mark.parametrize("weights", ["linear", "quadratic"])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_weighted_kappa_equals_scikit_learn(weights, classes):
    z, y = random_problem("multiclass", n=80, classes=classes)
    w = np.random.default_rng(0).uniform(0, 2, 80)
    metric = ss.WeightedKappa(weights=weights)
    for weight in (None, w):
        wanted = skm.cohen_kappa_score(y, z.argmax(1), weights=weights, sample_weight=weight)
        got = ss.evaluate(z, y, metric, task="multiclass", sample_weight=weight, from_logits=True)
        assert got == pytest.approx(wanted, abs=1e-12)
    offsets = ss.best_offsets(z, y, metric, from_logits=True)
    assert (
        ss.evaluate(z, y, metric, task="multiclass", offsets=offsets, from_logits=True) >= got - 1
    )
    assert ss.evaluate(
        z, y, metric, task="multiclass", offsets=offsets, from_logits=True
    ) >= ss.evaluate(z, y, metric, task="multiclass", from_logits=True)


def test_kappa_of_images_without_weight_or_of_tiny_ones():
    """Counts in other units keep their matrix."""
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(3, 4, 5, generator=g), torch.randint(0, 4, (3, 5), generator=g)
    for scale in (1e-15, 1.0, 1e15):
        w = scale * torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
        got = ss.evaluate(
            z, y, "qwk", task="multiclass", sample_weight=w, per="image", from_logits=True
        )
        each = [
            skm.cohen_kappa_score(y[i], z[i].argmax(0), weights="quadratic", labels=range(4))
            for i in (0, 2)
        ]
        assert got == pytest.approx(np.mean(each), abs=1e-12)


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.5), (1, 1), (0.2, 0.8), (0.0, 1.0)])
def test_tversky_is_dice_jaccard_and_f_beta(alpha, beta):
    z, y = random_problem("binary")
    tversky = ss.Tversky(alpha=alpha, beta=beta)
    tp, fp, fn = (
        float(getattr(ss.confusion(z, y, from_logits=True), c)) for c in ("tp", "fp", "fn")
    )
    assert ss.evaluate(z, y, tversky, from_logits=True) == pytest.approx(
        tp / (tp + alpha * fp + beta * fn)
    )
    if alpha == beta:
        other = "dice" if alpha == 0.5 else "jaccard"
        assert ss.evaluate(z, y, tversky, from_logits=True) == pytest.approx(
            ss.evaluate(z, y, other, from_logits=True), abs=1e-15
        )
    assert ss.get_metric(tversky.name) == tversky


def test_mistakes_must_count():
    with pytest.raises(ValueError, match="not both be 0"):
        ss.Tversky(alpha=0, beta=0)
    with pytest.raises(ValueError, match=r"2 number\(s\): tversky\(alpha, beta\)"):
        ss.get_metric("tversky(0.3)")


@pytest.mark.parametrize("columns", [3, 4, 100])
@pytest.mark.parametrize("strays", [False, True])
def test_gmean_does_not_depend_on_the_columns_of_absent_classes(columns, strays):
    rng = np.random.default_rng(0)
    true, w = np.arange(60) % 2 * 2, rng.uniform(0.1, 2, 60)  # classes 0 and 2
    said = np.where(rng.random(60) < 0.7, true, 2 - true)
    said[0] = 1 if strays else said[0]
    z = torch.from_numpy(np.eye(columns)[said])
    y = torch.from_numpy(true)
    got = ss.evaluate(z, y, "gmean", task="multiclass", sample_weight=w, from_logits=True)
    assert got == pytest.approx(geometric_mean_score(true, said, w), abs=1e-12)
    # A loss, in both of its ways: the classes with rows.
    recalls = [w[(true == k) & (said == k)].sum() / w[true == k].sum() for k in (0, 2)]
    settings = {"task": "multiclass", "step": ss.SigmoidStep(1e9), "sample_weight": w}
    for batch in (z, z[None]):  # directly, and through autograd
        loss = ss.metric_loss(batch, y, "gmean", batch_dims=batch.dim() - 2, **settings)
        assert loss.item() == pytest.approx(1 - np.prod(recalls) ** 0.5, abs=1e-9)
    z, y = torch.randn(9, columns, dtype=torch.float64).requires_grad_(), y[:9]
    assert torch.autograd.gradcheck(lambda z: ss.metric_loss(z, y, "gmean", task="multiclass"), z)
