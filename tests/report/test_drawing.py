from __future__ import annotations

import re

import numpy as np

from softset.report.drawing import UNIT, Axis, path, tag


def test_long_curves_are_thinned_and_keep_their_ends():
    x = np.linspace(0, 1, 20_000)
    d = path(x, x**20, most=100)
    points = np.array(re.findall(r"(\d+) (\d+)", d), dtype=int)
    assert len(points) <= 100
    assert points[0].tolist() == [0, UNIT]
    assert points[-1].tolist() == [UNIT, 0]


def test_attributes_are_escaped():
    assert tag("text", "x", data_name='"><b>') == ('<text data-name="&quot;&gt;&lt;b&gt;">x</text>')


def test_log_odds_where_a_threshold_is_near_an_edge():
    scores = np.linspace(0.0001, 0.2, 100)
    assert Axis.of_thresholds(scores, [0.2, 0.5]) == Axis()
    axis = Axis.of_thresholds(scores, [0.004])
    assert axis.log_odds
    assert 0.05 < axis(0.004) < 0.95
    stops = axis.stops(1000)
    assert (np.diff(stops) > 0).all()
    assert np.allclose(axis.inverse(axis(stops)), stops)
    assert 2 <= len(axis.ticks()) <= 6
