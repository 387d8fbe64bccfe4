"""Text that a spreadsheet would run as a formula: made harmless in CSV, and restored on reading.

A guarded text has ``'`` in front, as spreadsheets mark text. Reading removes one ``'`` wherever
writing would have put it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from softset.typing import ArrowColumn

# What spreadsheets skip before a formula, and its first character, also in full width. Python and
# Arrow read these patterns alike.
_BLANK = "[\x01-\x20\x85\xa0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]"
_FORMULA = f"(?:{_BLANK}*[-=+@＝＋－＠]|[\t\r\n\ufeff])"
_NEEDS_GUARD = f"^('*{_FORMULA})"
_GUARDED = f"^'('*{_FORMULA})"
_NUMBER = r"^[+-][0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?$"


def guard(cell: object) -> object:
    """A text cell as a spreadsheet may show it; what is no text stays.

    >>> guard("=1+1"), guard("a"), guard(-1), guard("'=a"), guard("'a")
    ("'=1+1", 'a', -1, "''=a", "'a")
    """
    return re.sub(_NEEDS_GUARD, r"'\1", cell) if isinstance(cell, str) else cell


def unguard(text: str) -> str:
    """The text that ``guard`` was given.

    >>> unguard("'=1+1"), unguard("''=a"), unguard("'a")
    ('=1+1', "'=a", "'a")
    """
    return re.sub(_GUARDED, r"\1", text)


def guarded(values: ArrowColumn, *, numbers: bool = True) -> ArrowColumn:
    """``guard`` of each text of an Arrow column; of ``numbers`` such as +49 and -1.5, which are no
    formulas, only if they are to be guarded too."""
    from pyarrow import compute as pc

    safe = pc.replace_substring_regex(values, _NEEDS_GUARD, r"'\1")
    return safe if numbers else pc.if_else(pc.match_substring_regex(values, _NUMBER), values, safe)


def unguarded(values: ArrowColumn) -> ArrowColumn:
    """``unguard`` of each text of an Arrow column."""
    from pyarrow import compute as pc

    return pc.replace_substring_regex(values, _GUARDED, r"\1")


def guarded_rows(rows: Iterable[Iterable[object]]) -> list[list[object]]:
    """Plain rows with their text guarded."""
    return [[guard(cell) for cell in row] for row in rows]
