"""Numbers, also in text: the value, the median where it is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from softset.tables.columns import (
    ENOUGH,
    IDENTIFIER_ROWS,
    MISSING_WORDS,
    NUMBER,
    TRUTH,
    Cells,
    Column,
    Fitted,
    Mask,
    Values,
    check_finite,
    is_constant,
    median,
    read_numbers,
    refuse_or_warn,
    unreadable,
)

# A code such as 007 is a name, not a number.
_CODE = re.compile(r"[+-]?0\d+", re.ASCII)
# Doubles hold every whole number up to here.
_EXACT = 2**53


@dataclass(frozen=True)
class Number(Fitted):
    """One output, the number; ``fill``, the median of the training rows, where it is missing.

    ``truth``: whether training had nothing but 0 and 1, which a file may write as true and false.
    """

    fill: float
    truth: bool
    kind: ClassVar[str] = "number"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """Numbers, or text of which at least nine tenths are numbers."""
        values, bad = cells.values, np.zeros(len(cells.values), dtype=bool)
        if cells.stored == "text":
            if not _mostly_numbers(cells):
                return None
            values, bad = _read(cells, truth=False)
        elif cells.stored != "number":
            return None
        check_finite(cells.name, values)
        missing = np.isnan(values)
        note, words = unreadable(cells, bad, "numbers")
        present = values[~missing]
        whole = bool((np.mod(present, 1) == 0).all())
        identifier = whole and is_identifier(_exactly(cells, present))
        notes = [note, *_notes(cells, present, whole, identifier, read=cells.is_text and not words)]
        column = Column(
            cells.name,
            "number",
            int(missing.sum()),
            note=" ".join(filter(None, notes)),
            identifier=identifier,
            words=words,
        )
        if not missing.any() and is_constant(values):
            alike = "holds integers above 2^53 that are all alike as numbers"
            return replace(column, note=note).drop(alike if identifier else "is constant")
        if not missing.any() and len(values) >= IDENTIFIER_ROWS and (np.diff(values) == 1).all():
            return replace(column, note=note).drop("is a row number")
        return column

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        values = _numbers(column, cells, truth=False)
        present = values[~np.isnan(values)]
        truth = bool(((present == 0) | (present == 1)).all())
        said = {word.strip().lower() for word in column.words}  # these count as missing
        return cls(column, median(values), truth and not said & set(TRUTH))

    @property
    def parts(self) -> list[str]:
        return [self.column.name]

    def encode(self, cells: Cells, out: Values) -> Mask:
        values = _numbers(self.column, cells, self.truth)
        missing = np.isnan(values)
        out[:, 0] = np.where(missing, self.fill, values)
        return missing


def _notes(cells: Cells, present: Values, whole: bool, identifier: bool, read: bool) -> list[str]:
    """What the user should know of a column of numbers."""
    name, notes = cells.name, []
    if read:
        notes.append(
            f"column {name!r} is text, but all of it is numbers: it is read as numbers. If they "
            "are names, make it a pandas category."
        )
    if whole and (np.abs(present) > _EXACT).any():
        notes.append(
            f"column {name!r} holds integers above 2^53, which lose their last digits as numbers; "
            "if it is an identifier, leave it out."
        )
    if identifier:
        notes.append(
            f"column {name!r} holds a different whole number in every row, as a customer number "
            "does; it is used, but duplicate rows are searched for without it. If it is an "
            "identifier, leave it out (--drop)."
        )
    return notes


def is_identifier(values: Values) -> bool:
    """Whether whole numbers are as different as customer numbers: no two alike.

    >>> is_identifier(np.arange(100.0) ** 2), is_identifier(np.arange(100.0) // 2)
    (True, False)
    """
    if len(values) < IDENTIFIER_ROWS or len(np.unique(values[:1000])) < len(values[:1000]):
        return False
    return bool((np.mod(values, 1) == 0).all()) and len(np.unique(values)) == len(values)


def _exactly(cells: Cells, present: Values) -> Values:
    """Whole numbers with all of their digits, where floats would lose some."""
    kind = cells.series.dtype.kind if isinstance(cells.series.dtype, np.dtype) else ""
    return cells.series.to_numpy() if kind and kind in "iu" else present


def _mostly_numbers(cells: Cells) -> bool:
    words, counts, _ = cells.distinct
    good = np.array([bool(NUMBER.fullmatch(word.strip())) for word in words], dtype=bool)
    absent = np.array([word.strip() in MISSING_WORDS for word in words], dtype=bool)
    count = int(counts[good].sum())
    if count == 0 or count < ENOUGH * counts[~absent].sum():
        return False
    found = [words[i].strip() for i in np.flatnonzero(good)]
    codes = sum(int(counts[i]) for i in np.flatnonzero(good) if _CODE.fullmatch(words[i].strip()))
    alike = len({len(w) if w.isdigit() else 0 for w in found}) == 1
    return not codes or not (alike or codes > (1 - ENOUGH) * count)


def _read(cells: Cells, truth: bool) -> tuple[NDArray[np.float64], Mask]:
    """Every cell of a column of text as a number, and where it is none."""
    words, _, codes = cells.distinct
    numbers, bad = read_numbers(words, truth)
    # A missing cell has the code -1: the last entry.
    return np.append(numbers, np.nan)[codes], np.append(bad, False)[codes]


def _numbers(column: Column, cells: Cells, truth: bool) -> NDArray[np.float64]:
    """The cells of a column that is known to hold numbers."""
    values = cells.values
    if cells.stored == "date":
        refuse_or_warn(column, cells, ~cells.missing, "a number")
        return np.full(len(values), np.nan)
    if cells.is_text:
        values, bad = _read(cells, truth)
        refuse_or_warn(column, cells, bad, "a number")
    check_finite(cells.name, values)
    return values
