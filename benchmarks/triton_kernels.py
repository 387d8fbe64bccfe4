"""The kernels in Triton, checked without a GPU.

    python benchmarks/triton_kernels.py compile
    TRITON_INTERPRET=1 python benchmarks/triton_kernels.py problems --count 2000 --to FILE

``compile`` translates every kernel for sm_80 and sm_90, and prints registers, spilled bytes and
shared memory, as ``ptxas`` tells them. ``problems`` runs them on random problems of at most 2 10^5
scores by Triton's interpreter, and compares cells and gradients with ``compose`` in float64 on the
same scores; it fails if one is off by more than is allowed (``ALLOWED``), or has other bits when it
is run again. ``make test-gpu`` runs 60 of them. With ``--to`` each problem is a line of a file, and
those that are there already are not run again: what was stopped goes on.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import softset as ss
from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.layout import STEPS
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.kernels.triton import formulas, operators
from softset.counting.kernels.triton.kernels import levels_of
from softset.metrics.derivatives import source_of
from softset.metrics.registry import get_goal
from softset.tasks import get_task

MOST = 2 * 10**5  # scores
# Of a cell relative to itself, of a gradient relative to its largest element.
ALLOWED = {
    torch.float64: 1e-9,
    torch.float32: 1e-6,
    torch.float16: 1e-2,
    torch.bfloat16: 1e-2,
}
# So near to a corner of the step, or to a tie of the second and the third class, the derivative
# jumps: these positions are left out of the comparison, and counted.
NEAR = 1e-5
LARGE_TILE = 2**15  # scores; the interpreter takes as long for it as for a small one
FAMILIES = ("binary", "multilabel", "multiclass")


@contextmanager
def tiles(size: int) -> Iterator[None]:
    """With so many scores in a tile: the interpreter takes as long for a large one."""
    before, operators.TILES = operators.TILES, dict.fromkeys((False, True), size)
    try:
        yield
    finally:
        operators.TILES = before


@contextmanager
def summed_by_pairs() -> Iterator[None]:
    """The interpreter adds up the rows of a tile one after another; a GPU does it by pairs, which
    keeps more digits of float32."""
    from triton.runtime.interpreter import ReduceOps  # noqa: PLC0415

    def by_pairs(self: Any, given: Any) -> Any:
        x = np.moveaxis(given.handle.data, self.axis, 0)
        while len(x) > 1:  # tiles are powers of two
            x = x[: len(x) // 2] + x[len(x) // 2 :]
        x = np.moveaxis(x, 0, self.axis) if self.keep_dims else x[0]
        return self.to_tensor(np.ascontiguousarray(x), given.dtype)

    with patch.object(ReduceOps, "sum", by_pairs):
        yield


@dataclass(frozen=True)
class Case:
    """A random problem, as ``operators.cells`` takes it."""

    family: str
    z: Tensor  # [*positions, classes], anywhere in memory
    y: Tensor
    w: Tensor | None
    v: Tensor | None
    step: Any
    tau: float
    ignored: int | None
    tile: int
    layout: str

    @property
    def exclusive(self) -> bool:
        return self.family == "multiclass"

    @property
    def wide(self) -> bool:
        return self.z.dtype is torch.float64

    def __str__(self) -> str:
        words = [self.family, str(list(self.z.shape)), self.layout, str(self.z.dtype)[6:]]
        words += [repr(self.step), f"tau {self.tau}"] + ["weights"] * (self.w is not None)
        words += ["class weights"] * (self.v is not None) + ["ignored"] * (self.ignored is not None)
        return ", ".join(words)

    def settings(self) -> tuple[Any, ...]:
        levels = levels_of(self.step, self.tau, self.exclusive)
        code = STEPS[type(self.step)]
        return 0, self.exclusive, code, levels, True, False, self.ignored, self.wide

    def cells(self) -> tuple[Tensor, Tensor, Tensor]:
        """Cells, derivatives by them, and the gradient, by the kernels in Triton."""
        z = self.z.detach().requires_grad_()
        with tiles(self.tile), summed_by_pairs():
            counted = operators.cells(z, self.y, self.w, self.v, *self.settings())
            g = torch.Generator().manual_seed(self.z.numel())
            adjoint = torch.randn(counted.shape, generator=g, dtype=torch.float64)
            (gradient,) = torch.autograd.grad(counted, z, adjoint)
        return counted.detach(), adjoint, gradient

    def reference(self, adjoint: Tensor) -> tuple[Tensor, Tensor]:
        """Cells and gradient of the composition in float64."""
        z, classes = self.z.detach().double(), self.z.shape[-1]
        out = self.y == self.ignored if self.ignored is not None else torch.zeros_like(self.y) > 0
        y = torch.where(out, 0, self.y).long()
        w = torch.ones(y.shape, dtype=torch.float64)
        if self.w is not None:
            w = w * (self.w.double() if self.exclusive else self.w.double().expand(y.shape))
        if self.v is not None:
            v = self.v.double()
            w = w * (v if self.family == "multilabel" else v[y])
        w = torch.where(out, 0.0, w)
        if self.exclusive:
            z, y, w = z.reshape(-1, classes), y.reshape(-1), w.reshape(-1)
            z = torch.where((w == 0)[:, None], 0.0, z).requires_grad_()
            kernel: Any = MulticlassKernel(self.step, True, torch.float64)
        else:
            z, y, w = (t.reshape(-1, classes).mT for t in (z, y, w))
            z = torch.where(w == 0, 0.0, z).requires_grad_()
            kernel = BinaryKernel(self.step, [self.tau], False, True, torch.float64)
        counted = kernel.compose(z, y, w)
        (gradient,) = torch.autograd.grad(counted, z, adjoint)
        gradient = gradient if self.exclusive else gradient.mT
        return counted.detach(), gradient.reshape(self.z.shape)

    def jumps(self) -> Tensor:
        """Whether the derivative at a position may jump: ``[*positions, classes]``."""
        z = self.z.detach().double()
        if not self.exclusive:
            if not isinstance(self.step, ss.LinearStep):
                return torch.zeros_like(z, dtype=torch.bool)
            p, pieces = torch.sigmoid(z), self.step.pieces(self.tau)
            return ((p - pieces.a).abs() < NEAR) | ((p - pieces.b).abs() < NEAR)
        p = torch.softmax(z, -1)
        top = p.topk(min(3, p.shape[-1]), -1).values
        row = torch.zeros_like(top[..., 0], dtype=torch.bool)
        if top.shape[-1] > 2:
            row |= (top[..., 1] - top[..., 2]) < NEAR * top[..., 1].clamp(min=1e-300)
        if isinstance(self.step, ss.LinearStep):
            tau = top[..., :2].mean(-1, keepdim=True)
            u = p / tau
            row |= ((u - (1 - self.step.width / 2)).abs() < NEAR).any(-1)
            row |= ((top[..., :1] / tau - (1 + self.step.width / 2)).abs() < NEAR).any(-1)
        return row.unsqueeze(-1).expand(z.shape)


def draw(rng: random.Random) -> Case:
    """A random problem."""
    family = rng.choice(("multiclass", "multiclass", "binary", "multilabel"))
    g = torch.Generator().manual_seed(rng.randrange(2**31))
    exclusive = family == "multiclass"
    most = round(math.exp(rng.uniform(math.log(64), math.log(MOST))))
    classes = 1
    if family != "binary":
        low, high = (2, 1000) if exclusive else (2, 60)
        classes = min(round(math.exp(rng.uniform(math.log(low), math.log(high)))), most // 2)
    positions = most // classes
    shape, layout = (positions,), "rows"
    if positions >= 12 and rng.random() < 0.5:
        n = rng.randint(1, 3)
        height = rng.randint(2, max(2, math.isqrt(positions // n)))
        shape = (n, height, max(1, positions // n // height))
        layout = rng.choice(["channels first", "channels last", "crop"])
    dtype = rng.choice([torch.float32] * 5 + [torch.bfloat16] * 2 + [torch.float16, torch.float64])
    z = torch.randn(*shape, classes, generator=g, dtype=torch.float64)
    z = z * rng.choice([0.3, 1.0, 3.0, 3.0, 10.0, 40.0])
    if classes > 1 and rng.random() < 0.3:  # the two largest are equal, rarely three
        equal = torch.rand((*shape, 1), generator=g) < 0.2
        z = torch.where(equal & (z == z.topk(2, -1).values[..., 1:]), z.amax(-1, True), z)
        equal = torch.rand((*shape, 1), generator=g) < 0.002
        z = torch.where(equal, z.round(), z)
    if rng.random() < 0.2:  # saturated
        z = torch.where(torch.rand(z.shape, generator=g) < 0.1, z * 3 + z.sign() * 30, z)
    z = placed(z.to(dtype), layout)
    labels = classes if exclusive else 2
    y = torch.randint(0, labels, shape if exclusive else z.shape, generator=g)
    if rng.random() < 0.3:  # most positions have the class that the scores say
        told = z.detach().float().argmax(-1) if exclusive else (z > 0).long()
        y = torch.where(torch.rand(y.shape, generator=g) < 0.9, told, y)
    ignored = None
    if rng.random() < 0.5:
        ignored = rng.choice([-100, 255])
        y[torch.rand(y.shape, generator=g) < 0.1] = ignored
    if rng.random() < 0.5:
        kinds = [torch.int64, torch.int32] + ([torch.float32] if not exclusive else [])
        kinds += [torch.uint8] if ignored != -100 and classes < 255 else []
        y = y.to(rng.choice(kinds))
    w = torch.rand(shape, generator=g) + 0.1 if rng.random() < 0.5 else None
    if w is not None and rng.random() < 0.3:
        w = w.double()
    if w is not None and not exclusive:
        w = w.unsqueeze(-1).expand(z.shape)
    v = None
    if rng.random() < 0.3:
        v = torch.rand(2 if family == "binary" else classes, generator=g, dtype=torch.float64) + 0.1
    steps = [ss.LinearStep(0.1), ss.LinearStep.at_temperature(0.2)]
    steps += [ss.LinearStep.at_temperature(rng.uniform(0.05, 0.35)), ss.IdentityStep()]
    steps += [ss.SigmoidStep(rng.choice([1, 4, 10]))]
    tau = 0.5 if exclusive else rng.choice([0.5, 0.5, 0.1, 0.3, 0.9])
    tile = 1024 if z.numel() <= 2**12 else LARGE_TILE
    return Case(family, z, y, w, v, rng.choice(steps), tau, ignored, tile, layout)


def placed(z: Tensor, layout: str) -> Tensor:
    """Scores ``[*positions, classes]`` in the memory of such an image."""
    if layout in ("rows", "channels last"):
        return z.contiguous()
    first = z.movedim(-1, 1).contiguous()
    if layout == "crop":
        room = torch.zeros(*first.shape[:-1], first.shape[-1] + 3, dtype=z.dtype)
        room[..., : first.shape[-1]] = first
        first = room[..., : first.shape[-1]]
    return first.movedim(1, -1)


@dataclass(frozen=True)
class Errors:
    """How far a problem is off, and the share of scores left out of the comparison."""

    cells: float
    gradient: float
    left_out: float


def compare(case: Case, twice: bool = True) -> Errors:
    """Against the composition; ``twice``: and the bits with those of another run."""
    counted, adjoint, gradient = case.cells()
    if twice:
        again, _, same = case.cells()
        assert torch.equal(counted, again), f"cells have other bits: {case}"
        assert torch.equal(gradient, same), f"the gradient has other bits: {case}"
    wanted, slope = case.reference(adjoint)
    # What is below 1e-30 is nothing to any metric.
    off = ((counted - wanted).abs() / wanted.abs().clamp(min=1e-30)).max()
    jumps = case.jumps()
    # Where every row is saturated, float64 has lost the digits of the reference.
    size = max(float(slope.abs().max()), 1e-9 * float(adjoint.abs().max()))
    of_gradient = torch.where(jumps, 0.0, (gradient.double() - slope).abs()).max() / size
    assert gradient.isfinite().all(), f"a gradient is not finite: {case}"
    return Errors(float(off), float(of_gradient), float(jumps.double().mean()))


def problem(seed: int, number: int) -> dict[str, Any]:
    """A random problem and how far it is off; of every tenth, the bits of a second run too."""
    case = draw(random.Random(f"{seed} {number}"))
    errors, allowed = compare(case, twice=number % 10 == 0), ALLOWED[case.z.dtype]
    return {
        "seed": seed,
        "number": number,
        "family": case.family,
        "dtype": str(case.z.dtype)[6:],
        "step": type(case.step).__name__,
        "scores": case.z.numel(),
        **asdict(errors),
        "fine": errors.cells <= allowed and errors.gradient <= allowed,
        "problem": str(case),
    }


def run_problems(options: argparse.Namespace) -> None:
    start, found = time.time(), {}
    if options.to is not None and options.to.exists():
        rows = map(json.loads, options.to.read_text().splitlines())
        found = {row["number"]: row for row in rows if row["seed"] == options.seed}
    for number in range(options.count):
        if number not in found:
            row = found[number] = problem(options.seed, number)
            if not row["fine"]:
                print(f"{number}: off: {row}", flush=True)
            if options.to is not None:
                with options.to.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        if number % 100 == 99:
            print(f"{number + 1} problems, {time.time() - start:.0f} s", flush=True)
    chosen = [found[number] for number in range(options.count)]
    failed = sum(not row["fine"] for row in chosen)
    print(
        f"\n{datetime.date.today()}, torch {torch.__version__}, Triton's interpreter, seed "
        f"{options.seed}: {options.count} problems of {min(row['scores'] for row in chosen):,} to "
        f"{max(row['scores'] for row in chosen):,} scores, {failed} off by more than allowed\n"
    )
    print("| family | scores | problems | largest error of a cell | of a gradient | allowed |")
    print("|---|---|---|---|---|---|")
    for family, dtype in sorted({(row["family"], row["dtype"]) for row in chosen}):
        rows = [row for row in chosen if (row["family"], row["dtype"]) == (family, dtype)]
        worst = [max(row[name] for row in rows) for name in ("cells", "gradient")]
        allowed = ALLOWED[getattr(torch, dtype)]
        print(f"| {family} | {dtype} | {len(rows)} | {worst[0]:.1e} | {worst[1]:.1e} | "
              f"{allowed:.0e} |")  # fmt: skip
    left_out = statistics.mean(row["left_out"] for row in chosen)
    print(f"\nLeft out as too near to a corner or a tie: {100 * left_out:.3f} % of the scores in "
          "the mean of all problems.")  # fmt: skip
    sys.exit(failed > 0)


# --- compiled ---------------------------------------------------------------------------------

CLASSES = (2, 10, 19, 32, 64, 128, 257, 1000)
POINTERS = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
}


@dataclass(frozen=True)
class Compiled:
    """What ``ptxas`` says of a kernel."""

    registers: int
    spilled: int  # bytes
    shared: int


def compiled(
    kernel: Any, arguments: tuple[Any, ...], constants: dict[str, Any], arch: int, warps: int = 4
) -> Any:
    """A kernel for a GPU that need not be there, of these arguments."""
    import triton  # noqa: PLC0415
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415

    values = dict(zip(kernel.arg_names, arguments, strict=False)) | constants
    signature, constexprs, attributes = {}, {}, {}
    for i, name in enumerate(kernel.arg_names):
        value = values[name]
        if isinstance(value, Tensor):
            signature[name], attributes[i,] = POINTERS[value.dtype], [["tt.divisibility", 16]]
        elif name in constants or (type(value) is int and value == 1):
            signature[name], constexprs[i,] = "constexpr", value
        elif type(value) is int:
            signature[name] = "i32" if abs(value) < 2**31 else "i64"
            if value % 16 == 0:
                attributes[i,] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp64"
    source = ASTSource(fn=kernel, signature=signature, constexprs=constexprs, attrs=attributes)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": warps})


def usage(made: Any, arch: int) -> Compiled:
    """Registers, spills and shared memory, by Triton's own ``ptxas``."""
    from triton.backends.nvidia.compiler import get_ptxas  # noqa: PLC0415

    ptxas = get_ptxas(arch).path
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(made.asm["ptx"])
        name = f"sm_{arch}{'a' * (arch == 90)}"
        command = [ptxas, "-v", f"--gpu-name={name}", source, "-o", source.with_suffix(".cubin")]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = int(re.search(r"Used (\d+) registers", told)[1])  # type: ignore[index]
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill", told))
    return Compiled(registers, spilled, made.metadata.shared)


def launch(family: str, classes: int, step: Any, dtype: torch.dtype, image: bool) -> Any:
    """Of scores without values."""
    exclusive = family == "multiclass"
    z = torch.empty(4096, classes, dtype=dtype, device="meta")
    if image:
        z = torch.empty(4, classes, 64, 64, dtype=dtype, device="meta").movedim(1, -1)
    y = torch.empty(z.shape[:-1] if exclusive else z.shape, dtype=torch.int64, device="meta")
    w = torch.empty(y.shape, dtype=torch.float32, device="meta")
    v = torch.empty(2 if classes == 1 else classes, dtype=torch.float64, device="meta")
    out = torch.empty_like(z)
    levels = levels_of(step, 0.5, exclusive)
    code, wide = STEPS[type(step)], dtype is torch.float64
    settings = (0, exclusive, code, levels, True, False, 255, wide)
    return operators.Launch(z, y, w, v, out, *settings)


def table(families: tuple[str, ...], sizes: tuple[int, ...], archs: tuple[int, ...]) -> Any:
    """Every kernel and how it was compiled."""
    steps = (ss.LinearStep(0.1), ss.SigmoidStep(), ss.IdentityStep())
    for family in families:
        for classes in (1,) if family == "binary" else sizes:
            for step in steps:
                for dtype, image in ((torch.float32, False), (torch.bfloat16, True)):
                    made = launch(family, classes, step, dtype, image)
                    cells = torch.empty(1, 1, 4, classes, dtype=torch.float64, device="meta")
                    calls = {
                        "count": made.count_call(cells),
                        "gradient": made.gradient_call(cells[0, :, 0], cells[0, :, 1]),
                    }
                    for name, (kernel, arguments) in calls.items():
                        found = [usage(compiled(kernel, arguments, made.constants, arch), arch)
                                 for arch in archs]  # fmt: skip
                        layout = "image" if image else "rows"
                        yield (family, classes, type(step).__name__, str(dtype)[6:], layout,
                               name), found  # fmt: skip


FORMULAS = ("f1", "mcc", "cohen_kappa", "gmean")


def formula_of(metric: str, family: str, classes: int) -> tuple[Any, tuple[Any, ...]]:
    """The kernel of a metric and its derivatives, and its arguments."""
    shape = () if family == "binary" else (classes,)
    goal, task = get_goal(metric), get_task(family)
    source = source_of(goal, task, "penalize", None, False, torch.Size(shape))
    assert source is not None, f"{metric} of {family}"
    cells = torch.empty(4, *shape, dtype=torch.float64, device="meta")
    return formulas.compiled(source), (cells, torch.empty((), device="meta"), cells[:2])


def run_compile(options: argparse.Namespace) -> None:
    archs, worst = (80, 90), 0
    titles = [f"sm_{arch}: registers, spilled bytes, shared bytes" for arch in archs]
    print(f"| family | classes | step | scores | layout | kernel | {' | '.join(titles)} |")
    print("|---|---|---|---|---|---|---|---|")
    for key, found in table(options.family, options.classes, archs):
        cells = [f"{c.registers}, {c.spilled}, {c.shared}" for c in found]
        print(f"| {' | '.join(map(str, key))} | {' | '.join(cells)} |", flush=True)
        if key[1] <= 128:
            worst = max(worst, *(c.spilled for c in found))
    print(f"\n| metric | family | classes | {' | '.join(titles)} |\n|---|---|---|---|---|")
    for metric, family in itertools.product(FORMULAS, options.family):
        for classes in (1,) if family == "binary" else options.classes:
            kernel, arguments = formula_of(metric, family, classes)
            count = formulas.warps(arguments[0])
            found = [usage(compiled(kernel, arguments, {}, arch, count), arch) for arch in archs]
            cells = [f"{c.registers}, {c.spilled}, {c.shared}" for c in found]
            print(f"| {metric} | {family} | {classes} | {' | '.join(cells)} |", flush=True)
            if classes <= 128:
                worst = max(worst, *(c.spilled for c in found))
    print(f"\nSpilled up to 128 classes: {worst} bytes at most.")
    sys.exit(worst > 0)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    random_problems = commands.add_parser("problems", help="against compose, by the interpreter")
    random_problems.add_argument("--count", type=int, default=60)
    random_problems.add_argument("--seed", type=int, default=0)
    random_problems.add_argument("--to", type=Path, help="a file of results, which it goes on with")
    random_problems.set_defaults(run=run_problems)
    every = commands.add_parser("compile", help="for sm_80 and sm_90")
    every.add_argument("--family", nargs="+", choices=FAMILIES, default=FAMILIES)
    every.add_argument("--classes", nargs="+", type=int, default=CLASSES)
    every.set_defaults(run=run_compile)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.run(options)


if __name__ == "__main__":
    main()
