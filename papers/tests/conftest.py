"""Processes of pytest-xdist share the cores: one thread each is faster than all threads each."""

import os

# Before other libraries start threads of theirs: see tests/conftest.py of softset.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# ruff: noqa: E402
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# A shell that starts the tests in the background has them ignore Ctrl-C, and what they start too;
# some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run in CI; new ones every time at a desk.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data sets, which is not part of the project."""
    folder = Path(os.environ.get("SOFTSET_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("the real data sets are not here: set SOFTSET_DATA to their folder")
    return folder
