"""Text that a spreadsheet would run as a formula: made harmless in CSV, and given back by us.

A guarded text has ``'`` in front. So that reading gives back what was written, text that begins
with ``'`` itself is guarded too, and so is the empty text, for an empty cell means "missing". A
file with guarded text ends in ``MARK``, an empty line with an end of its own, which readers of CSV
skip; only in such a file does our reader take the guards away, so that nobody else's ``'`` is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MARK = "\r\n"
# What spreadsheets skip before a formula, and its first character, also in full width.
_BLANK = r"[\s\x00-\x20\ufeff\u200b-\u200f\u2060]"
_FORMULA = re.compile(rf"{_BLANK}*[-=+@＝＋－＠]|[\t\r\n\ufeff']|$")


def guard(cell: Any) -> Any:
    """A text cell as a spreadsheet may show it; what is no text stays.

    >>> guard("=1+1"), guard("a"), guard(-1), guard("'a"), guard("")
    ("'=1+1", 'a', -1, "''a", "'")
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """The text that ``guard`` was given.

    >>> unguard(guard("=1+1")), unguard(guard("'a"))
    ('=1+1', "'a")
    """
    return cell.removeprefix("'")


def guard_name(name: str) -> str:
    """The same for a column's name, with blanks around it, which readers may take away."""
    return f"'{name}" if name != name.strip() else str(guard(name))


def is_marked(content: str) -> bool:
    """Whether a file was written with guards.

    >>> is_marked("a\\n'=1\\n" + MARK), is_marked("a\\r\\n'=1\\r\\n\\r\\n")
    (True, False)
    """
    return content.endswith(f"\n{MARK}") and not content.endswith(f"\r\n{MARK}")


def guarded_rows(rows: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Plain rows with their text guarded."""
    return [[guard(cell) for cell in row] for row in rows]
