"""Text as categories: an output for each frequent value, one for all rare ones."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from softset.tables.columns import (
    IDENTIFIER_ROWS,
    MISSING_WORDS,
    Cells,
    Column,
    FittedColumn,
    Mask,
    as_text,
)
from softset.tables.numerals import common_unit, is_unit, read_numbers
from softset.typing import Array

if TYPE_CHECKING:
    import pandas as pd

# A category gets at most so many outputs; rarer values share one.
MOST_VALUES = 50
# Text that is nearly all different is an identifier.
_IDENTIFIER_FRACTION = 0.9
# Cells of so many words, all different, are sentences.
_TEXT_WORDS = 4
_COMMA_NUMBER = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*")
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+")
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d*)", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(0|[1-9]\d*)?(\.\d*)?(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Category(FittedColumn):
    """An output for each of ``kept``, and one for all of ``rare``; an unknown value has none.

    Numbers are matched by value: "50" and "50.0" are one category.
    """

    kept: tuple[str, ...]
    rare: tuple[str, ...]
    kind: ClassVar[str] = "category"
    is_text: ClassVar[bool] = True
    filled: ClassVar[str] = "they are no category that the model knows"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """Whatever text the other kinds have left."""
        if cells.stored == "date":
            return None
        codes: tuple[str, ...] = ()
        if not cells.is_text:  # integers that are no numbers
            cells = cls.cells(cells.name, cells.series)
        if cells.stored == "category" and cells.series.dtype.kind in "iu":
            codes = (
                f"column {cells.name!r} holds integers above 2^53, which lose their last digits "
                "as numbers: they are taken for names.",
            )
        words, counts, _ = cells.distinct
        present = len({value_key(word) for word in words})
        column = Column(cells.name, "category", int(cells.missing.sum()), present)
        if present == 1 and not column.missing:
            return column.drop("is constant")
        column = replace(column, notes=(*codes, *_looks_like_numbers(cells)))
        if (rows := counts.sum()) >= IDENTIFIER_ROWS and present > _IDENTIFIER_FRACTION * rows:
            if np.mean([len(word.split()) for word in words[:1000]]) >= _TEXT_WORDS:
                return column.drop(
                    "is free text, which a table model cannot use (in Python, a pipeline of "
                    "scikit-learn's TfidfVectorizer and MetricLinearClassifier can)"
                )
            return column.drop(f"has a different text in nearly every row{_numbers_among(cells)}")
        return column

    @classmethod
    def cells(cls, name: str, series: pd.Series) -> Cells:
        """Words as they are written, and which are missing."""
        return Cells(name, series, "category", as_text(series), series.isna().to_numpy(dtype=bool))

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        """Frequent words are categories of their own, the others one together."""
        counts: dict[str, int] = {}
        words, often, _ = cells.distinct
        for word, count in zip(words, often, strict=True):
            counts[value_key(word)] = counts.get(value_key(word), 0) + int(count)
        # Most frequent first, by name among equals: the same whatever the order of the rows.
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        fewest = max(2, min(20, len(cells.missing) // 500))
        listed = [word for word in ranked[:MOST_VALUES] if counts[word] >= fewest]
        if len(ranked) == 2 and len(listed) == 1:
            listed = ranked
        return cls(column, tuple(listed), tuple(ranked[len(listed) :]))

    @property
    def value_names(self) -> list[str]:
        """``column=word`` for each category, and the other one."""
        name = self.column.name
        other = [f"{name} (other)"] if self.rare else []
        return [f"{name}={word}" for word in self.kept] + other

    def encode(self, cells: Cells, out: Array) -> tuple[Mask, list[str]]:
        """One column of 0 and 1 for each category."""
        place = {word: i for i, word in enumerate(self.kept)}
        place.update(dict.fromkeys(self.rare, len(self.kept)))
        by_value = {value_key(word): i for word, i in reversed(place.items())}
        words, _, codes = cells.distinct
        # The output of each distinct word; -1 unknown, -2 a word for "missing" that is unknown.
        numbers = [place.get(word, by_value.get(value_key(word), -1)) for word in words]
        absent = [i < 0 and w.strip() in MISSING_WORDS for i, w in zip(numbers, words, strict=True)]
        missing = np.append(np.array(absent, dtype=bool), True)[codes]
        outputs = np.append(np.array(numbers, dtype=np.int64), -1)[codes]
        listed = np.flatnonzero(outputs >= 0)
        out[listed, outputs[listed]] = 1.0
        unknown = (outputs < 0) & ~missing
        if not unknown.any():
            return missing, []
        return missing, [
            f"column {cells.name!r}: {unknown.sum()} value(s) were never seen in training and "
            f"count as no category: {cells.sample(unknown)}."
        ]

    def imputed(self) -> str:
        if not self.column.missing:
            return ""
        count, name = self.column.missing, self.column.name
        return f"column {name!r}: {count} missing value(s) are a category of their own."


def value_key(word: str) -> str:
    """What two texts share if they are the same number, or the same truth; else the text.

    Codes such as 007 are names.

    >>> [value_key(w) for w in ("50", "50.0", "+5e1", "007", "TRUE", "x")]
    ['50', '50', '50', '007', 'true', 'x']
    """
    text = word.strip()
    if not text or text[0] not in "+-.0123456789tTfF":
        return word
    if text.lower() in ("true", "false"):
        return text.lower()
    if _INTEGER.fullmatch(text):
        return "0" if text in ("-0", "+0") else text.removeprefix("+")
    if not _DECIMAL.fullmatch(text) or not any(c.isdigit() for c in text):
        return word
    try:
        number = float(text)
    except ValueError:
        return word
    if abs(number) >= 2**53:  # beyond, different texts may be the same float
        return word
    return str(int(number)) if number.is_integer() else repr(number)


def _looks_like_numbers(cells: Cells) -> tuple[str, ...]:
    """The note on text that a person would read as numbers, if it is any."""
    words, counts, _ = cells.distinct
    name, first = cells.name, words[:1000]
    commas = [word for word in first if _COMMA_NUMBER.fullmatch(word)]
    if cells.decimal == "." and commas and len(commas) >= 0.9 * len(first):
        return (
            f"column {name!r} is text that looks like decimal commas, e.g. {commas[0]!r}; write "
            "decimal points, or read it with decimal=',' (--decimal ,).",
        )
    points = [word for word in first if _POINT_NUMBER.fullmatch(word)]
    if cells.decimal == "," and points and not np.isnan(read_numbers(points)).all():
        return (
            f"column {name!r} has decimal points, which are no numbers where the decimal mark is "
            f"the comma, e.g. {points[0]!r}; it is a category. Write all numbers one way.",
        )
    unit = common_unit(words, counts, 0.9 * counts.sum()) if len(words) > MOST_VALUES else ""
    if unit and (is_unit(unit) or words[0].strip().endswith(unit)):  # V8 and id17 are names
        return (
            f"column {name!r} is a category of {len(words)} values that look like numbers with "
            f"{unit!r}, e.g. {words[0]!r}; write the numbers alone to use them as numbers.",
        )
    return ()


def _numbers_among(cells: Cells) -> str:
    """Which cells keep a column from being numbers, if many are numbers."""
    words, counts, codes = cells.distinct
    bad = np.isnan(read_numbers(words, decimal=cells.decimal))
    count = counts[~bad].sum()
    if count < 0.1 * counts.sum():
        return ""
    return (
        f" ({count} of them are numbers; the first cells that are none: "
        f"{cells.sample(np.append(bad, False)[codes])})"
    )
