"""The compiled library, found where the build left it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import torch  # noqa: F401 (it loads OpenMP)

# Python does not import it, so that one file serves all versions.
FILE = Path(__file__).with_name("softset_kernels.so")

Call = Callable[[bytes, int], int]


class _Parallel:
    """Where in memory the function of OpenMP is that runs work on several threads.

    It is that of the library which PyTorch has loaded, so that both have the same threads, and
    they are awake. In a process that was forked OpenMP would wait forever: there is none.
    """

    def __init__(self) -> None:
        function = getattr(ctypes.CDLL(None), "GOMP_parallel", None) if os.name == "posix" else None
        self.address = 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: setattr(self, "address", 0))


PARALLEL = _Parallel()


class Library:
    """The functions of the library."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self.multiclass: Call = _function(loaded, "softset_multiclass")
        self.binary: Call = _function(loaded, "softset_binary")
        self.bins: Call = _function(loaded, "softset_bins")
        self.task_size = int(loaded.softset_task_size())


def _function(loaded: ctypes.CDLL, name: str) -> Call:
    function = getattr(loaded, name)
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_int
    return function


@lru_cache(maxsize=1)
def native() -> Library | None:
    """The library, or nothing where it is absent. ``kernels.choice`` says whether it is used."""
    if not FILE.exists():
        return None
    try:
        return Library(ctypes.CDLL(str(FILE)))
    except (OSError, AttributeError):  # of another machine, or of another version
        return None
