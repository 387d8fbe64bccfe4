"""What holds on a GPU, checked there: numbers, waiting, graph capture, time and memory.

    python benchmarks/gpu.py                # on a machine with a GPU: prints a table to send us
    python benchmarks/gpu.py --device cpu   # the same way through the program, without a claim
    python benchmarks/gpu.py --roofline     # launches and bytes on paper: no GPU, no values
    python benchmarks/gpu.py --operations   # launches of all metrics, and of options

For each problem: the loss and its gradient against the plain composition on the CPU in float64; a
training step with ``torch.cuda.set_sync_debug_mode("error")``, which raises an error where the host
waits for the device; the step captured in a CUDA graph, and replayed; the time of forward and
backward as a ratio to PyTorch's cross-entropy and to a soft IoU by hand, median of the rounds; and
the peak of memory in units of the scores' own size. docs/how-to/gpu.md says what to expect.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import softset as ss
from softset.counting.kernels.choice import using

ROUNDS = 20


@dataclass(frozen=True)
class Case:
    """A loss and the shape of its scores."""

    metric: str
    task: str
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        size = " x ".join(f"{n:,}" for n in self.shape)
        return f"{self.metric}, {self.task}, {size}, {str(self.dtype).removeprefix('torch.')}"


CASES = [
    Case("f1", "binary", (4096,)),
    Case("f1", "binary", (2**24,)),
    Case("mcc", "binary", (2**20,)),
    Case("auroc", "binary", (2**20,)),
    Case("f1", "multilabel", (65_536, 80)),
    Case("f1", "multiclass", (4096, 10)),
    Case("f1", "multiclass", (65_536, 1000)),
    Case("f1", "multiclass", (65_536, 1000), torch.bfloat16),
    Case("mcc", "multiclass", (65_536, 100)),
    Case("miou", "multiclass", (4, 19, 128, 256)),
    Case("miou", "multiclass", (16, 19, 512, 1024)),
]
SMALL = 2**18  # scores up to which the composition in float64 on the CPU takes no time


def drawn(case: Case, device: torch.device) -> tuple[Tensor, Tensor]:
    g = torch.Generator(device).manual_seed(0)
    z = torch.randn(case.shape, generator=g, device=device).to(case.dtype)
    if case.task == "multiclass":
        labels = (case.shape[0], *case.shape[2:])
        return z, torch.randint(case.shape[1], labels, generator=g, device=device)
    return z, torch.randint(2, case.shape, generator=g, device=device)


def cross_entropy(z: Tensor, y: Tensor, task: str) -> Tensor:
    if task == "multiclass":
        return F.cross_entropy(z, y)
    return F.binary_cross_entropy_with_logits(z, y.to(z.dtype))


def naive_iou(z: Tensor, y: Tensor) -> Tensor:
    """What people write by hand."""
    p = torch.softmax(z, 1)
    own = F.one_hot(y, z.shape[1]).movedim(-1, 1).to(p.dtype)
    dims = [0, *range(2, z.dim())]
    both = (p * own).sum(dims)
    return 1 - (both / (p.sum(dims) + own.sum(dims) - both + 1e-6)).mean()


def step_of(loss: Callable[[Tensor, Tensor], Tensor], z: Tensor, y: Tensor) -> Callable[[], Tensor]:
    x = z.clone().requires_grad_()

    def step() -> Tensor:
        x.grad = None
        value = loss(x, y)
        value.backward()
        return value

    return step


def seconds(step: Callable[[], Tensor], device: torch.device, rounds: int) -> float:
    times = []
    for _ in range(rounds + 3):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        else:
            begun = time.perf_counter()
            step()
            times.append(time.perf_counter() - begun)
    return statistics.median(times[3:])


def memory(step: Callable[[], Tensor], z: Tensor) -> str:
    """The peak above what was there, in units of the scores."""
    if not z.is_cuda:
        return "-"
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    rise = torch.cuda.max_memory_allocated() - before
    return f"{rise / (z.numel() * z.element_size()):.1f}"


def agrees(case: Case, loss: ss.MetricLoss, z: Tensor, y: Tensor) -> str:
    """Against the composition in float64 on the CPU, of the same rounded scores."""
    if z.numel() > SMALL:
        return "-"
    x, exact = z.clone().requires_grad_(), z.detach().cpu().double().requires_grad_()
    value = loss(x, y)
    value.backward()
    wanted = ss.metric_loss(exact, y.cpu(), case.metric, task=case.task)
    wanted.backward()
    near = 1e-5 if case.dtype == torch.float32 else 1e-2
    off = abs(value.item() - wanted.item())
    slope = (x.grad.cpu().double() - exact.grad).abs().max() / exact.grad.abs().max()
    return "yes" if off < near and slope < 10 * near else f"NO: {off:.1e}, gradient {slope:.1e}"


def waits(step: Callable[[], Tensor], device: torch.device) -> str:
    if device.type != "cuda":
        return "-"
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    except RuntimeError as error:
        return f"YES: {error}"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "no"


def captured(loss: ss.MetricLoss, z: Tensor, y: Tensor) -> str:
    """Whether a graph of the step, replayed with other scores, gives their loss and gradient."""
    if not z.is_cuda:
        return "-"
    x = z.clone().requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            x.grad = None
            loss(x, y).backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    x.grad = None
    try:
        with torch.cuda.graph(graph):
            value = loss(x, y)
            value.backward()
    except RuntimeError as error:
        return f"NO: {error}"
    with torch.no_grad():
        x.copy_(z.flip(0))
    graph.replay()
    again = z.flip(0).clone().requires_grad_()
    wanted = loss(again, y)
    wanted.backward()
    close = torch.allclose(value, wanted) and torch.allclose(x.grad, again.grad, atol=1e-6)
    return "yes" if close else "NO: other numbers"


class Traffic(TorchDispatchMode):
    """Operations that are launched, and the bytes that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        views = [
            r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns
        ]
        nothing = ("empty", "scalar_tensor", "_unsafe_view")
        if (views and all(views)) or any(name in str(func) for name in nothing):
            return out
        self.launches += 1
        moved = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, Tensor)]
        self.bytes += sum(_distinct(t) for t in moved)
        return out


def _distinct(t: Tensor) -> int:
    """Bytes of the elements that lie in memory: those of an expanded dimension once."""
    sizes = [n for n, s in zip(t.shape, t.stride(), strict=True) if s != 0]
    return math.prod(sizes) * t.element_size()


def roofline() -> None:
    """Launches and bytes per score of forward and backward, on tensors without values."""
    print(
        "| problem | loss | launches | bytes per score | to cross-entropy |\n|---|---|---|---|---|"
    )
    cases = [CASES[1], Case("f1", "multiclass", (65_536, 1000)), CASES[-1]]
    for case in cases:
        z = torch.zeros(case.shape, device="meta")
        labels = (case.shape[0], *case.shape[2:]) if case.task == "multiclass" else case.shape
        y = torch.zeros(labels, dtype=torch.long, device="meta")
        losses = {
            "cross-entropy": lambda a, b, t=case.task: cross_entropy(a, b, t),
            "soft IoU by hand": naive_iou if case.metric == "miou" else None,
            "MetricLoss, PyTorch": ss.MetricLoss(case.metric, task=case.task, check="device"),
        }
        base = 0.0
        for name, loss in losses.items():
            if loss is None:
                continue
            step_of(loss, z, y)()
            step = step_of(loss, z, y)
            with Traffic() as seen:
                step()
            each = seen.bytes / z.numel()
            base = base or each
            row = (str(case), name, str(seen.launches), f"{each:.0f}", f"{each / base:.1f}")
            print(f"| {' | '.join(row)} |")
        least = 12 if case.task == "multiclass" else 28  # scores twice, gradient; labels twice
        row = (str(case), "MetricLoss, Triton, at least", "", f"{least}", f"{least / base:.1f}")
        print(f"| {' | '.join(row)} |")


OPTIONS: dict[str, dict[str, Any]] = {
    "weights": {"weighted": True},
    "ignore_index": {"ignore_index": 1},
    "class_weight": {"class_weight": True},
    'empty="ignore"': {"empty": "ignore"},
    "probabilities": {"from_logits": False},
    "average": {"metric": ss.F1(average="weighted")},
    'per="image"': {"per": "image"},
    "ema_decay": {"ema_decay": 0.9},
}


def launched(metric: Any, task: str, weighted: bool = False, **options: Any) -> int:
    """Operations of forward and backward, the second time."""
    shape = (5003,) if task == "binary" else (5003, 10)
    if options.get("per"):
        shape = (4, 1 if task == "binary" else 10, 31, 33)
    if options.get("class_weight"):
        options["class_weight"] = torch.linspace(1, 2, 2 if task == "binary" else 10)
    z, y = drawn(Case("f1", task, shape), torch.device("cpu"))
    z = z if options.get("from_logits", True) else z.sigmoid()
    w = torch.rand(shape[0]) if weighted else None
    loss = ss.MetricLoss(metric, task=task, check="device", **options)
    step = step_of(lambda a, b: loss(a, b, w), z, y)
    step()
    with Traffic() as seen:
        step()
    return seen.launches


def operations() -> None:
    """Of the device path in PyTorch; they do not depend on the device."""
    print("| | one class | labels | classes |\n|---|---|---|---|")
    tasks = ("binary", "multilabel", "multiclass")
    with using("torch"):
        for metric in (*ss.METRICS, "precision@recall>=0.8"):
            which = tasks if "@" not in metric else tasks[:1]
            print(f"| {metric} | {' | '.join(str(launched(metric, t)) for t in which)} |")
        for name, options in OPTIONS.items():
            counts = [str(launched(**{"metric": "f1", "task": t} | options)) for t in tasks]
            print(f"| F1, {name} | {' | '.join(counts)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, or another that PyTorch has")
    parser.add_argument("--kernels", nargs="+", default=["auto", "torch"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--most", type=int, default=2**30, help="scores in a problem")
    parser.add_argument("--roofline", action="store_true", help="launches and bytes on paper")
    parser.add_argument("--operations", action="store_true", help="launches of all metrics")
    given = parser.parse_args()
    if given.operations:
        operations()
        return
    if given.roofline:
        roofline()
        return
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch.cuda.is_available() is False; nothing was measured")
        sys.exit(0)
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    print(f"{name}, torch {torch.__version__}, median of {given.rounds}; times are ratios\n")
    heads = ("kernels", "problem", "agrees", "waits", "in a graph", "to cross-entropy", "to naive")
    print(f"| {' | '.join((*heads, 'memory (cross-entropy)'))} |\n|{'---|' * 8}")
    for case in CASES:
        if math.prod(case.shape) > given.most:
            continue
        z, y = drawn(case, device)
        reference = step_of(lambda a, b, t=case.task: cross_entropy(a, b, t), z, y)
        base, base_memory = seconds(reference, device, given.rounds), memory(reference, z)
        naive = "-"
        for kernels in given.kernels:
            with using(kernels):
                loss = ss.MetricLoss(case.metric, task=case.task)
                step = step_of(loss, z, y)
                took = seconds(step, device, given.rounds)
                if case.task == "multiclass" and case.metric == "miou":
                    naive = f"{took / seconds(step_of(naive_iou, z, y), device, given.rounds):.2f}"
                row = (
                    kernels,
                    str(case),
                    agrees(case, loss, z, y),
                    waits(step, device),
                    captured(loss, z, y),
                    f"{took / base:.2f}",
                    naive,
                    f"{memory(step, z)} ({base_memory})",
                )
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
