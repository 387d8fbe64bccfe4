"""The engine: members together do what each does alone."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

import softset as ss
from softset.tasks import get_task
from softset.training.members import train_members
from softset.training.networks import score
from softset.training.stack import Member
from tests.training.helpers import make_binary, make_multiclass, split

MEMBERS = [
    Member(seed=0, learning_rate=0.02),
    Member(seed=1, learning_rate=0.001, weight_decay=0.1),
    Member(seed=2, learning_rate=0.2, dropout=0.3),
    Member(seed=3, learning_rate=0.003, dropout=0.1),
]


def each_alone(members, **settings):
    return [train_members(members=[m], **settings) for m in members]


def assert_same_as_alone(members, **settings):
    together = train_members(members=members, **settings)
    for k, alone in enumerate(each_alone(members, **settings)):
        torch.testing.assert_close(together.weights[k], alone.weights[0], rtol=1e-8, atol=1e-8)
        assert len(together.history[k]["loss"]) == len(alone.history[0]["loss"])
        for name, value in together.buffers.items():
            torch.testing.assert_close(value[k], alone.buffers[name][0], rtol=1e-8, atol=1e-8)
    return together


@pytest.mark.parametrize(
    ("recipe", "optimizer"),
    [(r, "adamw") for r in ("cross-entropy", "metric", "metric-grid", "anneal", "warm")]
    + [("metric", "adam"), ("warm", "sgd")],
)
def test_batched_equals_sequential_with_members_that_leave(recipe, optimizer):
    train, validation = split(*make_binary())
    faster = 20 if optimizer == "sgd" else 1
    together = assert_same_as_alone(
        [replace(m, learning_rate=faster * m.learning_rate) for m in MEMBERS],
        network=(8, 4),
        train=train,
        validation=validation,
        recipe=recipe,
        optimizer=optimizer,
        batch_size=60,  # 5 updates an epoch
        max_epochs=20,
        patience=1,
    )
    lengths = {len(h["loss"]) for h in together.history}
    assert len(lengths) > 1, "some member must leave before the others"
    assert max(lengths) * 5 >= 50


@pytest.mark.parametrize("sampling", ["stratified", "oversampled"])
@pytest.mark.parametrize("shared_order", [None, 7])
def test_batched_equals_sequential_for_all_samplings(sampling, shared_order):
    train, validation = split(*make_binary())
    assert_same_as_alone(
        MEMBERS,
        network=(8,),
        train=train,
        validation=validation,
        recipe="metric",
        batch_size=50,
        max_epochs=5,
        patience=2,
        sampling=sampling,
        shared_order=shared_order,
    )


def test_batched_equals_sequential_for_modules_with_batch_norm():
    train, validation = split(*make_binary())
    members = [Member(seed=s, learning_rate=r) for s, r in enumerate((0.1, 0.01, 0.001))]
    assert_same_as_alone(
        members,
        network=lambda: nn.Sequential(
            nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
        ),
        train=train,
        validation=validation,
        recipe="warm",
        batch_size=60,
        max_epochs=8,
        patience=2,
    )


def test_batched_equals_sequential_for_different_temperatures():
    train, validation = split(*make_multiclass())
    together = assert_same_as_alone(
        [Member(seed=1, learning_rate=rate) for rate in (0.02, 0.1, 0.5)],
        network=(8,),
        train=train,
        validation=validation,
        recipe="anneal",
        task="multiclass",
        batch_size=100,
        max_epochs=15,
        patience=1,
    )
    assert len({tuple(h["temperature"]) for h in together.history}) > 1


def test_weights_of_members_equal_repeated_rows_in_a_full_batch():
    x, y = make_binary(60)
    w = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(0))
    settings = {"network": (6,), "recipe": "warm", "batch_size": 1000, "max_epochs": 25}
    weighted = train_members(train=(x, y, w), **settings)
    repeated = train_members(train=(x.repeat_interleave(w, 0), y.repeat_interleave(w)), **settings)
    torch.testing.assert_close(weighted.weights, repeated.weights, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("task", "recipe"),
    [("binary", r) for r in ("cross-entropy", "metric", "anneal")]
    + [(task, "warm") for task in ("binary", "multiclass", "multilabel")],
)
def test_every_recipe_learns_every_task(task, recipe):
    x, y = make_binary(600) if task == "binary" else make_multiclass(600)
    if task == "multilabel":
        y = torch.stack([y > 0, y > 1], 1).long()
    train, validation = split(x, y, 400)
    trained = train_members(
        (16,),
        train,
        validation,
        members=[Member(seed=0, learning_rate=0.02)],
        recipe=recipe,
        task=task,
        batch_size=100,
        max_epochs=60,
        patience=15,
    )
    before = score(
        trained.network, *trained.network.start([0], x.dtype), validation[0], get_task(task)
    )[0]
    after = trained.scores(validation[0])[0]
    gain = ss.evaluate(after, validation[1], "f1", task=task, from_logits=True) - ss.evaluate(
        before, validation[1], "f1", task=task, from_logits=True
    )
    assert gain > 0.2


@pytest.mark.parametrize("metric", ["auroc", "mcc"])
def test_areas_and_joint_metrics_of_several_classes(metric):
    train, validation = split(*make_multiclass(200), 150)
    trained = train_members(
        (8,), train, validation, recipe="metric", metric=metric, task="multiclass", max_epochs=3
    )
    assert trained.scores(validation[0]).shape == (1, 50, 3)


def test_a_loss_of_the_user_gets_single_problems():
    x, y = make_binary(100)
    seen = []

    def loss(scores, target, sample_weight=None):
        seen.append((tuple(scores.shape), tuple(target.shape), sample_weight is not None))
        return nn.functional.binary_cross_entropy_with_logits(scores, target)

    members = [Member(seed=s) for s in range(3)]
    train_members((4,), (x, y), recipe=loss, members=members, batch_size=50, max_epochs=1)
    assert seen == [((50,), (50,), False)] * 6
    ours = train_members((4,), (x, y), recipe=loss, members=members, max_epochs=9)
    same = train_members((4,), (x, y), recipe="cross-entropy", members=members, max_epochs=9)
    torch.testing.assert_close(ours.weights, same.weights)


def test_torch_losses_work_too():
    x, y = make_binary(100)
    ours = train_members((4,), (x, y), recipe=nn.BCEWithLogitsLoss(), max_epochs=5)
    same = train_members((4,), (x, y), recipe="cross-entropy", max_epochs=5)
    torch.testing.assert_close(ours.weights, same.weights)


def test_class_weight_enters_the_losses_of_named_recipes():
    x, y = make_binary(100)
    given = train_members((4,), (x, y), class_weight=[1.0, 9.0], max_epochs=5)
    plain = train_members((4,), (x, y), max_epochs=5)
    weight = torch.where(y == 1, 9.0, 1.0)
    by_sample = train_members((4,), (x, y, weight), recipe="metric", max_epochs=5)
    by_class = train_members((4,), (x, y), recipe="metric", class_weight=[1.0, 9.0], max_epochs=5)
    assert (given.weights - plain.weights).abs().max() > 1e-4
    torch.testing.assert_close(by_sample.weights, by_class.weights)


# --- arguments -----------------------------------------------------------------------------------


def test_half_the_labels_flipped_stays_finite():
    x, y = make_binary()
    flip = torch.rand(len(y), generator=torch.Generator().manual_seed(1)) < 0.5
    train, validation = split(x, torch.where(flip, 1 - y, y))
    trained = train_members((8,), train, validation, batch_size=50, max_epochs=20)
    assert torch.isfinite(trained.weights).all()


def test_batches_of_one_and_batches_without_positives_are_finite():
    x, y = make_binary(40)
    y[y.nonzero().flatten()[2:]] = 0
    trained = train_members((4,), (x, y), recipe="metric", batch_size=1, max_epochs=3)
    assert trained.outcome == ["max_epochs"]
    assert torch.isfinite(trained.weights).all()


def test_same_seed_same_result_ten_of_ten():
    train, validation = split(*make_binary(dtype=torch.float32))
    members = [Member(seed=s, dropout=0.2) for s in range(3)]
    runs = [
        train_members((8, 4), train, validation, members=members, batch_size=64, max_epochs=5)
        for _ in range(10)
    ]
    assert all(torch.equal(run.weights, runs[0].weights) for run in runs)
    assert all(run.history == runs[0].history for run in runs)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "metrics"}, "recipe must be one of .* Did you mean 'metric'"),
        ({"recipe": 3}, "recipe must be one of"),
        ({"task": "multi"}, "task must be one of"),
        ({"monitor": "accuracy"}, "monitor must be one of"),
        ({"optimizer": "adamx"}, "optimizer must be one of .* Did you mean 'adam"),
        ({"sampling": "random"}, "sampling must be one of"),
        ({"batch_size": 0}, "batch_size must be an integer"),
        ({"batch_size": math.inf}, "batch_size must be an integer"),
        ({"batch_size": 1.5}, "batch_size must be an integer"),
        ({"batch_size": 10**400}, "batch_size must be an integer"),
        ({"patience": 0}, "patience must be an integer"),
        ({"shared_order": -1}, "shared_order must be an integer"),
        ({"shared_order": 0.5}, "shared_order must be an integer"),
        ({"members": []}, "members must be a list of Member"),
        ({"network": 5}, "network must be hidden sizes"),
        ({"network": nn.Linear(5, 1)}, "network must be a function"),
        ({"network": (0,)}, "hidden_layer_sizes must be an integer"),
        ({"network": (math.inf,)}, "hidden_layer_sizes must be an integer"),
        ({"network": (10**400,)}, "hidden_layer_sizes must be an integer"),
        ({"network": lambda: nn.Linear(5, 2)}, "one score a row"),
        ({"train": (torch.zeros(3, 2), torch.zeros(2))}, "as many targets as inputs"),
        ({"train": (torch.full((2, 2), torch.nan), torch.zeros(2))}, "NaN or infinity .* row 0"),
        ({"train": (torch.zeros(2, 2), torch.tensor([-1, 1]))}, "0 and 1 in y, got -1"),
        ({"train": (torch.zeros(2, 2), torch.tensor([0, 1]), torch.zeros(2))}, "sample_weight"),
        ({"recipe": "anneal"}, "give validation"),
        ({"recipe": "metric-grid", "task": "multiclass"}, "averages over thresholds"),
        ({"recipe": ss.CrossEntropyLoss(), "class_weight": [1, 2]}, "goes into the loss"),
        ({"metric": ss.F1(average=None)}, "average=None"),
        (
            {"validation": (torch.zeros(2, 5), torch.tensor([0, 2])), "task": "multiclass"},
            "class 2, which train never shows",
        ),
        ({"validation": (torch.zeros(2, 4), torch.tensor([0, 1]))}, "must look like train"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    settings = {"network": (4,), "train": make_binary(30), "recipe": "metric", "max_epochs": 1}
    with pytest.raises(ValueError, match=message):
        train_members(**settings | change)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"seed": 0.5},
        {"seed": math.inf},
        {"seed": 2**63},
        {"learning_rate": 0},
        {"learning_rate": math.nan},
        {"learning_rate": math.inf},
        {"learning_rate": 10**400},
        {"weight_decay": -1},
        {"weight_decay": 10**400},
        {"dropout": 1.0},
        {"dropout": "half"},
    ],
)
def test_wrong_members_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Member(**wrong)


@pytest.mark.parametrize(
    "extreme",
    [
        {"learning_rate": 1e300},
        {"learning_rate": 1e-100},
        {"weight_decay": 1e300},
        {"dropout": 1 - 1e-15},
        {"seed": 2**63 - 1},
    ],
)
@pytest.mark.parametrize("recipe", ["warm", "anneal"])
def test_extreme_members_train_or_stop_with_finite_weights(extreme, recipe):
    train, validation = split(*make_binary(dtype=torch.float32))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trained = train_members(
            (4,), train, validation, members=[Member(**extreme)], recipe=recipe, max_epochs=3
        )
    assert torch.isfinite(trained.weights).all()
    failed = trained.outcome == ["not finite"]
    assert [w.category for w in said] == [RuntimeWarning] * failed


def test_whole_numbers_may_come_as_floats():
    x, y = make_binary(60)
    floats = {"batch_size": 20.0, "max_epochs": 2.0, "patience": 3.0, "shared_order": 1.0}
    whole = {name: int(value) for name, value in floats.items()}
    a = train_members((4,), (x, y), members=[Member(seed=3)], **whole)
    b = train_members((4.0,), (x, y), members=[Member(seed=3.0)], **floats)
    assert torch.equal(a.weights, b.weights)
