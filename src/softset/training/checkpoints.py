"""Files that survive: one safetensors file with a JSON header, written whole or not at all.

Nothing is pickled, so that loading runs no code. A checksum covers every byte that is used.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import math
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

try:
    import fcntl
except ImportError:  # not on Windows: there, two runs on one file are not noticed
    fcntl = None  # type: ignore[assignment]

FORMAT = 1


class SavedFileError(ValueError):
    """A file that is damaged, of another format or of another run."""


# --- plain data <-> JSON and tensors -------------------------------------------------------------


def pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Nested lists, tuples and dicts as JSON; tensors go to ``tensors``, a mark in their place.

    >>> found = {}
    >>> pack({"a": [1, math.inf], 3: torch.zeros(2)}, found)
    {'dict': [['a', [1, {'float': 'inf'}]], [3, {'tensor': 't0'}]]}
    """
    if isinstance(value, Tensor):
        name = f"t{len(tensors)}"
        tensors[name] = value.detach().cpu().contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[pack(k, tensors), pack(v, tensors)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [pack(v, tensors) for v in value]}
    if isinstance(value, list):
        return [pack(v, tensors) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"cannot save {type(value).__name__}: {value!r}.")


def unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of ``pack``."""
    if isinstance(value, list):
        return [unpack(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {unpack(k, tensors): unpack(v, tensors) for k, v in content}
    if kind == "tuple":
        return tuple(unpack(v, tensors) for v in content)
    if kind == "float":
        return float(content)
    raise ValueError(f"unknown mark {kind!r}")


# --- one file ------------------------------------------------------------------------------------


def write_file(path: str | os.PathLike[str], kind: str, content: Any) -> None:
    """Write ``content`` so that ``path`` holds the old bytes or the new ones, never a part.

    A new file is written beside it, brought to the disk, and renamed over it.
    """
    path = Path(path)
    tensors: dict[str, Tensor] = {}
    # One tensor may stand in several places; safetensors wants memory of their own.
    packed = json.dumps(pack(content, tensors), allow_nan=False)
    tensors = {name: t.clone() for name, t in tensors.items()}
    info = {"format": str(FORMAT), "kind": kind, "content": packed}
    info["checksum"] = _checksum(info, tensors)
    data = save(tensors, info)
    write_safely(path, lambda temporary: temporary.write_bytes(data))


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


def read_file(path: str | os.PathLike[str], kind: str) -> Any:
    """The content of a file of ``write_file``; ``SavedFileError`` if it is not exactly that."""
    path = Path(path)
    data = path.read_bytes()
    try:
        info = _header(data)
        if info.get("format", str(FORMAT)) != str(FORMAT) or info.get("kind", kind) != kind:
            raise SavedFileError(
                f"{path.name} is {info.get('kind')!r} in format {info.get('format')!r}; expected "
                f"{kind!r} in format '{FORMAT}'. Read it with the version that wrote it."
            )
        tensors = load(data)
        checksum = info.pop("checksum")
        if checksum != _checksum(info, tensors):
            raise SavedFileError(f"{path.name} is damaged: its checksum does not fit.")
        return unpack(json.loads(info["content"]), tensors)
    except SavedFileError:
        raise
    except Exception as error:
        raise SavedFileError(
            f"{path.name} is damaged or no file of softset ({type(error).__name__})."
        ) from error


@contextlib.contextmanager
def whole(name: str, kind: str) -> Iterator[None]:
    """Turn whatever goes wrong with the content of file ``name`` into a ``SavedFileError``."""
    try:
        yield
    except SavedFileError as error:
        raise SavedFileError(f"{name}: {error}") from error
    except Exception as error:
        raise SavedFileError(
            f"{name} does not hold a whole {kind} ({type(error).__name__})."
        ) from error


def _header(data: bytes) -> dict[str, str]:
    (size,) = struct.unpack("<Q", data[:8])
    if size > len(data) - 8:
        raise ValueError("header longer than the file")
    info = json.loads(data[8 : 8 + size])["__metadata__"]
    return {str(k): str(v) for k, v in info.items()}


def _checksum(info: dict[str, str], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(info.items())).encode())
    for name in sorted(tensors):
        update_digest(digest, name, tensors[name])
    return digest.hexdigest()


def update_digest(digest: Any, name: str, tensor: Tensor) -> None:
    """Add a tensor's name, dtype, shape and bytes."""
    digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    digest.update(raw.numpy().tobytes())


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


# --- a run's file --------------------------------------------------------------------------------


class Checkpoint:
    """The file of one run: locked while the run goes on, bound to its settings and data.

    ``every`` seconds must pass between two writes; 0 writes at each epoch. A signal (Ctrl-C,
    SIGTERM) asks for a last write at the end of the epoch; a second one stops at once.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str, every: float = 30.0) -> None:
        self.path, self.fingerprint, self.every = Path(path), fingerprint, every
        self._last = time.monotonic()
        self._signal: int | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        """Lock the file, sweep what a killed run left behind, and give the state saved last."""
        with locked(self.path), self._signals():
            for leftover in self.path.parent.glob(f"{self.path.name}.*.tmp"):
                leftover.unlink()
            yield self._load()

    def _load(self) -> Any:
        if not self.path.exists():
            return None
        content = read_file(self.path, "checkpoint")
        if content["fingerprint"] != self.fingerprint:
            raise SavedFileError(
                f"{self.path.name} belongs to a run with other data or settings. Delete it, or "
                "give this run a checkpoint of its own."
            )
        return content["state"]

    def save(self, state: Any, *, last: bool = False) -> None:
        """Write if it is time, if this is the end, or if a signal came; then obey the signal."""
        due = time.monotonic() - self._last >= self.every
        if due or last or self._signal is not None:
            write_file(self.path, "checkpoint", {"fingerprint": self.fingerprint, "state": state()})
            self._last = time.monotonic()
        if self._signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self._signal is not None:
            raise SystemExit(128 + self._signal)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous: dict[int, Any] = {}

        def note(number: int, frame: FrameType | None) -> None:
            self._signal = number
            signal.signal(number, previous[number])

        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in previous.items():  # type: ignore[assignment]
                signal.signal(number, handler)


def fingerprint(settings: dict[str, Any], tensors: dict[str, Tensor | None]) -> str:
    """A hash of everything that determines a run."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=_named).encode())
    for name, tensor in tensors.items():
        if tensor is not None:
            update_digest(digest, name, tensor)
    return digest.hexdigest()


def _named(value: Any) -> str:
    """A description without an address in memory, which differs between processes."""
    if isinstance(value, torch.nn.Module):
        parts = {k: v for k, v in vars(value).items() if isinstance(v, bool | int | float | str)}
        buffers = {name: b.tolist() for name, b in value.named_buffers()}
        step = getattr(value, "step", None)
        return f"{value} {sorted(parts.items())} {buffers} {step!r}"
    text = repr(value)
    if " at 0x" in text:
        kind = type(value)
        return str(getattr(value, "__qualname__", f"{kind.__module__}.{kind.__qualname__}"))
    return text
