"""The confidence interval of the best threshold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma, norm

from softset.decisions.confidence import threshold_interval
from softset.decisions.tuner import Tuner
from softset.metrics.custom import Custom
from softset.metrics.registry import get_metric


def tuner(metric="f1", task="binary", rule="smooth"):
    return Tuner(get_metric(metric), task, rule)


def rows(n, share, seed, distance=2.0):
    """Normal scores of two classes."""
    random = np.random.RandomState(seed)
    y = (random.rand(n) < share).astype(int)
    y[:2] = 1
    return random.randn(n) + distance * y, y


# Scores of the negatives, and of the positives: a mixture in equal parts.
POPULATIONS = {
    "skewed": (500, 0.1, [gamma(1)], [gamma(3, scale=2)]),
    "two kinds of positives": (300, 0.02, [norm(0, 1)], [norm(1, 0.7), norm(6, 1.5)]),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_intervals_hold_the_best_threshold_of_the_population(name):
    n, share, *classes = POPULATIONS[name]
    cuts = np.linspace(-3, 40, 40_001)
    fpr, tpr = (np.mean([d.sf(cuts) for d in parts], axis=0) for parts in classes)
    truth = cuts[(2 * share * tpr / (share * tpr + (1 - share) * fpr + share)).argmax()]
    held = 0
    for seed in range(20):
        random = np.random.RandomState(seed)
        y = (random.rand(n) < share).astype(int)
        y[:2] = 1
        drawn = [np.stack([d.rvs(n, random_state=random) for d in of]) for of in classes]
        z = np.where(y == 1, drawn[1][random.randint(len(drawn[1]), size=n), range(n)], drawn[0][0])
        low, high = threshold_interval(tuner(), z, y, np.ones(n), seed)
        held += low <= truth <= high
    assert held >= 18  # of 19 expected; quantiles over resampled rows: 11 and 12


@pytest.mark.parametrize("rule", ["exact", "smooth"])
def test_the_interval_holds_the_tuned_cut_and_narrows_with_rows(rule):
    widths = []
    for n in (1000, 64_000):
        z, y = rows(n, 0.1, 0)
        chosen = tuner(rule=rule)
        low, high = threshold_interval(chosen, z, y, np.ones(n), 0)
        assert low <= chosen.best(z, y, np.ones(n)).logit <= high
        widths.append(high - low)
    assert widths[1] < 0.5 * widths[0]


def test_two_positives_exclude_next_to_nothing():
    """An end without a limit says so."""
    z, y = rows(100, 0.0, 0)
    low, high = threshold_interval(tuner(), z, y, np.ones(100), 0)
    assert low == -np.inf
    assert high > z[y == 1].max() - 1e-9


@pytest.mark.parametrize("few", [4, 12])
def test_the_rarer_side_may_be_the_negatives(few):
    """For a metric that takes both classes alike, the interval is the mirrored one."""
    random = np.random.RandomState(few)
    y = np.repeat([0, 1], [300 - few, few])
    z = random.randn(300) + 2 * y
    low, high = np.clip(threshold_interval(tuner("mcc"), z, y, np.ones(300), 0), -5, 5)
    other = np.clip(threshold_interval(tuner("mcc"), -z, 1 - y, np.ones(300), 0), -5, 5)
    assert [-other[1], -other[0]] == pytest.approx([low, high], abs=0.25 * (high - low))


# --- weights --------------------------------------------------------------------------------------


def test_weights_count_and_their_scale_does_not():
    z, y = rows(600, 0.2, 0)
    w = np.random.RandomState(1).exponential(size=600) ** 2
    found = threshold_interval(tuner(), z, y, w, 0)
    assert np.array_equal(found, threshold_interval(tuner(), z, y, 1024 * w, 0))
    none = np.append(w, np.zeros(100))
    assert np.array_equal(found, threshold_interval(tuner(), *_longer(z, y), none, 0))
    # Where a fifth of the rows has nearly all of the weight, there are as good as fewer rows.
    few = np.where(np.arange(600) % 5, 1e-3, 1.0)
    equal = threshold_interval(tuner(), z, y, np.ones(600), 0)
    assert np.diff(threshold_interval(tuner(), z, y, few, 0)) > 1.3 * np.diff(equal)
    # False positives that weigh ten times as much: a higher threshold.
    heavy = threshold_interval(tuner(), z, y, np.where(y == 0, 10.0, 1.0), 0)
    assert heavy.mean() > equal.mean() + 0.4


def _longer(z, y):
    return np.append(z, np.zeros(100)), np.append(y, np.ones(100, dtype=int))


# --- several classes and labels -------------------------------------------------------------------


def several(task, n=800):
    random = np.random.RandomState(0)
    z = random.randn(n, 3) + np.linspace(1, 0, 3)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (random.rand(n, 1) > p.cumsum(1)).sum(1)
    return np.log(p), np.eye(3, dtype=int)[y] if task == "multilabel" else y


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("multiclass", "f1"),
        ("multiclass", "accuracy"),
        ("multiclass", "quadratic_kappa"),
        ("multilabel", "f1"),
        ("multilabel", "f1_micro"),
    ],
)
def test_ends_are_where_the_metric_with_the_others_held_falls_off(task, metric):
    """At them the metric is at most about two standard errors below its best; beyond, it is more:
    of resampled rows, one by one."""
    z, y = several(task)
    w = np.random.RandomState(1).rand(len(z)) + 0.5
    chosen = tuner(metric, task)
    best = chosen.best(z, y, w)
    found = threshold_interval(chosen, z, y, w, 0)
    assert found.shape == (3, 2)

    times = np.random.RandomState(2).multinomial(len(z), np.full(len(z), 1 / len(z)), 200)
    drawn = w * np.vstack([np.ones(len(z)), times])

    def values(k, cut):
        moved = best.logit.copy()
        moved[k] = cut
        return chosen.values(type(best)(task, moved).one_hot(z), y, drawn)

    top = values(0, best.logit[0])
    for k, (low, high) in enumerate(found):
        assert low <= best.logit[k] <= high
        for end, out in ((low, -1), (high, 1)):
            within, beyond = (top - values(k, end + out * by) for by in (-1e-9, 0.5))
            assert within[0] < 3 * within[1:].std()
            assert beyond[0] > 2 * beyond[1:].std()


def test_labels_of_an_average_are_each_on_their_own():
    z, y = several("multilabel")
    w = np.ones(len(z))
    found = threshold_interval(tuner(task="multilabel", rule="exact"), z, y, w, 0)
    alone = threshold_interval(tuner(rule="exact"), z[:, 0], y[:, 0], w, 0)
    assert np.array_equal(found[0], alone)


def test_a_metric_of_ones_own_that_is_undefined_where_nothing_is_predicted():
    precision = Custom(lambda c: c.tp / c.predicted - 0.2 * c.fn / c.support)
    z, y = rows(400, 0.2, 0)
    low, high = threshold_interval(Tuner(precision, "binary", "exact"), z, y, np.ones(400), 0)
    assert low < high <= z.max()


def test_very_many_classes_have_none():
    random = np.random.RandomState(0)
    z, y = np.log(random.dirichlet(np.ones(60), 200)), random.randint(0, 60, 200)
    assert threshold_interval(tuner(task="multiclass"), z, y, np.ones(200), 0) is None
