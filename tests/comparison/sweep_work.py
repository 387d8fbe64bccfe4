"""What the workers of tests/test_sweep.py do; also a sweep to kill, run as a script."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch

from softset.comparison.sweep import sweep


def square(run):
    return run["x"] ** 2


def fail_on_three(run):
    if run["x"] == 3:
        raise ValueError("three is not allowed")
    return run["x"]


def die_once(run):
    """Kill the worker at the first try of x = 2."""
    note = Path(run["folder"]) / f"tried-{run['x']}"
    first = not note.exists()
    note.touch()
    if run["x"] == 2 and first:
        os.kill(os.getpid(), signal.SIGKILL)
    return run["x"]


def die(run):
    os.kill(os.getpid(), signal.SIGKILL)


def threads(run):
    time.sleep(0.2)
    return torch.get_num_threads()


def slow_square(run):
    time.sleep(0.05)
    return run["x"] ** 2


def sleep(run):
    time.sleep(run["seconds"])
    return run["seconds"]


if __name__ == "__main__":
    runs = [{"x": x} for x in range(int(sys.argv[2]))]
    sweep(slow_square, runs, path=sys.argv[1], resume=True, jobs=2)
