"""Stacks of networks: what one member alone would compute."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import softset as ss
from softset.training.members import train_members
from softset.training.phases import Phase
from softset.training.stack import Member
from tests.training.helpers import make_binary


def test_a_perceptron_equals_the_same_module():
    x, y = make_binary()
    trained = train_members((8, 4), (x, y), recipe="metric", batch_size=50, max_epochs=1)
    module = trained.module(0)
    torch.testing.assert_close(module(x).squeeze(-1), trained.scores(x)[0])
    # One step of the engine is one step of torch on the module.
    start = train_members(
        (8, 4), (x, y), recipe=[Phase(ss.MetricLoss("f1"))], batch_size=999, max_epochs=1
    )
    network = start.network
    flat, _ = network.start([0], torch.float64)
    module = network.module(flat[0], {})
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.0)
    ss.MetricLoss("f1")(module(x), y).backward()
    optimizer.step()
    torch.testing.assert_close(module(x).squeeze(-1), start.scores(x)[0])


def test_forward_twice_before_backward_is_refused():
    network = train_members((4,), make_binary(50), max_epochs=1).network
    flat = network.start([0], torch.float64)[0].requires_grad_()
    x, _ = make_binary(10)
    first = network.forward(flat, {}, x, True)
    network.forward(flat, {}, x, True)
    with pytest.raises(RuntimeError, match="another forward pass"):
        first.sum().backward()


def test_no_hidden_layer_is_a_linear_model():
    x, y = make_binary(100)
    trained = train_members((), (x, y), recipe="cross-entropy", max_epochs=5)
    assert trained.weights.shape == (1, 6)
    torch.testing.assert_close(trained.module(0)(x).squeeze(-1), trained.scores(x)[0])


def test_inputs_may_be_images():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 1, 6, 6, generator=g)
    y = (x[:, 0, :3].mean((1, 2)) > x[:, 0, 3:].mean((1, 2))).long()
    trained = train_members(
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)),
        (x[:40], y[:40]),
        (x[40:], y[40:]),
        members=[Member(seed=s, learning_rate=0.01) for s in range(2)],
        task="multiclass",
        recipe="metric",
        max_epochs=20,
        batch_size=20,
    )
    assert trained.scores(x).shape == (2, 60, 2)
    module = trained.module(1)
    torch.testing.assert_close(module(x), trained.scores(x)[1], rtol=1e-4, atol=1e-5)


def test_modules_with_dropout_repeat_themselves():
    x, y = make_binary(100)
    settings = {
        "network": lambda: nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 1)),
        "train": (x, y),
        "recipe": "metric",
        "batch_size": 25,
        "max_epochs": 3,
    }
    first = train_members(**settings)
    state = torch.get_rng_state()
    torch.rand(7)
    assert torch.equal(train_members(**settings).weights, first.weights)
    torch.set_rng_state(state)
