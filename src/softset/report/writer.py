"""The report of a comparison: render it, write it."""

from __future__ import annotations

import os
from typing import Any

from softset.report.layout import environment, page, source
from softset.report.operating import Operating, views_of
from softset.report.sections import context
from softset.storage.files import write_safely

LARGEST = 2_000_000  # bytes
_PARTS = (1000, 500, 250, 120, 60)  # stops of the slider: fewer where there are many labels
_USUAL, _PER_STOP = 6000, 30  # bytes of one candidate's curves, and of each of its stops


def render(comparison: Any) -> str:
    """The report as one HTML page that needs nothing else, below 2 MB.

    ``comparison`` is a ``Comparison`` or what its ``to_dict()`` gives. "predictions" and
    "history" may be missing; the parts that need them are then left out.
    """
    content = comparison.to_dict() if hasattr(comparison, "to_dict") else comparison
    if not isinstance(content, dict) or not {"metric", "task", "candidates"} <= set(content):
        raise ValueError(
            "comparison must be a Comparison or its to_dict(), with 'metric', 'task' and "
            f"'candidates'; got {type(content).__name__}."
        )
    template = environment().get_template("report.html")
    text = ""
    sides = sum(len(v.sides) for v in views_of(content))
    likely = [n for n in _PARTS if sides * (_USUAL + _PER_STOP * n) < LARGEST]
    for parts in likely or _PARTS[-1:]:
        operating = Operating(content, parts)
        words = context(content, operating)
        body = template.render(
            words,
            operating=operating,
            pictures=operating.pictures() if operating.views else {},
        )
        data = operating.data() if operating.views else None
        script = source("report.js") if operating.views else ""
        text = page(words["title"], body, script=script, data=data)
        if len(text.encode()) < LARGEST:
            break
    return text


def write_report(comparison: Any, path: str | os.PathLike[str]) -> None:
    """Write the page of ``render`` to ``path``: the whole of it, or the old file stays."""
    text = render(comparison)
    write_safely(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
