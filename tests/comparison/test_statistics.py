"""The statistics: right size where nothing is to be found, and power where something is."""

import numpy as np
import pytest
import torch

from softset.comparison.statistics import (
    SIMPLER,
    ScoreTable,
    gains_by_stage,
    holm,
    interval,
    mean_ranks,
    one_row_of,
    paired,
    splits_to_choose_on,
)
from softset.counting.cells import Confusion
from softset.metrics.registry import METRICS, get_metric
from softset.tasks import BINARY, get_task
from tests.reference import is_area

FINE = 1e-6  # one row of very many


def correlated(random, splits, folds):
    """Scores with a correlation of n_test / (n_train + n_test) between splits."""
    rho = 1 / folds
    return np.sqrt(rho) * random.randn() + np.sqrt(1 - rho) * random.randn(splits)


def test_the_corrected_test_has_its_level():
    """Without the correction a t-test at 5 % is wrong far more often; with it, in about 5 %."""
    random = np.random.RandomState(0)
    corrected, naive = [], []
    for _ in range(1000):
        first, second = (0.6 + 0.03 * correlated(random, 20, 5) for _ in range(2))
        d = first - second
        corrected.append(paired(first, second, 0.2, FINE).p <= 0.05)
        naive.append(abs(d.mean()) / d.std(ddof=1) * np.sqrt(20) > 2.093)  # t of 19, 97.5 %
    assert 0.035 < np.mean(corrected) < 0.065
    assert np.mean(naive) > 0.25


def test_intervals_cover():
    random = np.random.RandomState(2)
    inside = []
    for _ in range(1000):
        _, low, high = interval(0.6 + 0.03 * correlated(random, 10, 5), 0.2, FINE)
        inside.append(low <= 0.6 <= high)
    assert 0.93 < np.mean(inside) < 0.97


def test_by_hand():
    d = paired([0.5, 0.6, 0.7], [0.4, 0.4, 0.4], 0.25, FINE)
    # Differences 0.1, 0.2, 0.3: variance 0.01, factor 1/3 + 1/3, so t = 0.2 / sqrt(0.00667).
    assert d.mean == pytest.approx(0.2)
    assert d.p == pytest.approx(2 * 0.0669873, abs=1e-4)
    assert d.probability == pytest.approx(1 - d.p / 2)
    assert (d.low + d.high) / 2 == pytest.approx(0.2)


def test_one_split_says_nothing():
    single = paired([0.6], [0.5], 0.2, 0.01)
    assert (single.p, single.probability, single.low, single.high) == (1, 0.5, None, None)
    assert interval([0.6], 0.2, 0.01) == (0.6, None, None)


# --- scores that are counts of few rows ----------------------------------------------------------


def test_no_spread_is_no_certainty():
    assert paired([0.5] * 5, [0.5] * 5, 0.2, 0.01).p == 1
    one, many = (paired([0.5 + k * 0.01] * 5, [0.5] * 5, 0.2, 0.01) for k in (1, 40))
    assert one.p > 0.2  # a row more in each of five splits
    assert many.p < 0.05  # forty rows more in each of them
    assert one.low < 0 < many.low
    two = paired([0.9, 0.9], [0.5, 0.5], 0.5, 0.01)
    assert 0.05 < two.p < 1
    low, high = interval([1.0] * 5, 0.2, 0.01)[1:]
    assert low < 1 < high


def test_the_floor_is_out_of_the_way_where_scores_vary():
    first, second = [0.71, 0.78, 0.73, 0.70, 0.75], [0.70, 0.72, 0.74, 0.69, 0.70]
    assert paired(first, second, 0.2, 0.01) == paired(first, second, 0.2, FINE)


@pytest.mark.parametrize("metric", [name for name in METRICS if not is_area(get_metric(name))])
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_one_row_is_the_worst_of_one_wrong_decision(metric, task):
    """Against every single wrong decision, of counts that are all different."""
    m, sizes = get_metric(metric), [30, 5, 12] if task != "binary" else [30, 5]
    found = one_row_of(m, get_task(task), sizes, 40)
    tensor = torch.tensor(sizes, dtype=torch.float64)
    costs = []
    if task == "multilabel":
        total = torch.full_like(tensor, 40)
        perfect = m(Confusion.from_sums(tensor, tensor, tensor, total, task))
        for k in range(3):
            one = torch.eye(3, dtype=torch.float64)[k]
            costs += [
                m(Confusion.from_sums(tensor - one, tensor - one, tensor, total, task)),
                m(Confusion.from_sums(tensor, tensor + one, tensor, total, task)),
            ]
    else:
        perfect = m(Confusion.from_matrix(torch.diag(tensor), task))
        for i in range(len(sizes)):
            for j in set(range(len(sizes))) - {i}:
                wrong = torch.diag(tensor)
                wrong[i, i] -= 1
                wrong[i, j] += 1
                costs.append(m(Confusion.from_matrix(wrong, task)))
    largest = max(abs(float(perfect - c)) for c in costs)
    assert largest / 2 < found <= largest + 1e-12


def test_areas_change_by_one_positive():
    assert one_row_of(get_metric("auroc"), BINARY, [90, 10], 100) == pytest.approx(0.1)


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
    (lambda: paired([1.0], [2.0], 1.0, FINE), "test_fraction"),
    (lambda: paired([1.0], [2.0], 0.2, 0.0), "one_row"),
    (lambda: interval([], 0.2, FINE), "scores must be finite"),
    (lambda: interval([np.nan], 0.2, FINE), "scores must be finite"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_interval_stays_within_what_the_metric_can_be():
    scores = [0.0, 0.1, 0.0, 0.0, 0.02]
    assert interval(scores, 0.2, 0.01)[1] < 0
    assert interval(scores, 0.2, 0.01, within=(0.0, 1.0))[1] == 0
    assert interval([1 - s for s in scores], 0.2, 0.01, within=(0.0, 1.0))[2] == 1


# --- stages ---------------------------------------------------------------------------------------

LOW = np.array([0.50, 0.52, 0.49, 0.51, 0.50])
STAGES = {"half": "default", "tuned": "tuned", "soft": "metric", "all": "ensemble"}


def test_a_split_has_no_say_in_what_it_is_scored_by():
    """Any change of a split's scores leaves the candidate that it is scored by."""
    random = np.random.default_rng(0)
    scores = random.random((4, 10))
    names = tuple("abcd")
    for split in range(10):
        changed = scores.copy()
        changed[:, split] = random.permutation(4) / 10
        found = [ScoreTable(names, s, folds=5).nested_scores()[split] for s in (scores, changed)]
        assert np.flatnonzero(scores[:, split] == found[0]) == np.flatnonzero(
            changed[:, split] == found[1]
        )


def test_other_repeats_have_no_say_either():
    """The test rows of a split are among theirs."""
    random = np.random.default_rng(1)
    scores = random.random((3, 6))
    changed = scores.copy()
    changed[:, 3:] = random.random((3, 3))
    first, second = (
        ScoreTable(tuple("abc"), s, folds=3).nested_scores()[:3] for s in (scores, changed)
    )
    assert first == second


def test_ten_folds_are_scored_in_five_groups():
    """The first two by what is best on the other eight."""
    scores = np.array([[0.0, 0.9] + [0.1] * 8, [0.5, 0.5] + [0.2] * 8])
    assert ScoreTable(("a", "b"), scores, folds=10).nested_scores()[:3] == [0.5, 0.5, 0.2]
    scores[0, 1] = 9.0  # has no say in the first, which is in its group
    assert ScoreTable(("a", "b"), scores, folds=10).nested_scores()[:3] == [0.5, 0.5, 0.1]


@pytest.mark.parametrize(
    ("count", "folds", "usable"),
    [(1, 5, 1), (5, 5, 5), (6, 5, 5), (7, 5, 7), (11, 5, 10), (2, 10, 1), (3, 10, 3), (4, 3, 3)],
)
def test_a_repeat_of_one_split_is_left_out(count, folds, usable):
    assert splits_to_choose_on(count, folds) == usable
    scores = np.arange(2.0 * usable).reshape(2, usable) / 100
    assert len(ScoreTable(("a", "b"), scores, folds=folds).nested_scores()) == usable


def test_a_single_split_cannot_tell():
    alone = gains_by_stage({"half": [0.5], "tuned": [0.7]}, STAGES, {}, folds=5, one_row=0.01)
    assert alone.total.mean == pytest.approx(0.2)
    assert (alone.total.low, alone.total.p, alone.total.significant) == (None, 1, False)


def test_of_equal_ones_the_earlier_stage_then_the_smaller_is_chosen():
    same = dict.fromkeys(("soft", "tuned", "half", "tiny"), LOW)
    stages = STAGES | {"tiny": "default"}
    found = gains_by_stage(same, stages, {"half": 100, "tiny": 10}, folds=5, one_row=FINE)
    assert [r.choice for r in found.stages] == ["tiny"] * 3
    assert found.total.mean == 0
    assert not found.total.significant


def test_gains_add_up_to_the_total():
    random = np.random.default_rng(2)
    scores = {name: LOW + 0.05 * random.standard_normal(5) for name in STAGES}
    found = gains_by_stage(scores, STAGES, {}, folds=5, one_row=FINE)
    assert [r.id for r in found.stages] == ["default", "tuned", "metric", "ensemble"]
    assert sum(r.gain.mean for r in found.stages[1:]) == pytest.approx(found.total.mean)
    for r in found.stages:
        assert r.mean == pytest.approx(np.mean(r.scores))
    last = found.stages[-1].scores
    assert found.total.p == paired(last, found.stages[0].scores, 0.2, FINE).p


def test_holm_is_over_all_claims():
    random = np.random.default_rng(3)
    scores = {name: LOW + 0.05 * random.standard_normal(5) for name in STAGES}
    sizes = {"half": 1, "tuned": 1, "soft": 100, "all": 100}
    found = gains_by_stage(scores, STAGES, sizes, folds=5, one_row=FINE)
    claims = [r.gain for r in found.stages[1:]] + [found.total]
    claims += [found.simpler.difference] if found.simpler else []
    assert [c.p_adjusted for c in claims] == pytest.approx(holm([c.p for c in claims]))


def test_two_stages_have_one_gain_which_is_the_total():
    found = gains_by_stage({"half": LOW, "tuned": LOW + 0.1}, STAGES, {}, folds=5, one_row=FINE)
    assert found.stages[1].gain == found.total
    assert found.total.p_adjusted == found.total.p
    assert found.total.significant


def test_choosing_can_lose():
    """Each of two splits is scored by what was best on the other."""
    flips = {"half": [0.5, 0.5], "tuned": [0.9, 0.1]}
    assert gains_by_stage(flips, STAGES, {}, folds=2, one_row=FINE).total.mean == pytest.approx(
        -0.2
    )


def test_a_simpler_model_has_a_cost():
    scores = {"half": LOW - 0.04, "tuned": LOW + 0.002, "soft": LOW + 0.01}
    sizes = {"half": 10, "tuned": 10, "soft": 10 * int(SIMPLER)}
    found = gains_by_stage(scores, STAGES, sizes, folds=5, one_row=FINE)
    assert found.simpler.candidate == "tuned"
    assert found.simpler.times == SIMPLER
    assert found.simpler.difference.mean == pytest.approx(-0.008)
    for changed in ({"soft": 99}, {"soft": None}, {"half": None, "tuned": None}):
        assert (
            gains_by_stage(scores, STAGES, sizes | changed, folds=5, one_row=FINE).simpler is None
        )
