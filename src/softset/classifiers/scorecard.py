"""A scorecard: a linear model of two classes as integer points that are added up by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from softset.checks import check_integer, listed
from softset.decisions.decision import Decision
from softset.decisions.tuner import Tuner
from softset.metrics.goals import Goal
from softset.metrics.registry import label_of
from softset.tables.labels import LabelEncoding
from softset.tasks import BINARY
from softset.typing import Array, ArrayLike, Bools, Frame, Ints, Labels, Matrix, Rows

BINS = 8
# Two printed lines each: more features than these do not fit on a page.
MOST_FEATURES = 25
# The most points of a feature that are tried, as fractions of ``max_points``: which rounding fits
# best is chance.
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
# How much of the smaller bin beside it an edge may pass to become a rounder number.
ROUNDER = 0.1


class ScorecardRow(NamedTuple):
    """A line of the table: so many points if the feature is in the bin."""

    feature: str
    bin: str
    points: int


@dataclass(frozen=True)
class ScoredFeature:
    """The points of one feature.

    ``points[b]`` are for values from ``edges[b - 1]`` up to, and without, ``edges[b]``: the first
    bin has no lower end and the last no upper one. ``values`` are the two integers that a
    feature of two values has: the second stands for all from it on.
    """

    column: int
    name: str
    edges: Array
    points: Ints
    values: tuple[float, ...] = ()

    def __call__(self, values: Array) -> Ints:
        return self.points[np.searchsorted(self.edges, values, side="right")]

    @property
    def bins(self) -> list[str]:
        """The bins as they are printed."""
        if self.values:
            return [f"= {_text(v)}" for v in self.values]
        return [*(f"< {_text(e)}" for e in self.edges), f">= {_text(self.edges[-1])}"]


@dataclass(frozen=True)
class Scorecard:
    """Integer points for the values of features; so many of them mean the positive class.

    ``print(card)`` is the scorecard: ``predict`` does what a reader of that text would do.

    Attributes:
        features: the ``ScoredFeature`` of each line, the one that can give most points first.
        threshold: positive from so many points on.
        score_: the metric out of fold: each row is decided by a scorecard of the other folds,
            its points and its threshold included.
    """

    metric: Goal
    labels: LabelEncoding
    features: tuple[ScoredFeature, ...]
    threshold: int
    score_: float
    n_features_in: int

    @property
    def table(self) -> list[ScorecardRow]:
        """``(feature, bin, points)`` of every bin, as a list or for a data frame."""
        return [
            ScorecardRow(f.name, name, int(p))
            for f in self.features
            for name, p in zip(f.bins, f.points, strict=True)
        ]

    @property
    def max_total(self) -> int:
        """The points of a row that has the most of every feature."""
        return int(sum(f.points.max() for f in self.features))

    def points(self, X: Frame) -> Ints:
        """The total ``(n,)`` of each row. Columns of a data frame are found by their names."""
        columns = self._columns(X)
        totals = np.zeros(X.shape[0] if hasattr(X, "shape") else len(X), dtype=np.int64)
        for feature, column in zip(self.features, columns, strict=True):
            totals += feature(column)
        return totals

    def explain(self, X: Rows) -> list[list[ScorecardRow]]:
        """For each row of ``X`` the lines of the table that give its points."""
        bins = [np.searchsorted(f.edges, column, side="right")
                for f, column in zip(self.features, self._columns(X), strict=True)]  # fmt: skip
        return [
            [
                ScorecardRow(f.name, f.bins[k], int(f.points[k]))
                for f, k in zip(self.features, row, strict=True)
            ]
            for row in np.column_stack(bins).tolist()
        ]

    def predict(self, X: Rows) -> Array:
        """Classes ``(n,)``: the positive one from ``threshold`` points on."""
        return self.labels.decode((self.points(X) >= self.threshold).astype(np.int64))

    def score(self, X: Rows, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """The metric of ``predict`` on other rows."""
        decided = (self.points(X) >= self.threshold).astype(np.float64)
        weight = np.ones(len(decided)) if sample_weight is None else np.asarray(sample_weight)
        tuner = Tuner(self.metric, BINARY)
        return float(tuner.values(decided, self.labels.encode(y), weight[None].astype(float))[0])

    def _columns(self, X: Frame) -> list[Array]:
        names = [f.name for f in self.features]
        if hasattr(X, "columns"):
            missing = [n for n in names if n not in X.columns]
            if missing:
                raise ValueError(
                    f"X must have the columns of the scorecard; {listed(missing)} not."
                )
            columns = [X[n].to_numpy(dtype=np.float64) for n in names]
        else:
            x = X.tocsc() if hasattr(X, "tocsc") else np.asarray(X, dtype=np.float64)
            if x.ndim != 2 or x.shape[1] != self.n_features_in:
                raise ValueError(
                    f"X must have {self.n_features_in} columns as in fit, got shape {x.shape}."
                )
            columns = [column_of(x, f.column) for f in self.features]
        for name, column in zip(names, columns, strict=True):
            if not np.isfinite(column).all():
                raise ValueError(f"X must be finite; {name} holds NaN or infinity.")
        return columns

    def __str__(self) -> str:
        label = label_of(self.metric)
        lines = [
            f"Scorecard for {label}",
            f"{self.labels.names[1]}: {self.threshold} points or more, of {self.max_total}",
            f"{label} out of fold: {self.score_:.3f}",
            "",
        ]
        names = [" ".join(f.name.split()) for f in self.features]
        left = max(map(len, names), default=0)
        cells = [[f.bins, [str(p) for p in f.points]] for f in self.features]
        width = max((len(c) for two in cells for line in two for c in line), default=0)
        for name, two in zip(names, cells, strict=True):
            for text, line in zip((name, ""), two, strict=True):
                lines.append("  ".join([f"{text:{left}}", *(f"{c:>{width}}" for c in line)]))
        return "\n".join(lines)


@dataclass(frozen=True)
class Seen:
    """Rows that a linear model was trained on, in their own units, and its scaling.

    A linear model is ``flat``: coefficients for inputs less ``center``, divided by ``scale``, and
    the intercept. ``fold`` is the fold of each row; -1 is in none.
    """

    x: Matrix
    y: Ints
    w: Array
    fold: Ints
    center: Array
    scale: Array

    def scores(self, flat: Array) -> Array:
        """The logits of the rows."""
        coef = flat[:-1] / self.scale
        return np.asarray(self.x @ coef).ravel() + (flat[-1] - coef @ self.center)


def make_scorecard(
    seen: Seen,
    flat: Array,
    without_fold: dict[int, Array],
    max_points: int,
    tuner: Tuner,
    decision: Decision | None,
    names: list[str],
    labels: LabelEncoding,
) -> Scorecard:
    """The scorecard of the linear model ``whole``; ``parts`` are those without each fold.

    Points are rounded logits: a total, divided by the scale, is a logit but for a constant. So the
    scorecards of the parts give out-of-fold logits, on which the ``tuner`` finds the threshold,
    unless there is a ``decision``, and by which the scale is chosen.
    """
    check_integer("max_points", max_points, 1)
    sizes = sorted({max(1, round(max_points * share)) for share in SHARES}, reverse=True)
    scores = np.zeros((len(sizes), len(seen.y)))
    for k, part in without_fold.items():
        held = seen.fold == k
        for row, card in zip(scores, _cards(part, sizes, seen, ~held), strict=True):
            row[held] = card.logits[held]
    tested = seen.fold >= 0
    scores, y, w, fold = scores[:, tested], seen.y[tested], seen.w[tested], seen.fold[tested]
    decided = np.zeros(len(y))
    for k in without_fold:
        held = fold == k
        best, tuned = _chosen(scores[:, ~held], y[~held], w[~held], tuner, decision)
        decided[held] = tuned.one_hot(scores[best][held])
    best, tuned = _chosen(scores, y, w, tuner, decision)
    every = np.ones(len(seen.y), dtype=bool)
    (chosen,) = _cards(flat, sizes[best : best + 1], seen, every)
    features = tuple(chosen.binned[j].scored(j, names[j], p) for j, p in chosen.points.items())
    most = int(sum(f.points.max() for f in features))
    # The first total whose logit reaches the threshold; one that never or always is stays in range.
    threshold = int(
        np.clip(np.ceil(chosen.scale * (float(tuned.logit) - chosen.base)), 0, most + 1)
    )
    value = float(tuner.values(decided, y, w[None])[0])
    return Scorecard(tuner.goal, labels, features, threshold, value, len(names))


def _chosen(
    scores: Array, y: Ints, w: Array, tuner: Tuner, decision: Decision | None
) -> tuple[int, Decision]:
    """Which row of ``scores`` has the best metric (the first of equal ones), and its decision."""
    values = []
    for s in scores:
        tuned = tuner.best(s, y, w) if decision is None else decision
        values.append(float(tuner.values(tuned.one_hot(s), y, w[None])[0]))
    best = int(np.argmax(np.nan_to_num(values, nan=-np.inf)))
    return best, tuner.tune(scores[best], y, w) if decision is None else decision


@dataclass(frozen=True)
class _Binned:
    """A feature in bins: the bin of each row, and the mean in each bin."""

    edges: Array
    codes: Ints
    means: Array
    values: tuple[float, ...]

    @classmethod
    def of(cls, x: Array, w: Array) -> _Binned:
        """By quantiles of rows that have a weight."""
        some = w > 0
        distinct, at = np.unique(x[some], return_inverse=True)
        integers = bool((distinct == np.rint(distinct)).all())
        edges = _edges(distinct, np.bincount(at.ravel(), weights=w[some]), integers)
        codes = np.searchsorted(edges, x, side="right")
        total = np.bincount(codes, weights=w, minlength=len(edges) + 1)
        means = np.bincount(codes, weights=w * x, minlength=len(edges) + 1) / total
        two = tuple(distinct.tolist()) if integers and len(distinct) == 2 else ()
        return cls(edges, codes, means, two)

    def scored(self, column: int, name: str, points: Ints) -> ScoredFeature:
        """With ``points`` for each bin; neighbors with equal points are one bin."""
        differ = np.flatnonzero(np.diff(points))
        merged = points[np.append(differ, len(points) - 1)]
        return ScoredFeature(column, name, self.edges[differ], merged, self.values)


@dataclass(frozen=True)
class _Card:
    """Points of each feature's bins; ``base + total / scale`` is near the logit of a row."""

    binned: dict[int, _Binned]
    points: dict[int, Ints]
    scale: float
    base: float
    logits: Array  # of all rows


def _cards(flat: Array, sizes: list[int], seen: Seen, rows: Bools) -> list[_Card]:
    """The model ``flat`` with at most so many points from a feature, for each of ``sizes``.

    It sees ``rows`` only. The bin of the least contribution has 0 points, so that nothing is ever
    taken off. ``base`` makes the mean logit right.
    """
    w = seen.w * rows
    z, coef = seen.scores(flat), flat[:-1] / seen.scale
    used = _largest(np.abs(flat[:-1])).tolist()
    binned = {j: _Binned.of(column_of(seen.x, j), w) for j in used}
    shares = {j: coef[j] * b.means for j, b in binned.items()}
    rises = {j: share - share.min() for j, share in shares.items()}
    most = max((r.max() for r in rises.values()), default=0.0)
    cards = []
    for size in sizes:
        scale = size / most if most > 0 else 1.0
        points = {j: np.rint(r * scale).astype(np.int64) for j, r in rises.items()}
        order = sorted((-each.max(), j) for j, each in points.items())
        points = {j: points[j] for top, j in order if top}
        totals = np.zeros(len(z))
        for j, each in points.items():
            totals += each[binned[j].codes]
        base = float(w @ (z - totals / scale) / w.sum())
        cards.append(_Card(binned, points, scale, base, base + totals / scale))
    return cards


def _largest(size: Array) -> Ints:
    """The numbers of the largest, at most ``MOST_FEATURES``, without those that are 0."""
    order = np.argsort(-size, kind="stable")[:MOST_FEATURES]
    return order[size[order] > 0]


def _edges(values: Array, mass: Array, integers: bool) -> Array:
    """Edges of at most ``BINS`` bins of near equal mass, at round numbers.

    A bin is closed as soon as it has its share of what is left. So a value that most rows have
    is the end of a bin, and the others still get theirs.
    """
    below = np.cumsum(mass)
    last = len(values) - 2  # the value before the last edge, if there is one
    ends: list[int] = list(range(last + 1)) if len(values) <= BINS else []
    while len(ends) < BINS - 1 and (ends[-1] if ends else -1) < last:
        done = below[ends[-1]] if ends else 0.0
        aim = done + (below[-1] - done) / (BINS - len(ends))
        ends.append(min(int(np.searchsorted(below, aim * (1 - 1e-12))), last))
    bounds = [0.0, *below[ends], below[-1]]
    edges = []
    for i, end in enumerate(ends, 1):
        slack = ROUNDER * min(bounds[i] - bounds[i - 1], bounds[i + 1] - bounds[i])
        low = values[np.searchsorted(below, bounds[i] - slack)]
        high = values[np.searchsorted(below, bounds[i] + slack, side="right")]
        middle = values[end + 1] if integers else values[end] / 2 + values[end + 1] / 2
        edges.append(_roundest(low, middle, high, values[end + 1]))
    return np.array(edges, dtype=np.float64)


def _roundest(low: float, middle: float, high: float, otherwise: float) -> float:
    """The number of fewest digits above ``low`` and up to ``high``, near the ``middle``."""
    for digits in range(1, 17):
        candidate = float(f"{middle:.{digits}g}")
        if low < candidate <= high:
            return candidate
    return float(otherwise)


def _text(value: float) -> str:
    """A number that reads back as itself."""
    return repr(float(value)).removesuffix(".0")


def column_of(x: Matrix, j: int) -> Array:
    """A column of a dense or sparse matrix as a dense vector."""
    column = x[:, [j]]
    return np.asarray(column.toarray() if hasattr(column, "toarray") else column).ravel()
