"""The engine: members together do what each does alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import softset as ss
from softset.training.members import Member, score, train_members
from softset.training.recipes import Phase
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


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize("recipe", ["cross-entropy", "metric", "metric-grid", "anneal", "warm"])
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
    members = [Member(seed=1, learning_rate=0.02, temperature=t) for t in (0.05, 0.2, 0.3)]
    for recipe in ("metric", "anneal"):
        together = assert_same_as_alone(
            members,
            network=(8,),
            train=train,
            validation=validation,
            recipe=recipe,
            task="multiclass",
            batch_size=100,
            max_epochs=8,
            patience=2,
        )
    assert (together.weights[0] - together.weights[2]).abs().max() > 1e-3


def test_weights_of_members_equal_repeated_rows_in_a_full_batch():
    x, y = make_binary(60)
    w = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(0))
    settings = {"network": (6,), "recipe": "warm", "batch_size": 1000, "max_epochs": 25}
    weighted = train_members(train=(x, y, w), **settings)
    repeated = train_members(train=(x.repeat_interleave(w, 0), y.repeat_interleave(w)), **settings)
    torch.testing.assert_close(weighted.weights, repeated.weights, rtol=1e-8, atol=1e-8)


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
    best = ss.evaluate(trained.scores(validation[0])[0], validation[1], "f1")
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


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("recipe", ["cross-entropy", "metric", "anneal", "warm"])
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
    before = score(trained.network, *trained.network.start([0], x.dtype), validation[0], task)[0]
    after = trained.scores(validation[0])[0]
    gain = ss.evaluate(after, validation[1], "f1", task=task) - ss.evaluate(
        before, validation[1], "f1", task=task
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


@pytest.mark.parametrize(
    "loss",
    [
        ss.CrossEntropyLoss(class_weight=[1.0, 5.0]),
        ss.FocalLoss(2.0),
        ss.MeanAbsoluteErrorLoss(),
        ss.SurrogateFBetaLoss(0.2),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_batched_means_equal_each_loss_alone(loss, weighted):
    from softset.training.recipes import member_losses  # noqa: PLC0415

    g = torch.Generator().manual_seed(0)
    z = torch.randn(3, 20, generator=g, dtype=torch.float64)
    y = torch.randint(0, 2, (3, 20), generator=g)
    w = torch.rand(3, 20, generator=g, dtype=torch.float64) if weighted else None
    got = member_losses(loss, z, y, w)
    for k in range(3):
        alone = loss(z[k], y[k], None if w is None else w[k])
        torch.testing.assert_close(got[k], alone)


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


def test_class_weight_enters_the_losses_of_named_recipes():
    x, y = make_binary(100)
    given = train_members((4,), (x, y), class_weight=[1.0, 9.0], max_epochs=5)
    plain = train_members((4,), (x, y), max_epochs=5)
    weight = torch.where(y == 1, 9.0, 1.0)
    by_sample = train_members((4,), (x, y, weight), recipe="metric", max_epochs=5)
    by_class = train_members((4,), (x, y), recipe="metric", class_weight=[1.0, 9.0], max_epochs=5)
    assert (given.weights - plain.weights).abs().max() > 1e-4
    torch.testing.assert_close(by_sample.weights, by_class.weights)


# --- numbers that go wrong -----------------------------------------------------------------------


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


def test_even_batches_cover_every_row_once():
    from softset.training.batches import slices  # noqa: PLC0415

    for rows, size in [(10, 4), (1025, 1024), (7, 7), (7, 100), (1, 1)]:
        parts = list(slices(rows, size))
        lengths = [p.stop - p.start for p in parts]
        assert sum(lengths) == rows
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1


def test_oversampling_balances_and_stratifying_spreads():
    from softset.training.batches import epoch_orders  # noqa: PLC0415

    y = torch.cat([torch.zeros(95), torch.ones(5)]).long()
    generators = [torch.Generator().manual_seed(s) for s in range(3)]
    for order in epoch_orders(y, "oversampled", generators):
        assert torch.bincount(y[order]).tolist() == [95, 95]
        assert torch.bincount(order)[95:].tolist() == [19] * 5
    orders = epoch_orders(y, "stratified", generators)
    for order in orders:
        assert sorted(order.tolist()) == list(range(100))
        assert [int(y[part].sum()) for part in order.split(20)] == [1] * 5
    assert not torch.equal(orders[0], orders[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "metrics"}, "recipe must be one of .* Did you mean 'metric'"),
        ({"recipe": 3}, "recipe must be one of"),
        ({"task": "multi"}, "task must be one of"),
        ({"monitor": "accuracy"}, "monitor must be one of"),
        ({"optimizer": "adamx"}, "optimizer must be one of .* Did you mean 'adam"),
        ({"sampling": "random"}, "sampling must be one of"),
        ({"batch_size": 0}, "batch_size must be in"),
        ({"patience": 0}, "patience must be in"),
        ({"members": []}, "members must be a list of Member"),
        ({"network": 5}, "network must be hidden sizes"),
        ({"network": nn.Linear(5, 1)}, "network must be a function"),
        ({"network": (0,)}, "hidden must be in"),
        ({"network": lambda: nn.Linear(5, 2)}, "one score a row"),
        ({"train": (torch.zeros(3, 2), torch.zeros(2))}, "as many targets as inputs"),
        ({"train": (torch.full((2, 2), torch.nan), torch.zeros(2))}, "NaN or infinity .* row 0"),
        ({"train": (torch.zeros(2, 2), torch.tensor([-1, 1]))}, "0 and 1 in y, got -1"),
        ({"train": (torch.zeros(2, 2), torch.tensor([0, 1]), torch.zeros(2))}, "sample_weight"),
        ({"recipe": "anneal"}, "give validation data"),
        ({"recipe": "metric-grid", "task": "multiclass"}, "averages over thresholds"),
        ({"recipe": ss.CrossEntropyLoss(), "class_weight": [1, 2]}, "goes into the loss"),
        ({"metric": ss.F1(average=None)}, "average=None"),
        ({"members": [Member(), Member(temperature=0.1)]}, "all members or to none"),
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
    [{"learning_rate": 0}, {"learning_rate": float("nan")}, {"dropout": 1.0}, {"temperature": 0.4}],
)
def test_wrong_members_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Member(**wrong)


def test_a_class_absent_from_validation_warns():
    x, y = make_binary(60)
    with pytest.warns(UserWarning, match="class 1 is absent from validation"):
        train_members((4,), (x, y), (x[:5], torch.zeros(5)), recipe="cross-entropy", max_epochs=1)


def test_progress_is_silent_unless_on_a_terminal(capfd, monkeypatch):
    settings = {"network": (4,), "train": make_binary(60), "max_epochs": 2, "verbose": 1}
    train_members(**settings)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    train_members(**settings)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "epoch 1 of 2 | loss" in shown.err
    assert "1 of 1 running" in shown.err
