"""Rows that come block by block (``softset.tables.streams``), as classifiers train on them.

One pass surveys the stream: classes, means and deviations, and the rows to hold out. The hold-out
set is the rows with the smallest hashes of what they hold: equal rows are on one side. Where rows
repeat (``kept_together``), another pass takes those with the smallest hashes of their numbers.
Later passes leave out as many rows as are held out of each kind: which of equal rows is no matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from softset.classifiers.row_costs import refuse_costs
from softset.metrics.registry import decided_elsewhere, one_number
from softset.tables.labels import LabelEncoding
from softset.tables.rows import Examples, content_codes, copy_numbers, kept_together, row_codes
from softset.tables.scaling import Moments, Scaler
from softset.tables.streams import ClassCounts, Stream, blocks_of
from softset.typing import Array, Rows

if TYPE_CHECKING:
    from softset.classifiers.base import DecidingClassifier

# The most rows that are held out, and the most numbers in them: they stay in memory.
HELD, HELD_NUMBERS = 2**16, 2**23
HeldOut = tuple[Array, ...]  # hashes, inputs, labels, weights


@dataclass(frozen=True)
class Survey:
    """What a pass over all rows of a stream tells."""

    rows: int
    labels: LabelEncoding
    factors: Array  # of the weight of a row, by its class or labels
    mean_weight: float
    weighted: bool
    scaler: Scaler
    held: Examples

    def parts(
        self, model: DecidingClassifier, stream: Stream, seed: int | None = None
    ) -> Iterator[Examples]:
        """The rows to train on, block by block."""
        kinds, left = np.unique(content_codes(self.held), return_counts=True)
        for X, y, w in blocks_of(stream, seed):
            x, w = _checked(model, X, w, first=False)
            some = w > 0
            rows = self.coded(x[some], y[some], w[some])
            codes = content_codes(rows)
            place = np.minimum(np.searchsorted(kinds, codes), len(kinds) - 1)
            held = np.flatnonzero(kinds[place] == codes)
            held = held[copy_numbers(place[held]) < left[place[held]]]
            left -= np.bincount(place[held], minlength=len(left))
            if len(held) < len(codes):
                yield rows.take(np.delete(np.arange(len(codes)), held))

    def with_weighted_scaler(self, model: DecidingClassifier, stream: Stream) -> Survey:
        """The same with a scaler of all rows by the weights of their classes, which are known
        after a pass."""
        moments = Moments()
        for X, y, w in blocks_of(stream):
            x, weight = _checked(model, X, w, first=False)
            some = weight > 0
            rows = self.coded(x[some], y[some], weight[some])
            moments.add(rows.x, rows.w)
        return replace(self, scaler=moments.scaler())

    def coded(self, x: Array, y: Array, w: Array) -> Examples:
        """Rows with codes, and with the weights of their classes; those have the mean 1."""
        codes = self.labels.encode(y)
        factors = self.labels.row_factors(self.factors, codes)
        return Examples(x, codes, w * factors / self.mean_weight)


def survey(model: DecidingClassifier, stream: Stream, fraction: float, salt: int) -> Survey:
    """Go through a stream. ``fraction`` of the rows are held out, within ``HELD``."""
    result = _survey(model, stream, fraction, salt, by_number=False)
    return _survey(model, stream, fraction, salt, by_number=True)[0] if result[1] else result[0]


def _survey(
    model: DecidingClassifier, stream: Stream, fraction: float, salt: int, *, by_number: bool
) -> tuple[Survey, bool]:
    """Go through a stream once; and whether its rows repeat, so that equal ones may be parted.

    Rows are held out by their numbers, or by what they hold.
    """
    counts, moments, common = ClassCounts(), Moments(), Counter[int]()
    held: list[HeldOut] = []
    waiting, limit, most, weighted = 0, np.uint64(2**64 - 1), HELD, False
    for number, (X, y, w) in enumerate(blocks_of(stream)):
        x, weight = _checked(model, X, w, first=number == 0)
        weighted |= w is not None
        some = weight > 0
        x, y, weight = x[some], y[some], weight[some]
        most = max(1, min(HELD, HELD_NUMBERS // x.shape[1]))
        if by_number:
            codes = row_codes(np.arange(counts.rows, counts.rows + len(y))[:, None], salt)
        else:
            codes = row_codes(x, salt)
            kinds, sizes = np.unique(codes, return_counts=True)
            # A row that repeats in a large fraction of all rows is half as frequent in some block.
            large = sizes > fraction / 2 * len(codes)
            common.update(dict(zip(kinds[large].tolist(), sizes[large].tolist(), strict=True)))
        counts.add(y, weight)
        moments.add(x, weight)
        few = codes < limit
        held.append((codes[few], x[few], y[few], weight[few]))
        waiting += int(few.sum())
        if waiting > 1.25 * most:
            held, limit = _smallest(held, most)
            waiting = len(held[0][0])
    if not counts.rows:
        raise ValueError("the stream of rows gave no row of positive weight.")
    model._labels = labels = counts.labels(model.pos_label)
    model.classes_ = labels.classes
    model._check_threshold()
    factors = model._class_factors = counts.factors(labels, model.class_weight)
    wanted = min(most, round(fraction * counts.rows))
    if wanted in (0, counts.rows):
        raise ValueError(f"the stream has {counts.rows} rows, of which {wanted} would be held out.")
    smallest, limit = _smallest(held, wanted)
    codes, *columns = smallest[0]
    if labels.task.independent:  # which labels are together is known of the held-out rows
        by_row = labels.row_factors(factors, labels.encode(columns[1]))
        total = moments.weight * np.average(by_row, weights=columns[2])
    else:
        total = sum(f * counts.weights[c] for f, c in zip(factors, labels.names, strict=True))
    empty = Examples(np.empty((0, 0)), np.empty(0, dtype=np.int64), np.empty(0))
    surveyed = Survey(
        counts.rows,
        labels,
        factors,
        float(total / counts.rows),
        weighted or model.class_weight is not None,
        moments.scaler(),
        empty,
    )
    rows = surveyed.coded(*columns)
    # By hash: how the stream was cut into blocks does not matter.
    surveyed = Survey(**{**vars(surveyed), "held": rows.take(np.argsort(codes, kind="stable"))})
    repeat = kept_together(codes, 1.0) is None
    repeat |= max(common.values(), default=0) > max(2, fraction / 2 * counts.rows)
    if not labels.task.independent and (by_number or not repeat):
        model._warn_of_absent(np.arange(len(labels.classes)), surveyed.held.y)
    return surveyed, bool(repeat)


def _smallest(parts: list[HeldOut], most: int) -> tuple[list[HeldOut], np.uint64]:
    """The ``most`` rows with the smallest hashes, and those that are equal to the last of them;
    the smallest hash that is larger."""
    codes, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(codes) <= most:
        return [(codes, *columns)], np.uint64(2**64 - 1)
    last = np.partition(codes, most - 1)[most - 1]
    some = codes <= last
    return [(codes[some], *(column[some] for column in columns))], last + np.uint64(1)


def _checked(
    model: DecidingClassifier, X: Rows, w: Array | None, *, first: bool
) -> tuple[Array, Array]:
    """The inputs of a block as float64, and its weights."""
    missing = (
        {"ensure_all_finite": "allow-nan"} if model.__sklearn_tags__().input_tags.allow_nan else {}
    )
    x = validate_data(model, X, reset=first, dtype=np.float64, **missing)
    if w is None:
        return x, np.ones(len(x))
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("weights of rows must be finite, and not negative.")
    return x, w


def draw_seeds(model: DecidingClassifier) -> tuple[int, int, np.random.RandomState]:
    """A salt, a seed, and the generator that they were drawn from."""
    refuse_costs(one_number(decided_elsewhere(model.metric)))
    model._costs = model._mean_cost = None  # of a fit before
    random = check_random_state(model.random_state)
    salt, seed = (int(v) for v in random.randint(2**31 - 1, size=2))
    return salt, seed, random
