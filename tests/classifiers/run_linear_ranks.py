"""Ranks that train a linear model; a process of ``test_linear_stream`` runs them.

``python -m tests.classifiers.run_linear_ranks FOLDER SIZE WHAT``: ``agree`` trains on uneven
parts, of which the last has no positives, on all ranks and on the first two; otherwise the last
rank meets the fault WHAT. Results are written to FOLDER/RANK.json.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch.distributed as dist

import softset as ss
from softset.classifiers import path
from softset.metrics.registry import get_goal
from softset.tables.rows import Examples
from softset.training.linear_passes import LinearPasses, RankSums
from tests.forks import run_ranks

SECONDS = 20  # the timeout of the process group
METRICS = ("f1", "mcc", "precision@recall>=0.8")
FEW = 200  # rows of the sample, so that all rows are gone through in passes
QUICK = {"cv": 2, "path": (0.003, 0.0003)}


def rows():
    """Rows of two classes, weighted, with a column that does not vary."""
    g = np.random.default_rng(3)
    n = 500
    x = g.normal(size=(n, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 0]
    x[:, 3] = 7.0
    y = (x[:, 0] + 0.3 * x[:, 1] - 1.5 + g.logistic(size=n) > 2.2).astype(int)
    return x, y, g.uniform(0.5, 2, n)


def part(rank, size):
    """Uneven parts of all rows; the last one has negatives only."""
    x, y, w = rows()
    negatives = np.flatnonzero(y == 0)[:60]
    others = np.setdiff1d(np.arange(len(y)), negatives)
    parts = [others[:150], others[150:], negatives] if size == 3 else [others[:150], others[150:]]
    if size == 2:
        parts[1] = np.concatenate([parts[1], negatives])
    return tuple(v[parts[rank]] for v in (x, y, w))


def blocks(x, y, w, size=90):
    return [tuple(v[i : i + size] for v in (x, y, w)) for i in range(0, len(y), size)]


def evaluated(x, y, w, sync):
    """Objective and gradient of each metric at some coefficients, and log-loss."""
    cut = [Examples(*block) for block in blocks(x / 10, y, w)]
    passes = LinearPasses(lambda: cut, 4, 2, sums=RankSums(sync))
    flat = np.array([0.5, -0.3, 1.0, 0.2, -0.4])
    found = [passes.soft_loss(get_goal(metric), flat) for metric in METRICS]
    return [[value, *grad.tolist()] for value, grad in [*found, passes.log_loss(flat)]]


def agree(rank, group, pair):
    path.MOST_ROWS = FEW
    told = {}
    for size, sync in ((3, group), (2, pair)):
        if rank >= size:
            continue
        own = part(rank, size)
        told[f"evaluated {size}"] = evaluated(*own, sync)
        for metric in METRICS if size == 3 else METRICS[:1]:
            model = ss.MetricLinearClassifier(metric, sync=sync, **QUICK)
            model.fit(*own) if size == 2 else model.fit(blocks(*own))
            told[f"{metric} {size}"] = [model.chosen_, model.coef_.tolist(), model.threshold_]
    return told


def fault(what, last):
    x, y, w = part(1, 2)
    if what == "nan" and last:
        x[3, 1] = np.nan
    if what == "columns" and last:
        x = x[:, :3]
    if what == "empty" and last:
        w = 0 * w
    if what == "killed" and last:
        before = LinearPasses.log_loss

        def killed(self, flat, seen=[]):  # noqa: B006
            seen.append(0)
            if len(seen) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return before(self, flat)

        LinearPasses.log_loss = killed
    return x, y, w


def main(folder: Path, size: int, what: str, rank: int) -> None:
    long = datetime.timedelta(minutes=3)  # to start on a busy machine
    dist.init_process_group("gloo", f"file://{folder / 'meeting'}", long, size, rank)
    group = dist.new_group(timeout=datetime.timedelta(seconds=SECONDS if what != "agree" else 180))
    if what == "agree":
        told = agree(rank, group, dist.new_group([0, 1]))
    else:
        path.MOST_ROWS = FEW
        start = time.monotonic()
        try:
            ss.MetricLinearClassifier("f1", sync=group).fit(*fault(what, rank == size - 1))
            told = ["fine"]
        except Exception as error:
            told = [type(error).__name__, str(error), time.monotonic() - start]
    (folder / f"{rank}.json").write_text(json.dumps(told))
    os._exit(0)  # a group that has lost a rank cannot be taken down in order


if __name__ == "__main__":
    ss.MetricLinearClassifier  # noqa: B018  # imported once, before the ranks are forked
    size = int(sys.argv[2])
    run_ranks(partial(main, Path(sys.argv[1]), size, sys.argv[3]), size)
