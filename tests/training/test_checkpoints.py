"""Checkpoints: runs that were killed go on to the same bits, and refuse what is not theirs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from softset.storage.container import read_file, write_file
from softset.storage.files import SavedFileError
from softset.training.members import train_members
from softset.training.phases import Phase
from softset.training.single import fit
from softset.training.stack import Member
from tests.training import run_to_kill
from tests.training.helpers import make_binary, split

SCRIPT = run_to_kill.__file__


def small(checkpoint, **changes):
    train, validation = split(*make_binary())
    settings = {
        "network": (4,),
        "train": train,
        "validation": validation,
        "members": [Member(seed=s, learning_rate=0.02 * (s + 1)) for s in range(3)],
        "recipe": "anneal",
        "batch_size": 100,
        "max_epochs": 12,
        "patience": 2,
        "checkpoint": checkpoint,
        "checkpoint_seconds": 0,
    }
    return train_members(**settings | changes)


class StopError(Exception):
    pass


@pytest.mark.parametrize("recipe", ["anneal", "warm", "metric-grid"])
@pytest.mark.parametrize("shared_order", [None, 3])
def test_resume_after_any_epoch_is_bit_equal(tmp_path, recipe, shared_order):
    changes = {"recipe": recipe, "shared_order": shared_order}
    whole = small(None, **changes)
    epochs = max(len(h["loss"]) for h in whole.history)
    every = range(1, epochs)
    for stop_after in every if recipe == "warm" and shared_order else every[:: len(every) - 1]:
        left = [stop_after]

        def stop(left=left):
            left[0] -= 1
            if left[0] == 0:
                raise StopError

        path = tmp_path / f"{stop_after}"
        with pytest.raises(StopError):
            small(path, on_epoch=stop, **changes)
        resumed = small(path, **changes)
        assert torch.equal(resumed.weights, whole.weights)
        assert resumed.history == whole.history
        assert resumed.outcome == whole.outcome


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = small(tmp_path / "a")
    again = small(tmp_path / "a", on_epoch=lambda: pytest.fail("trained again"))
    assert torch.equal(again.weights, first.weights)


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 99},
        {"patience": 3},
        {"recipe": "metric"},
        {"recipe": [Phase(torch.nn.BCEWithLogitsLoss())]},
        {"metric": "f2"},
        {"network": (5,)},
        {"members": [Member(seed=9)]},
        {"optimizer": "adam"},
        {"train": make_binary(seed=5)},
    ],
)
def test_resume_with_other_data_or_settings_is_refused(tmp_path, change):
    small(tmp_path / "a")
    with pytest.raises(SavedFileError, match="other data or settings"):
        small(tmp_path / "a", **change)


def test_step_and_class_weight_of_a_loss_belong_to_the_settings(tmp_path):
    import softset as ss  # noqa: PLC0415

    small(tmp_path / "a", recipe=ss.MetricLoss(step=ss.LinearStep(0.1)))
    for other in (ss.MetricLoss(step=ss.LinearStep(0.2)), ss.MetricLoss(class_weight=[1.0, 2.0])):
        with pytest.raises(SavedFileError, match="other data or settings"):
            small(tmp_path / "a", recipe=other)


@pytest.mark.parametrize("name", ["a", "a[1]", "*"])
def test_leftover_temporary_files_are_swept(tmp_path, name):
    (tmp_path / f"{name}.123.tmp").write_bytes(b"half")
    (tmp_path / "other.1.tmp").write_bytes(b"another's, who may be writing")
    small(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}.lock", "other.1.tmp"])


def test_a_second_run_on_the_same_file_is_refused(tmp_path):
    def again():
        with pytest.raises(SavedFileError, match="in use by another run"):
            small(tmp_path / "a")
        return True

    small(tmp_path / "a", on_epoch=again)


def start(kind: str, *paths: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, SCRIPT, kind, *map(str, paths)],
        stdout=subprocess.PIPE,
        env=environment,
    )


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not path.exists() and process.poll() is None:
        time.sleep(0.001)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_exits_with_its_code(tmp_path, number, code):
    process = start("many", tmp_path / "a", tmp_path / "result")
    with process:
        wait_for(tmp_path / "a", process)
        process.send_signal(number)
        process.wait(60)
    # A KeyboardInterrupt ends Python by the signal itself, which a shell shows as 130.
    assert process.returncode in (code, -number)
    assert not (tmp_path / "result").exists()
    read_file(tmp_path / "a", "checkpoint")


def kill_and_resume(tmp_path: Path, kind: str, rounds: int) -> None:
    finish = run_to_kill.KINDS[kind]
    whole = finish(tmp_path / "whole")
    chance, killed = random.Random(0), 0
    for i in range(rounds):
        path = tmp_path / f"{kind}{i}"
        with start(kind, path, path.with_suffix(".result")) as process:
            wait_for(path, process)
            time.sleep(chance.random() * 0.3)
            killed += process.poll() is None
            process.kill()
        assert torch.equal(finish(path), whole)
    assert killed >= 0.8 * rounds, "the run must be long enough to be killed"


def test_killed_and_resumed_is_bit_equal(tmp_path):
    kill_and_resume(tmp_path, "many", 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["many", "one"])
def test_killed_twenty_times_and_resumed_is_bit_equal(tmp_path, kind):
    kill_and_resume(tmp_path, kind, 20)


def test_nothing_in_a_checkpoint_is_pickled(tmp_path):
    small(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert set(header["__metadata__"]) == {"format", "kind", "content", "checksum"}
    json.loads(header["__metadata__"]["content"])


# --- states of every kind ------------------------------------------------------------------------


def no_gradient(scores, target):
    """A loss that is a number and whose gradient is none."""
    return torch.where(scores.abs() >= 0, scores**2, torch.sqrt(-scores.abs() - 1)).mean()


def fit_small(checkpoint, loss="warm", loader=DataLoader, validated=True, **settings):
    torch.manual_seed(0)
    train, validation = split(*make_binary(dtype=torch.float32))
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
    settings = {"max_epochs": 6, "checkpoint": checkpoint, "checkpoint_seconds": 0} | settings
    history = fit(
        model,
        loss,
        loader(TensorDataset(*train), 50),
        DataLoader(TensorDataset(*validation), 50) if validated else None,
        **settings,
    )
    return history, torch.cat([p.detach().flatten() for p in model.parameters()])


class StopsInEpochFour(DataLoader):
    epochs = 0

    def __iter__(self):
        StopsInEpochFour.epochs += 1
        if StopsInEpochFour.epochs == 4:
            raise StopError
        return super().__iter__()


@pytest.mark.parametrize("validated", [True, False])
def test_a_run_that_failed_keeps_its_last_good_weights_and_is_read_again(tmp_path, validated):
    settings = {"loss": no_gradient, "validated": validated}
    with pytest.warns(RuntimeWarning, match="not finite in epoch 1"):
        _, weights = fit_small(tmp_path / "one", **settings)
    assert torch.isfinite(weights).all()
    assert torch.equal(fit_small(tmp_path / "one", **settings)[1], weights)
    changes = {"recipe": no_gradient} | ({} if validated else {"validation": None})
    with pytest.warns(RuntimeWarning, match="not finite in epoch 1"):
        trained = small(tmp_path / "many", **changes)
    assert torch.isfinite(trained.weights).all()
    assert torch.equal(small(tmp_path / "many", **changes).weights, trained.weights)


def break_one():
    return fit_small(None, no_gradient, lambda rows, _: DataLoader(rows, 1000), validated=False)


def break_many():
    settings = {"recipe": no_gradient, "validation": None, "batch_size": 1000}
    trained = small(None, **settings, members=[Member()])
    return trained.history[0], trained.weights


@pytest.mark.parametrize("run", [break_one, break_many])
def test_without_validation_weights_broken_by_the_last_batch_are_not_kept(run):
    """One batch an epoch: the loss of the epoch is a number, what it leaves behind is none."""
    with pytest.warns(RuntimeWarning, match="not finite in epoch 1"):
        history, weights = run()
    assert len(history["loss"]) == 1
    assert torch.isfinite(weights).all()


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.Adafactor,  # its state has other shapes than the parameters
        lambda p: torch.optim.SGD(p, 0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        lambda p: torch.optim.Adam([{"params": list(p), "lr": 0.01}], amsgrad=True),
        lambda p: torch.optim.RMSprop([q for q in p if q.dim() == 2]),
    ],
    ids=["Adafactor", "SGD", "momentum", "groups", "some"],
)
def test_any_optimizer_goes_on_to_the_same_bits(tmp_path, optimizer):
    _, whole = fit_small(None, optimizer=optimizer)
    StopsInEpochFour.epochs = 0
    with pytest.raises(StopError):
        fit_small(tmp_path / "a", loader=StopsInEpochFour, optimizer=optimizer)
    assert torch.equal(fit_small(tmp_path / "a", optimizer=optimizer)[1], whole)


def saved_state(path, change):
    """The checkpoint with its state changed, checksum and all."""
    content = read_file(path, "checkpoint")
    change(content["state"])
    write_file(path, "checkpoint", content)


def change_optimizer(state):
    state["optimizer"]["param_groups"][0]["params"] = [0]


def change_weights(state):
    state["best"]["0.weight"][0, 0] = torch.nan


def change_history(state):
    state["history"][0]["loss"].append(0.0)


@pytest.mark.parametrize("change", [change_optimizer, change_weights, change_history])
def test_a_changed_state_is_refused_by_name(tmp_path, change):
    StopsInEpochFour.epochs = 0
    with pytest.raises(StopError):
        fit_small(tmp_path / "a", loader=StopsInEpochFour)
    saved_state(tmp_path / "a", change)
    with pytest.raises(SavedFileError, match=r"^a"):
        fit_small(tmp_path / "a")


@pytest.mark.parametrize("seconds", [-1, float("nan"), "soon"])
def test_seconds_between_checkpoints_are_a_number(tmp_path, seconds):
    with pytest.raises(ValueError, match="checkpoint_seconds must be"):
        small(tmp_path / "a", checkpoint_seconds=seconds)


@pytest.mark.parametrize("name", ["run [1]", "run*", "a?b"])
def test_names_with_wildcards_are_names(tmp_path, name):
    """What a killed run left is swept, and nothing of another run."""
    (tmp_path / f"{name}.123.tmp").write_bytes(b"half")
    others = [tmp_path / "run 1.123.tmp", tmp_path / "run2.ckpt.123.tmp", tmp_path / "axb.123.tmp"]
    for other in others:
        other.write_bytes(b"of another run")
    small(tmp_path / name)
    assert not (tmp_path / f"{name}.123.tmp").exists()
    assert all(other.exists() for other in others)
    small(tmp_path / name, on_epoch=lambda: pytest.fail("trained again"))
