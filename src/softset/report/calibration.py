"""Calibration of scores, and a map that recalibrates them.

Training for a metric rewards the right side of the threshold, not calibrated probabilities; a
monotone map recalibrates them and keeps the order of the rows.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from softset.typing import Floats, Ints

if TYPE_CHECKING:
    from softset.report.counts import Scores

_FOLDS = 5
_FEWEST = 25  # positives, and negatives, below which a map would be noise
_FEWEST_ISOTONIC = 100
_POINTS = 60  # of an isotonic map, as written on the page


@dataclass(frozen=True)
class Bins:
    """Mean score, fraction of positives and number of rows in equal bins of [0, 1]."""

    score: Floats
    fraction: Floats
    rows: Ints


@dataclass(frozen=True)
class Recalibrated:
    """Scores by a map that was fitted without them, and the map fitted on all rows."""

    kind: str
    p: Floats
    code: str


def reliability(p: Floats, y: np.ndarray, bins: int = 10, fewest: int = 5) -> Bins:
    """Scores and fractions of positives, in bins with at least ``fewest`` rows."""
    index = np.minimum((p * bins).astype(int), bins - 1)
    rows = np.bincount(index, minlength=bins)
    shown = rows >= min(fewest, rows.max(initial=1))
    weight = np.maximum(rows, 1)
    score = np.bincount(index, p, bins) / weight
    fraction = np.bincount(index, y, bins) / weight
    return Bins(score[shown], fraction[shown], rows[shown])


def calibration_error(p: Floats, y: np.ndarray) -> float:
    """The mean distance between score and fraction of positives, over ten bins."""
    b = reliability(p, y, fewest=1)
    return float((b.rows * abs(b.score - b.fraction)).sum() / len(p))


def brier(p: Floats, y: np.ndarray) -> float:
    """The mean squared distance between score and label."""
    return float(((p - y) ** 2).mean())


def recalibrate(s: Scores) -> Recalibrated | None:
    """Platt's map or, if its held-out Brier score is better by 2 %, an isotonic one.

    Each of five folds of the rows gets the map of the other four, so that it is out of fold.
    ``None`` if there are too few rows of a class.
    """
    if min(s.positives, s.total - s.positives) < _FEWEST:
        return None
    fold = np.empty(s.total, dtype=int)
    random = np.random.default_rng(0)
    for side in (s.y, ~s.y):
        rows = np.flatnonzero(side)
        fold[random.permutation(rows)] = np.arange(len(rows)) % _FOLDS
    platt, isotonic = np.empty(s.total), np.empty(s.total)
    for k in range(_FOLDS):
        held, p, y = fold == k, s.p[fold != k], s.y[fold != k]
        platt[held] = _sigmoid(s.p[held], *_fit_platt(p, y))
        isotonic[held] = np.interp(s.p[held], *_fit_isotonic(p, y))
    enough = min(s.positives, s.total - s.positives) >= _FEWEST_ISOTONIC
    if enough and brier(isotonic, s.y) < 0.98 * brier(platt, s.y):
        x, v = _fit_isotonic(s.p, s.y)
        return Recalibrated("An isotonic map", isotonic, _isotonic_code(x, v))
    slope, shift = _fit_platt(s.p, s.y)
    sign = "-" if shift < 0 else "+"
    code = (
        f"z = {slope:.5g} * np.log(p / (1 - p)) {sign} {abs(shift):.5g}    # p in (0, 1)\n"
        "recalibrated = 1 / (1 + np.exp(-z))"
    )
    return Recalibrated("Platt's map", platt, code)


def _isotonic_code(x: Floats, v: Floats) -> str:
    if len(x) > _POINTS:
        index = np.unique(np.linspace(0, len(x) - 1, _POINTS).round().astype(int))
        x, v = x[index], v[index]

    def listed(name: str, a: Floats) -> str:
        text = f"{name} = [{', '.join(f'{t:.4g}' for t in a)}]"
        return "\n".join(textwrap.wrap(text, 88, subsequent_indent="    "))

    lists = f"{listed('scores', x)}\n{listed('fractions', v)}"
    return f"{lists}\nrecalibrated = np.interp(p, scores, fractions)"


def _fit_isotonic(p: Floats, y: np.ndarray) -> tuple[Floats, Floats]:
    fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y.astype(float))
    return fitted.X_thresholds_, fitted.y_thresholds_


def _log_odds(p: Floats) -> Floats:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(p / (1 - p))


def _sigmoid(p: Floats, slope: float, shift: float) -> Floats:
    return 1 / (1 + np.exp(-np.clip(slope * _log_odds(p) + shift, -50, 50)))


def _fit_platt(p: Floats, y: np.ndarray) -> tuple[float, float]:
    """Logistic regression on the log-odds, with Platt's smoothed targets."""
    positives, negatives = y.sum(), (~y).sum()
    target = np.where(y, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    # A target between 0 and 1 is a row of each class, weighted.
    x, label = np.tile(_log_odds(p), 2)[:, None], np.repeat([1, 0], len(p))
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8)
    model.fit(x, label, np.append(target, 1 - target))
    return float(model.coef_[0, 0]), float(model.intercept_[0])
