"""What one network and many share: phases, judging, the best weights, stopping, the history."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import softset as ss
from softset.training.loop import History, until_phase
from softset.training.members import train_members
from softset.training.phases import Phase
from softset.training.single import fit
from softset.training.stack import Member
from tests.training.helpers import make_binary, split


def test_best_weights_are_kept():
    train, validation = split(*make_binary())
    trained = train_members(
        (16,),
        train,
        validation,
        members=[Member(seed=0, learning_rate=0.3)],
        recipe="cross-entropy",
        batch_size=30,
        max_epochs=40,
        patience=10,
    )
    losses = trained.history[0]["validation_loss"]
    best = ss.CrossEntropyLoss()(trained.scores(validation[0])[0], validation[1]).item()
    assert best == pytest.approx(min(losses), rel=1e-12)
    assert best < losses[-1], "the last epoch must be worse for this test to say anything"
    assert trained.outcome == ["stopped"]
    assert len(losses) == losses.index(min(losses)) + 1 + 10


def test_monitoring_the_metric_keeps_its_best():
    train, validation = split(*make_binary())
    trained = train_members(
        (16,), train, validation, recipe="metric", monitor="metric", batch_size=50, max_epochs=30
    )
    best = ss.evaluate(trained.scores(validation[0])[0], validation[1], "f1", from_logits=True)
    assert best == pytest.approx(max(trained.history[0]["validation_metric"]))


def test_warm_starts_from_the_best_cross_entropy_and_never_ends_worse_in_its_own_loss():
    train, validation = split(*make_binary())
    settings = {"batch_size": 50, "max_epochs": 20, "patience": 5}
    entropy = train_members((8,), train, validation, recipe="cross-entropy", **settings)
    warm = train_members((8,), train, validation, recipe="warm", **settings)
    soft = ss.MetricLoss("f1")
    before = soft(entropy.scores(validation[0])[0], validation[1])
    after = soft(warm.scores(validation[0])[0], validation[1])
    assert after <= before
    n = len(entropy.history[0]["loss"])
    assert warm.history[0]["loss"][:n] == entropy.history[0]["loss"]
    assert set(warm.history[0]["phase"]) == {0, 1}


def test_annealing_cools_each_member_at_its_own_early_stops():
    train, validation = split(*make_binary())
    trained = train_members(
        (8,),
        train,
        validation,
        members=[Member(seed=s, learning_rate=r) for s, r in enumerate((0.1, 0.01))],
        recipe="anneal",
        batch_size=50,
        max_epochs=60,
        patience=2,
    )
    for h in trained.history:
        steps = h["temperature"]
        assert steps[0] == 0.2
        assert steps == sorted(steps, reverse=True)
        assert steps[-1] < 0.2
    assert trained.history[0]["temperature"] != trained.history[1]["temperature"]


class _Explodes(nn.Module):
    """NaN as soon as its only weight has moved far enough."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return torch.where(self.weight > 1.5, torch.nan, self.weight) * x[:, 0]


@pytest.mark.parametrize("validated", [True, False])
def test_a_member_whose_loss_is_not_finite_stops_and_the_others_go_on(validated):
    x, _ = make_binary(100)
    members = [Member(seed=0, learning_rate=r) for r in (0.001, 0.3, 0.002)]
    settings = {
        "network": _Explodes,
        "train": (x, (x[:, 0] > 0).long()),
        "validation": (x, (x[:, 0] > 0).long()) if validated else None,
        "recipe": "cross-entropy",
        "batch_size": 20,
        "max_epochs": 6,
    }
    with pytest.warns(RuntimeWarning, match="loss of member 1 is not finite in epoch 1"):
        trained = train_members(members=members, **settings)
    assert trained.outcome == ["max_epochs", "not finite", "max_epochs"]
    assert trained.weights[1].item() == 1.0, "the last good weights are those of the start"
    assert len(trained.history[0]["loss"]) == 6
    alone = train_members(members=[members[2]], **settings)
    torch.testing.assert_close(trained.weights[2], alone.weights[0], rtol=1e-12, atol=1e-12)


def test_a_loss_of_nan_stops_its_member_only():
    x, y = make_binary(60)

    def loss(scores, target):
        value = nn.functional.binary_cross_entropy_with_logits(scores, target)
        return value * torch.where(value > 100, torch.nan, 1.0)

    members = [Member(seed=0, learning_rate=r) for r in (0.01, 1e4)]
    with pytest.warns(RuntimeWarning, match="member 1"):
        trained = train_members((4,), (x, y), recipe=loss, members=members, max_epochs=20)
    assert trained.outcome == ["max_epochs", "not finite"]
    assert torch.isfinite(trained.weights).all()


def test_all_members_may_fail():
    x, y = make_binary(60)
    with pytest.warns(RuntimeWarning, match="not finite"):
        trained = train_members((4,), (x, y), recipe=lambda s, t: s.sum() * torch.nan, max_epochs=3)
    assert trained.outcome == ["not finite"]


# --- both back ends ------------------------------------------------------------------------------


def train_one(kind, recipe, train, validation=None, rate=0.01, **settings):
    """The same network in either back end, in full batches: its history and final scores."""
    start = train_members((6,), train, recipe="cross-entropy", max_epochs=1).network
    settings = {"max_epochs": 15, "patience": 4} | settings
    if kind == "members":
        member = [Member(0, rate)]
        trained = train_members((6,), train, validation, recipe=recipe, members=member, **settings)
        return trained.history[0], trained.scores(train[0])[0]
    model = start.module(start.start([0], torch.float64)[0][0], {})
    loaders = [DataLoader(TensorDataset(*p), 10**6) if p else None for p in (train, validation)]
    adamw = lambda p: torch.optim.AdamW(p, lr=rate, weight_decay=0.0)  # noqa: E731
    history = fit(model, recipe, *loaders, optimizer=adamw, **settings)
    return history, model(train[0]).squeeze(-1).detach()


KINDS = ["members", "single"]


@pytest.mark.parametrize("monitor", ["loss", "metric"])
@pytest.mark.parametrize("recipe", ["cross-entropy", "metric", "metric-grid", "anneal", "warm"])
def test_both_back_ends_take_the_same_way(recipe, monitor):
    parts = split(*make_binary())
    settings = {"monitor": monitor, "rate": 0.05, "max_epochs": 40}
    (many, a), (one, b) = (train_one(kind, recipe, *parts, **settings) for kind in KINDS)
    torch.testing.assert_close(a, b)
    assert list(many) == list(one) == list(History.__annotations__)
    assert many["phase"] == one["phase"]
    assert many["temperature"] == one["temperature"]
    for name in ("loss", "validation_loss", "validation_metric", "validation_soft"):
        assert many[name] == pytest.approx(one[name], rel=1e-6), name


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_says_what_validation_says(kind):
    train, (x, y) = split(*make_binary())
    history, _ = train_one(kind, "warm", train, (x, y), max_epochs=3)
    assert history["phase"] == [0, 0, 0, 1, 1, 1]
    soft, loss = history["validation_soft"], history["validation_loss"]
    assert all(a != 1 - b for a, b in zip(soft[:3], loss[:3], strict=True))
    assert soft[3:] == [1 - v for v in loss[3:]]
    history, _ = train_one(kind, "warm", train, max_epochs=2)
    assert history["validation_loss"] == history["validation_soft"] == [None] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_without_a_soft_form_leaves_the_soft_column_empty(kind, monkeypatch):
    train, validation = split(*make_binary())
    module = {"members": "stack"}.get(kind, kind)
    monkeypatch.setattr(f"softset.training.{module}.soft_metric", lambda *_, **__: None)
    history, _ = train_one(kind, "cross-entropy", train, validation, max_epochs=2)
    assert history["validation_soft"] == [None, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["training", "validation"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_training_and_is_written_down(kind, where, wrong):
    train, validation = split(*make_binary())
    calls = []

    def loss(scores, target):
        calls.append(len(target))
        value = nn.functional.binary_cross_entropy_with_logits(scores, target.double())
        bad = calls.count(len(train[0])) == 3 and (where == "training" or len(target) == 100)
        return value * (wrong if bad else 1.0)

    recipe = [Phase(loss), Phase(ss.MetricLoss())]
    with pytest.warns(RuntimeWarning, match="the loss is not finite in epoch 3") as said:
        history, scores = train_one(kind, recipe, train, validation)
    assert len(said) == 1
    assert history["phase"] == [0, 0, 0], "no second phase"
    shown = history["loss"] if where == "training" else history["validation_loss"]
    assert [math.isfinite(v) for v in shown] == [True, True, False]
    assert math.isfinite(history["loss"][2]) == (where == "validation")
    assert torch.isfinite(scores).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_phase_that_only_makes_it_worse_leaves_the_weights_where_they_were(kind):
    train, validation = split(*make_binary())
    network = train_members((6,), train, recipe="cross-entropy", max_epochs=1).network
    start = network.module(network.start([0], torch.float64)[0][0], {})
    settings = {"rate": 100.0, "max_epochs": 2}
    history, scores = train_one(kind, "cross-entropy", train, validation, **settings)
    before = ss.CrossEntropyLoss()(start(validation[0]), validation[1]).item()
    assert min(history["validation_loss"]) > before, "or this test says nothing"
    torch.testing.assert_close(scores, start(train[0]).squeeze(-1).detach())


@pytest.mark.parametrize("kind", KINDS)
def test_cooling_needs_validation_data(kind):
    train, _ = split(*make_binary())
    wanted = "validation" if kind == "members" else "val_loader"
    with pytest.raises(ValueError, match=f"cools at early stops, .* give {wanted}"):
        train_one(kind, "anneal", train)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["max_epochs", "patience"])
@pytest.mark.parametrize("value", [0, 1.5, math.inf, math.nan, 10**400, True, "3"])
def test_numbers_of_epochs_are_whole(kind, name, value):
    train, validation = split(*make_binary())
    with pytest.raises(ValueError, match=f"{name} must be an integer from 1"):
        train_one(kind, "metric", train, validation, **{name: value})


def test_until_phase_cuts_every_list():
    train, validation = split(*make_binary())
    history, _ = train_one("members", "warm", train, validation, max_epochs=2)
    first = until_phase(history, 1)
    assert first["phase"] == [0, 0]
    assert {len(values) for values in first.values()} == {2}
    assert until_phase(history, 2) == history
