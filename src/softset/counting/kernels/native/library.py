"""The compiled library: found where the build left it, and switched off on request."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

# Python does not import it, so that one file serves all versions.
FILE = Path(__file__).with_name("softset_kernels.so")
# Set to 0: the PyTorch kernels serve.
SWITCH = "SOFTSET_NATIVE"

Call = Callable[[bytes, int], int]


class _Library:
    """The functions of the library, and whether they may be used."""

    def __init__(self, loaded: Any) -> None:
        self.multiclass: Call = _function(loaded, "softset_multiclass")
        self.binary: Call = _function(loaded, "softset_binary")
        self.bins: Call = _function(loaded, "softset_bins")
        self.task_size = int(loaded.softset_task_size())
        self.used = True


def _function(loaded: Any, name: str) -> Call:
    function = getattr(loaded, name)
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_int
    return function


@lru_cache(maxsize=1)
def _load() -> _Library | None:
    if os.environ.get(SWITCH, "1") == "0" or not FILE.exists():
        return None
    try:
        return _Library(ctypes.CDLL(str(FILE)))
    except (OSError, AttributeError):  # of another machine, or of another version
        return None


def native() -> _Library | None:
    """The library, or nothing where it is absent or switched off."""
    library = _load()
    return library if library is not None and library.used else None


@contextmanager
def without_native() -> Iterator[None]:
    """The PyTorch kernels serve: for tests, benchmarks, and to see whether a fault is ours."""
    library = _load()
    if library is None:
        yield
        return
    before, library.used = library.used, False
    try:
        yield
    finally:
        library.used = before
