from __future__ import annotations

import pytest
import sklearn.metrics as skm
import torch

import softset as ss
from tests.reference import random_problem


@pytest.mark.parametrize(
    "name",
    ["f1", "f1_macro", "f1_micro", "f1_weighted", "precision_macro", "recall_weighted",
     "jaccard_micro", "accuracy", "balanced_accuracy", "matthews_corrcoef", "roc_auc",
     "average_precision"],
)  # fmt: skip
def test_scorer_names_mean_what_they_mean_in_scikit_learn(name):
    z, y = random_problem("binary", n=90)
    scorer = skm.get_scorer(name)
    scores = torch.sigmoid(z) if name in ("roc_auc", "average_precision") else (z >= 0)
    kwargs = {k: v for k, v in scorer._kwargs.items() if k != "pos_label"}
    expected = scorer._score_func(y.numpy(), scores.numpy(), **kwargs)
    assert ss.evaluate(z, y, name) == pytest.approx(expected, abs=1e-12)


def test_names_lead_back_to_the_metric():
    for name in ss.METRICS:
        assert ss.get_metric(name).name == name
        assert ss.get_metric(ss.get_metric(name).name) == ss.get_metric(name)
    for name in ("f3", "f1_micro", "f2_macro", "recall_weighted"):
        assert ss.get_metric(name).name == name
    assert ss.get_metric("F1") == ss.F1()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("f1_scor", "Did you mean 'f1'"),
        ("recal", "Did you mean 'recall'"),
        ("mcc_macro", "mcc is not averaged"),
        ("f0", "not known"),
        (3, "metric must be a name"),
        (ss.MCC, "must be called first"),
    ],
)
def test_unknown_metrics_are_refused_with_a_hint(metric, message):
    with pytest.raises(ValueError, match=message):
        ss.get_metric(metric)
