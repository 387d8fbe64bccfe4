"""The checkpoint of a training run: locked while it goes on, bound to its settings and data."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor

from softset.checks import check_number
from softset.losses.loss import Mixture
from softset.storage.container import read_file, update_digest, whole, write_file
from softset.storage.files import SavedFileError, locked, remove_leftovers
from softset.typing import PathLike, Settings, State


class Checkpoint:
    """The file of one run: locked while the run goes on, bound to its settings and data.

    ``every`` seconds must pass between two writes; 0 writes at each epoch. A signal (Ctrl-C,
    SIGTERM) asks for a last write at the end of the epoch; a second one stops at once.
    """

    def __init__(self, path: PathLike, fingerprint: str, every: float = 30.0) -> None:
        check_number("checkpoint_seconds", every, 0, math.inf, closed="both")
        self.path, self.fingerprint, self.every = Path(path), fingerprint, every
        self._last = time.monotonic()
        self._signal: int | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[State | None]:
        """Lock the file, sweep what a killed run left behind, and give the state saved last."""
        with locked(self.path), self._signals():
            remove_leftovers(self.path, alone=True)
            yield self._load()

    def _load(self) -> State | None:
        if not self.path.exists():
            return None
        content = read_file(self.path, "checkpoint")
        with self.reading():
            fingerprint, state = content["fingerprint"], content["state"]
        if fingerprint != self.fingerprint:
            raise SavedFileError(
                f"{self.path.name} belongs to a run with other data or settings. Delete it, or "
                "give this run a checkpoint of its own."
            )
        return state

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Whatever goes wrong inside is a ``SavedFileError`` that names the file."""
        return whole(self.path.name, "checkpoint")

    def save(self, state: Callable[[], State], *, last: bool = False) -> None:
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
        previous: dict[int, signal._HANDLER] = {}

        def note(number: int, frame: FrameType | None) -> None:
            """Remember a signal until the epoch has ended; the same signal again works as
            before."""
            self._signal = number
            signal.signal(number, previous[number])

        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in previous.items():  # type: ignore[assignment]
                signal.signal(number, handler)


def fingerprint(settings: Settings, tensors: dict[str, Tensor | None]) -> str:
    """A hash of everything that determines a run."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=_named).encode())
    for name, tensor in tensors.items():
        if tensor is not None:
            update_digest(digest, name, tensor)
    return digest.hexdigest()


def _named(value: object) -> str:
    """A description without an address in memory, which differs between processes."""
    if isinstance(value, torch.nn.Module):
        numbers = {k: v for k, v in vars(value).items() if isinstance(v, bool | int | float | str)}
        buffers = {name: b.tolist() for name, b in value.named_buffers()}
        step = getattr(value, "step", None)
        inner = [_named(loss) for loss in value.losses] if isinstance(value, Mixture) else ""
        return f"{value} {sorted(numbers.items())} {buffers} {step!r}{inner}"
    text = repr(value)
    if " at 0x" in text:
        kind = type(value)
        return str(getattr(value, "__qualname__", f"{kind.__module__}.{kind.__qualname__}"))
    return text
