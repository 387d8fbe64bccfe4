"""How far a job is: a live line on a terminal and in a notebook (by rich), plain lines elsewhere.

Everything that shows progress uses ``Line``. Nothing heavy is imported here.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Generator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    pass

# At most so often, in seconds.
LIVE_EVERY, PLAIN_EVERY = 0.1, 5.0


class Line:
    """``epoch 12 of 200 | loss 0.31``, on standard error, while a job goes on.

    On a terminal and in a notebook the line is replaced in place and taken away at the end. Where
    that cannot be (a file or a pipe, no rich, a notebook without ipywidgets) the first state, the
    last one, and one every few seconds are printed as plain lines. With ``every`` seconds these are
    that far apart, and a job that takes less prints none.

    >>> with Line("run", every=30) as line:
    ...     line.show(3, 10, "2 min left")
    """

    def __init__(self, what: str, *, every: float | None = None) -> None:
        self.what = what
        self._bar = _live_bar()
        self._plain = self._bar is None
        self._task: Any = None
        self._every = PLAIN_EVERY if every is None else every
        # When, by the clock.
        self._shown = -PLAIN_EVERY if every is None or self._bar else time.monotonic()
        self._quiet = every is not None  # until something was printed
        self._waiting = ""  # a plain line that came too early

    def __enter__(self) -> Self:
        return self

    def show(self, done: int, total: int, text: str = "") -> None:
        """Tell how far it is, as often as you like."""
        now = time.monotonic()
        if self._plain:
            self._waiting = f"{self.what} {done} of {total}{f' | {text}' if text else ''}"
            if now - self._shown >= self._every:
                self._quiet = False
                self._print()
                self._shown = now
        elif self._bar is not None and now - self._shown >= LIVE_EVERY:
            self._shown = now
            state = {"completed": done, "total": total, "text": text}
            if self._task is None:
                self._task = self._bar.add_task(self.what, **state)
                self._bar.start()
            else:
                self._bar.update(self._task, refresh=True, **state)

    def _print(self) -> None:
        print(self._waiting, file=sys.stderr, flush=True)
        self._waiting = ""

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the live line away, or print the last plain one."""
        if self._task is not None:
            self._bar.stop()
            self._task = None
        if self._waiting and not self._quiet:
            self._print()


def _live_bar() -> Any:
    """A bar that replaces itself, or nothing where that cannot be shown."""
    if find_spec("rich") is None:
        return None
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    console = Console(stderr=True)
    if console.is_jupyter:
        if find_spec("ipywidgets") is None:
            return None
    elif not (sys.stderr.isatty() and console.is_interactive):
        return None
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed} of {task.total}"),
        TextColumn("{task.fields[text]}", markup=False),
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=sys.stdout.isatty(),  # elsewhere it is what the job is for
    )


def line_of(what: str, verbose: int) -> Line | None:
    """The line of ``verbose``: none of 0; above 1, plain lines are so many seconds apart."""
    return Line(what, every=verbose if verbose > 1 else None) if verbose > 0 else None


def progress(what: str, total: int, verbose: int) -> Generator[None]:
    """Steps of a job that shows how far it is: call ``next`` before each, and ``close``.

    >>> steps = progress("fit", 2, verbose=0)
    >>> next(steps), next(steps), steps.close()
    (None, None, None)
    """
    line = line_of(what, verbose)
    try:
        for done in itertools.count(1):
            if line is not None:
                line.show(done, total)
            yield
    finally:
        if line is not None:
            line.close()


class Progress:
    """The line of a training: ``epoch 12 of 200 | loss 0.3100 | f1 0.712 | 7 of 10 running | at
    most 0:14 left``. Nothing is shown with ``verbose=0``."""

    def __init__(self, verbose: int, max_epochs: int, members: int, metric: str) -> None:
        self.line = line_of("epoch", verbose)
        self.max_epochs, self.members, self.metric = max_epochs, members, metric
        self.started = time.monotonic()

    def start(self) -> None:
        """A new phase: the clock for the time left starts again."""
        self.started = time.monotonic()

    def show(self, epoch: int, loss: float, metric: float | None, running: int) -> None:
        """After an epoch."""
        if self.line is None:
            return
        left = (time.monotonic() - self.started) / max(epoch, 1) * (self.max_epochs - epoch)
        parts = [f"loss {loss:.4f}"]
        if metric is not None:
            parts.append(f"{self.metric} {metric:.3f}")
        if self.members > 1:
            parts.append(f"{running} of {self.members} running")
        parts.append(f"at most {int(left) // 60}:{int(left) % 60:02d} left")
        self.line.show(epoch, self.max_epochs, " | ".join(parts))

    def close(self) -> None:
        """The end, good or bad."""
        if self.line is not None:
            self.line.close()
