from __future__ import annotations

import pytest
import sklearn.metrics as skm
import torch

import softset as ss
from tests.reference import random_problem


def test_bad_average_is_refused():
    with pytest.raises(ValueError, match="average must be one of"):
        ss.F1(average="mean")
    z, y = random_problem("multiclass")
    with pytest.raises(ValueError, match="does not apply to MCC"):
        ss.evaluate(z, y, ss.MCC(average="micro"), task="multiclass", from_logits=True)


def test_a_class_neither_present_nor_predicted_does_not_count():
    y, said = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0])
    z = torch.nn.functional.one_hot(said, 4).double()
    for name in ("f1", "recall", "jaccard"):
        expected = getattr(skm, f"{name}_score")(y, said, average="macro")
        assert ss.evaluate(z, y, name, task="multiclass", from_logits=True) == pytest.approx(
            expected
        )
    # a loss averages over the classes with support
    z = torch.randn(4, 4, dtype=torch.float64)
    c = ss.confusion(
        z, y, task="multiclass", step=ss.LinearStep.at_temperature(0.2), from_logits=True
    )
    f1 = ss.F1(average=None)(c)
    assert ss.metric_loss(z, y, "f1", task="multiclass").item() == pytest.approx(
        1 - f1[:2].mean().item()
    )
