"""One batch, micro-batches, ranks, and ranks x micro-batches have the same gradient."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests import ways

ROOT = Path(__file__).parents[1]


def gradients_on_ranks(folder):
    """Of all cases, from one start of three ranks: a dictionary for each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.ways", str(folder)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(3)]


def of_one_batch(name, run=ways.plain):
    task = ways.METRICS[name][1]
    model, loss = ways.network(task), ways.loss_of(name)
    run(model, loss, *ways.rows(task))
    return ways.gradient(model)


@pytest.mark.parametrize("name", ways.METRICS)
@pytest.mark.parametrize(("size", "passes"), [(1, 2), (7, 2), (40, 2), (64, 2), (9, 1)])
def test_micro_batches(name, size, passes):
    got = of_one_batch(name, ways.micro(size, passes))
    assert (got - of_one_batch(name)).abs().max() <= 1e-12


def of_several_batches(name, split, batches, ema_decay=0.0, *, keep):
    """What ``batches`` calls on each rank come to in one process: every ``batches``-th row of each
    rank, one batch after another; the gradients of all are kept, or those of the last."""
    task = ways.METRICS[name][1]
    model, loss = ways.network(task), ways.loss_of(name, ema_decay=ema_decay)
    x, y, w = ways.rows(task)
    for start in range(batches):
        rows = torch.cat([own[start::batches] for own in ways.parts(split, y)])
        if not keep:
            model.zero_grad()
        loss(model(x[rows]), y[rows], w[rows]).backward()
    return ways.gradient(model)


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch without gloo")
def test_ranks(tmp_path):
    got = gradients_on_ranks(tmp_path)
    seen = 0
    for split, size in ways.SPLITS.items():
        for name in ways.SOME:
            expected = dict.fromkeys(ways.ON_RANKS, of_one_batch(name))
            expected["no_sync"] = of_several_batches(name, split, 2, keep=True)
            expected["memory"] = of_several_batches(name, split, 3, 0.7, keep=False)
            if size == 3:
                expected["sharded"] = expected["ranks"]
            for way, wanted in expected.items():
                assert wanted.abs().max() > 1e-3
                for rank in range(size):
                    error = float((got[rank][split, name, way] - wanted).abs().max())
                    assert error <= 1e-12, (split, name, way, rank)
                    seen += 1
    assert seen == sum(len(results) for results in got)
