"""What commands print: JSON, tables, progress, names of new files."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from softset.formats import seconds
from softset.progress import Line

if TYPE_CHECKING:
    from rich.console import Console

    from softset.typing import JSON

# Characters that a terminal would obey, and not show.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def escaped(text: str) -> str:
    """``text`` with control characters spelled out, which names and labels may hold.

    >>> escaped("a\\x1b[31mb")
    'a\\\\u001b[31mb'
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class EscapedStream:
    """A stream of text that never passes a control character on."""

    def __init__(self, stream: TextIO) -> None:
        # By this name rich finds the stream that its own escape codes go to.
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write ``text``, escaped."""
        return self.rich_proxied_file.write(escaped(text))

    def __getattr__(self, name: str) -> object:
        return getattr(self.rich_proxied_file, name)


def fresh_name(name: str, force: bool = False) -> Path:
    """``name`` in this directory, with a number if it is taken and not to be replaced."""
    path, stem, suffix = Path(name), Path(name).stem, Path(name).suffix
    count = 2
    while path.exists() and not force:
        path = Path(f"{stem}-{count}{suffix}")
        count += 1
    return path


def print_json(document: object) -> None:
    """Print one JSON document; NaN and infinity are null."""
    text = json.dumps(_finite(document), indent=2, ensure_ascii=False, default=str)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:  # a terminal without these characters: JSON has \u for them
        text = json.dumps(_finite(document), indent=2, default=str)
    print(text)


def _finite(value: object) -> JSON:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value  # type: ignore[return-value]  # what JSON has not becomes text


def say(text: str) -> None:
    """Print a line for the reader on standard error."""
    print(text, file=sys.stderr)


def say_notes(notes: list[str]) -> None:
    """Print the notes that have not been warnings already."""
    from softset.cli import reported

    for note in notes:
        if note not in reported:
            say(f"softset: note: {note}")


# What to ask for instead of a metric that one kind of error does not touch.
_INSTEAD = {
    "recall": "precision@recall>=0.9 or f1",
    "precision": "recall@precision>=0.9 or f1",
    "specificity": "recall@fpr<=0.05 or f1",
}


def met_by_constant(flagged: float | None, metric: str) -> str:
    """The note on decisions that are the same for every row, if they are.

    >>> met_by_constant(0.3, "recall")
    ''
    >>> met_by_constant(1.0, "f1")
    'every row is flagged: by f1, these scores tell rows apart too little.'
    """
    if flagged not in (0.0, 1.0):
        return ""
    which = "every row" if flagged else "no row"
    if metric not in _INSTEAD:
        return f"{which} is flagged: by {metric}, these scores tell rows apart too little."
    return (
        f"{which} is flagged: {metric} alone is best without telling rows apart. Ask for "
        f"{_INSTEAD[metric]}, which weighs both kinds of errors."
    )


def console() -> Console:
    """The console for tables: as wide as the terminal, 120 columns in a pipe."""
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class EscapedConsole(Console):
        """A console that shows the control characters of names and labels."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=escaped(segment.text))

    plain = not sys.stdout.isatty()
    width = 120 if plain else None
    return EscapedConsole(width=width, highlight=False, soft_wrap=False, markup=False)


# Seconds between lines of progress where they are not replaced.
PLAIN_EVERY = 30


def verbosity() -> int:
    """``verbose`` of what may take long: a live line on a terminal, elsewhere a plain one now and
    then."""
    return 1 if sys.stderr.isatty() else PLAIN_EVERY


class Progress(Line):
    """A live line with the time left; in a file, a plain one every half minute.

    ``intro`` is printed when the first step is done: before, bad input may be the only line.
    """

    def __init__(self, what: str, intro: str = "") -> None:
        super().__init__(what, every=PLAIN_EVERY)
        self.intro = intro
        self.done = self.total = 0

    def __call__(self, done: int, total: int, seconds_left: float) -> None:
        if self.intro:
            say(self.intro)
            self.intro = ""
        self.done, self.total = done, total
        self.show(done, total, "" if math.isnan(seconds_left) else f"{seconds(seconds_left)} left")
