"""How much memory a process has taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
needs_proc = pytest.mark.skipif(not STATUS.exists(), reason="needs /proc")


def printed(script: str, *arguments: object) -> list[str]:
    """What a script prints in a process of its own, in which memory that is freed is given back:
    else the holes of the heap are counted."""
    env = {"MALLOC_MMAP_THRESHOLD_": "65536", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | env,
        cwd=Path(__file__).parents[1],
    )
    return done.stdout.split()


def peak() -> int:
    """The most that this program has had in memory, in kB.

    ``getrusage`` would count the process that it was started from, too: next to a large one it says
    that nothing was taken.
    """
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
