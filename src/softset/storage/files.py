"""Files written as a whole or not at all, locks, temporary directories, and their removal."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

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


def write_safely(path: StrPath, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a new file beside ``path``, bring it to the disk, and rename it over.

    A link is followed: the file that it names is replaced, the link stays. Who may read and write
    an existing file stays as it is. What is no file (a directory, a device, a pipe) is never
    replaced.
    """
    path = Path(os.path.realpath(path))
    _refuse_special(path)
    remove_leftovers(path)
    temporary = _temporary(path)
    try:
        if path.exists():  # before there is anything to read in the new file
            os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
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


@contextlib.contextmanager
def new_file(path: StrPath) -> Iterator[Path]:
    """A temporary file to write, which becomes ``path`` at the end unless that exists by then."""
    path = Path(path)
    temporary = _temporary(path)
    try:
        yield temporary
        try:
            os.link(temporary, path)  # fails where there is a file; a rename would replace it
        except FileExistsError:
            raise _exists(path) from None
        except OSError:  # a file system without links
            if path.exists():
                raise _exists(path) from None
            os.replace(temporary, path)
        _sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _exists(path: Path) -> ValueError:
    return ValueError(f"{path} exists already. Pass --force to replace it, or name another.")


def check_writable(path: StrPath, force: bool = False, *, inputs: Iterable[StrPath] = ()) -> None:
    """Refuse, before the work, an output that could not or must not be written after it.

    That is: a file that exists (unless ``force``); a directory, device or pipe; one of ``inputs``
    under whatever name; a path without a directory, or where no file can be created.

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
        raise _exists(path)
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
    """Refuse a directory, a device or a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:  # no such file; what is wrong with the directory shows when one is created
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
            match = name.fullmatch(entry.name)
            if match and (alone or not _lives(int(match[1]))):
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

    Each is locked by its process: where the lock is free, that process is dead, even if another
    process has its number now.
    """
    parent = Path(tempfile.gettempdir())
    _sweep_directories(parent, prefix)
    name = f"{prefix}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=name) as directory, _held(Path(directory)):
        yield Path(directory)


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
            mine = entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if not mine or not re.fullmatch(re.escape(prefix) + r"-\d+-\w+", entry.name):
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
                f"{path.name} is in use by another run. Wait for it, or choose another path for "
                "this one."
            ) from None
        yield
