"""The plain loop for one model of the user's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import softset as ss
from softset.storage.files import SavedFileError
from softset.training.single import fit
from tests.training.helpers import make_binary, make_multiclass, split


def loaders(x, y, batch_size=50):
    train, validation = split(x, y)
    return (
        DataLoader(TensorDataset(*train), batch_size, shuffle=True),
        DataLoader(TensorDataset(*validation), 30),
    )


def network(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, outputs)).double()


def adam(rate):
    return lambda parameters: torch.optim.Adam(parameters, lr=rate)


@pytest.mark.parametrize(
    "loss", ["cross-entropy", "metric", "metric-grid", "anneal", "warm", ss.MetricLoss("f1")]
)
def test_every_recipe_learns(loss):
    model = network()
    train, validation = loaders(*make_binary())
    x, y = validation.dataset.tensors
    before = ss.evaluate(model(x), y, "f1", from_logits=True)
    history = fit(model, loss, train, validation, optimizer=adam(0.01), max_epochs=40, patience=10)
    assert ss.evaluate(model(x), y, "f1", from_logits=True) > before + 0.2
    assert len(history["loss"]) == len(history["validation_metric"])


def test_several_classes():
    model = network(3)
    train, validation = loaders(*make_multiclass())
    x, y = validation.dataset.tensors
    fit(model, "warm", train, validation, task="multiclass", optimizer=adam(0.02), max_epochs=30)
    assert ss.evaluate(model(x), y, "f1", task="multiclass", from_logits=True) > 0.7


def test_the_model_is_left_at_its_best_epoch_of_all_validation_rows_together():
    model = network()
    train, validation = loaders(*make_binary())
    x, y = validation.dataset.tensors
    history = fit(
        model, "metric", train, validation, optimizer=adam(0.1), max_epochs=40, patience=10
    )
    loss = ss.MetricLoss("f1")(model(x), y).item()
    assert loss == pytest.approx(min(history["validation_loss"]), rel=1e-12)
    assert loss < history["validation_loss"][-1]


def test_annealing_changes_its_own_copy_of_the_step():
    model, loss = network(), ss.MetricLoss("f1", step=ss.LinearStep.at_temperature(0.2))
    train, validation = loaders(*make_binary())
    recipe = [ss.training.Phase(loss, cooling={"rate": 0.5})]
    history = fit(model, recipe, train, validation, optimizer=adam(0.1), max_epochs=40, patience=2)
    assert history["temperature"][0] == 0.2
    assert history["temperature"][-1] < 0.2
    assert loss.step == ss.LinearStep.at_temperature(0.2)


def test_a_loss_remembers_in_its_own_copy():
    loss = ss.MetricLoss("f1", ema_decay=0.9)
    train, validation = loaders(*make_binary())
    fit(network(), loss, train, validation, max_epochs=2)
    assert float(loss.running.weight) == 0


def test_sample_weights_come_as_third_of_a_batch():
    x, y = make_binary()
    w = torch.rand(len(x), generator=torch.Generator().manual_seed(0)) + 0.1
    rows = DataLoader(TensorDataset(x, y, w), 100)
    history = fit(network(), "metric", rows, rows, max_epochs=2)
    model = network()
    assert history["validation_loss"][1] < ss.MetricLoss("f1")(model(x), y, w).item()


def test_nan_stops_and_keeps_the_last_good_weights():
    model = network()
    train, validation = loaders(*make_binary())
    calls = []

    def loss(scores, target):
        calls.append(1)
        value = nn.functional.binary_cross_entropy_with_logits(scores, target.double())
        return value * (torch.nan if len(calls) > 20 else 1.0)

    with pytest.warns(RuntimeWarning, match="not finite in epoch 3"):
        history = fit(model, loss, train, validation, max_epochs=9)
    x, y = validation.dataset.tensors
    assert len(history["loss"]) == 3
    kept = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(-1), y.double()).item()
    assert kept == pytest.approx(min(history["validation_loss"][:2]))


class StopError(Exception):
    pass


class StopsAfter:
    """A loader that breaks off in the middle of an epoch."""

    def __init__(self, loader, epochs):
        self.loader, self.epochs, self.dataset = loader, epochs, loader.dataset

    def __iter__(self):
        for i, batch in enumerate(self.loader):
            if self.epochs == 0 and i == 2:
                raise StopError
            yield batch
        if self.epochs is not None:
            self.epochs -= 1


def remembering():
    return [
        ss.training.Phase(ss.CrossEntropyLoss()),
        ss.training.Phase(ss.MetricLoss("f1", ema_decay=0.95), 0.1),
    ]


@pytest.mark.parametrize("make_loss", [lambda: "warm", remembering])
def test_resume_after_any_epoch_is_bit_equal(make_loss, tmp_path):
    def run(path, stop_after=None):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.Linear(8, 1)).double()
        train, validation = loaders(*make_binary())
        history = fit(
            model,
            make_loss(),
            StopsAfter(train, stop_after),
            validation,
            optimizer=adam(0.02),
            scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3),
            max_epochs=6,
            checkpoint=path,
            checkpoint_seconds=0,
        )
        return model.state_dict(), history

    whole, history = run(None)
    for stop_after in (1, 2, 5, 6, 7, 11):  # of 6 epochs for each phase
        path = tmp_path / str(stop_after)
        with pytest.raises(StopError):
            run(path, stop_after)
        torch.rand(stop_after)  # another state of the generator
        resumed, again = run(path)
        assert all(torch.equal(resumed[name], whole[name]) for name in whole)
        assert again == history


def test_resume_with_other_data_or_settings_is_refused(tmp_path):
    train, validation = loaders(*make_binary())
    fit(network(), "metric", train, validation, max_epochs=2, checkpoint=tmp_path / "a")
    other, _ = loaders(*make_binary(seed=1))
    for changed in ((other, 2), (train, 3)):
        with pytest.raises(SavedFileError, match="other data or settings"):
            fit(
                network(),
                "metric",
                changed[0],
                validation,
                max_epochs=changed[1],
                checkpoint=tmp_path / "a",
            )


def test_wrong_arguments_are_named():
    train, validation = loaders(*make_binary())
    with pytest.raises(ValueError, match="recipe must be one of"):
        fit(network(), "warmer", train)
    with pytest.raises(ValueError, match="give val_loader"):
        fit(network(), "anneal", train)
    with pytest.raises(ValueError, match="train_loader gave no batch"):
        fit(network(), "metric", [], validation)
    with pytest.raises(ValueError, match="val_loader gave no batch"):
        fit(network(), "metric", train, [])


def make_masks(n=40, seed=0):
    """Images of a bright square each, some of none; the last column is marked with 255."""
    g = torch.Generator().manual_seed(seed)
    x, y = torch.randn(n, 1, 8, 8, generator=g) * 0.5, torch.zeros(n, 8, 8, dtype=torch.long)
    for i in range(n - n // 5):
        top, left = torch.randint(0, 4, (2,), generator=g).tolist()
        x[i, 0, top : top + 3, left : left + 3] += 1
        y[i, top : top + 3, left : left + 3] = 1
    marked = y.clone()
    marked[:, :, -1] = 255
    order = torch.randperm(n, generator=g)
    return x[order], marked[order]


def mask_loaders():
    x, y = make_masks()
    parts = (slice(0, 28), 7), (slice(28, 40), 6)
    return [DataLoader(TensorDataset(x[rows], y[rows]), size) for rows, size in parts]


def convolution(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, outputs, 1))


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("recipe", ["warm", "own"])
def test_masks_are_trained_and_judged_image_by_image(task, recipe):
    model = convolution(1 if task == "binary" else 2)
    train, validation = mask_loaders()
    counted = {"per": "image", "ignore_index": 255}
    loss = ss.MetricLoss("dice", task=task, **counted) if recipe == "own" else recipe
    history = fit(model, loss, train, validation, task=task, metric="dice",
                  optimizer=adam(0.05), max_epochs=20, **counted)  # fmt: skip
    x, y = validation.dataset.tensors
    value = ss.evaluate(model(x).detach(), y, "dice", task=task, **counted)
    assert value in history["validation_metric"]
    assert value > 0.5


def test_set_numbers_come_with_the_batches():
    """Pairs of rows in groups, as in paper 001: F1 of each group."""
    x, y = make_binary()
    numbers = torch.arange(len(x)) // 7
    ones = torch.ones(len(x))
    rows = DataLoader(TensorDataset(x, y, ones, numbers), 50)
    model = network()
    history = fit(model, ss.MetricLoss("f1"), rows, rows, optimizer=adam(0.01), max_epochs=3)
    best = min(range(3), key=history["validation_loss"].__getitem__)
    scores = model(x).detach().squeeze(1)
    value = ss.evaluate(scores, y, "f1", per=numbers, from_logits=True)
    assert value == pytest.approx(history["validation_metric"][best], abs=1e-12)
    loss = ss.metric_loss(scores, y, "f1", per=numbers)
    assert loss.item() == pytest.approx(history["validation_loss"][best], abs=1e-12)
    fit(network(), "cross-entropy", rows, rows, max_epochs=1)  # which has no sets


def test_soft_targets_are_trained_on():
    x, y = make_binary()
    smooth = 0.9 * y.double() + 0.05
    train, validation = loaders(x, smooth)
    history = fit(network(), "warm", train, validation, soft_targets=True, max_epochs=2)
    assert all(v is not None for v in history["validation_metric"])
    with pytest.raises(ValueError, match="soft_targets=True"):
        fit(network(), "warm", train, validation, max_epochs=2)


def test_a_loss_of_several_numbers_is_refused():
    train, validation = mask_loaders()
    model = nn.Sequential(convolution(), nn.Flatten(1, 2))
    with pytest.raises(ValueError, match=r"one number, got shape \[12\].*per='image'"):
        fit(model, ss.MetricLoss(batch_dims=1, ignore_index=255), train, validation)


def test_mixtures_are_trained_and_their_weights_move(tmp_path):
    x, y = make_binary()
    train, validation = loaders(x, y)
    seen = []

    def falling(epoch):
        seen.append(epoch)
        return 1 / (1 + epoch)

    mixture = falling * ss.CrossEntropyLoss() + ss.MetricLoss("f1")
    history = fit(network(), mixture, train, validation, monitor="metric", max_epochs=3)
    assert len(history["loss"]) == 3
    assert {0, 1, 2} <= set(seen)
    assert mixture.epoch == 0  # the loss given is left alone
    with pytest.raises(ValueError, match="monitor='metric'"):
        fit(network(), mixture, train, validation, max_epochs=3)
    fixed = 0.5 * ss.CrossEntropyLoss() + ss.MetricLoss("f1")
    model = network()
    settings = {"optimizer": adam(0.01), "max_epochs": 30, "checkpoint": tmp_path / "run"}
    fit(model, fixed, train, validation, **settings)
    scores = model(validation.dataset.tensors[0]).detach()
    assert ss.evaluate(scores, validation.dataset.tensors[1], "f1", from_logits=True) > 0.5
    other = 0.5 * ss.FocalLoss() + ss.MetricLoss("f1")
    with pytest.raises(SavedFileError):
        fit(network(), other, train, validation, **settings)
