"""How much memory a process has taken."""

from __future__ import annotations

from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
needs_proc = pytest.mark.skipif(not STATUS.exists(), reason="needs /proc")


def peak() -> int:
    """The most that this program has had in memory, in kB.

    ``getrusage`` would count the process that it was started from, too: next to a large one it says
    that nothing was taken.
    """
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
