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
    before = ss.evaluate(model(x), y, "f1")
    history = fit(model, loss, train, validation, optimizer=adam(0.01), max_epochs=40, patience=10)
    assert ss.evaluate(model(x), y, "f1") > before + 0.2
    assert len(history["loss"]) == len(history["validation_metric"])


def test_several_classes():
    model = network(3)
    train, validation = loaders(*make_multiclass())
    x, y = validation.dataset.tensors
    fit(model, "warm", train, validation, task="multiclass", optimizer=adam(0.02), max_epochs=30)
    assert ss.evaluate(model(x), y, "f1", task="multiclass") > 0.7


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
    recipe = [ss.Phase(loss, cooling={"rate": 0.5})]
    history = fit(model, recipe, train, validation, optimizer=adam(0.1), max_epochs=40, patience=2)
    assert history["temperature"][0] == 0.2
    assert history["temperature"][-1] < 0.2
    assert loss.step == ss.LinearStep.at_temperature(0.2)


def test_a_loss_remembers_in_its_own_copy():
    loss = ss.MetricLoss("f1", memory=0.9)
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
    return [ss.Phase(ss.CrossEntropyLoss()), ss.Phase(ss.MetricLoss("f1", memory=0.95), 0.1)]


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
    for stop_after in range(1, 12):
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
