"""Probabilities from scores, calibrated on scores that training has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from softset.typing import Floats, Ints

# Beyond this a logit says no more to the fit, and infinite ones can be used.
_REACH = 50.0


@dataclass(frozen=True)
class Calibration:
    """Probabilities ``sigmoid(slope z + intercept)`` of logits ``z`` (Platt 1999).

    >>> z, y = np.array([-2.0, -1.0, 1.0, 2.0] * 50), np.array([0, 1, 0, 1] * 50)
    >>> Calibration.fit(z, y, np.ones(200))(np.array([-2.0, 2.0])).round(2).tolist()
    [0.3, 0.7]
    """

    slope: float
    intercept: float

    @classmethod
    def fit(cls, z: Floats, y: Ints, w: Floats) -> Calibration:
        """By logistic regression; constant if higher scores are not more often positive."""
        w = w / w[w > 0].mean()  # their scale means nothing
        if len(np.unique(y[w > 0])) < 2:
            rate = (w @ y + 1) / (w.sum() + 2)
            return cls(0.0, float(np.log(rate / (1 - rate))))
        model = LogisticRegression(C=np.inf, max_iter=1000)
        model.fit(np.clip(z, -_REACH, _REACH)[:, None], y, sample_weight=w)
        slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
        if slope > 0:
            return cls(slope, intercept)
        rate = float(w @ y / w.sum())
        return cls(0.0, float(np.log(rate / (1 - rate))))

    def __call__(self, z: Floats) -> Floats:
        p: Floats = expit(self.slope * np.clip(z, -_REACH, _REACH) + self.intercept)
        return p
