"""What fits into a budget, by what fits cost."""

from __future__ import annotations

import numpy as np
import pytest

from softset.comparison.budget import (
    CAUTION,
    ENOUGH_ROWS,
    FEWEST_FITS,
    Budget,
    Cost,
    choose_fits,
    in_order,
)
from softset.comparison.candidates import CANDIDATES
from softset.comparison.data import check_table
from softset.comparison.plan import Plan
from softset.storage.files import SavedFileError

COSTS = {"linear": Cost(0.2, 1e-5), "boosting": Cost(0.3, 5e-5), "forest": Cost(0.1, 1e-4)}
DEAR = {"networks": Cost(1, 2e-3), "metric": Cost(1, 2e-3), "ensemble": Cost(2, 5e-3)}


@pytest.mark.parametrize("seconds", [20, 60, 600])
@pytest.mark.parametrize("rows", [5_000, 200_000, 10_000_000])
def test_what_is_affordable_takes_the_time_and_not_more(seconds, rows):
    budget = Budget(seconds, rows, folds=5, workers=2)
    costs = list(COSTS.values())
    found = budget.affordable(costs)
    spent = sum(c.seconds(0.8 * found) for c in costs) * 5 / 2
    refit = budget.refit(costs)
    assert CAUTION * spent + refit <= 1.001 * seconds
    if found < rows:
        assert CAUTION * spent + refit >= 0.99 * seconds
        assert refit <= 0.4 * seconds


def test_all_rows_are_kept_for_the_refit_if_it_can_be():
    costs = [Cost(0, 1e-4)]
    assert Budget(100, 100_000, 5, 2).refit(costs) == pytest.approx(CAUTION * 10)
    assert Budget(100, 10_000_000, 5, 2).refit(costs) == 40


def test_as_many_fits_as_see_enough_rows():
    everything = COSTS | DEAR
    assert choose_fits(Budget(3600, 200_000, 5, 2), everything) == list(everything)
    few = choose_fits(Budget(40, 200_000, 5, 2), everything)
    assert few == list(COSTS)
    assert Budget(40, 200_000, 5, 2).affordable([COSTS[f] for f in few]) >= ENOUGH_ROWS
    assert len(choose_fits(Budget(1, 200_000, 5, 2), everything)) == FEWEST_FITS
    # A small table needs no more than all of its rows.
    assert choose_fits(Budget(120, 3_000, 5, 2), everything) == list(everything)


def test_the_users_own_come_first_and_the_ensemble_last():
    fits = dict.fromkeys([*(c.fit for c in CANDIDATES), "own mine"])
    order = in_order(fits)
    assert sorted(order) == sorted(fits)
    assert order[:4] == ["own mine", "linear", "boosting", "forest"]
    assert order[-1] == "ensemble"


def planned(n=5000, groups=None, rare=20):
    X = np.random.default_rng(0).standard_normal((n, 2))
    y = np.arange(n) < rare
    table = check_table(X, y, groups, None, None, 5, "ignore")
    empty = dict.fromkeys(("jobs", "backend", "progress", "directory"))
    return Plan(
        table, "f1", [], folds=5, repeats=1, quick=True, seed=0, resume=False, deadline=0, **empty
    )


@pytest.mark.parametrize("rows", [100, 1000, 4000, 4999])
def test_a_sample_is_stratified_and_as_large_as_asked_for(rows):
    plan = planned()
    found = plan.sample(rows)
    assert rows <= len(found) <= rows + 10  # rare classes have ten rows at least
    assert max(10, rows * 20 / 5000) <= (found < 20).sum() <= max(10, rows * 20 / 5000 + 1)
    assert np.array_equal(found, np.unique(found))
    assert plan.sample(5000) is None


def test_a_sample_keeps_groups_whole():
    group = np.repeat(np.arange(500), 10)
    plan = planned(groups=group, rare=2500)
    for rows in (500, 3000):
        found = plan.sample(rows)
        assert 0.8 * rows < len(found) < 1.25 * rows
        assert set(np.bincount(group[found])) <= {0, 10}


@pytest.mark.parametrize("text", ["", "x", "0", "99999", "100 nobody", "100 linear,nobody"])
def test_a_damaged_note_of_rows_is_refused(tmp_path, text):
    from softset import compare  # noqa: PLC0415

    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.arange(60) % 2
    (tmp_path / "rows.txt").write_text(text)
    with pytest.raises(SavedFileError, match=r"rows\.txt must hold how many of 60 rows"):
        compare(
            X,
            y,
            candidates=["linear", "linear-tuned"],
            directory=tmp_path,
            resume=True,
            budget=1,
        )
