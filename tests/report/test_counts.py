from __future__ import annotations

import numpy as np

import softset as ss
from softset.report.counts import Scores


def test_a_score_equal_to_the_threshold_is_positive():
    p = np.array([0.25, 0.5, 0.5, 0.5, 0.75, 0.125])
    y = np.array([0, 1, 0, 1, 1, 1])
    cuts = np.array([0.125, 0.25, 0.5, 0.75, 0.8])
    counted = Scores(p, y.astype(bool)).confusion(cuts)
    for k, t in enumerate(cuts):
        c = ss.confusion(p, y, threshold=t, from_logits=False)
        assert (counted.tp[k], counted.predicted[k]) == (c.tp, c.predicted)
