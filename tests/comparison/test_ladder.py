"""The ladder: what is chosen on which splits, and what that is worth."""

from __future__ import annotations

import numpy as np
import pytest

from softset.comparison.ladder import SIMPLER, Table, climb
from softset.comparison.statistics import holm, paired

LOW = np.array([0.50, 0.52, 0.49, 0.51, 0.50])
RUNGS = {"half": "default", "cut": "tuned", "soft": "metric", "all": "ensemble"}
FINE = 1e-6


def test_a_split_has_no_say_in_what_it_is_scored_by():
    """Any change of a split's scores leaves the candidate that it is scored by."""
    random = np.random.default_rng(0)
    scores = random.random((4, 10))
    names = tuple("abcd")
    for split in range(10):
        changed = scores.copy()
        changed[:, split] = random.permutation(4) / 10
        found = [Table(names, s, folds=5).choosing()[split] for s in (scores, changed)]
        assert np.flatnonzero(scores[:, split] == found[0]) == np.flatnonzero(
            changed[:, split] == found[1]
        )


def test_other_repeats_have_no_say_either():
    """The test rows of a split are among theirs."""
    random = np.random.default_rng(1)
    scores = random.random((3, 6))
    changed = scores.copy()
    changed[:, 3:] = random.random((3, 3))
    first, second = (Table(tuple("abc"), s, folds=3).choosing()[:3] for s in (scores, changed))
    assert first == second


def test_ten_folds_are_scored_in_five_parts():
    """The first two by what is best on the other eight."""
    scores = np.array([[0.0, 0.9] + [0.1] * 8, [0.5, 0.5] + [0.2] * 8])
    assert Table(("a", "b"), scores, folds=10).choosing()[:3] == [0.5, 0.5, 0.2]
    scores[0, 1] = 9.0  # has no say in the first, which is in its part
    assert Table(("a", "b"), scores, folds=10).choosing()[:3] == [0.5, 0.5, 0.1]


def test_a_repeat_of_one_split_is_left_out_and_a_single_split_cannot_tell():
    scores = np.arange(8.0).reshape(2, 4) / 10
    assert len(Table(("a", "b"), scores, folds=3).choosing()) == 3
    alone = climb({"half": [0.5], "cut": [0.7]}, RUNGS, {}, folds=5, one_row=0.01)
    assert alone.worth.mean == pytest.approx(0.2)
    assert (alone.worth.low, alone.worth.p, alone.clear) == (None, 1, False)


def test_of_equal_ones_the_lower_rung_then_the_smaller_is_chosen():
    same = dict.fromkeys(("soft", "cut", "half", "tiny"), LOW)
    rungs = RUNGS | {"tiny": "default"}
    found = climb(same, rungs, {"half": 100, "tiny": 10}, folds=5, one_row=FINE)
    assert [r.choice for r in found.rungs] == ["tiny"] * 3
    assert found.worth.mean == 0
    assert not found.clear


def test_steps_add_up_to_the_worth():
    random = np.random.default_rng(2)
    scores = {name: LOW + 0.05 * random.standard_normal(5) for name in RUNGS}
    found = climb(scores, RUNGS, {}, folds=5, one_row=FINE)
    assert [r.id for r in found.rungs] == ["default", "tuned", "metric", "ensemble"]
    assert sum(r.step.mean for r in found.rungs[1:]) == pytest.approx(found.worth.mean)
    for r in found.rungs:
        assert r.mean == pytest.approx(np.mean(r.scores))
    last = found.rungs[-1].scores
    assert found.worth.p == paired(last, found.rungs[0].scores, 0.2, FINE).p


def test_holm_is_over_all_claims():
    random = np.random.default_rng(3)
    scores = {name: LOW + 0.05 * random.standard_normal(5) for name in RUNGS}
    sizes = {"half": 1, "cut": 1, "soft": 100, "all": 100}
    found = climb(scores, RUNGS, sizes, folds=5, one_row=FINE)
    claims = [r.step for r in found.rungs[1:]] + [found.worth]
    claims += [found.simpler.difference] if found.simpler else []
    assert [c.p_adjusted for c in claims] == pytest.approx(holm([c.p for c in claims]))


def test_two_rungs_have_one_step_which_is_the_whole():
    found = climb({"half": LOW, "cut": LOW + 0.1}, RUNGS, {}, folds=5, one_row=FINE)
    assert found.rungs[1].step == found.worth
    assert found.worth.p_adjusted == found.worth.p
    assert found.clear


def test_choosing_can_be_worth_less_than_nothing():
    """Each of two splits is scored by what was best on the other."""
    flips = {"half": [0.5, 0.5], "cut": [0.9, 0.1]}
    assert climb(flips, RUNGS, {}, folds=2, one_row=FINE).worth.mean == pytest.approx(-0.2)


def test_simplicity_has_a_price():
    scores = {"half": LOW - 0.04, "cut": LOW + 0.002, "soft": LOW + 0.01}
    sizes = {"half": 10, "cut": 10, "soft": 10 * int(SIMPLER)}
    found = climb(scores, RUNGS, sizes, folds=5, one_row=FINE)
    assert found.simpler.candidate == "cut"
    assert found.simpler.times == SIMPLER
    assert found.simpler.difference.mean == pytest.approx(-0.008)
    for changed in ({"soft": 99}, {"soft": None}, {"half": None, "cut": None}):
        assert climb(scores, RUNGS, sizes | changed, folds=5, one_row=FINE).simpler is None
