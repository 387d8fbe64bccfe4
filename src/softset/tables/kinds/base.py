"""What every kind of column shares: its description, and how it becomes numbers once fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from softset.checks import warn_user
from softset.storage.files import SavedFileError
from softset.storage.schema import decoded, encoded
from softset.tables.kinds.cells import Cells, Mask, Values

# A column of text holds numbers, or dates, if at least this share of its cells does; the others
# then count as missing, which is said.
ENOUGH = 0.9
# Columns with at least so many rows may be found to be identifiers.
IDENTIFIER_ROWS = 20
# Of words that count as missing so many are kept, to know them again at prediction.
_MOST_WORDS = 1000


class UnseenWarning(UserWarning):
    """Cells that the encoder can't use, because training had nothing like them."""


@dataclass(frozen=True)
class Column:
    """What one column of a table is, judged by all of its cells.

    ``kind`` is ``"number"``, ``"category"``, ``"date"`` or ``"dropped"``; ``missing`` counts the
    cells without a value, ``values`` the distinct values of a category; ``note`` says what the user
    should know. ``identifier`` marks whole numbers that differ in every row, as a customer number
    does. ``words`` are cells that count as missing, such as "unknown" among numbers. ``format`` is
    how dates in text are written, and ``time`` whether dates have a time of day. ``outputs`` is the
    count of numbers that an encoder makes of it.
    """

    name: str
    kind: str
    missing: int = 0
    values: int | None = None
    note: str = ""
    identifier: bool = False
    words: tuple[str, ...] = ()
    format: str | None = None
    time: bool = False
    outputs: int = 0

    def drop(self, reason: str) -> Column:
        """The same column, left out."""
        note = f"{self.note} column {self.name!r} {reason}; it is left out.".strip()
        return replace(self, kind="dropped", identifier=False, note=note)


def unreadable(cells: Cells, bad: Mask, wanted: str) -> tuple[str, tuple[str, ...]]:
    """Words that count as missing in the whole table, and a note that says so."""
    if not bad.any():
        return "", ()
    note = (
        f"column {cells.name!r}: {bad.sum()} of {len(bad)} cells are no {wanted} and count as "
        f"missing: {cells.sample(bad)}."
    )
    words, counts, codes = cells.distinct
    order = np.unique(codes[bad])
    most = order[np.argsort(-counts[order], kind="stable")][:_MOST_WORDS]
    return note, tuple(words[i] for i in most)


def refuse_or_warn(column: Column, cells: Cells, bad: Mask, wanted: str) -> None:
    """Refuse cells that are not ``wanted``; a few among many count as missing, with a warning.

    Words that counted as missing in training do so again without one.
    """
    known = set(column.words)
    new = bad.copy()
    new[bad] = [value not in known for value in cells.values[bad]]
    if not new.any():
        return
    if new.sum() > (1 - ENOUGH) * (~cells.missing).sum():
        raise ValueError(
            f"column {column.name!r} must hold {wanted} in each row, as in training; {new.sum()} "
            f"value(s) do not: {cells.sample(new)}."
        )
    warn_user(
        f"column {column.name!r}: {new.sum()} value(s) were never seen in training and count as "
        f"missing, since {wanted} is expected: {cells.sample(new)}.",
        UnseenWarning,
    )


# --- columns as an encoder has learned them
# --------------------------------------------------------


@dataclass(frozen=True)
class Fitted(ABC):
    """A column that an encoder was fitted to: how its cells become numbers.

    A kind of column is one subclass in a file of its own and one entry of ``KINDS``.
    """

    column: Column
    kind: ClassVar[str]
    is_text: ClassVar[bool] = False  # cells stay text when a file is read for prediction

    @classmethod
    @abstractmethod
    def recognize(cls, cells: Cells) -> Column | None:
        """The column, if its cells are of this kind."""

    @classmethod
    def cells(cls, name: str, series: Any) -> Cells:
        """The cells of a column that is known to be of this kind."""
        return Cells.of(name, series)

    @classmethod
    @abstractmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        """Learn from training rows."""

    @property
    @abstractmethod
    def parts(self) -> list[str]:
        """The names of the outputs without the one that marks missing values."""

    @abstractmethod
    def encode(self, cells: Cells, out: Values) -> Mask:
        """Fill ``out [rows, parts]``, zeros so far; where a value is missing."""

    @property
    def names(self) -> list[str]:
        """The names of the outputs."""
        mark = [f"{self.column.name} (missing)"] if self.column.missing else []
        return self.parts + mark

    def transform(self, cells: Cells, out: Values) -> None:
        """Fill ``out [rows, names]``; a missing value that cannot be marked is a warning."""
        missing = self.encode(cells, out[:, : len(self.parts)])
        if self.column.missing:
            out[:, -1] = missing
        elif (absent := missing & cells.absent).any():  # of other words the kind has warned
            warn_user(
                f"column {self.column.name!r} has {absent.sum()} missing value(s), and had none "
                f"in training; {self.instead}.",
                UnseenWarning,
            )

    instead: ClassVar[str] = "they are filled with the median"

    def imputed(self) -> str:
        """What is done about missing values, in a sentence, if there are any."""
        count, name = self.column.missing, self.column.name
        if not count:
            return ""
        return f"column {name!r}: {count} missing value(s) are filled with the median, and marked."

    # --- files

    def state(self) -> dict[str, Any]:
        """As plain data: the description of the column, what was learned, the outputs."""
        learned = encoded(self)
        return {**learned.pop("column"), **learned, "outputs": self.names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The inverse; every entry is checked, for the file may be anybody's."""
        column, learned = {}, dict(state)
        outputs = learned.pop("outputs", None)
        for f in fields(Column):
            if f.name in learned:
                column[f.name] = learned.pop(f.name)
        fitted: Self = decoded(cls, {"column": column, **learned})
        if fitted.names != outputs:
            raise SavedFileError(f"column {fitted.column.name!r} has other outputs than it says.")
        return fitted


@dataclass(frozen=True)
class Dropped(Fitted):
    """A column that is left out: no outputs."""

    kind: ClassVar[str] = "dropped"

    @classmethod
    def recognize(cls, cells: Cells) -> Column | None:
        if cells.missing.all():
            return Column(cells.name, "number", len(cells.missing)).drop("has no values")
        return None

    @classmethod
    def fit(cls, column: Column, cells: Cells) -> Self:
        return cls(column)

    @property
    def parts(self) -> list[str]:
        return []

    @property
    def names(self) -> list[str]:
        """None."""
        return []

    def encode(self, cells: Cells, out: Values) -> Mask:
        return np.zeros(len(out), dtype=bool)

    def transform(self, cells: Cells, out: Values) -> None:
        """Nothing."""

    def imputed(self) -> str:
        return ""
