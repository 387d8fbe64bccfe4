"""What commands print: JSON, tables, progress, names of new files."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from softset.formats import seconds
from softset.training.progress import Line


def fresh_name(name: str, force: bool = False) -> Path:
    """``name`` in this directory, with a number if it is taken and not to be replaced."""
    path, stem, suffix = Path(name), Path(name).stem, Path(name).suffix
    count = 2
    while path.exists() and not force:
        path = Path(f"{stem}-{count}{suffix}")
        count += 1
    return path


def print_json(document: Any) -> None:
    """One JSON document; what is no number there is null."""
    text = json.dumps(_finite(document), indent=2, ensure_ascii=False, default=str)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:  # a terminal without these characters: JSON has \u for them
        text = json.dumps(_finite(document), indent=2, default=str)
    print(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str) -> None:
    """A line for the reader, on standard error."""
    print(text, file=sys.stderr)


def say_notes(notes: list[str]) -> None:
    """Notes that have not been warnings already."""
    from softset.cli import said

    for note in notes:
        if note not in said:
            say(f"softset: note: {note}")


def console() -> Any:
    """Where tables go: as wide as the terminal, 120 columns in a pipe."""
    from rich.console import Console

    plain = not sys.stdout.isatty()
    return Console(width=120 if plain else None, highlight=False, soft_wrap=False, markup=False)


class Progress(Line):
    """A live line with the time left; in a file, a plain one every half minute.

    ``intro`` is said when the first step is done: before, bad input may still be the only line.
    """

    def __init__(self, what: str, intro: str = "") -> None:
        super().__init__(what, every=30)
        self.intro = intro
        self.done = self.total = 0

    def __call__(self, done: int, total: int, seconds_left: float) -> None:
        if self.intro:
            say(self.intro)
            self.intro = ""
        self.done, self.total = done, total
        self.show(done, total, "" if math.isnan(seconds_left) else f"{seconds(seconds_left)} left")
