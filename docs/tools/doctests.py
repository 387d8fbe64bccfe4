"""Docstrings for the site: their doctests become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

BLOCK = re.compile(r"(?:^>>> .*\n?)(?:^.+\n?)*", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with every doctest, up to an empty line, as a block of code.

    >>> fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nEnd.").splitlines()
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'End.']
    """
    return BLOCK.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


class Doctests(griffe.Extension):
    """Griffe reads the sources; this changes each docstring that it finds."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and value."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
