from __future__ import annotations

import pytest
import sklearn.metrics as skm
import torch

import softset as ss
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
    each = ss.evaluate(z, y, ss.FBeta((0.5, 1, 2), average=None), task="multiclass")
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
