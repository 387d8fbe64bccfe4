"""What fits into a budget, by what fits cost."""

from __future__ import annotations

import numpy as np
import pytest

from softset import compare
from softset.comparison import plan as plans
from softset.comparison.candidates import CANDIDATES, choose
from softset.comparison.data import check_table
from softset.comparison.plan import FEWEST_FITS, Plan
from softset.tasks import BINARY


def fits_of(candidates):
    return list(dict.fromkeys(c.fit for c in candidates))


def test_the_users_own_come_first_and_the_ensemble_last():
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    found = choose("f1", "F1", BINARY, [..., ("mine", LogisticRegression())])[0]
    fits = fits_of(found)
    assert fits == ["own mine", *fits_of(CANDIDATES)]
    assert fits[1:4] == ["linear", "boosting", "forest"]
    assert fits[-1] == "ensemble"


def planned(n=5000, groups=None, rare=20):
    X = np.random.default_rng(0).standard_normal((n, 2))
    y = np.arange(n) < rare
    table = check_table(X, y, groups, None, None, 5, "ignore")
    empty = dict.fromkeys(("jobs", "backend", "progress", "directory"))
    return Plan(
        table,
        "f1",
        [],
        folds=5,
        repeats=1,
        quick=True,
        seed=0,
        resume=False,
        started=0,
        time_limit=np.inf,
        **empty,
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


@pytest.fixture
def clock(monkeypatch):
    """Fits that are not made: each takes the seconds that the table says, and time goes by."""

    class Clock:
        now, made, seconds = 0.0, [], {}

        def sweep(self, work, runs, *, deadline=None, **_):
            records = []
            for run in runs:
                started = deadline is None or self.now < deadline
                if started:
                    seconds = self.seconds.get(run["fit"], 1.0)
                    self.now += seconds
                    self.made.append((run["split"], run["fit"]))
                    records.append({"run": run, "seconds": seconds, "error": "not made"})
                else:
                    records.append(None)
            return records

    clock = Clock()
    clock.made = []
    monkeypatch.setattr(plans.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(plans, "sweep", clock.sweep)
    return clock


def in_time(clock, seconds, limit, n=900, folds=5, repeats=2):
    clock.seconds = seconds
    X = np.random.default_rng(0).standard_normal((n, 2))
    table = check_table(X, np.arange(n) % 2, None, None, None, folds, "ignore")
    chosen = choose("f1", "F1", BINARY)[0]
    given = dict.fromkeys(("backend", "progress", "directory"))
    plan = Plan(
        table, "f1", chosen, folds=folds, repeats=repeats, quick=True, seed=0, jobs=1,
        resume=False, started=0.0, time_limit=limit, **given
    )  # fmt: skip
    groups = plan.run()
    for runs in groups:
        assert [run.fit for run in runs] == list(plan.fits)
    return plan, groups


def test_with_enough_time_all_is_made_once(clock):
    plan, groups = in_time(clock, {}, limit=1000)
    fits = fits_of(CANDIDATES)
    assert list(plan.fits) == fits
    assert clock.made == [(split, fit) for split in range(10) for fit in fits]
    assert len(groups) == 10
    assert plan.notes == []


def test_splits_are_left_out_first_where_a_repeat_can_be_made(clock):
    plan, groups = in_time(clock, {}, limit=8 * 9 * 1.25)
    assert list(plan.fits) == fits_of(CANDIDATES)
    assert 5 <= len(groups) < 10
    assert clock.now < 8 * 9 * 1.25
    assert f"{len(groups)} of 10 splits were made" in plan.notes[0]


def test_fits_that_leave_no_time_for_a_repeat_are_left_out(clock):
    plan, groups = in_time(clock, {"ensemble": 30.0}, limit=120)
    assert list(plan.fits) == fits_of(CANDIDATES)[:-1]
    assert len(groups) >= 5
    assert clock.made.count((0, "ensemble")) <= 1
    assert clock.now < 120
    assert "left out for want of time: ensemble" in plan.notes


def test_no_fit_is_begun_after_the_share_of_the_first_split(clock):
    plan, groups = in_time(clock, {"networks": 20.0}, limit=60)
    first = [fit for split, fit in clock.made if split == 0]
    assert first == ["linear", "boosting", "forest", "networks"]
    assert list(plan.fits) == first[:3]
    assert len(groups) >= 5


def test_three_fits_and_one_split_are_made_in_any_case(clock):
    plan, groups = in_time(clock, dict.fromkeys(fits_of(CANDIDATES), 100.0), limit=1)
    assert len(plan.fits) == FEWEST_FITS
    assert len(groups) == 1
    assert "more than that" in plan.notes[-1]


def test_rows_follow_from_the_time_limit_and_the_columns(clock):
    plan, _ = in_time(clock, {}, limit=2, n=5000)
    assert plan.rows == 3000
    assert "3000 of 5000 rows were compared on, for want of time" in plan.notes
    assert in_time(clock, {}, limit=0.1, n=5000)[0].rows == 1000
    assert in_time(clock, {}, limit=4, n=5000)[0].used is None


def test_a_comparison_in_time_can_be_resumed(tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 2))
    given = {"candidates": ["linear", "linear-tuned"], "directory": tmp_path, "n_jobs": 1}
    first = compare(X, np.arange(60) % 2, time_limit=6e-3, **given)
    again = compare(X, np.arange(60) % 2, time_limit=60, resume=True, **given)
    assert first.splits.count == 1
    assert again.splits.count == 10
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert len(lines) == 11
    assert [c.scores[:1] for c in again.candidates] == [c.scores for c in first.candidates]
