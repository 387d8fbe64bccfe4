"""What ``test_torchrun`` starts on two processes: ``torchrun --nproc-per-node 2 FILE FOLDER``.

The same file runs in one process, without ``torchrun``.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import softset as ss

STEPS = 5


def main(folder: str) -> None:
    several = "RANK" in os.environ
    if several:
        dist.init_process_group("gloo")
    rank, size = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
    g = torch.Generator().manual_seed(0)
    x = torch.randn(90, 3, generator=g, dtype=torch.float64)
    y = (x[:, 0] > 1).long()
    mine = slice(None) if size == 1 else (slice(0, 70) if rank == 0 else slice(70, 90))
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(3, 1).double()
    model = DistributedDataParallel(model) if several else model
    loss = ss.MetricLoss("f1", sync="auto", ema_decay=0.5)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(x[mine]), y[mine]).backward()
        optimizer.step()
    torch.save([p.detach() for p in model.parameters()], f"{folder}/{size}-{rank}.pt")
    if several:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
