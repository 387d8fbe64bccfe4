"""The real library on torch; ``make test-integrations`` installs it."""

from __future__ import annotations

import os

import numpy as np
import pytest

import softset as ss
from softset.integrations.keras import keras_loss

os.environ["KERAS_BACKEND"] = "torch"
keras = pytest.importorskip("keras")


@pytest.mark.filterwarnings("ignore")  # the library's own
@pytest.mark.parametrize(("task", "outputs"), [("binary", 1), ("multiclass", 3)])
def test_a_model_learns(task, outputs):
    keras.utils.set_random_seed(0)
    g = np.random.default_rng(0)
    x = g.normal(size=(600, 4)).astype(np.float32)
    y = (x + 0.5 * g.normal(size=x.shape))[:, :3].argmax(1)
    y = (y == 0).astype(np.int64) if task == "binary" else y
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(outputs)])
    model.compile(keras.optimizers.Adam(0.05), keras_loss(ss.MetricLoss("f1", task=task)))
    history = model.fit(x, y, batch_size=200, epochs=30, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    scores = np.asarray(model.predict(x, verbose=0))
    scores = scores[:, 0] if task == "binary" else scores
    assert ss.evaluate(scores, y, "f1", task=task, from_logits=True) > 0.75
