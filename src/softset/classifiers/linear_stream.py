"""``MetricLinearClassifier`` of rows that come block by block, on one rank or many.

Two passes survey the rows: classes and the range of every column; then weights, centers, scales,
and the sample on which the path is chosen. All further passes evaluate (``LinearPasses``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.special import logit
from sklearn.utils.validation import validate_data

from softset.classifiers.folds import is_count
from softset.classifiers.path import Training, origins_of, path_sample, sample_limit
from softset.losses.ranks import RankError
from softset.metrics.registry import decided_elsewhere, one_number
from softset.tables.rows import CopyCounter, Examples, labeled_codes, numbered_codes
from softset.tables.scaling import Moments, sparse_scale
from softset.tables.splits import content_folds
from softset.tables.streams import ClassCounts, Stream, blocks_of
from softset.training.linear_passes import LinearPasses, RankSums, Record, Shown
from softset.typing import Array, Floats, Matrix, PathLike

if TYPE_CHECKING:
    from softset.classifiers.linear import MetricLinearClassifier

# The threshold of many rows: scores are counted in steps of this size, up to the last, and then
# merged into so many groups of each class.
STEP, LAST, GROUPS = 2.0**-12, 64.0, 2**14


@dataclass(frozen=True)
class Surveyed:
    """What two passes tell of all rows of all ranks."""

    rows: int
    columns: Array  # which of them vary
    center: Floats  # of these
    scale: Floats
    factors: Array  # of the weight of a row, by its class or labels
    mean_weight: float
    rarest: list[float]  # of the classes, or of both sides of each label; 0 with one alone
    positive: float  # the weighted fraction of positives of two classes, else a half
    sample: Examples  # of the columns that vary, in the order of their hashes


class StreamedRows:
    """The rows of one rank, checked: inputs as float64, dense or CSR; rows of weight zero are none.

    ``found`` is the survey, once it is known: then columns, codes and weights are those of
    training.
    """

    def __init__(self, model: MetricLinearClassifier, stream: Stream) -> None:
        self.model, self.stream = model, stream
        self.columns: Array | None = None
        self.factors: Array | None = None
        self.mean_weight = 1.0

    def raw(self) -> Iterator[tuple[Matrix, Array, Array]]:
        """Inputs, labels and weights as they are given."""
        for number, (X, y, w) in enumerate(blocks_of(self.stream)):
            x = validate_data(
                self.model,
                X,
                reset=number == 0 and self.columns is None,
                dtype=np.float64,
                accept_sparse=["csr", "csc"],
            )
            x = sparse.csr_matrix(x) if sparse.issparse(x) else x
            if w is None:
                yield x, y, np.ones(len(y))
                continue
            if not np.isfinite(w).all() or (w < 0).any():
                raise ValueError("weights of rows must be finite, and not negative.")
            some = w > 0
            if some.any():
                yield (x, y, w) if some.all() else (x[some], y[some], w[some])

    def coded(self) -> Iterator[Examples]:
        """Rows with class numbers and weights, and the columns that vary."""
        assert self.columns is not None
        assert self.factors is not None
        labels, columns = self.model._labels, self.columns
        for x, y, w in self.raw():
            codes = labels.encode(y)
            w = w * labels.row_factors(self.factors, codes) / self.mean_weight
            rows = Examples(x if columns.all() else x[:, columns], codes, w)
            yield rows if (w > 0).all() else rows.take(w > 0)


def survey(model: MetricLinearClassifier, rows: StreamedRows, sums: RankSums) -> Surveyed:
    """Go through the rows twice, and set the labels of the model."""
    counts, low, high = _first_pass(model, rows, sums)
    model._labels = labels = counts.labels(model.pos_label)
    model.classes_ = labels.classes
    if len(counts.counts) < 2 and not labels.task.independent:
        raise ValueError("y must hold at least two classes, got one class of positive weight.")
    one_number(decided_elsewhere(model.metric)).check(labels.task)
    model._check_threshold()
    varying = high > low
    rows.columns = varying if varying.any() else np.ones(len(low), dtype=bool)
    rows.factors = model._class_factors = counts.factors(labels, model.class_weight)
    top = np.maximum(np.abs(low), np.abs(high))[rows.columns]
    totals = sums.gather(lambda: _second_pass(model, rows, counts.rows, sums))
    total = totals[0]
    for part in totals[1:]:
        total.merge(part)
    rows.mean_weight = mean = total.weight / total.count
    keep = path_sample(total.codes, counts.rows)
    sample = total.sample.take(keep)
    center, scale = total.scaling(np.where(top > 0, top, 1.0))
    present = np.where(total.by_class > 0, total.by_class, np.nan)
    effective = present**2 / np.where(total.squares > 0, total.squares, np.nan)
    both = (~np.isnan(effective)).sum(1) > 1
    rarest = np.where(both, np.nanmin(np.where(both[:, None], effective, 0.0), 1), 0.0)
    single = labels.task.single
    return Surveyed(
        total.count,
        rows.columns,
        center,
        scale,
        rows.factors,
        mean,
        rarest.tolist(),
        float(total.by_class[0, 1] / total.weight) if single else 0.5,
        sample._replace(w=sample.w / mean),
    )


def _first_pass(
    model: MetricLinearClassifier, rows: StreamedRows, sums: RankSums
) -> tuple[ClassCounts, Floats, Floats]:
    """The labels of all rows, and the least and the largest value of every column."""

    def local() -> tuple[ClassCounts, Floats | None, Floats | None]:
        """Labels and ends of the columns of this rank's rows."""
        counts, low, high = ClassCounts(), None, None
        for x, y, w in rows.raw():
            counts.add(y, w)
            ends = [x.min(0), x.max(0)]
            least, most = (
                np.asarray(e.todense() if sparse.issparse(e) else e).ravel() for e in ends
            )
            low = least if low is None else np.minimum(low, least)
            high = most if high is None else np.maximum(high, most)
        return counts, low, high

    of_ranks = sums.gather(local)
    empty = [str(rank) for rank, (counts, *_) in enumerate(of_ranks) if not counts.rows]
    if len(empty) == len(of_ranks):
        raise ValueError("the stream of rows gave no row of positive weight.")
    if empty:
        raise RankError(
            f"every rank needs rows of positive weight, got none on rank {', '.join(empty)}. Start "
            "fewer ranks, or divide the rows among all of them (Parquet files: by row groups)."
        )
    widths = [len(low) for _, low, _ in of_ranks if low is not None]
    if len(set(widths)) > 1:
        raise RankError(f"ranks have rows of different columns: {widths} of them.")
    model.n_features_in_ = widths[0]
    counts = of_ranks[0][0]
    for other, _, _ in of_ranks[1:]:
        counts.merge(other)
    lows, highs = zip(*((low, high) for _, low, high in of_ranks), strict=True)
    return counts, np.minimum.reduce(lows), np.maximum.reduce(highs)


class _Totals:
    """Sums of the second pass, and the rows of the sample."""

    def __init__(self, classes: int, columns: int) -> None:
        self.count, self.weight = 0, 0.0
        self.by_class = np.zeros((classes, 0))
        self.squares = np.zeros((classes, 0))
        self.moments = Moments()
        self.sparse_squares, self.filled = np.zeros(columns), np.zeros(columns)
        self.is_sparse = False
        self.codes = np.empty(0, dtype=np.uint64)
        self.sample = Examples(np.empty((0, columns)), np.empty(0, dtype=np.int64), np.empty(0))

    def merge(self, other: _Totals) -> None:
        """Those of a later rank."""
        if not other.count:
            return
        if not self.count:
            self.__dict__.update(other.__dict__)
            return
        self.count, self.weight = self.count + other.count, self.weight + other.weight
        self.by_class, self.squares = self.by_class + other.by_class, self.squares + other.squares
        self.moments.merge(other.moments)
        self.sparse_squares = self.sparse_squares + other.sparse_squares
        self.filled = self.filled + other.filled
        self.codes = np.concatenate([self.codes, other.codes])
        self.sample = _stacked([self.sample, other.sample])

    def scaling(self, top: Floats) -> tuple[Floats, Floats]:
        """Center and scale, as ``center_and_spread`` has them."""
        if self.is_sparse:
            share = 1 / self.weight
            scale = sparse_scale(np.sqrt(self.sparse_squares * share), self.filled * share)
            return np.zeros(len(top)), scale
        spread = np.sqrt(self.moments.squares / self.moments.weight)
        return self.moments.center, np.where(spread / top > 1e-12, spread, np.inf)


def _second_pass(
    model: MetricLinearClassifier, rows: StreamedRows, count: int, sums: RankSums
) -> _Totals:
    labels = model._labels
    total = _Totals(len(labels.classes), int(np.asarray(rows.columns).sum()))
    limit, copies = sample_limit(count), CopyCounter()
    codes, samples = [], []
    for block in rows.coded():
        x, y, w = block
        total.count, total.weight = total.count + len(y), total.weight + w.sum()
        each: list[Array] = [
            np.stack([v @ (1 - y), v @ y], 1)
            if labels.task.independent
            else np.bincount(y, v, len(labels.classes))[None]
            for v in (w, w * w)
        ]
        total.by_class, total.squares = (
            _added(total.by_class, each[0]),
            _added(total.squares, each[1]),
        )
        if sparse.issparse(x):
            total.is_sparse = True
            squares, filled = sparse.csr_matrix(x).power(2), x != 0
            total.sparse_squares += squares.T @ w
            total.filled += filled.T @ w
        else:
            total.moments.add(x, w)
        hashes = labeled_codes(block)
        number = copies(hashes)
        if sums.size > 1:  # copies of one rank are not those of another
            number = np.where(number > 0, number * sums.size + sums.rank, 0)
        hashes = numbered_codes(hashes, number)
        few = hashes <= limit
        codes.append(hashes[few])
        samples.append(block.take(few))
    if samples:
        total.codes, total.sample = np.concatenate(codes), _stacked(samples)
    return total


def _added(total: Array, more: Array) -> Array:
    return more if not total.size else total + more


def _stacked(blocks: list[Examples]) -> Examples:
    x = [part.x for part in blocks]
    joined = sparse.vstack(x, format="csr") if sparse.issparse(x[0]) else np.concatenate(x)
    y, w = (np.concatenate([getattr(part, name) for part in blocks]) for name in "yw")
    return Examples(joined, y, w)


def fit_stream(
    model: MetricLinearClassifier, stream: Stream, checkpoint: PathLike | None = None
) -> None:
    """``MetricLinearClassifier.fit`` of rows that come block by block, here and on other ranks;
    ``checkpoint`` is a file to go on from."""
    goal = one_number(decided_elsewhere(model.metric))
    if not is_count(model.cv):
        raise ValueError(f"cv must be a number of folds for streams and ranks, got {model.cv!r}.")
    sums = RankSums(model.sync)
    rows = StreamedRows(model, stream)
    surveyed = survey(model, rows, sums)
    signs = model._signs(model.n_features_in_)
    signs = None if signs is None else signs[surveyed.columns]
    model._center, model._scale = surveyed.center, surveyed.scale
    model._prior = float(logit(surveyed.positive))
    fold = content_folds(surveyed.sample, int(model.cv))
    sample = surveyed.sample._replace(x=model._scaled(surveyed.sample.x))
    labels = range(len(model.classes_)) if model._task.independent else [None]
    shown = Shown(surveyed.rows, model.verbose)
    source = stream.fingerprint() if hasattr(stream, "fingerprint") else ""
    params = {k: v for k, v in model.get_params().items() if k not in ("verbose", "sync")}
    record = Record(checkpoint, f"{source} {params!r} {sums.size}", sums)

    def whole(label: int | None) -> LinearPasses:
        """All rows of all ranks, pass by pass."""
        return LinearPasses(
            lambda: scaled_blocks(model, rows, label),
            len(surveyed.center),
            2 if label is not None else len(model.classes_),
            signs,
            sums=sums,
            record=record,
            shown=shown,
        )

    trains = fold != np.arange(fold.max() + 1)[:, None]
    everything = surveyed.rows == len(sample.y)
    fitted = model._fit_paths(
        sample, fold, trains, labels, None if everything else whole, signs, surveyed.rarest
    )
    problems = [model._problem(sample, signs, k) for k in labels]
    pairs = [
        each.oof
        if each.oof is not None and everything
        else tuple(part.scores(flat) for flat in (each.start, each.flat))
        for part, each in zip(problems, fitted, strict=True)
    ]
    scores, y, w = model._task.joined([z for _, z in pairs]), sample.y, sample.w
    if not everything and model._task.single and model.confidence is None and goal.tunes:
        (flat,) = (each.flat for each in fitted)
        scores, y, w = counted_scores(lambda: _scored(whole(None), flat), sums)
    model._decide_by(scores, y, w)
    shown.close()
    origins = origins_of(fitted, [z for z, _ in pairs])
    stored = (
        surveyed.sample if model._task.single else surveyed.sample._replace(x=surveyed.sample.x[:0])
    )
    every = np.arange(len(sample.y))
    model._training = Training(stored, None, every, fold, slice(None), origins)
    if not surveyed.columns.all():
        model._widen(surveyed.columns)
    model._describe()


def counted_scores(
    blocks: Callable[[], Iterator[tuple[Array, Array, Array]]], sums: RankSums
) -> tuple[Array, Array, Array]:
    """The scores of all rows of two classes, as those of at most ``GROUPS`` of each class: scores,
    classes and weights.

    ``blocks`` gives scores, classes and weights.
    """
    bins = int(2 * LAST / STEP)

    def local() -> Array:
        """The weight of this rank's rows by class and by step of the score."""
        total = np.zeros(2 * bins)
        for z, y, w in blocks():
            place = np.clip(np.floor((z + LAST) / STEP), 0, bins - 1).astype(np.int64)
            total += np.bincount(place + bins * (y == 1), w, 2 * bins)
        return total

    middle = (np.arange(bins) + 0.5) * STEP - LAST
    of_classes = []
    for k, weight in enumerate(sums.sum(local, 2 * bins).reshape(2, bins)):
        # Of about the same weight each, as rows are: quantiles are then those of rows.
        group = GROUPS * (np.cumsum(weight) - weight / 2) / max(weight.sum(), 1e-300)
        group = np.minimum(group.astype(np.int64), GROUPS - 1)
        total, mass = (np.bincount(group, v, GROUPS) for v in (weight * middle, weight))
        some = mass > 0
        of_classes.append((total[some] / mass[some], np.full(some.sum(), k), mass[some]))
    z, y, w = (np.concatenate(column) for column in zip(*of_classes, strict=True))
    return z, y, w


def _scored(rows: LinearPasses, flat: Array) -> Iterator[tuple[Array, Array, Array]]:
    for block in rows.problems():
        yield block.scores(flat), block.y, block.w


def scaled_blocks(
    model: MetricLinearClassifier, rows: StreamedRows, label: int | None = None
) -> Iterator[Examples]:
    """Standardized rows of training; of one label, if one is given."""
    for block in rows.coded():
        y = block.y if label is None else block.y[:, label]
        yield Examples(model._scaled(block.x), y, block.w)
