"""Many runs: in parallel, resumable, nothing counted twice."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NotRequired, Self, TypedDict

import joblib
import torch
from threadpoolctl import threadpool_limits

from softset.checks import check_number
from softset.storage.files import SavedFileError, locked
from softset.storage.schema import decoded, encoded, sealed, unsealed
from softset.typing import JSON

# The parameters of a run: distinct for each, and plain values.
RunParams = dict[str, JSON]
Work = Callable[[RunParams], JSON]


class Finished(TypedDict):
    """Seconds and result of a run, or the error that it ended in."""

    seconds: float
    result: NotRequired[Any]
    error: NotRequired[str]


class Record(Finished):
    """The same, with the parameters of the run."""

    run: RunParams


_FORMAT = "softset runs 1"
_BREAKDOWNS = 3  # of the workers in a row, without a finished run in between


def sweep(
    work: Work,
    runs: Sequence[RunParams],
    *,
    path: str | os.PathLike[str] | None = None,
    settings: JSON = None,
    resume: bool = False,
    jobs: int | None = None,
    backend: str | None = None,
    deadline: float | None = None,
    stop: float | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[Record | None]:
    """``work(run)`` for every run; the records in the order of ``runs``.

    A record is ``{"run", "seconds", "result"}``, or ``{"run", "seconds", "error"}`` if ``work``
    raised; it is None if the deadline came first. A run whose worker was killed is tried again;
    so is, on resume, one that ended in an error.

    Args:
        work: a function that can be pickled; its result must be something JSON can hold.
        runs: distinct dicts of plain values.
        path: a file of JSON lines that gets each record as it comes; only this process writes.
        settings: what else determines the results (data, options); a file belongs to its settings.
        resume: take finished runs from the file instead of refusing one that exists.
        jobs: how many at once; by default all cores. The threads are divided among the workers.
        backend: any joblib backend: ``"loky"`` (default), ``"threading"``, ``"dask"``, …
        deadline: a time of ``time.monotonic()`` after which no run is started.
        stop: a time at which runs in processes of ours are stopped, unfinished.
        progress: called with runs done, runs in all, and an estimate of the seconds left.

    >>> records = sweep(_double, [{"x": 1}, {"x": 2}], jobs=1)
    >>> [r["result"] for r in records]
    [2, 4]
    """
    keys = [_key(run) for run in runs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"runs must be distinct, got {len(keys) - len(set(keys))} twice.")
    if jobs is not None:
        check_number("jobs", jobs, 1, 1 << 16, closed="both", hint="The default is all cores.")
    with _Log(path, settings, resume) if path is not None else nullcontext() as log:
        done = {} if log is None else {k: r for k, r in log.records.items() if "error" not in r}
        todo = [k for k in keys if k not in done]
        clock = _Clock(len(keys), len(todo), progress)
        pending = dict(zip(keys, runs, strict=True))
        remaining = {k: pending[k] for k in todo}
        for key, finished in _records(work, remaining, jobs, backend, deadline, stop):
            record: Record = {"run": pending[key], **finished}
            done[key] = record if log is None else log.append(record)
            clock.tick()
    return [done.get(key) for key in keys]


def _records(
    work: Work,
    todo: dict[str, RunParams],
    jobs: int | None,
    backend: str | None,
    deadline: float | None,
    stop: float | None,
) -> Iterator[tuple[str, Finished]]:
    """Keys and records as they are finished; runs of killed workers are started again."""
    cores = joblib.cpu_count()
    workers = min(jobs or cores, max(len(todo), 1))
    threads = max(1, cores // workers) if workers > 1 else None

    def tasks() -> Iterator[object]:
        for key, run in list(todo.items()):
            if deadline is not None and time.monotonic() >= deadline:
                return
            yield joblib.delayed(_timed)(work, key, run, threads, os.getpid() if children else None)

    breakdowns = 0
    while todo:
        # Backends of others ("dask", "ray") are known to parallel_config, not to Parallel.
        with joblib.parallel_config(backend=backend) if backend else nullcontext():
            # Workers of loky are children of this process; those of a cluster are not. The caller's
            # configuration may have named the backend.
            used, _ = joblib.parallel.get_active_backend()
            children = workers > 1 and isinstance(used, joblib.parallel.LokyBackend)
            parallel = joblib.Parallel(
                n_jobs=workers,
                batch_size=1,
                pre_dispatch=workers,  # so that the deadline is looked at before every start
                return_as="generator_unordered" if used.supports_return_generator else "list",
            )
        with _interrupts_later():  # workers that are started here inherit it
            finished = (
                parallel(tasks())
                if used.supports_return_generator
                else _in_lists(parallel, tasks(), workers)
            )
        stopped = _Stop(stop if children else None)
        try:
            with stopped:
                for key, record in finished:
                    del todo[key]
                    breakdowns = 0
                    yield key, record
            return
        except RuntimeError as error:
            # joblib reports workers that we stopped as a plain RuntimeError.
            if stopped.happened:
                return
            if not isinstance(error, _worker_deaths()):
                raise
            breakdowns += 1
            if breakdowns == _BREAKDOWNS:
                raise OSError(
                    f"workers died {breakdowns} times in a row ({type(error).__name__}), most "
                    "often for want of memory. Use fewer jobs, then resume."
                ) from error
        finally:
            finished.close()


def _in_lists(
    parallel: joblib.Parallel, tasks: Iterator[object], workers: int
) -> Generator[tuple[str, Finished]]:
    """For backends that give no generator (Ray's): lists of as many runs as there are workers."""
    while few := list(islice(tasks, workers)):
        yield from parallel(few)


class _Stop:
    """Ends all workers at a time of ``time.monotonic()``, unless left before it."""

    def __init__(self, at: float | None) -> None:
        self.happened = False
        self.timer: threading.Timer | None = None
        if at is not None:
            self.timer = threading.Timer(max(0.0, at - time.monotonic()), self._end)
            self.timer.daemon = True

    def _end(self) -> None:
        from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415

        self.happened = True
        get_reusable_executor(reuse=True).shutdown(wait=False, kill_workers=True)

    def __enter__(self) -> Self:
        if self.timer is not None:
            self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.timer is not None:
            self.timer.cancel()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold back Ctrl-C. Processes that are started meanwhile never get it: their parent ends them.

    Otherwise each worker would print its own traceback.
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
        """End this worker when the process that started it is gone."""
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if _WATCH not in (thread.name for thread in threading.enumerate()):
        threading.Thread(target=watch, name=_WATCH, daemon=True).start()


def _worker_deaths() -> tuple[type[Exception], ...]:
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

    from joblib.externals.loky.process_executor import (  # noqa: PLC0415
        ShutdownExecutorError,
        TerminatedWorkerError,
    )

    return (BrokenProcessPool, TerminatedWorkerError, ShutdownExecutorError)


def _timed(
    work: Work, key: str, run: RunParams, threads: int | None, parent: int | None
) -> tuple[str, Finished]:
    """One run in a worker, with so many threads."""
    if parent is not None:
        _end_with(parent)
    started = time.perf_counter()
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(min(threads, before))
        with threadpool_limits(threads):
            record: Finished = {"seconds": 0.0, "result": work(run)}
    except Exception as error:
        record = {"seconds": 0.0, "error": f"{type(error).__name__}: {error}"}
    finally:
        torch.set_num_threads(before)
    record["seconds"] = round(time.perf_counter() - started, 3)
    return key, record


class _Clock:
    """Reports the runs done and the seconds left to the caller."""

    def __init__(
        self, total: int, todo: int, tell: Callable[[int, int, float], None] | None
    ) -> None:
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

    def __init__(self, path: str | os.PathLike[str], settings: JSON, resume: bool) -> None:
        self.path, self.resume = Path(path), resume
        text = json.dumps(settings, sort_keys=True, default=str)
        self.header = {"format": _FORMAT, "settings": hashlib.sha256(text.encode()).hexdigest()}
        self.records: dict[str, Record] = {}

    def __enter__(self) -> _Log:
        self._lock = locked(self.path)
        self._lock.__enter__()
        try:
            length = self._read() if self.path.exists() else 0
            self._file = open(self.path, "ab")
            self._file.truncate(length)
            if length == 0:
                self._write(self.header)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.__exit__(None, None, None)

    def append(self, record: Record) -> Record:
        """Write a record; returns it as a later resume will read it."""
        line = self._write(sealed(dict(record)))
        return _record(line)

    def _write(self, value: Mapping[str, JSON]) -> bytes:
        line = json.dumps(value).encode()
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return line

    def _read(self) -> int:
        """Read the records; returns the length of the file without an incomplete last line."""
        data = self.path.read_bytes()
        length = data.rfind(b"\n") + 1
        lines = data[:length].splitlines()
        if not lines:
            return 0
        if not self.resume:
            raise SavedFileError(
                f"{self.path.name} holds an earlier sweep. Resume it, or choose another directory."
            )
        header = _parsed(lines[0])
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise SavedFileError(
                f"{self.path.name} is damaged or not a sweep of this version of softset. Move it "
                "away and start again."
            )
        if header != self.header:
            raise SavedFileError(
                f"{self.path.name} belongs to a sweep with other data or settings, or of another "
                "version of softset. Use those, or choose another directory."
            )
        for number, line in enumerate(lines[1:], 2):
            try:
                record = _record(line)
            except SavedFileError as error:
                raise SavedFileError(
                    f"{self.path.name} is damaged in line {number}: {error} Remove that line, and "
                    "its run is repeated."
                ) from None
            self.records[_key(record["run"])] = record
        return length


def _parsed(line: bytes) -> JSON:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class _Success:
    """A line of a run that has a result."""

    run: dict[str, Any]
    seconds: float
    result: Any


@dataclass(frozen=True)
class _Failure:
    """A line of a run that ended in an error."""

    run: dict[str, Any]
    seconds: float
    error: str


def _record(line: bytes) -> Record:
    """The record in a line of the file; ``SavedFileError`` unless it is as it was written."""
    content = unsealed(_parsed(line))
    record: Record = encoded(decoded(_Failure if "error" in content else _Success, content))
    return record


def _key(run: RunParams) -> str:
    return json.dumps(run, sort_keys=True)


def _double(run: RunParams) -> int:
    """For the example above: work must be a function that a worker can import."""
    return 2 * int(str(run["x"]))
