"""The same loss of the same rows in many ways: one batch, micro-batches, ranks. A process of
``test_many_ways`` runs ``main``; all processes share one start, which takes longer than the work.
"""

from __future__ import annotations

import datetime
import sys
import warnings
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import softset as ss
from tests.forks import run_ranks

METRICS = {
    "f1": ("f1", "binary"),
    "macro f1": ("f1", "multiclass"),
    "mcc": ("mcc", "binary"),
    "mcc of classes": ("mcc", "multiclass"),
    "jaccard": ("jaccard", "binary"),
    "auroc": ("auroc", "binary"),
    "auroc of classes": ("auroc", "multiclass"),
    "f1 of labels": ("f1", "multilabel"),
    "micro f1 without a class": ("f1_micro", "multiclass"),
}
SETTINGS = {"micro f1 without a class": {"ignore_index": 2}}
# One of each task and each kind of goal: a start of three processes takes them all.
SOME = ("f1", "micro f1 without a class", "mcc of classes", "auroc", "f1 of labels")
# Ranks of the group, and the rows of each: the second has no positives, or none of class 1.
SPLITS = {"2 uneven": 2, "3 uneven": 3, "3, one without rows": 3}


def rows(task):
    g = torch.Generator().manual_seed(7)
    x = torch.randn(64, 5, generator=g, dtype=torch.float64)
    noisy = x + torch.randn(64, 5, generator=g, dtype=torch.float64)
    w = torch.rand(64, generator=g, dtype=torch.float64)
    if task == "binary":
        return x, (noisy[:, 0] > 0.6).long(), w
    if task == "multiclass":
        return x, noisy[:, :3].argmax(1), w
    return x, (noisy[:, :3] > 0.6).long(), w


def parts(split, y):
    """Row numbers of each rank."""
    positive = (y == 1).reshape(len(y), -1).any(1)
    negatives = (~positive).nonzero().flatten()[:9]
    rest = torch.tensor([i for i in range(len(y)) if i not in negatives.tolist()])
    if split == "2 uneven":
        return [rest, negatives]
    if split == "3 uneven":
        return [rest[:31], negatives, rest[31:]]
    return [rest, negatives, rest[:0]]


def network(task):
    torch.manual_seed(0)
    outputs = 1 if task == "binary" else 3
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, outputs)).double()


def loss_of(name, **settings):
    metric, task = METRICS[name]
    return ss.MetricLoss(metric, task=task, **SETTINGS.get(name, {}), **settings)


def gradient(model):
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


def plain(model, loss, x, y, w):
    loss(model(x), y, w).backward()


def micro(size, passes=2):
    def run(model, loss, x, y, w):
        batches = list(zip(x.split(size), y.split(size), w.split(size), strict=True))
        ss.accumulate(model, loss, batches, passes=passes)

    return run


def own_loop(model, loss, x, y, w):
    total = ss.training.Accumulation(loss)
    batches = list(zip(x.split(8), y.split(8), w.split(8), strict=True))
    for a, b, c in batches:
        total.count(model.module(a).detach(), b, c)
    with model.no_sync():
        for a, b, c in batches[:-1]:
            total(model(a), b, c).backward()
    a, b, c = batches[-1]
    total(model(a), b, c).backward()


ON_RANKS = {
    "ranks": plain,
    "ranks x micro-batches": micro(7),
    "ranks x micro-batches, one pass": micro(11, passes=1),
    "ranks x a loop of one's own": own_loop,
}


def sharded(task, loss, x, y, w):
    """FSDP, which sums gradients at each micro-batch: all ranks have equally many."""
    model = network(task)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    batches = zip(*(t.tensor_split(2) for t in (x, y, w)), strict=True)
    ss.accumulate(model, loss, list(batches))
    return torch.cat([p.grad.full_tensor().reshape(-1) for p in model.parameters()])


def twice(model, loss, x, y, w):
    """Two batches one after another without a sum of gradients between: ``no_sync``."""
    with model.no_sync():
        loss(model(x[::2]), y[::2], w[::2]).backward()
    loss(model(x[1::2]), y[1::2], w[1::2]).backward()


def remembered(model, loss, x, y, w):
    """Three batches of a loss with a memory; the gradient of the last."""
    for k in range(3):
        model.zero_grad()
        loss(model(x[k::3]), y[k::3], w[k::3]).backward()


def main(folder: Path, rank: int) -> None:
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group(
        "gloo", f"file://{folder / 'meeting'}", timeout, world_size=3, rank=rank
    )
    groups = {2: dist.new_group([0, 1], timeout), 3: dist.group.WORLD}
    results = {}
    for split, size in SPLITS.items():
        if rank >= size:
            continue
        for name in SOME:
            task = METRICS[name][1]
            x, y, w = rows(task)
            own = parts(split, y)[rank]
            for way, run in (ON_RANKS | {"no_sync": twice, "memory": remembered}).items():
                model = DistributedDataParallel(network(task), process_group=groups[size])
                memory = 0.7 if way == "memory" else 0.0
                sync = groups[size] if size == 2 else "auto"
                loss = loss_of(name, sync=sync, ema_decay=memory)
                run(model, loss, x[own], y[own], w[own])
                results[split, name, way] = gradient(model)
                if way == "ranks" and size == 3:
                    results[split, name, "sharded"] = sharded(task, loss, x[own], y[own], w[own])
                if way == "ranks":  # an evaluation on one rank waits for no other
                    with torch.no_grad():
                        if rank == 0:
                            loss(model.module(x), y, w)
    torch.save(results, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    warnings.simplefilter("error")
    run_ranks(partial(main, Path(sys.argv[1])), 3)
