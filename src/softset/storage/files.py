"""Files written whole or not at all, locks, directories for scratch, and what killed runs left."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not on Windows: there, two runs on one file are not noticed
    fcntl = None  # type: ignore[assignment]

StrPath = str | os.PathLike[str]
_LOCK = "lock"


class SavedFileError(ValueError):
    """A file that is damaged, of another format or of another run.

    >>> import tempfile, softset as ss
    >>> with tempfile.NamedTemporaryFile(suffix=".softset") as file:
    ...     ss.load_model(file.name)
    Traceback (most recent call last):
    softset.storage.files.SavedFileError: ...
    """


# --- writing --------------------------------------------------------------------------------------


def write_safely(path: StrPath, write: Callable[[Path], Any]) -> None:
    """Let ``write`` make a new file beside ``path``, bring it to the disk, and rename it over.

    A link is followed: the file that it names is replaced, the link stays. What is no file (a
    directory, a device, a pipe) is never replaced.
    """
    path = Path(os.path.realpath(path))
    _refuse_special(path)
    remove_leftovers(path)
    temporary = _temporary(path)
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


def check_writable(path: StrPath, force: bool = False, *, inputs: Iterable[StrPath] = ()) -> None:
    """Refuse, before the work, an output that could not or must not be written after it.

    That is: a file that exists (unless ``force``); a directory, device or pipe; one of ``inputs``
    under whatever name; a place without a directory, or one where no file can be made.

    >>> check_writable("no such directory/model.softset")
    Traceback (most recent call last):
    FileNotFoundError: there is no directory 'no such directory' for 'model.softset'.
    """
    path = Path(path)
    for source in inputs:
        with contextlib.suppress(OSError):
            if os.path.samefile(path, source):
                raise ValueError(
                    f"{path} is the input: writing there would destroy it. Name another output."
                )
    _refuse_special(path)
    if path.exists() and not force:
        raise ValueError(f"{path} exists already. Say --force to replace it, or name another.")
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise FileNotFoundError(
            f"there is no directory {str(path.parent)!r} for {path.name!r}."
            if not path.is_symlink()
            else f"{path} is a link to {str(real)!r}, where there is no directory."
        )
    temporary = _temporary(real)
    try:
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be written ({error.strerror}).") from None


def _refuse_special(path: Path) -> None:
    """Refuse what is there and no file."""
    try:
        mode = path.stat().st_mode
    except OSError:  # not there; what is wrong with the place comes out when a file is made
        return
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "a device or pipe"
        raise ValueError(f"{path} is {what}; a file is written. Name a file.")


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def _sync_directory(directory: Path) -> None:
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- what killed processes left -------------------------------------------------------------------


def remove_leftovers(path: Path, *, alone: bool = False) -> None:
    """Remove the half-written files that killed processes left beside ``path``.

    A process that lives may still be writing: its file stays, unless ``alone`` says that nobody
    else can be (the caller holds the lock of ``path``).
    """
    name = re.compile(re.escape(path.name) + r"\.(\d+)\.tmp")
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(path.parent)):
            found = name.fullmatch(entry.name)
            if found and (alone or not _lives(int(found[1]))):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def _lives(process: int) -> bool:
    if os.name != "posix":  # elsewhere, signal 0 is no mere question
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        pass
    return True


@contextlib.contextmanager
def scratch_directory(prefix: str = "softset") -> Iterator[Path]:
    """A temporary directory that is gone afterwards; those of killed processes go now.

    Each is locked by the process that made it: where the lock is free, that process is dead,
    whatever has become of its number.
    """
    parent = Path(tempfile.gettempdir())
    _sweep_directories(parent, prefix)
    name = f"{prefix}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=name) as made, _held(Path(made)):
        yield Path(made)


@contextlib.contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Hold the lock in a new directory, which others see only when it is held."""
    with open(directory / f"{_LOCK}.new", "w") as file:
        _lock(file)
        os.rename(file.name, directory / _LOCK)
        yield


def _sweep_directories(parent: Path, prefix: str) -> None:
    if fcntl is None:
        return
    for entry in list(os.scandir(parent)):
        with contextlib.suppress(OSError):  # not ours, in use, or gone by now
            own = entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if not own or not re.fullmatch(re.escape(prefix) + r"-\d+-\w+", entry.name):
                continue
            with open(Path(entry.path, _LOCK)) as file:
                _lock(file)
                shutil.rmtree(entry.path)


# --- locks ----------------------------------------------------------------------------------------


def _lock(file: IO[str]) -> None:
    """Lock an open file, or ``BlockingIOError`` at once; it is free again when it is closed."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock that goes with a file, or fail at once: two runs never share one.

    ``wait`` until it is free instead, where the system has locks.
    """
    if fcntl is None:
        yield
        return
    with open(path.with_name(f"{path.name}.lock"), "w") as file:
        try:
            if wait:
                fcntl.flock(file, fcntl.LOCK_EX)
            else:
                _lock(file)
        except BlockingIOError:
            raise SavedFileError(
                f"{path.name} is in use by another run. Wait for it, or choose another place for "
                "this one."
            ) from None
        yield
