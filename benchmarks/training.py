"""Seconds per member and epoch: stacked members against loops that train one network at a time.

Run: python benchmarks/training.py [--threads 1] [--rounds 5]
Every line is a median over rounds in which the contestants take turns, so that a busy moment hits
all of them. The last column is the highest memory the process of one contestant reached, each in a
fresh process, minus what it had after making the data.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import multiprocessing
import re
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from softset import MetricLoss
from softset.training import Member, train_members

BATCH = 1024
SIZES = {"Mammography-sized, 6,000 x 6": (6_000, 6), "182,000 x 29": (182_000, 29)}


def make_data(rows: int, features: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A problem with some 3 % positives."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=g)
    return x, (x[:, 0] + torch.randn(rows, generator=g) > 2.7).float()


def perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    """The network that all contestants train."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def stacked(x: Any, y: Any, hidden: Any, members: int, epochs: int, shared: int | None) -> int:
    """Our engine; no validation, as in the other loops."""
    train_members(
        hidden,
        (x, y),
        members=[Member(seed=s) for s in range(members)],
        recipe="metric",
        batch_size=BATCH,
        max_epochs=epochs,
        shared_order=shared,
    )
    return members * epochs


def dataloader(x: Any, y: Any, hidden: Any, epochs: int) -> int:
    """The ordinary loop: DataLoader over a TensorDataset, the same loss and optimizer."""
    torch.manual_seed(0)
    model, loss = perceptron((x.shape[1], *hidden, 1)), MetricLoss("f1")
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    loader = DataLoader(TensorDataset(x, y), BATCH, shuffle=True)
    for _ in range(epochs):
        for xb, yb in loader:
            optimizer.zero_grad()
            loss(model(xb).squeeze(-1), yb).backward()
            optimizer.step()
    return epochs


def scikit_learn(x: Any, y: Any, hidden: Any, epochs: int) -> int:
    """MLPClassifier: cross-entropy, which is all it has."""
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

    model = MLPClassifier(hidden, batch_size=BATCH, max_iter=epochs, tol=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x.numpy(), y.numpy().astype(int))
    return epochs


def skorch(x: Any, y: Any, hidden: Any, epochs: int) -> int:
    """NeuralNetBinaryClassifier with our loss."""
    from skorch import NeuralNetBinaryClassifier  # noqa: PLC0415

    model = NeuralNetBinaryClassifier(
        perceptron((x.shape[1], *hidden, 1)),
        criterion=MetricLoss("f1"),
        optimizer=torch.optim.AdamW,
        batch_size=BATCH,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        train_split=None,
        verbose=0,
    )
    model.fit(x, y)
    return epochs


def contestants(hidden: tuple[int, ...], epochs: int) -> dict[str, Callable[..., int]]:
    """Each trains and says how many member-epochs that were; the first is the reference."""
    found: dict[str, Callable[..., int]] = {
        "DataLoader loop": lambda x, y: dataloader(x, y, hidden, epochs),
        "ours, 10 members, own order": lambda x, y: stacked(x, y, hidden, 10, epochs, None),
        "ours, 10 members, shared batches": lambda x, y: stacked(x, y, hidden, 10, epochs, 0),
        "ours, 1 member": lambda x, y: stacked(x, y, hidden, 1, epochs, None),
        "scikit-learn MLPClassifier": lambda x, y: scikit_learn(x, y, hidden, epochs),
    }
    if find_spec("skorch") is not None:
        found["skorch"] = lambda x, y: skorch(x, y, hidden, epochs)
    return found


def memory(index: int, size: Any, hidden: Any, threads: int, answer: Any) -> None:
    """In a process of its own: how far a contestant raises the highest memory, in MB."""
    torch.set_num_threads(threads)
    x, y = make_data(*size)
    list(contestants(hidden, 1).values())[index](x[:2048], y[:2048])  # imports
    before = highest_memory()
    list(contestants(hidden, 1).values())[index](x, y)
    answer.put(highest_memory() - before)


def highest_memory() -> float:
    """In MB. Linux only: elsewhere, and in ``getrusage``, a parent's memory may be counted."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return float(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024  # type: ignore[index]


def peak(index: int, size: Any, hidden: Any, threads: int) -> float:
    """The same, from outside."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=memory, args=(index, size, hidden, threads, answer))
    process.start()
    value = answer.get()
    process.join()
    return value


def compare(title: str, size: tuple[int, int], hidden: Any, epochs: int, args: Any) -> None:
    """One table."""
    x, y = make_data(*size)
    seconds: dict[str, list[float]] = {}
    for turn in range(args.rounds + 1):
        for name, run in contestants(hidden, epochs).items():
            start = time.perf_counter()
            count = run(x, y)
            if turn > 0:  # the first is for warming up
                seconds.setdefault(name, []).append((time.perf_counter() - start) / count)
    print(f"\n{title}, network {'-'.join(map(str, hidden))}-1, batch {BATCH}\n")
    print("| | ms a member-epoch | times faster | of each round | memory, MB |")
    print("|---|---|---|---|---|")
    reference = seconds["DataLoader loop"]
    for index, (name, values) in enumerate(seconds.items()):
        ratios = [a / b for a, b in zip(reference, values, strict=True)]
        used = peak(index, size, hidden, args.threads)
        print(
            f"| {name} | {1000 * statistics.median(values):.2f} | "
            f"{statistics.median(ratios):.1f} | {min(ratios):.1f} to {max(ratios):.1f} | "
            f"{used:.0f} |",
            flush=True,
        )


def main() -> None:
    """Print a Markdown table for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    threadpool_limits(args.threads)  # what NumPy uses, for scikit-learn's sake
    print(
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, torch {torch.__version__}, numpy "
        f"{np.__version__}, {args.threads} thread(s), medians of {args.rounds} rounds, seed 0"
    )
    for title, size in SIZES.items():
        compare(title, size, (32, 16), 10 if size[0] < 10**5 else 1, args)
    compare("A larger network, 6,000 x 29", (6_000, 29), (512, 256, 128), 1, args)


if __name__ == "__main__":
    main()
