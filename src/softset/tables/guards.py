"""Text that a spreadsheet would run as a formula: made harmless in CSV, and given back by us.

A guarded text has ``'`` in front, as spreadsheets mark text. An empty text is guarded too, for an
empty cell is a missing value. Reading takes one ``'`` away wherever writing would have put it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# What spreadsheets skip before a formula, and its first character, also in full width.
_BLANK = "[\x01-\x20\x85\xa0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]"
_FORMULA = f"{_BLANK}*[-=+@＝＋－＠]|[\t\r\n\ufeff]|$"
_NEEDS_GUARD = re.compile(f"'*(?:{_FORMULA})")
# What reading takes the first character of; Python and Arrow understand it alike.
GUARDED = f"^'('*(?:{_FORMULA}))"


def guard(cell: Any) -> Any:
    """A text cell as a spreadsheet may show it; what is no text stays.

    >>> guard("=1+1"), guard("a"), guard(-1), guard("'=a"), guard("'a"), guard("")
    ("'=1+1", 'a', -1, "''=a", "'a", "'")
    """
    return f"'{cell}" if isinstance(cell, str) and _NEEDS_GUARD.match(cell) else cell


def unguard(text: str) -> str:
    """The text that ``guard`` was given.

    >>> unguard(guard("=1+1")), unguard(guard("'=a")), unguard("'a")
    ('=1+1', "'=a", "'a")
    """
    return re.sub(GUARDED, r"\1", text)


def guarded_rows(rows: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Plain rows with their text guarded."""
    return [[guard(cell) for cell in row] for row in rows]
