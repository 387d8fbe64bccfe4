"""One rank that meets a fault; a process of ``test_ranks`` runs it.

``python -m tests.losses.run_ranks FOLDER RANK SIZE FAULT:STEP:HOW ...``: at the given step the last
rank meets the fault; what became of each step is written to FOLDER/RANK.json.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import softset as ss
from softset.metrics.goals import Goal
from softset.metrics.grid import Grid

SECONDS = 20  # the timeout of the process group


def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def nan(x, y, _):
    x = x.clone()
    x[3, 1] = torch.nan
    return x, y


def labels(x, y, _):
    return x, y + 5


def classes(x, y, loss):
    loss.goal = Goal(loss.goal.metric, Grid([0.2, 0.4, 0.6]))
    return x, y


def asleep(x, y, _):
    time.sleep(2 * SECONDS)
    return x, y


FAULTS = {"killed": killed, "nan": nan, "labels": labels, "classes": classes, "asleep": asleep}


def one_step(model, loss, x, y, how):
    model.zero_grad()
    if how == "accumulate":
        ss.accumulate(model, loss, list(zip(x.split(5), y.split(5), strict=True)))
    else:
        loss(model(x), y).backward()
    return float(sum(p.grad.abs().sum() for p in model.parameters()))


def main(folder: Path, rank: int, size: int, faults: list[str]) -> None:
    """``faults`` are ``fault:step:how``, one run after another as long as the group lives."""
    long = datetime.timedelta(minutes=3)  # to start on a busy machine
    dist.init_process_group("gloo", f"file://{folder / 'meeting'}", long, size, rank)
    group = dist.new_group(timeout=datetime.timedelta(seconds=SECONDS))
    told = []
    for number, described in enumerate(faults):
        fault, step, how = described.split(":")
        torch.manual_seed(number)
        model = DistributedDataParallel(nn.Linear(4, 1).double(), process_group=group)
        loss = ss.MetricLoss("f1", sync=group)
        g = torch.Generator().manual_seed(10 * number + rank)
        for k in range(4):
            x = torch.randn(12, 4, generator=g, dtype=torch.float64)
            y = (x[:, 0] > 0.3).long()
            start = time.monotonic()
            try:
                if k == int(step) and rank == size - 1:
                    x, y = FAULTS[fault](x, y, loss)
                value = one_step(model, loss, x, y, how)
                told.append([described, k, "fine", str(value), 0.0])
            except Exception as error:
                took = time.monotonic() - start
                told.append([described, k, type(error).__name__, str(error), took])
                (folder / f"{rank}.json").write_text(json.dumps(told))
                break
    (folder / f"{rank}.json").write_text(json.dumps(told))
    os._exit(0)  # a group that has lost a rank cannot be taken down in order


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
