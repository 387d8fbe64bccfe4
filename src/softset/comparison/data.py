"""A user's ``X`` and ``y``, checked: classes as numbers, groups, equal rows, strata."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from sklearn.utils import check_array

from softset.checks import listed, warn_user
from softset.formats import grouped
from softset.tables.columns import column_notes
from softset.tables.encoder import Schema, infer_schema
from softset.tables.kinds.number import is_identifier
from softset.tables.labels import read_labels
from softset.tables.rows import alike, strata_of
from softset.tables.splits import join
from softset.tasks import Task, task_of
from softset.typing import Array, ArrayLike, Floats, Frame, Ints, Labels, Rows

Class: TypeAlias = "bool | int | float | str"


@dataclass
class Dataset:
    """Rows that can be split. ``x`` is a data frame (with ``schema``) or an array of numbers."""

    x: Frame | Array
    schema: Schema | None
    y: Ints
    classes: list[Class]
    task: Task
    strata: Ints
    groups: Ints | None
    grouped: str | None
    duplicates: int  # rows that have an equal one
    features: int
    identifiers: list[str | int]  # columns with a different integer in every row: names or numbers
    notes: list[str]
    warnings: list[str]
    times: Floats | None = None  # by which splits are made, if any

    def counts(self) -> list[tuple[str, int]]:
        """The rows of each class, or of each label, by its name."""
        counts = self.task.counts(self.y, len(self.classes))
        return [(str(c), int(k)) for c, k in zip(self.classes, counts, strict=True)]


def check_dataset(
    X: Rows,
    y: Labels,
    groups: ArrayLike | None,
    pos_label: Class | None,
    task: str | None,
    folds: int,
    duplicates: str,
    times: ArrayLike | None = None,
) -> Dataset:
    """Check ``X``, ``y`` and ``groups``; doubts are warnings, also in ``Dataset.warnings``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        codes, classes = _labels(y, pos_label)
        x, schema = _inputs(X, codes)
    messages = grouped(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    for text in messages:
        warn_user(text)
    kind = task_of(codes, len(classes))
    if task is not None and task != kind:
        raise ValueError(f"task is {task!r}, but y is {kind} ({len(classes)} classes or labels).")
    compared = x
    if isinstance(x, np.ndarray) or schema is None:
        numbers = [i for i, column in enumerate(x.T) if is_identifier(column)]
        identifiers: list[str | int] = [*numbers]
        if identifiers and len(identifiers) < x.shape[1] and duplicates != "ignore":
            warn_user(
                f"column(s) {listed(identifiers)} hold a different integer in every row, as a "
                "customer number does; duplicate rows are searched for without them. If they are "
                "identifiers, leave them out."
            )
            compared = np.delete(x, numbers, axis=1)
    else:
        used = [c for c in schema if c.kind != "dropped"]
        if not used:
            raise ValueError("X has no column left to learn from: all are constant or identifiers.")
        identifiers = [c.name for c in used if c.identifier]
        # With an identifier no two rows would be equal.
        compared = x[[c.name for c in used if not c.identifier] or identifiers]
    if times is not None:
        if groups is not None:
            raise ValueError("groups and times cannot be combined: pass one of them.")
        duplicates = "ignore"  # an earlier row is known when a later one is predicted
    joined, repeated, doubts = _groups(compared, groups, folds, duplicates)
    for text in doubts:
        warn_user(text)
    _enough(codes, classes, joined, folds)
    strata = np.unique(strata_of(codes), return_inverse=True)[1].ravel()
    name = None if groups is None else str(getattr(groups, "name", None) or "given")
    return Dataset(
        x,
        schema,
        codes,
        classes,
        kind,
        strata,
        joined,
        name,
        repeated,
        x.shape[1],
        identifiers,
        column_notes(schema or []),
        [*messages, *doubts],
        None if times is None else _times(times, len(codes)),
    )


def _labels(y: Labels, pos_label: Class | None) -> tuple[Ints, list[Class]]:
    """Class numbers and classes, the positive one of two last; the names of label columns."""
    labels, codes = read_labels(y, pos_label)
    if not labels.task.independent:
        names = [c.item() if isinstance(c, np.generic) else c for c in labels.names]
        return codes, [c if isinstance(c, bool | int | float | str) else str(c) for c in names]
    if hasattr(y, "columns"):
        return codes, [str(c) for c in y.columns]
    return codes, [f"label {k}" for k in range(codes.shape[1])]


def _times(times: ArrayLike, rows: int) -> Floats:
    """Numbers in the order of dates or numbers."""
    import pandas as pd  # noqa: PLC0415

    values = pd.Series(np.asarray(times))
    if values.shape != (rows,):
        raise ValueError(f"times must have one value for each of {rows} rows, got {len(values)}.")
    if values.dtype.kind not in "iufM":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a format that is not ISO
            values = pd.to_datetime(values, errors="coerce", utc=True)
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax()) + 1
        raise ValueError(f"times must be dates or numbers; row {row} has none.")
    return values.rank(method="dense").to_numpy(dtype=np.float64)


def _inputs(X: Rows, codes: Ints) -> tuple[Frame | Array, Schema | None]:
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        frame = cast("Frame", X).reset_index(drop=True)
        if len(frame) != len(codes):
            raise ValueError(f"X has {len(frame)} rows, y has {len(codes)}.")
        frame.columns = [str(c) for c in frame.columns]
        return frame, infer_schema(frame)
    x = check_array(X, dtype=np.float64, ensure_min_samples=4)
    if len(x) != len(codes):
        raise ValueError(f"X has {len(x)} rows, y has {len(codes)}.")
    return np.ascontiguousarray(x), None


def _groups(
    compared: Frame | Array, groups: ArrayLike | None, folds: int, duplicates: str
) -> tuple[Ints | None, int, list[str]]:
    """Rows that stay together, how many have an equal one, and warnings."""
    n = len(compared)
    codes = None
    if groups is not None:
        values = np.asarray(groups)
        if values.shape != (n,):
            raise ValueError(
                f"groups must have one label for each of {n} rows, got {values.shape}."
            )
        codes = np.unique(values.astype(str), return_inverse=True)[1].ravel()
        if codes.max() + 1 < folds:
            raise ValueError(
                f"groups holds {codes.max() + 1} groups, fewer than cv={folds}: every fold "
                "needs one."
            )
    if duplicates == "ignore":
        return codes, 0, []
    equal = alike(compared, 1 / folds)
    sizes = np.bincount([] if equal is None else equal)
    repeated = int(sizes[sizes > 1].sum())
    if equal is None or repeated == 0:
        return codes, 0, []
    joined = equal if codes is None else join(codes, equal)
    largest = int(np.bincount(joined).max())
    if codes is not None and largest > 2 * n / folds:
        text = f"{largest} of {n} rows are connected by groups and equal rows, too many for one"
        return codes, 0, [f"{text} side of a split: equal rows may be on both sides."]
    return joined, repeated, []


def _enough(codes: Ints, classes: list[Class], groups: Ints | None, folds: int) -> None:
    """Raise unless every class (rows with and without each label) is in as many groups as folds."""
    labels = codes.ndim == 2
    for k, name in enumerate(classes):
        for value in (0, 1) if labels else (k,):
            rows = np.flatnonzero((codes[:, k] if labels else codes) == value)
            apart = len(rows) if groups is None else len(np.unique(groups[rows]))
            if apart >= folds:
                continue
            what = f"label {name!r} is {value} in" if labels else f"class {name!r} has"
            unit = "rows" if apart == len(rows) else "different rows or groups"
            raise ValueError(
                f"{what} {apart} {unit}, fewer than cv={folds}. Use fewer folds, more rows, or "
                "leave it out."
            )


def time_blocks(table: Dataset, rows: Ints, blocks: int) -> Ints:
    """The number of the block in time of each of the rows; rows of one time are in one block.

    Raises unless every block has rows of every class (with and without every label).
    """
    assert table.times is not None
    _, inverse, counts = np.unique(table.times[rows], return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    numbers = (before[inverse] * blocks // len(rows)).astype(np.int64)
    for block in range(blocks):
        y = table.y[rows[numbers == block]]
        sizes = table.task.counts(y, len(table.classes)) if len(y) else np.zeros(1)
        if min(sizes) == 0 or (table.task.independent and max(sizes) == len(y)):
            raise ValueError(
                f"times: block {block + 1} of {blocks} in time has no row of some "
                f"{table.task.unit}. Use a smaller cv, or leave times out."
            )
    return numbers
