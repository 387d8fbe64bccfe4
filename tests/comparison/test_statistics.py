"""The statistics: right size where nothing is to be found, and power where something is."""

import numpy as np
import pytest

from softset.comparison.statistics import decide, holm, interval, mean_ranks, paired

FAMILIES = {"p1": "plain", "p2": "plain", "p3": "plain", "p4": "plain", "p5": "plain"}
FAMILIES |= {"p6": "plain"} | {f"m{k}": "metric" for k in range(1, 6)}


def table(random, folds=5, repeats=2, gain=None, shared=0.6, noise=0.03):
    """Scores of candidates that are equal but for ``gain``, with the dependence of splits.

    Each candidate's scores have a correlation of n_test / (n_train + n_test) between splits; a
    share of the variance is common to all candidates (some splits are easier).
    """
    splits, rho = folds * repeats, 1 / folds

    def correlated():
        return np.sqrt(rho) * random.randn() + np.sqrt(1 - rho) * random.randn(splits)

    easy = correlated()
    scores = {}
    for c in FAMILIES:
        own = correlated()
        scores[c] = 0.6 + noise * (np.sqrt(shared) * easy + np.sqrt(1 - shared) * own)
        scores[c] = scores[c] + (gain or {}).get(c, 0.0)
    return scores


def outcomes(runs, seed=0, **settings):
    random = np.random.RandomState(seed)
    folds = settings.get("folds", 5)
    found = [decide(table(random, **settings), FAMILIES, 1 / folds) for _ in range(runs)]
    return [d.outcome for d in found], found


@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize("folds", [5, 10])
def test_equal_candidates_give_no_clear_difference(folds, repeats):
    said, _ = outcomes(200, folds=folds, repeats=repeats)
    assert said.count("none") >= 190


def test_the_corrected_test_has_its_level():
    """Without the correction a t-test at 5 % is wrong far more often; with it, in about 5 %."""
    random = np.random.RandomState(0)
    corrected, naive = [], []
    for _ in range(1000):
        scores = table(random, repeats=4)
        d = scores["m1"] - scores["p1"]
        corrected.append(paired(scores["m1"], scores["p1"], 0.2).p <= 0.05)
        naive.append(abs(d.mean()) / d.std(ddof=1) * np.sqrt(20) > 2.093)  # t of 19, 97.5 %
    assert 0.035 < np.mean(corrected) < 0.065
    assert np.mean(naive) > 0.25


def test_equal_best_plain_candidates_do_not_help_a_metric_candidate():
    """All metric candidates as good as the best plain one, the other plain ones far behind."""
    gain = {f"p{k}": -0.2 for k in range(2, 7)}
    said, _ = outcomes(200, gain=gain)
    assert said.count("metric") <= 10


@pytest.mark.parametrize(("winner", "outcome"), [("m3", "metric"), ("p2", "plain")])
def test_a_planted_gain_is_found(winner, outcome):
    said, found = outcomes(100, gain={winner: 0.10}, repeats=3)
    assert said.count(outcome) >= 95
    assert sum(d.winner == winner for d in found) >= 95
    assert all(d.reference == "p2" for d in found) is (winner == "p2")


def test_a_tiny_gain_is_not():
    said, _ = outcomes(100, gain={"m3": 0.004})
    assert said.count("none") >= 90


def test_intervals_cover():
    random = np.random.RandomState(2)
    inside = []
    for _ in range(1000):
        _, low, high = interval(table(random)["p1"], 0.2)
        inside.append(low <= 0.6 <= high)
    assert 0.93 < np.mean(inside) < 0.97


def test_by_hand():
    d = paired([0.5, 0.6, 0.7], [0.4, 0.4, 0.4], 0.25)
    # Differences 0.1, 0.2, 0.3: variance 0.01, factor 1/3 + 1/3, so t = 0.2 / sqrt(0.00667).
    assert d.mean == pytest.approx(0.2)
    assert d.p == pytest.approx(2 * 0.0669873, abs=1e-4)
    assert d.probability == pytest.approx(1 - d.p / 2)
    assert (d.low + d.high) / 2 == pytest.approx(0.2)


def test_no_spread_and_one_split():
    assert paired([0.5] * 5, [0.5] * 5, 0.2).p == 1
    assert paired([0.6] * 5, [0.5] * 5, 0.2).p == 0
    single = paired([0.6], [0.5], 0.2)
    assert (single.p, single.probability, single.low) == (1, 0.5, -np.inf)


def test_holm_against_the_definition():
    random = np.random.RandomState(3)
    for _ in range(50):
        p = random.rand(6)
        adjusted = holm(p)
        for level in (0.01, 0.2, 0.5):
            order, rejected = np.argsort(p), set()
            for step, k in enumerate(order):
                if p[k] > level / (6 - step):
                    break
                rejected.add(k)
            assert rejected == {k for k in range(6) if adjusted[k] <= level}


def test_ranks_share_ties():
    ranks = mean_ranks({"a": [3, 1], "b": [2, 1], "c": [1, 0]})
    assert ranks == {"a": 1.25, "b": 1.75, "c": 3.0}


BAD = [
    (lambda: paired([1.0], [2.0], 1.0), "test_share"),
    (lambda: interval([], 0.2), "scores must be finite"),
    (lambda: interval([np.nan], 0.2), "scores must be finite"),
    (lambda: decide({"m": [1.0]}, {"m": "metric"}, 0.2), "family 'plain'"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
