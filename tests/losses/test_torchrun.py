"""``torchrun`` on two processes: the training of one process, to the last digits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.losses import run_torchrun

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # that sums over ranks are right is what ``tests/test_many_ways.py`` tests
@pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")
def test_two_processes_train_as_one(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = [str(Path(run_torchrun.__file__)), str(tmp_path)]
    command = [*torchrun, "--nproc-per-node", "2", *script]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    run_torchrun.main(str(tmp_path))
    one = torch.load(tmp_path / "1-0.pt")
    for rank in range(2):
        both = torch.load(tmp_path / f"2-{rank}.pt")
        for a, b in zip(one, both, strict=True):
            assert (a - b).abs().max() < 1e-12
