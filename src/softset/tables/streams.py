"""Rows that come block by block, because all of them do not fit into memory.

A *stream* is anything that can be gone through again and again and gives blocks ``(X, y)`` or
``(X, y, weight)``: a ``ParquetRows``, a list of such blocks, an object of one's own.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from softset.checks import warn_user
from softset.tables.encoder import TableEncoder, UnseenWarning, infer_schema
from softset.tables.labels import LabelEncoding, encoding_of, label_matrix, read_classes
from softset.tables.parquet_rows import Block, ParquetRows
from softset.tasks import MULTILABEL
from softset.typing import Array, ClassWeight, Floats, Frame, Label

Stream = Iterable[Block]
# Kinds of columns, medians and categories are learned from so many rows.
SAMPLE = 2**16


def is_stream(X: object) -> TypeGuard[Stream]:
    """Whether ``X`` gives blocks of rows, and is not the rows themselves.

    >>> is_stream([(np.zeros((2, 3)), [0, 1])]), is_stream(np.zeros((2, 3))), is_stream([[1, 2]])
    (True, False, False)
    """
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(part, tuple) and len(part) in (2, 3) for part in X)
    arrays = ("shape", "__array__", "__dataframe__", "keys")
    return isinstance(X, Iterable) and not isinstance(X, str | bytes) and not _has(X, arrays)


def _has(X: object, names: Iterable[str]) -> bool:
    return any(hasattr(X, name) for name in names)


def blocks_of(
    stream: Stream, seed: int | None = None
) -> Iterator[tuple[Frame, Array, Floats | None]]:
    """Inputs, labels and weights of each block; in an order of its own where a stream has
    ``shuffled(seed)`` and a seed is given."""
    if isinstance(stream, Iterator):
        raise ValueError(
            "a stream of rows is gone through several times: give an object whose __iter__ begins "
            f"anew, such as ParquetRows or a list of blocks, not {type(stream).__name__}."
        )
    shuffled = None if seed is None else getattr(stream, "shuffled", None)
    for block in stream if shuffled is None else shuffled(seed):
        if not isinstance(block, tuple | list) or len(block) not in (2, 3):
            raise ValueError(f"a stream gives blocks (X, y) or (X, y, weight), got {type(block)}.")
        x, y, w = (*block, None)[:3]
        y = np.asarray(y)
        rows = x.shape[0] if hasattr(x, "shape") else len(x)
        if len(y) != rows or (w is not None and len(w) != len(y)):
            raise ValueError(f"a block has {rows} rows of inputs and {len(y)} labels.")
        if len(y):
            yield x, y, None if w is None else np.asarray(w, dtype=np.float64)


class ClassCounts:
    """The labels of a stream: how many rows, and how much weight, each class has."""

    def __init__(self) -> None:
        self.rows = 0
        self.weights: dict[Label, float] = {}
        self.counts: dict[Label, int] = {}
        self.present: Array | float = 0.0  # weight of the rows that have each label
        self.weight = 0.0
        self.several = 0  # columns of labels

    def add(self, y: Array, w: Array) -> None:
        """The labels of a further block."""
        self.rows += len(y)
        if y.ndim == 2 and y.shape[1] > 1:
            self.several = y.shape[1]
            self.present, self.weight = self.present + w @ label_matrix(y), self.weight + w.sum()
            return
        try:
            values, which = np.unique(y.ravel(), return_inverse=True)
        except TypeError:
            raise ValueError(
                "y must hold text or numbers, not both, and nothing may be missing."
            ) from None
        sums = np.bincount(which.ravel(), weights=w, minlength=len(values))
        counts = np.bincount(which.ravel(), minlength=len(values))
        for value, weight, count in zip(
            values.tolist(), sums.tolist(), counts.tolist(), strict=True
        ):
            self.weights[value] = self.weights.get(value, 0.0) + weight
            self.counts[value] = self.counts.get(value, 0) + count

    def merge(self, other: ClassCounts) -> None:
        """The labels of another part of the rows."""
        self.rows += other.rows
        self.several = max(self.several, other.several)
        self.present, self.weight = self.present + other.present, self.weight + other.weight
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
            self.weights[value] = self.weights.get(value, 0.0) + other.weights[value]

    def labels(self, pos_label: Label | None = None) -> LabelEncoding:
        """What the labels are, as ``read_labels`` says of all of them."""
        if self.several:
            if pos_label is not None:
                raise ValueError("pos_label is for two classes; y holds several labels of 0 and 1.")
            return LabelEncoding(MULTILABEL, np.arange(self.several))
        classes = read_classes(list(self.counts))
        return encoding_of(classes, np.array([self.counts[c] for c in classes.tolist()]), pos_label)

    def factors(self, labels: LabelEncoding, class_weight: ClassWeight) -> Array:
        """The factor of each class, as ``LabelEncoding.class_factors``."""
        if self.several:
            totals = np.column_stack([self.weight - self.present, self.present])
        else:
            totals = np.array([self.weights[name] for name in labels.names])
        return labels.class_factors(class_weight, totals)


class EncodedRows:
    """Blocks of numbers from the tables of a ``ParquetRows``, by an encoder fitted on a sample.

    Kinds of columns, medians and categories come from ``SAMPLE`` rows that are drawn from all.
    Whether a column has missing values is looked for in all rows. A category that the sample has
    not is no category; the rows that had one are told by one warning, at the end of the first pass.

    ``classes`` of two are named with the positive one last; blocks then have the numbers of the
    classes unless the order is that of scikit-learn.
    """

    def __init__(self, rows: ParquetRows, pos_label: Label | None = None) -> None:
        import pandas as pd

        self.rows = rows
        counts, missing = ClassCounts(), np.zeros(len(rows.columns), dtype=np.int64)
        random = np.random.default_rng(0)
        sample, keys, limit = pd.DataFrame(columns=rows.columns), np.empty(0), np.inf
        for X, y, w in blocks_of(rows):
            counts.add(y, np.ones(len(y)) if w is None else w)
            missing += X.isna().sum().to_numpy()
            drawn = random.random(len(X))
            few = drawn < limit
            sample = pd.concat([sample, X[few]], ignore_index=True) if len(sample) else X[few]
            keys = np.concatenate([keys, drawn[few]])
            if len(keys) > 1.25 * SAMPLE:
                limit = np.partition(keys, SAMPLE)[SAMPLE]
                sample, keys = sample[keys < limit], keys[keys < limit]
        if len(keys) > SAMPLE:
            first = np.sort(np.argpartition(keys, SAMPLE)[:SAMPLE])
            sample = sample.iloc[first]
        self.labels = counts.labels(pos_label)
        self.in_order = self.labels.positive == 1
        schema = [
            replace(column, missing=int(count)) if column.kind != "dropped" else column
            for column, count in zip(infer_schema(sample), missing, strict=True)
        ]
        self.encoder = TableEncoder(schema).fit(sample)
        self._told = len(keys) == counts.rows  # the sample is all there is

    def __iter__(self) -> Iterator[Block]:
        return self._encoded(blocks_of(self.rows))

    def shuffled(self, seed: int) -> Iterator[Block]:
        """Blocks in the order of ``ParquetRows.shuffled``."""
        return self._encoded(blocks_of(self.rows, seed))

    def shard(self, num_shards: int, index: int) -> EncodedRows:
        """As of ``ParquetRows``; the encoder is that of all rows."""
        copied = copy.copy(self)
        copied.rows = self.rows.shard(num_shards, index)
        return copied

    def fingerprint(self) -> str:
        """That of the rows."""
        return self.rows.fingerprint()

    def _encoded(self, blocks: Iterator[tuple[Frame, Array, Floats | None]]) -> Iterator[Block]:
        unseen = total = 0
        for X, y, w in blocks:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                x = self.encoder.transform(X)
            unseen += any(issubclass(one.category, UnseenWarning) for one in caught)
            total += 1
            y = y if self.in_order else self.labels.encode(y)
            yield (x, y) if w is None else (x, y, w)
        if unseen and not self._told:
            warn_user(
                f"{unseen} of {total} blocks of rows have values that the {SAMPLE} rows have not "
                "from which categories were learned; they count as no category, or as missing.",
                UnseenWarning,
            )
        self._told = True
