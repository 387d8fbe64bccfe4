"""What a loss costs, forward and backward, as a ratio to PyTorch's cross-entropy in the same run.

    make bench                                   # the table in the README
    python benchmarks/losses.py --seed 7 --draws 10
    python benchmarks/losses.py --seed 77 --native-only --threads 2 --instructions best

Shapes are drawn at random from four families: rows of several classes, images, binary problems,
and labels; contiguous, channels-last or strided, with and without weights and ignored positions,
with several metrics and steps. Each draw is the median of nine pairs, ours and unweighted
cross-entropy on the same tensors by turns (with the same ``ignore_index``), in processor time on
one thread, or in time on several (``--threads``): eager mode, default settings, checks included.
Images are also compared with the soft IoU that people write by hand. Both paths are measured, the
kernels in C and those in PyTorch, which serve where there is no compiler. docs/kernels.md says what
the numbers depend on; the two settings that matter are fixed here: the allocator is warm, and
PyTorch runs with AVX2 (``--instructions``), as its cross-entropy of fewer than 16 classes is five
times slower with AVX-512. ``--instructions best`` measures with AVX2 and with AVX-512, and takes
the faster cross-entropy of each draw.

Memory is the rise of the process's peak above its resident size before the call, in units of the
scores' own size (the gradient alone is 1.0), in a process of its own, for 2^20 scores and more.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import softset as ss
from softset.counting.kernels.choice import using
from softset.counting.kernels.native.library import native

PAIRS = 9
LARGE = 2**16  # scores from which the goals for large batches hold
MEMORY_FROM = 2**20
MOST = 2**24  # scores
IGNORED = -100  # what cross-entropy ignores by itself
METRICS = ("f1", "f2", "jaccard", "dice", "mcc", "balanced_accuracy", "accuracy", "cohen_kappa")
STEPS: dict[str, Any] = {
    "linear": None,
    "sigmoid": ss.SigmoidStep(),
    "identity": ss.IdentityStep(),
}
FAMILIES = ("rows", "images", "binary", "labels")
GOALS = {"large": "median 1.5, 95th percentile 3", "small": "median 3.5"}


@dataclass(frozen=True)
class Draw:
    """A random problem."""

    family: str
    shape: tuple[int, ...]
    layout: str  # contiguous, channels-last or strided
    metric: str
    step: str
    weighted: bool
    ignored: bool
    seed: int

    @property
    def scores(self) -> int:
        return math.prod(self.shape)

    @property
    def task(self) -> str:
        tasks = {"rows": "multiclass", "images": "multiclass", "binary": "binary"}
        return tasks.get(self.family, "multilabel")

    def __str__(self) -> str:
        size = " x ".join(f"{n:,}" for n in self.shape)
        words = [size, self.layout, self.metric, self.step]
        words += ["weighted"] * self.weighted + ["ignored"] * self.ignored
        return ", ".join(words)


def log_uniform(rng: random.Random, low: float, high: float) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def draw_shape(rng: random.Random, family: str, most: int) -> tuple[int, ...]:
    if family == "rows":
        classes = log_uniform(rng, 2, min(2000, most // 2**8))
        return log_uniform(rng, 2**8, min(2**23, most // classes)), classes
    if family == "binary" and rng.random() < 0.75:
        return (log_uniform(rng, 2**8, min(2**23, most)),)
    if family == "labels" and rng.random() < 0.75:
        labels = log_uniform(rng, 2, min(200, most // 2**8))
        return log_uniform(rng, 2**8, min(2**23, most // labels)), labels
    while True:  # images
        n, side = log_uniform(rng, 1, 32), [log_uniform(rng, 16, 512) for _ in range(2)]
        classes = 1 if family == "binary" else log_uniform(rng, 2, 150)
        if 2**8 <= n * classes * side[0] * side[1] <= most:
            return n, classes, *side


def draws(family: str, seed: int, count: int, most: int = MOST) -> Iterator[Draw]:
    """The same for the same seed, and more of them begin with the same ones."""
    rng = random.Random(f"{family} {seed}")
    for _ in range(count):
        shape = draw_shape(rng, family, most)
        layouts = ["contiguous", "contiguous", "strided"]
        layouts += ["channels-last"] if len(shape) == 4 and shape[1] > 1 else []
        ignored = rng.random() < 0.5 and family in ("rows", "images")  # BCE has no such thing
        yield Draw(
            family,
            shape,
            rng.choice(layouts),
            rng.choice(METRICS),
            rng.choice(["linear", "linear", "sigmoid", "identity"]),
            rng.random() < 0.5,
            ignored,
            rng.randrange(2**31),
        )


@dataclass(frozen=True)
class Problem:
    """The tensors of a draw, and the losses that are compared on them."""

    z: Tensor
    ours: Callable[[], Tensor]
    reference: Callable[[], Tensor]
    naive: Callable[[], Tensor] | None


def laid_out(z: Tensor, layout: str) -> Tensor:
    if layout == "channels-last":
        return z.contiguous(memory_format=torch.channels_last)
    if layout == "strided":  # a part of a larger tensor, such as a crop
        room = torch.zeros(*z.shape[:-1], z.shape[-1] + 8)
        room[..., : z.shape[-1]] = z
        return room[..., : z.shape[-1]]
    return z


def make(draw: Draw) -> Problem:
    g = torch.Generator().manual_seed(draw.seed)
    z = laid_out(torch.randn(draw.shape, generator=g) * 2, draw.layout).requires_grad_()
    positions = draw.shape[:1] + draw.shape[2:] if len(draw.shape) > 1 else draw.shape
    loss = ss.MetricLoss(draw.metric, task=draw.task, step=STEPS[draw.step],
                         ignore_index=IGNORED if draw.ignored else None)  # fmt: skip
    w = torch.rand(positions, generator=g) + 0.5 if draw.weighted else None
    if draw.task != "multiclass":
        y = (torch.rand(draw.shape, generator=g) < 0.2).float()
        return Problem(
            z, lambda: loss(z, y, w), lambda: F.binary_cross_entropy_with_logits(z, y), None
        )
    classes = draw.shape[1]
    y = torch.randint(0, classes, positions, generator=g)
    if draw.ignored:
        y[torch.rand(positions, generator=g) < 0.1] = IGNORED
    naive = (lambda: naive_iou(z, y, draw.ignored)) if draw.family == "images" else None
    return Problem(
        z, lambda: loss(z, y, w), lambda: F.cross_entropy(z, y, ignore_index=IGNORED), naive
    )


def naive_iou(z: Tensor, y: Tensor, ignored: bool) -> Tensor:
    """The soft IoU that one writes by hand."""
    p = torch.softmax(z, 1)
    t = F.one_hot(y.clamp(min=0), z.shape[1]).movedim(-1, 1).to(p.dtype)
    if ignored:
        there = (y != IGNORED).unsqueeze(1)
        p, t = p * there, t * there
    both = (p * t).sum((0, 2, 3))
    return 1 - (both / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) - both)).mean()


def timed(loss: Callable[[], Tensor], z: Tensor, calls: int) -> float:
    """Seconds of a forward and a backward pass: of the processor on one thread, else on the clock,
    as a thread that waits for work also takes the time of a processor."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    z.grad = None
    start = clock()
    for _ in range(calls):
        z.grad = None
        loss().backward()
    return (clock() - start) / calls


def compare(loss: Callable[[], Tensor], other: Callable[[], Tensor], z: Tensor, pairs: int) -> Any:
    """Medians of both times over so many pairs, by turns, and the median of their ratio."""
    calls = max(1, min(20, LARGE // z.numel()))
    for _ in range(2 if pairs > 1 else 1):
        timed(loss, z, 1), timed(other, z, 1)
    found = [(timed(loss, z, calls), timed(other, z, calls)) for _ in range(pairs)]
    ratio = statistics.median(a / b for a, b in found)
    return ratio, *(statistics.median(times) for times in zip(*found, strict=True))


def measure(draw: Draw, plain: bool) -> dict[str, Any]:
    """All that is known of a draw; ``plain``: the PyTorch kernels too."""
    problem = make(draw)
    z = problem.z
    row: dict[str, Any] = {**asdict(draw), "scores": draw.scores}
    if native() is not None:
        row["native"] = compare(problem.ours, problem.reference, z, PAIRS)
    if plain:
        with using("torch"):
            pairs = 3 if draw.scores <= 2**20 else 1
            row["pytorch"] = compare(problem.ours, problem.reference, z, pairs)
    if problem.naive is not None:
        row["naive"] = compare(problem.ours, problem.naive, z, 5)
    return row


def warm_allocator() -> None:
    """As in a process that has trained for a while. The first block of a size is fresh memory from
    the system, page by page, until one as large has been freed; the largest that glibc remembers
    has 32 MB."""
    block = torch.zeros(31 * 2**18)
    del block


def peak_memory(draw: Draw) -> float:
    """In this process: the rise of the peak over what is resident, in sizes of the scores."""
    problem = make(draw)

    def status(key: str) -> int:
        text = Path("/proc/self/status").read_text()
        return 1024 * int(text.split(key + ":")[1].split()[0])

    small = torch.randn(64, requires_grad=True)
    ss.MetricLoss("f1")(small, (small > 0).long()).backward()  # what is loaded on first use
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = status("VmRSS")
    problem.ours().backward()
    return (status("VmHWM") - before) / (4 * draw.scores)


def memory_of(chosen: list[Draw], options: argparse.Namespace) -> list[float]:
    """Of all draws, in a process in which every block goes back to the system."""
    if not Path("/proc/self/clear_refs").exists() or not chosen:
        return []
    command = [sys.executable, __file__, "--memory", "--seed", str(options.seed)]
    command += ["--draws", str(options.draws)]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    return [float(line) for line in done.stdout.split()]


def large_draws(options: argparse.Namespace) -> list[Draw]:
    return [
        draw
        for family in FAMILIES
        for draw in draws(family, options.seed, options.draws)
        if draw.scores >= MEMORY_FROM
    ]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def summary(rows: list[dict[str, Any]], path: str) -> Iterator[str]:
    """A table in markdown: ratios to cross-entropy by family and size."""
    yield "| family | scores | draws | median | 95th percentile | slowest | goal |"
    yield "|---|---|---|---|---|---|---|"
    for size, name in (("small", "below 2^16"), ("large", "from 2^16 on")):
        for family in (*FAMILIES, "all"):
            found = [
                row[path][0]
                for row in rows
                if path in row
                and family in ("all", row["family"])
                and (row["scores"] >= LARGE) == (size == "large")
            ]
            if found:
                numbers = statistics.median(found), percentile(found, 0.95), max(found)
                cells = " | ".join(f"{x:.2f}" for x in numbers)
                yield f"| {family} | {name} | {len(found)} | {cells} | {GOALS[size]} |"


COMPILED = (("rows", (65536, 19)), ("images", (4, 19, 128, 128)), ("binary", (10**6,)))


def compare_compiled() -> Iterator[str]:
    """What ``torch.compile`` makes of the composition, beside the kernels."""
    yield "| shape | kernels in C | PyTorch kernels | torch.compile |"
    yield "|---|---|---|---|"
    for family, shape in COMPILED:
        draw = Draw(family, shape, "contiguous", "f1", "linear", False, False, 0)
        problem = make(draw)
        times = [compare(problem.ours, problem.reference, problem.z, PAIRS)[0]]
        with using("torch"):
            times.append(compare(problem.ours, problem.reference, problem.z, 3)[0])
        compiled = torch.compile(problem.ours)
        times.append(compare(compiled, problem.reference, problem.z, PAIRS)[0])
        size = " x ".join(f"{n:,}" for n in shape)
        yield f"| {size} | {' | '.join(f'{t:.2g}' for t in times)} |"


def compare_instructions(options: argparse.Namespace) -> None:
    """With each kind of instructions for PyTorch, and with the better one for each draw."""
    found: dict[str, list[Any]] = {}
    for instructions in ("avx2", "avx512"):
        with tempfile.TemporaryDirectory() as folder:
            lines = Path(folder) / "draws.jsonl"
            command = [sys.executable, __file__, "--native-only", "--no-memory"]
            command += ["--instructions", instructions, "--json", str(lines)]
            for name in ("seed", "draws", "threads"):
                command += [f"--{name}", str(getattr(options, name))]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            found[instructions] = [json.loads(text) for text in lines.read_text().splitlines()]
    for rows in zip(*found.values(), strict=True):
        fastest = min(row["native"][2] for row in rows)
        ours = statistics.median(row["native"][1] for row in rows)
        found.setdefault("best", []).append({**rows[0], "native": (ours / fastest, ours, fastest)})
    print(f"{datetime.date.today()}, torch {torch.__version__}, threads: {options.threads}, seed "
          f"{options.seed}, kernels in C, ratio to cross-entropy")  # fmt: skip
    for instructions, rows in found.items():
        print(f"\nPyTorch with {instructions}:\n")
        print("\n".join(summary(rows, "native")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=40, help="for each family")
    parser.add_argument("--instructions", default="avx2", help="for PyTorch: avx2, avx512, best")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--native-only", action="store_true", help="not the PyTorch kernels")
    parser.add_argument("--json", type=Path, help="write one line for each draw to this file")
    parser.add_argument("--compile", action="store_true", help="torch.compile, on three shapes")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-memory", action="store_true", help="not the rise of the peak")
    options = parser.parse_args()
    if options.instructions == "best":
        compare_instructions(options)
        return
    if os.environ.get("ATEN_CPU_CAPABILITY") != options.instructions:  # read on loading PyTorch
        os.environ["ATEN_CPU_CAPABILITY"] = options.instructions
        os.execv(sys.executable, [sys.executable, *sys.argv])
    torch.set_num_threads(1 if options.memory else options.threads)
    if options.memory:
        for draw in large_draws(options):
            print(peak_memory(draw), flush=True)
        return
    warm_allocator()
    if options.compile:
        for text in compare_compiled():
            print(text, flush=True)
        return
    path = "native" if native() is not None else "PyTorch only: the kernels in C are not built"
    count = (
        f"{options.threads} threads, time" if options.threads > 1 else "one thread, processor time"
    )
    print(f"{datetime.date.today()}, torch {torch.__version__}, {count},")
    print(
        f"PyTorch with {torch.backends.cpu.get_cpu_capability()}; path: {path}; seed {options.seed}"
    )
    rows = []
    for family in FAMILIES:
        print(
            f"\n{family}: ours / cross-entropy in ms, ratio; the PyTorch kernels' ratio", flush=True
        )
        for draw in draws(family, options.seed, options.draws):
            row = measure(draw, plain=not options.native_only or native() is None)
            rows.append(row)
            print(line(draw, row), flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for key, title in (("native", "kernels in C"), ("pytorch", "PyTorch kernels")):
        if any(key in row for row in rows):
            print(f"\nTime as a ratio to cross-entropy, {title}:\n")
            print("\n".join(summary(rows, key)))
    naive = [row["naive"][0] for row in rows if "naive" in row]
    if naive:
        print(f"\nImages, as a ratio to the soft IoU written by hand: median "
              f"{statistics.median(naive):.2f}, slowest {max(naive):.2f} (goal: 1).")  # fmt: skip
    memory = [] if options.no_memory else memory_of(large_draws(options), options)
    if memory:
        print(f"\nMemory from 2^20 scores on, in scores: median {statistics.median(memory):.2f}, "
              f"most {max(memory):.2f} of {len(memory)} draws (goal: 1.5).")  # fmt: skip


def line(draw: Draw, row: dict[str, Any]) -> str:
    parts = []
    if "native" in row:
        ratio, ours, reference = row["native"]
        parts.append(f"{1e3 * ours:9.3f} / {1e3 * reference:9.3f} = {ratio:5.2f}")
    if "pytorch" in row:
        ratio, ours, reference = row["pytorch"]
        shown = "" if parts else f"{1e3 * ours:9.3f} / {1e3 * reference:9.3f} = "
        parts.append(f"{shown}{ratio:6.2f}")
    if "naive" in row:
        parts.append(f"{row['naive'][0]:5.2f} of the naive IoU")
    return f"  {'   '.join(parts)}   {draw}"


if __name__ == "__main__":
    main()
