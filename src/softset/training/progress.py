"""One live line on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
import time


class Progress:
    """``epoch 12 of 200 | loss 0.31 | f1 0.712 | 7 of 10 running | at most 0:14 left``."""

    def __init__(self, verbose: int, max_epochs: int, members: int, metric: str) -> None:
        self.shown = verbose > 0 and sys.stderr.isatty()
        self.max_epochs, self.members, self.metric = max_epochs, members, metric
        self.started = time.monotonic()
        self.written = 0.0

    def start(self) -> None:
        """A new phase: the clock for the time left starts again."""
        self.started = time.monotonic()

    def show(self, epoch: int, loss: float, metric: float | None, running: int) -> None:
        """Replace the line, at most ten times a second."""
        now = time.monotonic()
        if not self.shown or now - self.written < 0.1:
            return
        self.written = now
        left = int((now - self.started) / max(epoch, 1) * (self.max_epochs - epoch))
        judged = "" if metric is None else f" | {self.metric} {metric:.3f}"
        line = (
            f"epoch {epoch} of {self.max_epochs} | loss {loss:.4f}{judged} | "
            f"{running} of {self.members} running | at most {left // 60}:{left % 60:02d} left"
        )
        sys.stderr.write(f"\r\x1b[2K{line}")
        sys.stderr.flush()

    def close(self) -> None:
        """Take the line away."""
        if self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
