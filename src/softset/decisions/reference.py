"""What a model keeps of its out-of-fold scores: quantiles and counts by class, and no row.

With it the threshold can be tuned again for another prevalence (``shift``), and new scores can be
compared with those of training (``watching``). Two classes take less than 20 KB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import log_softmax

from softset.storage.files import SavedFileError
from softset.tasks import Task, get_task
from softset.typing import Floats, Ints, State

# Quantiles of a class of two; of several labels and classes each has fewer.
_QUANTILES, _FEWEST = 1000, 50
# Rows that are made of the quantiles, at most, for each class: bounds the time of tuning.
_ROWS = 20_000
# Bins of scores, and the least rows of a class for each; parts of the confidence of a class.
_BINS, _LEAST_BINS, _PER_BIN, _PARTS = 20, 4, 5, 3
_FARTHEST = 700.0


@dataclass(frozen=True)
class Reference:
    """Out-of-fold scores by class.

    A *column* is a label (two classes have one); of several classes there is one column, and its
    score is the *confidence*, the largest log-probability. ``rows``, ``prior``, ``factor`` and
    ``sizes`` are ``(columns, classes)``: rows, their fraction, the weight of a row by
    ``class_weight``, and the number of its quantiles in ``points``, which are sorted.
    ``decided (classes, 3 classes)`` counts, of several classes, the rows of each by the most
    probable class and a third of the confidence, with their limits in ``edges``.

    >>> reference = Reference.of("binary", np.array([-1.0, 0.0, 2.0]), np.array([0, 0, 1]))
    >>> reference.prior.round(2).tolist(), reference.points_of(0, 0).tolist()
    ([[0.67, 0.33]], [-1.0, 0.0])
    """

    task: Task
    rows: Floats
    prior: Floats
    factor: Floats
    sizes: Ints
    points: Floats
    decided: Floats
    edges: Floats

    @classmethod
    def of(
        cls,
        task: str,
        scores: Floats,
        y: Ints,
        w: Floats | None = None,
        natural: Floats | None = None,
    ) -> Reference:
        """Of logits ``(n,)`` or ``(n, labels)``, or log-probabilities ``(n, classes)``; ``w`` are
        the weights of tuning, ``natural`` those without the factors of ``class_weight``."""
        task = get_task(task)
        w = np.ones(len(y)) if w is None else w
        natural = w if natural is None else natural
        some = (w > 0) & np.isfinite(scores.reshape(len(y), -1)).all(1)
        scores, y, w, natural = scores[some], y[some], w[some], natural[some]
        classes = scores.shape[1] if task.exclusive else 2
        columns, labels = _columns(task, scores), y.reshape(len(y), -1).T
        shape = (len(columns), classes)
        rows, mass, total = (np.zeros(shape) for _ in range(3))
        sizes, points = np.zeros(shape, dtype=np.int64), []
        most = int(np.clip(2 * _QUANTILES // (classes * len(columns)), _FEWEST, _QUANTILES))
        for k, j in np.ndindex(shape):
            of_class = labels[k] == j
            rows[k, j], mass[k, j], total[k, j] = (
                of_class.sum(),
                natural[of_class].sum(),
                w[of_class].sum(),
            )
            quantiles = _quantiles(columns[k][of_class], natural[of_class], most)
            sizes[k, j] = len(quantiles)
            points.append(quantiles)
        factor = np.where(mass > 0, total / np.maximum(mass, 1e-300), 1.0)
        prior = mass / mass.sum(1, keepdims=True)
        decided, edges = np.zeros((0, 0)), np.zeros(0)
        if task.exclusive:
            edges = np.quantile(columns[0], np.arange(1, _PARTS) / _PARTS)
            place = scores.argmax(1) * _PARTS + np.searchsorted(edges, columns[0])
            decided = np.zeros((classes, classes * _PARTS))
            # Rows by their weights; of each class as many as there are.
            np.add.at(decided, (y, place), natural * (rows[0] / np.maximum(mass[0], 1e-300))[y])
        return cls(task, rows, prior, factor, sizes, np.concatenate(points), decided, edges)

    def points_of(self, column: int, code: int) -> Floats:
        """The quantiles of one class."""
        flat = self.sizes.ravel()
        at = column * self.sizes.shape[1] + code
        start = int(flat[:at].sum())
        return self.points[start : start + int(flat[at])]

    def with_prior(self, prior: Floats) -> Reference:
        """The same scores at another prevalence."""
        return replace(self, prior=prior)

    # --- rows for tuning -------------------------------------------------------------------------

    def tuning_rows(self, column: int, prior: Floats | None = None) -> tuple[Floats, Ints, Floats]:
        """Scores, codes and weights of as many rows as there were, with classes weighted to the
        prevalence ``prior (classes,)``; the mean of the weights is 1."""
        prior = self.prior[column] if prior is None else prior
        scores, codes, weights = [], [], []
        for j in range(self.sizes.shape[1]):
            points = self.points_of(column, j)
            if not len(points):
                continue
            n = int(min(self.rows[column, j], max(_ROWS, len(points))))
            times = np.diff(np.round(np.linspace(0, n, len(points) + 1)).astype(int))
            scores.append(np.repeat(points, times))
            codes.append(np.full(n, j))
            weights.append(np.full(n, prior[j] * self.factor[column, j] / n))
        w = np.concatenate(weights)
        return np.concatenate(scores), np.concatenate(codes), w / w.mean()

    def columns(self, scores: Floats) -> Floats:
        """New scores as the columns ``(columns, n)`` that the reference has."""
        return _columns(self.task, scores)

    def mixture(self, column: int) -> tuple[Floats, Floats]:
        """All points of a column in order, and their fraction of the rows."""
        each = [self.points_of(column, j) for j in range(self.sizes.shape[1])]
        w = [np.full(len(p), self.prior[column, j] / max(1, len(p))) for j, p in enumerate(each)]
        points, weights = np.concatenate(each), np.concatenate(w)
        order = np.argsort(points, kind="stable")
        return points[order], weights[order]

    def fraction_above(self, column: int, threshold: float) -> Floats:
        """The fraction of each class ``(classes,)`` with a score of at least ``threshold``."""
        each = [self.points_of(column, j) for j in range(self.sizes.shape[1])]
        return np.array([float((p >= threshold).mean()) if len(p) else np.nan for p in each])

    # --- bins of scores --------------------------------------------------------------------------

    def bins(self, column: int) -> tuple[Floats, Floats]:
        """Edges of bins of scores, and the fraction of each class in each, ``(classes, bins)``; of
        several classes the bins are pairs of a class and a third of the confidence."""
        if self.task.exclusive:
            return self.edges, _fractions(self.decided)
        n = int(np.clip(self.rows[column].min() // _PER_BIN, _LEAST_BINS, _BINS))
        each = [self.points_of(column, j) for j in (0, 1)]
        at = np.arange(1, n) / n
        # Half of the edges by each class, so that both are told apart.
        edges = np.unique(np.concatenate([np.quantile(p, at[j::2]) for j, p in enumerate(each)]))
        counts = [np.bincount(np.searchsorted(edges, p), minlength=len(edges) + 1) for p in each]
        scale = self.rows[column] / np.maximum(self.sizes[column], 1)
        return edges, _fractions(np.stack(counts) * scale[:, None])

    def counts_in_bins(self, column: int, scores: Floats) -> Ints:
        """How many of new scores are in each of the ``bins``."""
        edges, fractions = self.bins(column)
        place = np.searchsorted(edges, _columns(self.task, scores)[column])
        if self.task.exclusive:
            place = scores.argmax(1) * _PARTS + place
        return np.bincount(place, minlength=fractions.shape[1])

    # --- files -----------------------------------------------------------------------------------

    def packed(self) -> State:
        """As tensors, for a file."""
        names = ["rows", "prior", "factor", "sizes", "points"]
        names += ["decided", "edges"] if self.task.exclusive else []
        return {name: torch.from_numpy(np.array(getattr(self, name))) for name in names}

    @classmethod
    def unpacked(cls, task: Task, classes: int, data: State) -> Reference:
        """The inverse of ``packed``; ``SavedFileError`` for what ``of`` cannot have made."""
        values = {name: tensor.numpy() for name, tensor in data.items()}
        if not task.exclusive:
            values |= {"decided": np.zeros((0, 0)), "edges": np.zeros(0)}
        reference = cls(task, **values)
        shape = (1, classes) if task.exclusive else (classes if task.independent else 1, 2)
        decided = (classes, classes * _PARTS) if task.exclusive else (0, 0)
        arrays = (reference.rows, reference.prior, reference.factor, reference.sizes)
        fits = (
            all(a.shape == shape for a in arrays)
            and reference.decided.shape == decided
            and reference.edges.shape == ((_PARTS - 1,) if task.exclusive else (0,))
            and reference.sizes.dtype == np.int64
            and all(a.dtype == np.float64 for n, a in values.items() if n != "sizes")
            and all(np.isfinite(a).all() and (a >= 0).all() for a in (*arrays, reference.decided))
            and np.isfinite(reference.edges).all()
            and (reference.sizes <= np.minimum(reference.rows, _QUANTILES)).all()
            and ((reference.sizes > 0) == (reference.rows > 0)).all()
            and reference.points.shape == (int(reference.sizes.sum()),)
            and (np.abs(reference.points) <= _FARTHEST).all()
            and np.allclose(reference.prior.sum(1), 1)
        )
        each = np.ndindex(shape)
        if not fits or any((np.diff(reference.points_of(k, j)) < 0).any() for k, j in each):
            raise SavedFileError("its reference of scores is malformed.")
        return reference


def _columns(task: Task, scores: Floats) -> Floats:
    """``(columns, n)``: the labels, or the confidence in the most probable class."""
    if task.exclusive:
        scores = log_softmax(scores, axis=-1).max(1)
    return np.clip(scores.reshape(len(scores), -1).T, -_FARTHEST, _FARTHEST)


def _quantiles(scores: Floats, w: Floats, most: int) -> Floats:
    """All scores in order, or as many quantiles of them, by weight."""
    order = np.argsort(scores, kind="stable")
    scores, w = scores[order], w[order]
    if len(scores) <= most and (not len(w) or w.min() == w.max()):
        return scores
    count = min(most, len(scores))
    middle = np.cumsum(w) - w / 2
    # The scale of weights must not decide, by rounding, which score meets a quantile.
    at = np.searchsorted(middle / w.sum(), (np.arange(count) + 0.5) / count - 1e-9)
    return scores[np.minimum(at, len(scores) - 1)]


def _fractions(counts: Floats) -> Floats:
    """Rows of counts as fractions, half a row more in each bin: none is impossible."""
    added = counts + 0.5
    return added / added.sum(1, keepdims=True)
