"""Numbers, also in text: the value, or the median where it is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from softset.tables.columns import (
    ENOUGH,
    IDENTIFIER_ROWS,
    MISSING_WORDS,
    Cells,
    Column,
    FittedColumn,
    Mask,
    check_finite,
    is_constant,
    median,
    unreadable,
    unseen,
)
from softset.tables.numerals import (
    common_unit,
    has_thousands,
    is_unit,
    read_numbers,
    without_unit,
)
from softset.typing import Array, Floats

if TYPE_CHECKING:
    import pandas as pd

# A code such as 007 is a name, not a number.
_CODE = re.compile(r"[+-]?0\d+", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
# Float64 holds every integer up to here.
_EXACT = 2**53


@dataclass(frozen=True)
class Number(FittedColumn):
    """One output, the number; ``fill``, the median of the training rows, where it is missing.

    ``truth``: whether training had only 0 and 1, which a file may write as true and false.
    """

    fill: float
    truth: bool
    kind: ClassVar[str] = "number"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """Numbers, or text of which at least nine tenths are numbers."""
        separated = cells.name in cells.series.attrs.get("thousands", ())
        column = Column(cells.name, "number", thousands=separated)
        values, bad = cells.values, np.zeros(len(cells.values), dtype=bool)
        if cells.stored == "text":
            form = _numerals(cells)
            if form is None:
                return None
            column = form
            values, bad = _read(cells, column)
        elif cells.stored != "number":
            return None
        if _are_codes(cells, values, bad):
            return None
        check_finite(cells.name, values)
        missing = np.isnan(values)
        notes, words = unreadable(cells, bad, "numbers")
        present = values[~missing]
        integers = bool((np.mod(present, 1) == 0).all())
        identifier = integers and is_identifier(_exactly(cells, present))
        column = replace(
            column, missing=int(missing.sum()), words=words, notes=(*column.notes, *notes)
        )
        if not missing.any() and is_constant(values):
            return column.drop("is constant")
        if not missing.any() and len(values) >= IDENTIFIER_ROWS and (np.diff(values) == 1).all():
            return column.drop("is a row number")
        plain = cells.is_text and not words and not column.notes
        more = _notes(cells, present, integers, identifier, plain)
        return replace(column, identifier=identifier, notes=(*column.notes, *more))

    @classmethod
    def cells(cls, name: str, series: pd.Series) -> Cells:
        """The cells; true and false are numbers also beside text, as they are without it."""
        if series.dtype == object:
            values = [int(v) if isinstance(v, bool | np.bool_) else v for v in series.tolist()]
            attrs, series = series.attrs, type(series)(values, series.index, dtype=object)
            series.attrs = attrs
        return Cells.of(name, series)

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        """The median for missing numbers, and whether all are 0 and 1."""
        values, _ = _numbers(column, cells, truth=False)
        present = values[~np.isnan(values)]
        truth = bool(((present == 0) | (present == 1)).all())
        words = {word.strip().lower() for word in column.words}  # these count as missing
        return cls(column, median(values), truth and not words & {"true", "false"})

    @property
    def value_names(self) -> list[str]:
        """The column's own name."""
        return [self.column.name]

    def encode(self, cells: Cells, out: Array) -> tuple[Mask, list[str]]:
        """The numbers, and the median where one is missing."""
        values, notes = _numbers(self.column, cells, self.truth)
        missing = np.isnan(values)
        out[:, 0] = np.where(missing, self.fill, values)
        return missing, notes


def _notes(
    cells: Cells, present: Floats, integers: bool, identifier: bool, read: bool
) -> list[str]:
    """What the user should know of a column of numbers."""
    name, notes = cells.name, []
    if read:
        notes.append(
            f"column {name!r} is text, but all of it is numbers: it is read as numbers. If they "
            "are names, make it a pandas category."
        )
    if integers and (np.abs(present) > _EXACT).any():
        notes.append(
            f"column {name!r} holds integers above 2^53, which lose their last digits as numbers; "
            "if it is an identifier, leave it out."
        )
    if identifier:
        notes.append(
            f"column {name!r} holds a different integer in every row, as a customer number "
            "does; it is used, but duplicate rows are searched for without it. If it is an "
            "identifier, leave it out (--drop)."
        )
    return notes


def is_identifier(values: Array) -> bool:
    """Whether integers are as different as customer numbers: no two alike.

    >>> is_identifier(np.arange(100.0) ** 2), is_identifier(np.arange(100.0) // 2)
    (True, False)
    """
    if len(values) < IDENTIFIER_ROWS or len(np.unique(values[:1000])) < len(values[:1000]):
        return False
    return bool((np.mod(values, 1) == 0).all()) and len(np.unique(values)) == len(values)


def _exactly(cells: Cells, present: Floats) -> Array:
    """Integers with all of their digits, where floats would lose some."""
    kind = cells.series.dtype.kind if isinstance(cells.series.dtype, np.dtype) else ""
    return np.asarray(cells.series.to_numpy()) if kind and kind in "iu" else present


def _are_codes(cells: Cells, values: Floats, bad: Mask) -> bool:
    """Whether integers above 2^53 are names: some of them repeat, or are alike as floats.

    Integers that differ in every row also as floats, such as times in nanoseconds, are numbers.
    """
    present = ~np.isnan(values)
    if not present.any() or not (np.abs(values[present]) > _EXACT).any():
        return False
    if cells.stored == "text":
        words, _, codes = cells.distinct
        if not all(_INTEGER.fullmatch(words[i].strip()) for i in np.unique(codes[present & ~bad])):
            return False
    elif cells.series.dtype.kind not in "iu" and not all(
        isinstance(v, int | np.integer) for v in cells.series[present].tolist()
    ):
        return False
    exact = cells.series[present].astype(str).nunique()
    return bool(exact < present.sum() or exact > len(np.unique(values[present])))


# --- text -----------------------------------------------------------------------------------------


def _numerals(cells: Cells) -> Column | None:
    """How the numbers in a text column are written, if nearly all of its cells are numbers."""
    words, counts, _ = cells.distinct
    absent = np.array([word.strip() in MISSING_WORDS for word in words], dtype=bool)
    present = counts[~absent].sum()
    unit = common_unit(words, counts, ENOUGH * present)
    unit = unit if is_unit(unit) else ""
    texts = [without_unit(word, unit) for word in words]
    thousands = has_thousands(texts, cells.decimal)
    good = ~np.isnan(read_numbers(texts, decimal=cells.decimal, thousands=thousands))
    count = int(counts[good].sum())
    if count == 0 or count < ENOUGH * present:
        return None
    numerals = [texts[i] for i in np.flatnonzero(good)]
    codes = sum(int(counts[i]) for i in np.flatnonzero(good) if _CODE.fullmatch(texts[i]))
    alike = len({len(w) if w.isdigit() else 0 for w in numerals}) == 1
    if codes and (alike or codes > (1 - ENOUGH) * count):
        return None
    notes = []
    if unit:
        example = next(words[i] for i in np.flatnonzero(good))
        notes.append(
            f"column {cells.name!r} holds numbers with a unit ({unit}); it is read as numbers, "
            f"e.g. {example!r}."
        )
    if thousands:
        example = next(text for text in texts if has_thousands([text], cells.decimal))
        value = read_numbers([example], decimal=cells.decimal, thousands=True)[0]
        notes.append(
            f"column {cells.name!r} is read with separators of thousands, e.g. {example!r} as "
            f"{value:.15g}."
        )
    return Column(cells.name, "number", unit=unit, thousands=thousands, notes=tuple(notes))


def _read(cells: Cells, column: Column, truth: bool = False) -> tuple[Floats, Mask]:
    """Every cell of a text column as a number, and the mask of cells that are none."""
    words, _, codes = cells.distinct
    numbers = read_numbers(
        words, truth, decimal=cells.decimal, thousands=column.thousands, unit=column.unit
    )
    absent = np.array([word.strip() in MISSING_WORDS for word in words], dtype=bool)
    # A missing cell has the code -1: the last entry.
    return np.append(numbers, np.nan)[codes], np.append(np.isnan(numbers) & ~absent, False)[codes]


def _numbers(column: Column, cells: Cells, truth: bool) -> tuple[Floats, list[str]]:
    """The cells of a column of numbers, and notes on those that are none."""
    if cells.stored == "date":
        notes = unseen(column, cells, ~cells.missing, "a number")
        return np.full(len(cells.values), np.nan), notes
    values, notes = cells.values, []
    if cells.is_text:
        values, bad = _read(cells, column, truth)
        notes = unseen(column, cells, bad, "a number")
    check_finite(cells.name, values)
    return values, notes
