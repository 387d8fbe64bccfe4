from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pandas")
from softset import evaluate
from softset.tables.rows import Examples

when_data = pytest.importorskip("when_data")


@pytest.mark.parametrize("name", when_data.FAMILIES)
def test_positives_are_as_frequent_as_their_probability_says(name):
    problem = when_data.made_up(name, 0)
    p, y = problem.chance, problem.test.y
    assert (len(problem.train.y), len(y)) == (when_data.TRAIN_ROWS, when_data.TEST_ROWS)
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.6), (0.6, 1.01)):
        own = (p >= low) & (p < high)
        if own.sum() > 100:
            error = np.sqrt((p[own] * (1 - p[own])).sum()) / own.sum()
            assert abs(y[own].mean() - p[own].mean()) < 4.5 * error


def test_two_kinds_are_drawn_from_the_densities_that_its_probability_is_made_of():
    """By Bayes: the mean of P(y = 1 | x) over x is the share of positives, 0.1."""
    p = np.concatenate([when_data.made_up("made up: two kinds", s).chance for s in range(3)])
    assert p.mean() == pytest.approx(0.1, abs=4 * p.std() / np.sqrt(len(p)))


def test_no_other_rule_beats_the_optimum():
    problem = when_data.made_up("made up: interaction", 1)
    best = when_data.optimum(problem, "f1")
    x, y = problem.test.x, problem.test.y
    for score in (x[:, 0], x[:, 0] + x[:, 1], problem.chance + 0.3 * x[:, 2]):
        cuts = np.quantile(score, np.linspace(0.5, 0.99, 20))
        assert max(evaluate(score - c, y, "f1", from_logits=True) for c in cuts) < best


def problem():
    random = np.random.RandomState(0)
    y = np.repeat([0, 1], [300, 100])
    rows = Examples(random.randn(400, 3), y, np.ones(400))
    return when_data.Problem(rows, rows)


@pytest.mark.parametrize(
    ("axis", "level", "train", "test"),
    [
        ("rows", "1/4 of the rows", (75, 25), (300, 100)),
        ("positives", "1/2 of the positives", (300, 50), (300, 50)),
        ("prevalence", "1/4 of the positives in training", (300, 25), (300, 100)),
        ("prevalence", "1/4 of the positives in test", (300, 100), (300, 25)),
    ],
)
def test_rows_are_taken_from_the_right_side(axis, level, train, test):
    found = when_data.changed(problem(), axis, level, 0)
    assert tuple(np.bincount(found.train.y)) == train
    assert tuple(np.bincount(found.test.y)) == test


def test_labels_are_flipped_in_training_only():
    first = problem()
    both = when_data.changed(first, "noise", "20 % of labels flipped", 0)
    one = when_data.changed(first, "noise", "20 % of positives called negative", 0)
    for found in (both, one):
        assert (found.test.y == first.test.y).all()
    flipped = both.train.y != first.train.y
    assert 0.12 < flipped[:300].mean() < 0.28
    assert 0.08 < flipped[300:].mean() < 0.32
    assert (one.train.y[:300] == 0).all()
    assert 60 < one.train.y[300:].sum() < 95


def test_values_go_missing_on_both_sides():
    found = when_data.changed(problem(), "missing", "30 % of values missing", 0)
    for rows in (found.train, found.test):
        assert 0.25 < np.isnan(rows.x).mean() < 0.35


def test_a_long_tail_of_digits(tmp_path):
    found = when_data.problem_of(tmp_path, "digits, long tail", 0)
    sizes = np.bincount(found.train.y)
    assert len(sizes) == 10 == found.classes
    assert sizes[0] > 5 * sizes[9] > 0
