"""Run commands in an empty directory, in this process."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from softset import cli
from softset.classifiers.model import train_model


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """What a command printed; ``run.json`` reads it, ``run.err`` is the rest."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(a) for a in arguments])
        out, call.err = capsys.readouterr()
        assert stop.value.code == code, call.err
        return out

    call.json = lambda *arguments: json.loads(call(*arguments, "--json"))
    call.refused = lambda *arguments: (call(*arguments, code=2), call.err)[1]
    return call


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """The file of a linear model of ``two`` by ``x`` and ``city``."""
    frame, path = rows(), tmp_path_factory.mktemp("model") / "m.softset"
    model = train_model(frame[["x", "city"]], frame["two"].to_numpy(), recipe="linear-tuned")
    model.save(path, target=["two"])
    return path


@pytest.fixture
def model(run, trained_once):
    """That model, in the directory of the test."""
    return shutil.copy(trained_once, "m.softset")


@pytest.fixture
def data():
    """Rows with every kind of target."""
    return rows()


def rows():
    random = np.random.default_rng(0)
    x = random.normal(size=200)
    z = x + random.normal(scale=0.5, size=200)
    return pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(200)],
            "x": x,
            "city": random.choice(["Rome", "Oslo"], 200),
            "who": [f"g{i // 4}" for i in range(200)],
            "two": np.where(z > 0.5, "yes", "no"),
            "three": np.digitize(z, [-0.5, 0.5]),
            "a": (z > 0).astype(int),
            "b": z > 1,
        }
    )
