"""Faults of ranks: an error on all of them, and no waiting. That sums over ranks are right is what
``tests/test_many_ways.py`` tests."""

from __future__ import annotations

import copy
import json
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import softset as ss
from softset.counting.flat import Form
from softset.losses.ranks import _described, _header
from softset.tasks import BINARY, MULTICLASS
from tests.losses.run_ranks import FAULTS, SECONDS
from tests.reference import random_problem

ROOT = Path(__file__).parents[2]
needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")


def run(folder, size, *faults):
    """What each rank tells of each step, and how it ended. No rank may hang."""
    command = [sys.executable, "-m", "tests.losses.run_ranks"]
    running = [
        subprocess.Popen(
            [*command, str(folder), str(rank), str(size), *faults],
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(size)
    ]
    end = time.monotonic() + 240
    try:
        for process in running:
            process.wait(timeout=end - time.monotonic())
    finally:
        for process in running:
            process.kill()
    files = [folder / f"{rank}.json" for rank in range(size)]
    told = [json.loads(f.read_text()) if f.exists() else [] for f in files]
    return told, [process.returncode for process in running]


def check_fault(told, described):
    """All ranks that live made the same steps with the same gradients, and stopped at the fault."""
    fault, step, _ = described.split(":")
    alive = told[:-1] if fault == "killed" else told
    each = [[t for t in rank if t[0] == described] for rank in alive]
    soon = fault in ("nan", "labels", "classes")  # the others are told, and do not wait
    for rank, steps in enumerate(each):
        assert [s[2] for s in steps[:-1]] == ["fine"] * int(step), steps
        assert [s[3] for s in steps[:-1]] == [s[3] for s in each[0][:-1]]
        _, _, kind, message, took = steps[-1]
        here = rank == len(told) - 1 and fault in ("nan", "labels")
        if soon:
            assert kind == ("ValueError" if here else "RankError"), steps
        else:  # DDP may meet it before we do
            assert kind in ("RankError", "RuntimeError", "DistBackendError"), steps
        assert took < (SECONDS / 2 if soon else 3 * SECONDS), steps
        if fault in ("nan", "labels") and not here:
            assert f"rank {len(told) - 1} could not count" in message
        if fault == "classes":
            assert f"rank {len(told) - 1}: binary counts of shape [3]" in message


@needs_gloo
def test_a_fault_of_one_rank_stops_all(tmp_path):
    """One start for all: after an error that all know of, the group can go on."""
    faults = ["nan:0:plain", "labels:2:accumulate", "classes:0:plain", "classes:1:plain"]
    faults += ["nan:3:accumulate", "killed:1:plain"]
    told, ends = run(tmp_path, 3, *faults)
    assert ends == [0, 0, -signal.SIGKILL]
    for described in faults:
        check_fault(told, described)


@needs_gloo
@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("how", ["plain", "accumulate"])
@pytest.mark.parametrize("fault", FAULTS)
def test_twenty_of_twenty_faults_end_with_an_error_on_all_ranks(fault, how, size, tmp_path):
    described = f"{fault}:{2 if size == 2 else 0}:{how}"
    told, ends = run(tmp_path, size, described)
    assert ends == [0] * (size - 1) + [-signal.SIGKILL if fault == "killed" else 0]
    check_fault(told, described)


def test_without_a_process_group_sync_is_no_sync():
    z, y = random_problem("binary")
    one, other = z.clone().requires_grad_(), z.clone().requires_grad_()
    ss.metric_loss(one, y).backward()
    ss.MetricLoss(sync="auto")(other, y).backward()
    torch.testing.assert_close(other.grad, one.grad)
    loss = pickle.loads(pickle.dumps(ss.MetricLoss(sync="auto")))
    assert "sync='auto'" in repr(copy.deepcopy(loss))


@pytest.mark.parametrize("sync", ["atuo", True, 3])
def test_what_is_no_group_is_refused(sync):
    with pytest.raises(ValueError, match="sync must be None, 'auto' or a process group"):
        ss.MetricLoss(sync=sync)


def test_sync_is_refused_where_it_makes_no_sense():
    with pytest.raises(ValueError, match="step with a gradient"):
        ss.MetricLoss(sync="auto", step=ss.HardStep())
    z, y = random_problem("binary")
    with pytest.raises(ValueError, match="one network"):
        ss.MetricLoss(sync="auto").of_members(z[None], y, None)


def test_forms_in_words():
    assert _described(_header(Form(BINARY, (99,)))) == "binary counts of shape [99]"
    assert _described(_header(Form(MULTICLASS, (7,), (7, 7)))) == "multiclass counts of shape [7]"
    assert _described(_header(None)) is None
    assert _header(Form(BINARY, (2,))) != _header(Form(BINARY, (2,), (2,)))


@needs_gloo
def test_a_group_of_one(tmp_path):
    dist.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", world_size=1, rank=0)
    try:
        z, y = random_problem("binary")
        loss = ss.MetricLoss(sync=dist.group.WORLD)
        assert loss(z.requires_grad_(), y).item() == pytest.approx(ss.metric_loss(z, y).item())
        assert "a process group" in repr(copy.deepcopy(loss))
    finally:
        dist.destroy_process_group()
