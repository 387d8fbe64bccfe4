"""What many rows and many ranks cost, and how far the counts of a batch are off.

    python benchmarks/scale.py wire     # bytes on the wire for each step, beside the gradient's
    python benchmarks/scale.py error    # paper 002 theorem 5.8 against simulated batches
    python benchmarks/scale.py ranks    # two ranks: a step with sync beside one without
    python benchmarks/scale.py predict  # processor time of `softset predict` for a million rows

``wire`` counts the numbers that a loss really sends, and estimates times by the model that it
prints. ``error`` draws batches of up to 10^10 rows as what they are to a confusion matrix: one
multinomial number. ``ranks`` and ``predict`` measure; run them on an idle machine.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import softset as ss
from softset.counting.flat import flatten

# --- bytes on the wire ----------------------------------------------------------------------------

HOP = 10e-6  # seconds for a small message between two machines
WIRE = 12.5e9  # bytes in a second: 100 Gbit/s


def numbers_sent(metric: str, task: str, classes: int) -> int:
    """How many numbers one rank puts into the sum of a step: the counts and a flag."""
    outputs = (1,) if task == "binary" else (1, classes)
    z = torch.zeros(outputs)
    y = torch.zeros((1,) if task == "multiclass" else outputs, dtype=torch.long)
    flat, form = flatten(ss.MetricLoss(metric, task=task).cells(z, y))
    assert len(flat) == form.size
    return 1 + form.size


def tree_seconds(ranks: int, size: float) -> float:
    """A short message up a tree and down again."""
    return 2 * math.ceil(math.log2(ranks)) * (HOP + size / WIRE)


def ring_seconds(ranks: int, size: float) -> float:
    """A long message in a ring: every rank sends and gets almost twice its size."""
    return 2 * (ranks - 1) * HOP + 2 * (ranks - 1) / ranks * size / WIRE


def wire(ranks: int = 1000, rows: float = 1e10, batch: int = 1024) -> None:
    steps = math.ceil(rows / (ranks * batch))
    print(f"{ranks} ranks, {rows:.0e} rows, {batch} rows of a rank in a step: {steps} steps")
    print(f"model: {HOP * 1e6:.0f} us for a hop, {WIRE / 1e9:.1f} GB/s; counts by a tree,")
    print("gradients (float32) by a ring\n")
    print("| sum of | bytes | ms in a step | s in an epoch |")
    print("|---|---|---|---|")
    for metric, task, classes in (
        ("f1", "binary", 1),
        ("f1", "multiclass", 10),
        ("f1", "multiclass", 1000),
        ("auroc", "binary", 1),
        ("auroc", "multiclass", 10),
    ):
        size = 8 * numbers_sent(metric, task, classes)
        what = f"counts of {metric}, {'binary' if classes == 1 else f'{classes} classes'}"
        seconds = tree_seconds(ranks, size)
        print(f"| {what} | {size:,} | {1e3 * seconds:.2f} | {seconds * steps:.0f} |")
    for parameters in (1e6, 1e8, 1e9):
        size = 4 * parameters
        seconds = ring_seconds(ranks, size)
        what = f"gradient of {parameters:.0e} parameters"
        print(f"| {what} | {size:,.0f} | {1e3 * seconds:.2f} | {seconds * steps:.0f} |")


# --- the error of an estimate ---------------------------------------------------------------------


def population(classes: int, rare: float = 0.01, right: float = 0.8) -> np.ndarray:
    """Shares of a confusion matrix: class 0 has most rows, the others share ``rare``."""
    rows = np.full(classes, rare / (classes - 1))
    rows[0] = 1 - rare
    wrong = (1 - right) * rows[:, None] / (classes - 1) * np.ones((classes, classes))
    np.fill_diagonal(wrong, right * rows)
    # The large class makes few mistakes, as classifiers do that are trained for F1.
    wrong[0] = rare / 2 / (classes - 1)
    wrong[0, 0] = rows[0] - rare / 2
    return wrong


def running_share(memory: float, batches: int) -> float:
    """By which a running mean of so many batches shrinks the variance of one of them:
    ``(1 - m) / (1 + m)`` after many."""
    weights = memory ** np.arange(batches)
    return float((weights**2).sum() / weights.sum() ** 2)


def simulated(
    shares: np.ndarray, n: int, memory: float, draws: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The largest error of a cell, and the F1 of class 1, of ``draws`` running means."""
    g = np.random.default_rng(seed)
    batches = 1 if memory == 0 else math.ceil(math.log(1e-3) / math.log(memory))
    weights = memory ** np.arange(batches)
    weights /= weights.sum()
    cells = np.stack([w * g.multinomial(n, shares.reshape(-1), draws) / n for w in weights]).sum(0)
    errors = np.abs(cells - shares.reshape(-1)).max(1)
    return errors, f1_of_class_1(cells.reshape(-1, *shares.shape))


def f1_of_class_1(matrix: np.ndarray) -> np.ndarray:
    tp = matrix[..., 1, 1]
    size = matrix[..., 1, :].sum(-1) + matrix[..., :, 1].sum(-1)
    return 2 * tp / np.maximum(size, 1e-300)


def spread_of_f1(shares: np.ndarray, n: float) -> float:
    """The standard deviation of the F1 of class 1 of ``n`` rows, by its slopes:
    ``sd(2 tp_i - F (predicted_i + support_i)) / (sqrt(n) E(predicted + support))``."""
    f = float(f1_of_class_1(shares))
    tp = shares[1, 1]
    only_one = shares[1, :].sum() + shares[:, 1].sum() - 2 * tp
    size = 2 * tp + only_one
    # A row is worth 2 - 2F as a true positive, -F as a mistake about class 1, else 0.
    variance = tp * (2 - 2 * f) ** 2 + only_one * f**2
    return math.sqrt(variance / n) / size


def error(draws: int = 4000, delta: float = 0.05) -> None:
    print(f"{draws} draws, seed 0, delta = {delta}; 1 % of rows are not of class 0\n")
    print("| classes | rows | memory | bound | seen (95 %) | beyond | sd of F1 | by slopes |")
    print("|---|---|---|---|---|---|---|---|")
    for classes in (2, 10):
        shares = population(classes)
        for n, memory in (
            (128, 0.0),
            (128, 0.9),
            (128, 0.99),
            (1024, 0.0),
            (1_024_000, 0.0),
            (10**10, 0.0),
        ):
            errors, f1 = simulated(shares, n, memory, draws)
            batches = 1 if memory == 0 else 10_000
            rows = n / running_share(memory, batches)
            bound = ss.losses.confusion_error_bound(rows, classes, delta)
            beyond = float((errors > bound).mean())
            seen = float(np.quantile(errors, 1 - delta))
            spread = spread_of_f1(shares, rows)
            print(
                f"| {classes} | {n:,} | {memory:g} | {bound:.2g} | {seen:.2g} "
                f"| {100 * beyond:.1f} % | {f1.std():.2g} | {spread:.2g} |"
            )


# --- two ranks ------------------------------------------------------------------------------------


def one_rank(folder: str, rank: int, rounds: int) -> None:
    dist.init_process_group(
        "gloo", f"file://{folder}/meeting", datetime.timedelta(minutes=5), 2, rank
    )
    torch.manual_seed(rank)
    x, y = torch.randn(512, 784), (torch.rand(512) < 0.1).long()
    network = nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.Linear(256, 1)
    )
    model = DistributedDataParallel(network)
    losses = {"plain": ss.MetricLoss("f1"), "sync": ss.MetricLoss("f1", sync="auto")}

    def seconds(loss: nn.Module) -> float:
        start = time.perf_counter()
        for _ in range(10):
            model.zero_grad()
            loss(model(x), y).backward()
        dist.barrier()
        return time.perf_counter() - start

    ratios = []
    for number in range(rounds + 2):
        took = {name: seconds(loss) for name, loss in losses.items()}
        if number >= 2:
            ratios.append(took["sync"] / took["plain"])
    if rank == 0:
        parameters = sum(p.numel() for p in network.parameters())
        low, high = np.quantile(ratios, [0.25, 0.75])
        print(f"{parameters:,} parameters, 2 ranks x 512 rows, {rounds} rounds of 10 steps: sync")
        print(
            f"takes {statistics.median(ratios):.3f} of plain DDP's time ({low:.3f} to {high:.3f})"
        )
    dist.destroy_process_group()


def ranks(rounds: int = 20) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "ranks", "--rounds", str(rounds), "--folder", folder]
        both = [subprocess.Popen([*command, "--rank", str(rank)]) for rank in range(2)]
        for process in both:
            process.wait()


# --- a million predictions ------------------------------------------------------------------------


def table(rows: int, seed: int) -> pd.DataFrame:
    """Eight columns of numbers and two of text, and what is to be predicted of them."""
    g = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": g.normal(size=rows) for i in range(8)})
    frame["city"] = g.choice(["Rome", "Oslo", "Paris", "Bonn"], rows)
    frame["plan"] = g.choice(["basic", "plus", "max"], rows)
    frame["y"] = np.where(frame["x0"] + 0.5 * g.normal(size=rows) > 1.2, "churn", "stay")
    return frame


def command(*words: str | Path) -> float:
    """Seconds of processor time of a softset command, its start included, on one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = [sys.executable, "-c", "from softset.cli import main; main()", *map(str, words)]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def predict(rows: int = 1_000_000, rounds: int = 3) -> None:
    with tempfile.TemporaryDirectory() as folder:
        given, new = table(4000, 0), table(rows, 1).drop(columns="y")
        files = [Path(folder, f"new.{ending}") for ending in ("csv", "parquet")]
        known, model = Path(folder, "known.csv"), Path(folder, "model.softset")
        given.to_csv(known, index=False)
        new.to_csv(files[0], index=False)
        new.to_parquet(files[1])
        command("train", known, "-t", "y", "-o", model)
        start = statistics.median(command("--version") for _ in range(rounds))
        print(f"{rows:,} rows, 10 columns, 8 networks; predictions as CSV. `softset --version`")
        print(f"takes {start:.1f} s. Processor seconds, median of {rounds}:")
        for file in files:
            out = ["-o", Path(folder, "out.csv"), "--force"]
            took = statistics.median(command("predict", model, file, *out) for _ in range(rounds))
            print(f"  {file.suffix}: {took:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["wire", "error", "ranks", "predict"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.rank is not None:
        one_rank(str(given.folder), given.rank, given.rounds)
    else:
        measures = {"ranks": lambda: ranks(given.rounds), "predict": predict}
        ({"wire": wire, "error": error} | measures)[given.what]()


if __name__ == "__main__":
    main()
