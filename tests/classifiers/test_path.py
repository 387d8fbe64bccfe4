from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

import softset as ss
from softset.classifiers.path import (
    CLEAR,
    CLEAR_OF_FEW,
    choose,
    errors_needed,
    is_better,
    rarest_rows,
)
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_goal, get_metric

Y = np.repeat([0, 1], [400, 100])
W = np.ones(500)
F1 = Tuner(get_metric("f1"), "binary")


def decisions(wrong_negatives: int, missed: int) -> np.ndarray:
    found = Y.astype(float)
    found[:wrong_negatives] = 1
    found[400 : 400 + missed] = 0
    return found


def test_a_clear_gain_is_taken_the_largest_first():
    path, chosen = choose(
        [decisions(80, 40), decisions(40, 20), decisions(20, 10)], Y, W, F1, [np.inf, 1, 0.1], CLEAR
    )
    assert chosen == 2
    assert path[0][2:] == (0.0, 0.0)
    assert path[2].value == pytest.approx(2 * 90 / (110 + 100))
    assert path[2].gain == pytest.approx(path[2].value - path[0].value)
    assert path[2].gain > 2 * path[2].error > 0


def test_one_row_more_is_no_reason_to_move():
    path, chosen = choose(
        [decisions(50, 30), decisions(50, 29)], Y, W, F1, [np.inf, 1], CLEAR_OF_FEW
    )
    assert path[1].gain > 0
    assert chosen == 0


def test_a_worse_or_equal_model_is_not_taken():
    same = decisions(50, 30)
    assert choose([same, same.copy()], Y, W, F1, [np.inf, 1], 0.0)[1] == 0
    assert choose([same, decisions(60, 30)], Y, W, F1, [np.inf, 1], 0.0)[1] == 0


def test_rows_of_no_weight_do_not_count():
    w = W.copy()
    w[:20] = 0
    path, _ = choose([decisions(20, 0), decisions(0, 0)], Y, w, F1, [np.inf, 1], CLEAR)
    assert path[0].value == path[1].value == 1.0


def test_few_rows_of_the_rarer_class_need_more():
    assert errors_needed(rarest_rows(Y, W), 33) == CLEAR
    assert errors_needed(rarest_rows(Y, W), 34) == CLEAR_OF_FEW


def test_weights_are_no_rows():
    for w in (1000 * W, np.where(Y == 1, 50.0, 1.0)):
        assert errors_needed(rarest_rows(Y, w), 33) == CLEAR
        assert errors_needed(rarest_rows(Y, w), 34) == CLEAR_OF_FEW
    light = np.where(np.arange(500) % 2 == 0, 1.0, 1e-6)
    gone = np.where(np.arange(500) % 2 == 0, 1.0, 0.0)
    for w in (light, gone):
        assert errors_needed(rarest_rows(Y, w), 16) == CLEAR
        assert errors_needed(rarest_rows(Y, w), 17) == CLEAR_OF_FEW


def test_a_goal_at_a_constraint_is_judged_by_its_ranking():
    """By the best threshold for each resample that meets the constraint, out of fold."""
    x, y = make_classification(600, 6, weights=[0.8], flip_y=0.1, random_state=0)
    goal = "precision@recall>=0.8"
    model = ss.MetricLinearClassifier(goal, cv=3).fit(x, y)
    assert len(model.path_) > 1
    chosen = model.path_[model.chosen_]
    assert chosen.value == pytest.approx(ss.evaluate(model.oof_scores_, y, goal))
    start = ss.MetricLinearClassifier(goal, cv=3, path=()).fit(x, y)
    assert model.path_[0].value == pytest.approx(ss.evaluate(start.oof_scores_, y, goal))
    assert chosen.value >= model.path_[0].value


def test_scores_are_better_only_beyond_their_noise():
    random = np.random.default_rng(0)
    y = (random.random(400) < 0.3).astype(int)
    tuner = Tuner(get_goal("precision@recall>=0.8"), "binary")
    start = random.normal(size=400) + y
    for moved, better in [(start, False), (start - y, False), (start + y, True)]:
        assert is_better(start, moved, y, np.ones(400), tuner) == better
