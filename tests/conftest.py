"""Processes of pytest-xdist share the cores: one thread each is faster than all threads each."""

import os

import torch
from hypothesis import settings

torch.set_num_threads(1)

# The same examples on every run in CI; new ones every time at a desk.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
