"""Tables that need not fit into memory: training and prediction block by block."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch.distributed as dist

from softset import load_model
from softset.cli import on_disk
from softset.losses.ranks import RankError
from softset.tables import parquet_rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files of a directory, and all of their rows."""
    monkeypatch.setattr(parquet_rows, "_ROWS", 64)
    g = np.random.default_rng(0)
    x = g.normal(size=(600, 2))
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(600)], "a": x[:, 0], "b": x[:, 1]})
    frame["kind"] = np.where(x[:, 1] > 0, "left", "right")
    frame["y"] = np.where(x[:, 0] + 0.3 * g.normal(size=600) > 1, "churn", "stay")
    path = tmp_path / "rows"
    path.mkdir()
    for i, part in enumerate(np.array_split(np.arange(600), 3)):
        frame.iloc[part].to_parquet(path / f"{i}.parquet", row_group_size=90)
    return path, frame


SMALL = ("--target", "y", "--drop", "id", "--recipe", "boosting-tuned")


def test_a_directory_is_trained_on_and_predicted(run, folder):
    path, frame = folder
    facts = run.json("train", path, *SMALL, "--pos-label", "churn")
    assert facts["model"] == "rows-boosting-tuned.softset"
    assert (facts["rows"], facts["columns"], facts["classes"]) == (600, 3, ["stay", "churn"])
    assert 80 <= facts["held_out"]["rows"] <= 160
    assert facts["held_out"]["value"] > 0.6
    told = run.json("predict", facts["model"], path, "-o", "all.csv", "--keep", "id")
    assert told["rows"] == 600
    found = pd.read_csv("all.csv")
    assert found["id"].tolist() == frame["id"].tolist()
    assert told["predictions"]["prediction"] == found["prediction"].value_counts().to_dict()
    assert (found["prediction"] == frame["y"]).mean() > 0.85
    frame.to_parquet("whole.parquet")
    run("predict", facts["model"], "whole.parquet", "-o", "whole.csv", "--keep", "id")
    assert Path("whole.csv").read_bytes() == Path("all.csv").read_bytes()
    run("predict", facts["model"], path, "-o", "all.parquet", "--keep", "id")
    again = pd.read_parquet("all.parquet")
    assert again["prediction"].tolist() == found["prediction"].tolist()
    # Reading text may cost the last digit.
    np.testing.assert_allclose(again["p_churn"], found["p_churn"], rtol=1e-13)


def test_a_file_beyond_the_limit(run, folder, monkeypatch):
    _, frame = folder
    frame.to_parquet("large.parquet", row_group_size=100)
    monkeypatch.setenv("SOFTSET_LIMIT", "0.001")
    facts = run.json("train", "large.parquet", *SMALL)
    assert facts["rows"] == 600
    assert run.json("predict", facts["model"], "large.parquet")["rows"] == 600


@pytest.mark.parametrize("name", ["cross-entropy-tuned", "linear-metric"])
def test_a_model_that_was_stopped_goes_on(run, folder, monkeypatch, name):
    monkeypatch.setattr("softset.classifiers.path.MOST_ROWS", 200)  # passes over all rows
    path, _ = folder
    recipe = (path, "--target", "y", "--drop", "id", "--recipe", name)

    def broken(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # stopped after training, before the model is saved
        patch.setattr("softset.classifiers.model.Model.save", broken)
        run("train", *recipe, code=130)
    checkpoint = path.parent / f"rows-{name}.softset.checkpoint"
    assert checkpoint.exists()
    run("train", *recipe)
    assert f"going on from rows-{name}.softset.checkpoint" in run.err
    assert not checkpoint.exists()
    assert (path.parent / f"rows-{name}.softset").exists()


@pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")
def test_ranks_of_torchrun_train_the_model_of_one_process(run, folder):
    path, _ = folder
    words = ["train", str(path), "-t", "y", "--drop", "id", "--recipe", "linear-tuned"]
    alone = run(*words, "-o", "one.softset")
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*start, "-m", "softset", *words, "-o", "two.softset"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == alone.replace("one.softset", "two.softset")
    one, two = (load_model(f"{name}.softset").classifier for name in ("one", "two"))
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=1e-6)
    assert one.chosen_ == two.chosen_


def test_ranks_of_other_recipes_are_refused(run, folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    run("train", folder[0], *SMALL, code=2)
    assert "several ranks (torchrun) train linear-tuned and linear-metric" in run.err


def test_what_another_rank_has_met_is_told_in_one_line(run, folder, monkeypatch):
    def failed(*_, **__):
        raise RankError("rank 1 has failed; its own error says why.")

    monkeypatch.setattr("softset.classifiers.model.train_model", failed)
    run("train", folder[0], "-t", "y", "--recipe", "linear-tuned", code=2)
    assert run.err.splitlines()[-1] == "softset: error: rank 1 has failed; its own error says why."


@pytest.mark.filterwarnings("always:column 'kind'")
def test_unseen_values_are_told_of_once(run, folder):
    path, frame = folder
    facts = run.json("train", path, *SMALL)
    frame.assign(kind="middle").to_parquet(path / "0.parquet", row_group_size=90)
    run("predict", facts["model"], path, "-o", "all.csv")
    assert run.err.count("were never seen in training") == 1


def test_of_very_many_rows_some_are_held_out(run, folder, monkeypatch):
    monkeypatch.setattr(on_disk, "_MOST_HELD", 30)
    held = run.json("train", folder[0], *SMALL)["held_out"]["rows"]
    assert 12 <= held <= 50


def test_what_is_refused(run, folder):
    path, frame = folder
    assert "needs all rows in memory" in run.refused(
        "train", path, "-t", "y", "--recipe", "forest-tuned"
    )
    assert "no column 'z'" in run.refused("train", path, "-t", "z")
    facts = run.json("train", path, *SMALL)
    assert "must be one of" in run.refused("predict", facts["model"], path, "-o", "x.xlsx")
    frame.drop(columns="a").to_parquet(path / "1.parquet")
    assert "no column 'a'" in run.refused("predict", facts["model"], path)
    (path / "3.parquet").write_text("")
    assert "damaged" in run.refused("train", path, "-t", "y")


def test_weights_count_in_the_held_out_score_of_a_directory(run, tmp_path):
    """Rows whose labels are wrong weigh next to nothing."""
    g = np.random.default_rng(0)
    frame = pd.DataFrame({"a": g.normal(size=600), "b": g.normal(size=600)})
    wrong = np.arange(600) % 5 == 0
    frame["y"] = np.where((frame["a"] > 0.6) != wrong, "churn", "stay")
    path = tmp_path / "weighted"
    path.mkdir()
    frame.assign(w=np.where(wrong, 0.001, 1.0)).to_parquet(path / "0.parquet", row_group_size=90)
    words = ("train", path, "--target", "y", "--recipe", "boosting-tuned", "-m", "accuracy")
    with_weights = run.json(*words, "--sample-weight", "w", "-o", "with.softset")
    without = run.json(*words, "--drop", "w", "-o", "without.softset")
    assert with_weights["held_out"]["value"] > 0.97
    assert without["held_out"]["value"] < 0.9
