"""Probabilities from scores, calibrated on scores that training has not seen.

Decisions are made on the scores: a map of them to probabilities changes none. Of several classes
each has a map against the rest, and their probabilities are made to add up to 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, log_softmax
from sklearn.linear_model import LogisticRegression

from softset.storage.files import SavedFileError
from softset.storage.schema import decoded
from softset.tasks import Task
from softset.typing import Floats, Ints, Settings

# Beyond this, or the largest one of the fit, a logit says no more; infinite ones can be used.
_REACH = 50.0
# Of the squared slope per standard deviation, beside the mean log-loss: scores that separate the
# classes would have an infinite one. It does not depend on how many rows there are, or what weight.
_PENALTY = 1e-4


@dataclass(frozen=True)
class Calibration:
    """Probabilities ``sigmoid(slope z + intercept)`` of logits ``z`` (Platt 1999).

    >>> z, y = np.array([-2.0, -1.0, 1.0, 2.0] * 50), np.array([0, 1, 0, 1] * 50)
    >>> Calibration.fit(z, y, np.ones(200))(np.array([-2.0, 2.0])).round(2).tolist()
    [0.3, 0.7]
    """

    slope: float
    intercept: float
    reach: float = _REACH

    @classmethod
    def fit(cls, z: Floats, y: Ints, w: Floats) -> Calibration:
        """By logistic regression; constant if higher scores are not more often positive."""
        z, y, w = z[w > 0], y[w > 0], w[w > 0]
        rate = w @ y / w.sum()
        if not 0 < rate < 1:
            rate = (len(y) * rate + 1) / (len(y) + 2)
        constant = cls(0.0, float(np.log(rate / (1 - rate))))
        reach = float(np.abs(z[np.isfinite(z)]).max(initial=_REACH))
        z = np.clip(z, -reach, reach)
        mean = w @ z / w.sum()
        spread = np.sqrt(w @ (z - mean) ** 2 / w.sum())
        if len(np.unique(y)) < 2 or spread < 1e-12 * max(1.0, abs(mean)):
            return constant
        model = LogisticRegression(C=1 / (2 * _PENALTY), solver="newton-cholesky", tol=1e-8)
        model.fit((z - mean)[:, None] / spread, y, sample_weight=w / w.sum())
        slope, intercept = float(model.coef_[0, 0] / spread), float(model.intercept_[0])
        return cls(slope, intercept - slope * float(mean), reach) if slope > 0 else constant

    def logits(self, z: Floats) -> Floats:
        """The logits of the probabilities."""
        return self.slope * np.clip(z, -self.reach, self.reach) + self.intercept

    def __call__(self, z: Floats) -> Floats:
        p: Floats = expit(self.logits(z))
        return p


@dataclass(frozen=True)
class Calibrator:
    """Scores as calibrated ones, in the same shape: a ``Calibration`` for each output.

    ``log_ratio`` are the logarithms of new to old fractions of several classes, where the
    prevalence has moved.

    >>> from softset.tasks import BINARY
    >>> z, y = np.array([-2.0, -1.0, 1.0, 2.0] * 50), np.array([0, 1, 0, 1] * 50)
    >>> calibrator = Calibrator.fit(BINARY, z, y, np.ones(200))
    >>> moved = calibrator.at_prevalence(np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]]))
    >>> [expit(c(np.array([-2.0, 2.0]))).round(2).tolist() for c in (calibrator, moved)]
    [[0.3, 0.7], [0.05, 0.2]]
    """

    task: Task
    maps: tuple[Calibration, ...]
    log_ratio: tuple[float, ...]

    @classmethod
    def fit(cls, task: Task, scores: Floats, y: Ints, w: Floats) -> Calibrator:
        """By scores of rows that training has not seen, their codes and their weights."""
        z = against_rest(task, scores)
        targets = (y == np.arange(len(z))[:, None]) if task.exclusive else y.reshape(len(y), -1).T
        maps = [Calibration.fit(*each, w) for each in zip(z, targets.astype(np.int64), strict=True)]
        return cls(task, tuple(maps), (0.0,) * len(maps))

    def __call__(self, scores: Floats) -> Floats:
        """Logits, or log-probabilities but for a constant of each row: as ``Task`` has them."""
        z = against_rest(self.task, scores)
        z = np.stack([each.logits(v) for each, v in zip(self.maps, z, strict=True)])
        if self.task.exclusive:
            return (log_expit(z) + np.array(self.log_ratio)[:, None]).T
        return z[0] if self.task.single else z.T

    def at_prevalence(self, before: Floats, after: Floats) -> Calibrator:
        """The same for other fractions ``(columns, classes)`` of classes that look as they did."""
        moved = np.log(np.maximum(after, 1e-9)) - np.log(np.maximum(before, 1e-9))
        if self.task.exclusive:
            return replace(self, log_ratio=tuple((np.array(self.log_ratio) + moved[0]).tolist()))
        odds = zip(self.maps, (moved[:, 1] - moved[:, 0]).tolist(), strict=True)
        maps = [replace(each, intercept=each.intercept + more) for each, more in odds]
        return replace(self, maps=tuple(maps))

    def packed(self) -> Settings:
        """As plain data, for a file."""
        return {"maps": [asdict(each) for each in self.maps], "log_ratio": list(self.log_ratio)}

    @classmethod
    def unpacked(cls, task: Task, outputs: int, data: Settings) -> Calibrator:
        """The inverse of ``packed``; ``SavedFileError`` for what ``fit`` cannot have made."""
        maps = decoded(tuple[Calibration, ...], data["maps"], "calibrator.maps")
        ratio = decoded(tuple[float, ...], data["log_ratio"], "calibrator.log_ratio")
        if not len(maps) == len(ratio) == outputs or any(m.slope < 0 or m.reach <= 0 for m in maps):
            raise SavedFileError("its map of scores to probabilities is malformed.")
        return cls(task, maps, ratio)


def against_rest(task: Task, scores: Floats) -> Floats:
    """Scores as logits ``(outputs, n)``: of several classes, those of each against the rest."""
    if not task.exclusive:
        return scores.reshape(len(scores), -1).T
    # A probability of 1 leaves the rest a rounding error.
    logs = np.minimum(log_softmax(scores, axis=-1), -np.finfo(float).eps).T
    return logs - np.log(-np.expm1(logs))
