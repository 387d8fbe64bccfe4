"""Many runs: in parallel, resumable, nothing counted twice."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import joblib
import torch
from threadpoolctl import threadpool_limits

from softset.checks import check_number
from softset.storage.files import SavedFileError, locked
from softset.storage.schema import decoded, encoded, sealed, unsealed

Run = dict[str, Any]


class Record(TypedDict):
    """A run and its result, or the error that it ended in."""

    run: Run
    seconds: float
    result: NotRequired[Any]
    error: NotRequired[str]


_FORMAT = "softset runs 1"
_BREAKDOWNS = 3  # of the workers in a row, without a finished run in between


def sweep(
    work: Callable[[Run], Any],
    runs: Sequence[Run],
    *,
    path: str | os.PathLike[str] | None = None,
    settings: Any = None,
    resume: bool = False,
    jobs: int | None = None,
    backend: str | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[Record | None]:
    """``work(run)`` for every run; the records in the order of ``runs``.

    A record is ``{"run", "seconds", "result"}``, or ``{"run", "seconds", "error"}`` where
    ``work`` raised; it is None where the deadline came first. A run whose worker was killed is
    tried again, as is, on resume, one that ended in an error.

    Args:
        work: a function that can be pickled; its result must be something JSON can hold.
        runs: distinct dicts of plain values.
        path: a file of JSON lines that gets each record as it comes; only this process writes.
        settings: what else determines the results (data, options); a file belongs to its settings.
        resume: take finished runs from the file instead of refusing one that exists.
        jobs: how many at once; all cores if left out. Each worker gets its share of the threads.
        backend: any joblib backend: ``"loky"`` (default), ``"threading"``, ``"dask"``, …
        deadline: a time of ``time.monotonic()`` after which no run is started.
        progress: called with runs done, runs in all, and an estimate of the seconds left.

    >>> records = sweep(_double, [{"x": 1}, {"x": 2}], jobs=1)
    >>> [r["result"] for r in records]
    [2, 4]
    """
    keys = [_key(run) for run in runs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"runs must be distinct, got {len(keys) - len(set(keys))} twice.")
    if jobs is not None:
        check_number("jobs", jobs, 1, 1 << 16, closed="both", hint="Leave it out for all cores.")
    with _Log(path, settings, resume) if path is not None else nullcontext() as log:
        done = {} if log is None else {k: r for k, r in log.records.items() if "error" not in r}
        todo = [k for k in keys if k not in done]
        clock = _Clock(len(keys), len(todo), progress)
        pending = dict(zip(keys, runs, strict=True))
        for key, found in _records(work, {k: pending[k] for k in todo}, jobs, backend, deadline):
            record: Record = {"run": pending[key], **found}  # type: ignore[typeddict-item]
            done[key] = record if log is None else log.append(record)
            clock.tick()
    return [done.get(key) for key in keys]


def _records(
    work: Callable[[Run], Any],
    todo: dict[str, Run],
    jobs: int | None,
    backend: str | None,
    deadline: float | None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Keys and records as they are finished; runs of killed workers are given out again."""
    cores = joblib.cpu_count()
    workers = min(jobs or cores, max(len(todo), 1))
    threads = max(1, cores // workers) if workers > 1 else None

    def tasks() -> Iterator[Any]:
        for key, run in list(todo.items()):
            if deadline is not None and time.monotonic() >= deadline:
                return
            yield joblib.delayed(_timed)(work, key, run, threads, os.getpid() if children else None)

    breakdowns = 0
    while todo:
        # Backends of others ("dask", "ray") are known to parallel_config, not to Parallel.
        with joblib.parallel_config(backend=backend) if backend else nullcontext():
            # Workers that are our own children; those of a cluster belong to it. A configuration of
            # the caller's may have named the backend.
            used, _ = joblib.parallel.get_active_backend()
            children = workers > 1 and isinstance(used, joblib.parallel.LokyBackend)
            parallel = joblib.Parallel(
                n_jobs=workers,
                batch_size=1,
                pre_dispatch=workers,  # so that the deadline is looked at before every start
                return_as="generator_unordered",
            )
        with _interrupts_later():  # workers that are started here inherit it
            finished = parallel(tasks())
        try:
            for key, record in finished:
                del todo[key]
                breakdowns = 0
                yield key, record
            return
        except _worker_deaths() as error:
            breakdowns += 1
            if breakdowns == _BREAKDOWNS:
                raise OSError(
                    f"workers died {breakdowns} times in a row ({type(error).__name__}), most "
                    "often for want of memory. Use fewer jobs, then resume."
                ) from error
        finally:
            finished.close()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold back Ctrl-C. Processes that are started meanwhile never get it: their parent ends them.

    Else each worker would print a traceback of its own.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_WATCH = "softset-parent"


def _end_with(parent: int) -> None:
    """Let a worker end when its parent is gone, which may have been killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if _WATCH not in (thread.name for thread in threading.enumerate()):
        threading.Thread(target=watch, name=_WATCH, daemon=True).start()


def _worker_deaths() -> tuple[type[Exception], ...]:
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    return (BrokenProcessPool, TerminatedWorkerError)


def _timed(
    work: Callable[[Run], Any], key: str, run: Run, threads: int | None, parent: int | None
) -> tuple[str, dict[str, Any]]:
    """One run in a worker, which may use its share of the threads."""
    if parent is not None:
        _end_with(parent)
    started = time.perf_counter()
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(min(threads, before))
        with threadpool_limits(threads):
            record = {"result": work(run)}
    except Exception as error:
        record = {"error": f"{type(error).__name__}: {error}"}
    finally:
        torch.set_num_threads(before)
    return key, {"seconds": round(time.perf_counter() - started, 3), **record}


class _Clock:
    """Tells the caller how far it is and how long it will take."""

    def __init__(self, total: int, todo: int, tell: Callable[..., None] | None) -> None:
        self.total, self.todo, self.tell = total, todo, tell
        self.started, self.ticks = time.monotonic(), 0
        if tell is not None and todo < total:
            tell(total - todo, total, float("nan"))

    def tick(self) -> None:
        self.ticks += 1
        if self.tell is not None:
            left = self.todo - self.ticks
            each = (time.monotonic() - self.started) / self.ticks
            self.tell(self.total - left, self.total, left * each)


class _Log:
    """The file of a sweep: a header, then a line for each record. Locked while in use."""

    def __init__(self, path: str | os.PathLike[str], settings: Any, resume: bool) -> None:
        self.path, self.resume = Path(path), resume
        text = json.dumps(settings, sort_keys=True, default=str)
        self.header = {"format": _FORMAT, "settings": hashlib.sha256(text.encode()).hexdigest()}
        self.records: dict[str, Record] = {}

    def __enter__(self) -> _Log:
        self._lock = locked(self.path)
        self._lock.__enter__()
        try:
            kept = self._read() if self.path.exists() else 0
            self._file = open(self.path, "ab")
            self._file.truncate(kept)
            if kept == 0:
                self._write(self.header)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()
        self._lock.__exit__(None, None, None)

    def append(self, record: Record) -> Record:
        """Write a record down; what comes back is what a later resume will read."""
        kept: Any = unsealed(self._write(sealed(dict(record))))
        return kept

    def _write(self, value: dict[str, Any]) -> dict[str, Any]:
        line = json.dumps(value)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        found: dict[str, Any] = json.loads(line)
        return found

    def _read(self) -> int:
        """Take the records in; the length of the file without a torn last line."""
        data = self.path.read_bytes()
        kept = data.rfind(b"\n") + 1
        lines = data[:kept].splitlines()
        if not lines:
            return 0
        if not self.resume:
            raise SavedFileError(
                f"{self.path.name} holds an earlier sweep. Resume it, or choose another place."
            )
        header = _parsed(lines[0])
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise SavedFileError(
                f"{self.path.name} is damaged or not a sweep of this version of softset. Move it "
                "away and start anew."
            )
        if header != self.header:
            raise SavedFileError(
                f"{self.path.name} belongs to a sweep with other data or settings, or of another "
                "version of softset. Use those, or choose another place."
            )
        for number, line in enumerate(lines[1:], 2):
            try:
                record = _record(line)
            except SavedFileError as error:
                raise SavedFileError(
                    f"{self.path.name} is damaged in line {number}: {error} Remove that line, and "
                    "its run is made again."
                ) from None
            self.records[_key(record["run"])] = record
        return kept


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class _Finished:
    """A line of a run that has a result."""

    run: Run
    seconds: float
    result: Any


@dataclass(frozen=True)
class _Failed:
    """A line of a run that ended in an error."""

    run: Run
    seconds: float
    error: str


def _record(line: bytes) -> Record:
    """What a line of the file says; ``SavedFileError`` if it is not as it was written."""
    content = unsealed(_parsed(line))
    record: Record = encoded(decoded(_Failed if "error" in content else _Finished, content))
    return record


def _key(run: Run) -> str:
    return json.dumps(run, sort_keys=True)


def _double(run: Run) -> int:
    """For the example above: work must be a function that a worker can import."""
    return 2 * int(run["x"])
