"""What a loss costs, forward and backward, as a ratio to PyTorch's cross-entropy in the same run.

    make bench                                    # the table in the README
    python benchmarks/losses.py --threads 1 --rounds 15

Runs are interleaved (every contestant once in each round), and the number is the median of the
rounds' ratios: eager mode, default settings, validation included. "plain" is the same formula
written with ordinary PyTorch operations; "torch-btg" is the package of the papers' authors,
averaged over its nine thresholds, with its hard-coded `.cuda()` neutralised so that it runs on a
CPU at all.

Memory is the rise of the process's peak above its resident size before the call, in units of the
scores' own size (the gradient alone is 1.0), in a process of its own; on Linux only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import softset as ss

Loss = Callable[[Tensor, Tensor], Tensor]


def plain_binary(z: Tensor, y: Tensor, tau: float = 0.5, delta: float = 0.1) -> Tensor:
    """Soft F1 as one would write it from the paper (paper 000 eq. 5 and 6)."""
    p = torch.sigmoid(z)
    m = min(tau, 1 - tau)
    a, b = tau - m / 2, tau + m / 2
    middle = 0.5 + (1 - 2 * delta) / m * (p - tau)
    h = torch.where(p < a, p * delta / a, torch.where(p > b, 1 - delta * (1 - p) / (1 - b), middle))
    tp, fp, fn = (h * y).sum(), (h * (1 - y)).sum(), ((1 - h) * y).sum()
    return 1 - 2 * tp / (2 * tp + fp + fn)


def plain_multiclass(z: Tensor, y: Tensor, t: float = 0.2) -> Tensor:
    """Soft macro F1 with the confusion matrix, as written in paper 002 (eq. 3 to 5)."""
    p = torch.softmax(z, 1)
    tau = p.topk(2, 1).values.mean(1, keepdim=True)
    m = 5 * t * torch.minimum(tau, 1 - tau)
    a, b = tau - m / 2, tau + m / 2
    middle = 0.5 + (1 - 2 * t) / m * (p - tau)
    h = torch.where(p < a, p * t / a, torch.where(p > b, 1 - t * (1 - p) / (1 - b), middle))
    g = h / h.sum(1, keepdim=True)
    matrix = F.one_hot(y, z.shape[1]).to(g.dtype).T @ g
    tp = matrix.diagonal()
    return 1 - (2 * tp / (matrix.sum(0) + matrix.sum(1))).mean()


def plain_auroc(z: Tensor, y: Tensor, size: int = 100, delta: float = 0.1) -> Tensor:
    """Soft AUROC, one threshold after the other."""
    p, rates = torch.sigmoid(z), [(torch.ones(()), torch.ones(()))]
    for i in range(1, size):
        h = ss.LinearStep(delta)(p, i / size)
        rates.append(((h * y).sum() / y.sum(), (h * (1 - y)).sum() / (1 - y).sum()))
    tpr, fpr = (torch.stack([*r, torch.zeros(())]) for r in zip(*rates, strict=True))
    return 1 - torch.trapezoid(tpr, -fpr)


def btg() -> Loss | None:
    """The papers' own package, if it is installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch_btg.loss import fb_loss  # noqa: PLC0415
    except ImportError:
        return None
    torch.Tensor.cuda = lambda self, *a, **k: self  # type: ignore[method-assign]
    loss = fb_loss()
    return lambda z, y: loss(torch.sigmoid(z), y)[0]


def grid(size: int) -> tuple[float, ...]:
    return tuple(i / size for i in range(1, size))


def binary_data(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(n, generator=generator) < 0.05).float()
    return torch.randn(n, generator=generator) + 2 * y - 2, y


def multiclass_data(n: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, classes, (n,), generator=generator)
    return torch.randn(n, classes, generator=generator) * 2, y


# name, data, reference, ours, plain, most it may cost, most memory it may take (in scores)
CASES: list[tuple[str, Any, Loss, Any, Loss | None, float, float | None]] = [
    *[
        (
            f"binary F1, n = {n:,}",
            (binary_data, n),
            F.binary_cross_entropy_with_logits,
            ss.MetricLoss("f1"),
            plain_binary,
            limit,
            memory,
        )
        for n, limit, memory in ((1024, 3.5, None), (1_000_000, 1.0, None), (10_000_000, 1.0, 1.5))
    ],
    *[
        (
            f"macro F1, {n:,} x {d}",
            (multiclass_data, n, d),
            F.cross_entropy,
            ss.MetricLoss("f1", task="multiclass"),
            plain_multiclass,
            limit,
            memory,
        )
        for n, d, limit, memory in (
            (65536, 10, 4.0, None),
            (4096, 257, 3.5, None),
            (4096, 1000, 3.5, None),
            (65536, 257, 1.8, 2.5),
        )
    ],
    *[
        (
            f"AUROC, {k} thresholds, n = 1,000,000",
            (binary_data, 1_000_000),
            F.binary_cross_entropy_with_logits,
            ss.MetricLoss("auroc", thresholds=grid(k)),
            plain_auroc if k == 100 else None,
            2.0,
            1.5,
        )
        for k in (100, 1000)
    ],
]


def make(recipe: Any) -> tuple[Tensor, Tensor]:
    function, *arguments = recipe
    z, y = function(*arguments)
    return z.requires_grad_(), y


def run(loss: Loss, z: Tensor, y: Tensor) -> float:
    z.grad = None
    start = time.perf_counter()
    loss(z, y).backward()
    return time.perf_counter() - start


def measure(case: Any, rounds: int, other: Loss | None) -> dict[str, Any]:
    name, recipe, reference, ours, plain, limit, _ = case
    z, y = make(recipe)
    contestants = {"reference": reference, "softset": ours}
    if plain is not None:
        contestants["plain"] = plain
    if other is not None and name.startswith("binary"):
        contestants["torch-btg"] = other
    slow = {"plain", "torch-btg"} if z.numel() >= 1_000_000 else set()
    if z.numel() > 1_000_000:
        contestants.pop("torch-btg", None)  # minutes, and gigabytes
    many = max(rounds, min(200, 200_000_000 // z.numel()))  # small batches: more rounds
    times: dict[str, list[float]] = {key: [] for key in contestants}
    for i in range(many + 2):
        for key, loss in contestants.items():
            if key in slow and i > 3:
                continue
            spent = run(loss, z, y)
            if i >= 2:
                times[key].append(spent)
    base = times.pop("reference")
    ratios = {
        key: statistics.median(a / b for a, b in zip(spent, base, strict=False))
        for key, spent in times.items()
    }
    return {"case": name, "limit": limit, **ratios}


def peak_memory(index: int) -> float:
    """In this process: the rise of the peak over what is resident, in sizes of the scores."""
    function, n, *rest = CASES[index][1]
    z, y = make((function, 10 * n if not rest and n < 10_000_000 else n, *rest))  # large n
    small = z[:64].detach().requires_grad_()
    loss = CASES[index][3]
    loss(small, y[:64]).backward()

    def status(key: str) -> int:
        text = Path("/proc/self/status").read_text()
        return 1024 * int(text.split(key + ":")[1].split()[0])

    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = status("VmRSS")
    loss(z, y).backward()
    return (status("VmHWM") - before) / (z.numel() * z.element_size())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of is not None:
        print(peak_memory(options.memory_of))
        return
    other = btg()
    rows = []
    for index, case in enumerate(CASES):
        row = measure(case, options.rounds, other)
        if case[6] is not None and Path("/proc/self/clear_refs").exists():
            command = [sys.executable, __file__, "--memory-of", str(index)]
            command += ["--threads", str(options.threads)]
            row["memory"] = float(subprocess.run(command, capture_output=True, check=True).stdout)
            row["memory_limit"] = case[6]
        rows.append(row)
        if options.json:
            print(json.dumps(row), flush=True)
    if options.json:
        return
    print(f"{datetime.date.today()}, torch {torch.__version__}, {options.threads} thread(s),")
    print(f"median of at least {options.rounds} rounds; time as a ratio to cross-entropy\n")
    print(
        "| loss, forward + backward | softset | goal | plain PyTorch | torch-btg | memory | goal |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        cells = [
            f"{float(f'{row[key]:.2g}'):g}" if key in row else ""
            for key in ("softset", "limit", "plain", "torch-btg", "memory", "memory_limit")
        ]
        print(f"| {row['case']} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
