"""The real library; ``make test-integrations`` installs it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import softset as ss
from softset.integrations.skorch import probabilities

skorch = pytest.importorskip("skorch")


def rows(classes):
    g = np.random.default_rng(0)
    x = g.normal(size=(600, 4)).astype(np.float32)
    y = (x + 0.5 * g.normal(size=x.shape))[:, :classes].argmax(1)
    return x, (y == 0).astype(np.int64) if classes == 2 else y.astype(np.int64)


@pytest.mark.filterwarnings("ignore")  # the library's own
@pytest.mark.parametrize(("task", "classes"), [("binary", 2), ("multiclass", 3)])
def test_a_net_learns_and_its_rows_sum_to_one(task, classes):
    torch.manual_seed(0)
    x, y = rows(classes)
    net = skorch.NeuralNetClassifier(
        nn.Linear(4, 1 if task == "binary" else 3),
        criterion=ss.MetricLoss,
        criterion__task=task,
        predict_nonlinearity=probabilities(task),
        lr=1.0,
        max_epochs=20,
        batch_size=200,
        train_split=None,
        verbose=0,
    )
    net.fit(x, y)
    p = net.predict_proba(x)
    assert p.shape == (600, classes)
    assert p.sum(1) == pytest.approx(np.ones(600), abs=1e-6)
    with torch.no_grad():
        scores = net.module_(torch.from_numpy(x))
    f1 = ss.evaluate(scores, y, "f1", task=task, from_logits=True)
    assert f1 > 0.75
    decided = net.predict(x)
    if task == "binary":
        assert ss.F1()(ss.confusion(2 * decided - 1, y, from_logits=True)).item() == pytest.approx(
            f1
        )
    else:
        assert (decided == scores.argmax(1).numpy()).all()
    pickle.dumps(net)
