"""Files written whole or not at all, and locks."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not on Windows: there, two runs on one file are not noticed
    fcntl = None  # type: ignore[assignment]


class SavedFileError(ValueError):
    """A file that is damaged, of another format or of another run."""


def write_safely(path: str | os.PathLike[str], write: Callable[[Path], Any]) -> None:
    """Let ``write`` make a new file beside ``path``, bring it to the disk, and rename it over."""
    path = Path(path)
    _sweep(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError):
            raise
        raise OSError(
            error.errno, f"could not write {path.name} ({error.strerror}); an older one is intact"
        ) from error


def _sweep(path: Path) -> None:
    """Remove what killed processes left beside ``path``; those that live may still be writing."""
    if os.name != "posix":  # elsewhere, signal 0 is no mere question
        return
    for leftover in path.parent.glob(f"{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError, ValueError):
            number = int(leftover.name.removesuffix(".tmp").rpartition(".")[2])
            try:
                os.kill(number, 0)
            except ProcessLookupError:
                leftover.unlink()


def _sync_directory(directory: Path) -> None:
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that goes with a file, or fail at once: two runs never share one."""
    if fcntl is None:
        yield
        return
    with open(path.with_name(f"{path.name}.lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SavedFileError(
                f"{path.name} is in use by another run. Wait for it, or choose another place for "
                "this one."
            ) from None
        yield
