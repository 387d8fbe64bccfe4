"""What each trick of the kernels in C saves: with the plain line in its place, built and timed.

    python benchmarks/tricks.py

Forward and backward of F1, linear step, one thread, processor time, the median of 9 rounds in which
all builds take turns. "Saves" is the share of the plain build's time. A trick that saves under a
tenth goes (docs/kernels.md). Needs a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import softset as ss
from softset.counting.kernels.native import kernels, library

sys.path.insert(0, str(Path(__file__).parents[1]))
import hatch_build

SHAPES = ((65_536, 10), (65_536, 19))
ROUNDS = 9
# The trick; the file; its line, and the plain one.
TRICKS = [
    (
        "builds for AVX2 and AVX-512 beside the one for every x86-64",
        "dispatch.c",
        "return level();",
        "return 0 * level();",
    ),
    ("the one for AVX-512 beside AVX2", "dispatch.c", "return level();", "return level() > 0;"),
    (
        "`where` by a bit mask, not `condition ? x : 0`",
        "real.h",
        "u.bits &= -(INT)condition;\n    return u.real;",
        "return condition ? u.real : 0;",
    ),
    ("64 lanes, not 32", "kernels.c", "LANES = 64", "LANES = 32"),
    ("64 lanes, not 128", "kernels.c", "LANES = 64", "LANES = 128"),
]


def built(folder: Path, file: str = "", line: str = "", plain: str = "") -> object:
    """The library of the sources with a line replaced."""
    shutil.copytree(hatch_build.FOLDER, folder, ignore=shutil.ignore_patterns("*.so", "*.py"))
    if file:
        text = (folder / file).read_text()
        if text.count(line) != 1:
            raise SystemExit(f"{file} must have this once, has it {text.count(line)} times: {line}")
        (folder / file).write_text(text.replace(line, plain))
    out = folder / "kernels.so"
    with patch.object(hatch_build, "FOLDER", folder), patch.object(hatch_build, "LIBRARY", out):
        hatch_build.build(hatch_build.X86)
    return library.Library(ctypes.CDLL(str(out)))


def seconds(loaded: object, z: torch.Tensor, y: torch.Tensor) -> float:
    with patch.object(kernels, "native", lambda: loaded):
        started = time.process_time()
        ss.metric_loss(z, y, "f1_macro", task="multiclass").backward()
        spent = time.process_time() - started
    z.grad = None
    return spent


def main() -> None:
    torch.set_num_threads(1)
    print(
        "| trick | "
        + " | ".join(f"{n:,} x {c}: saves, ms with / without" for n, c in SHAPES)
        + " |"
    )
    print("|---" * (1 + len(SHAPES)) + "|")
    with tempfile.TemporaryDirectory() as temporary:
        ours = built(Path(temporary) / "ours")
        others = [built(Path(temporary) / str(k), *t[1:]) for k, t in enumerate(TRICKS)]
        medians = []
        for n, classes in SHAPES:
            z = torch.randn(n, classes).mul_(3).requires_grad_()
            y = torch.randint(0, classes, (n,))
            times = [[seconds(b, z, y) for b in (ours, *others)] for _ in range(ROUNDS + 1)][1:]
            medians.append(torch.tensor(times).median(0).values.tolist())
    for k, (trick, *_) in enumerate(TRICKS, 1):
        cells = [f"{1 - m[0] / m[k]:.0%}, {1e3 * m[0]:.1f} / {1e3 * m[k]:.1f}" for m in medians]
        print(f"| {trick} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
