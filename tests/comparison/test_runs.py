"""What is run within a time limit, by the seconds of finished fits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import t as student

from softset import compare
from softset.comparison import runs
from softset.comparison.candidates import CANDIDATES, choose
from softset.comparison.data import check_dataset
from softset.comparison.fits import Sizes
from softset.comparison.result import SplitResult
from softset.comparison.runs import FEWEST_FITS, Plan
from softset.storage.files import SavedFileError
from softset.storage.schema import encoded, sealed
from softset.tasks import BINARY


def fits_of(candidates):
    return list(dict.fromkeys(c.fit for c in candidates))


def test_user_models_come_first_and_the_ensemble_last():
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    found = choose("f1", "F1", BINARY, [..., ("mine", LogisticRegression())])[0]
    fits = fits_of(found)
    assert fits == ["user mine", *fits_of(CANDIDATES)]
    assert fits[1:4] == ["linear", "boosting", "forest"]
    assert fits[-1] == "ensemble"


def planned(n=5000, groups=None, rare=20):
    X = np.random.default_rng(0).standard_normal((n, 2))
    return plan_of(check_dataset(X, np.arange(n) < rare, groups, None, None, 5, "ignore"))


def plan_of(table):
    empty = dict.fromkeys(("n_jobs", "backend", "progress", "directory"))
    return Plan(
        table,
        "f1",
        [],
        folds=5,
        repeats=1,
        sizes=Sizes(),
        random_state=0,
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


@pytest.mark.parametrize("rows", [2000, 1200, 300])
@pytest.mark.parametrize("kind", ["groups", "equal rows", "times"])
def test_what_belongs_together_is_in_one_fold_of_all_rows_or_of_a_sample(kind, rows):
    random = np.random.default_rng(0)
    together = random.permutation(np.where(np.arange(2000) < 800, np.arange(2000) // 4, 2000))
    alone = together == 2000
    together[alone] = 3000 + np.arange(alone.sum())
    X = random.standard_normal((2000, 2))
    if kind == "equal rows":
        X = X[np.unique(together, return_inverse=True)[1]]
    groups, times = (together if kind == name else None for name in ("groups", "times"))
    y = random.random(2000) < 0.4
    plan = plan_of(check_dataset(X, y, groups, None, None, 5, "together", times))
    plan.used, plan.repeats = plan.sample(rows), 1 if kind == "times" else 2
    used = np.arange(2000) if plan.used is None else plan.used
    assert 0.8 * rows <= len(used) <= 1.25 * rows
    folds = plan.experiment().folds
    assert folds.shape == (plan.repeats, 2000)
    for fold in folds:
        assert set(np.flatnonzero(fold >= 0)) == set(used)
        pairs = np.unique(np.column_stack([together[used], fold[used]]), axis=0)
        assert len(pairs) == len(np.unique(together[used]))
        assert np.bincount(fold[used]).min() > 0.1 * len(used)


@pytest.fixture
def clock(monkeypatch):
    """Fits that only take time: the seconds of the table, on one worker."""

    class Clock:
        now, made, seconds = 0.0, [], {}

        def sweep(self, work, runs, *, deadline=None, stop=None, **_):
            records = []
            for run in runs:
                if deadline is not None and self.now >= deadline:
                    records.append(None)
                    continue
                seconds = self.seconds.get(run["fit"], 1.0)
                if stop is not None and self.now + seconds > stop:  # unfinished
                    self.now = max(self.now, stop)
                    records.append(None)
                    continue
                self.now += seconds
                self.made.append((run["split"], run["fit"]))
                result = encoded(SplitResult(0.5, 1.0, None))
                ids = [c.id for c in CANDIDATES if c.fit == run["fit"]]
                result = {"candidates": dict.fromkeys(ids, result), "warnings": []}
                records.append({"run": run, "seconds": seconds, "result": result})
            return records

    clock = Clock()
    clock.made = []
    monkeypatch.setattr(runs.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(runs, "sweep", clock.sweep)
    return clock


def in_time(clock, seconds, limit, n=900, folds=5, repeats=2):
    clock.seconds = seconds
    X = np.random.default_rng(0).standard_normal((n, 2))
    table = check_dataset(X, np.arange(n) % 2, None, None, None, folds, "ignore")
    chosen = choose("f1", "F1", BINARY)[0]
    given = dict.fromkeys(("backend", "progress", "directory"))
    plan = Plan(
        table, "f1", chosen, folds=folds, repeats=repeats, sizes=Sizes(), random_state=0, n_jobs=1,
        resume=False, started=clock.now, time_limit=limit, **given
    )  # fmt: skip
    groups = plan.run()
    for fits in groups:
        assert [fit.fit for fit in fits] == list(plan.fits)
    return plan, groups


ALL = fits_of(CANDIDATES)


def test_with_enough_time_all_is_run_once(clock):
    plan, groups = in_time(clock, {}, limit=1000)
    assert list(plan.fits) == ALL
    assert sorted(clock.made) == sorted((split, fit) for split in range(10) for fit in ALL)
    assert len(groups) == 10
    assert plan.notes == []


# Seconds of fits, and a limit that all of them on ten splits exceed.
UNEVEN = dict(zip(ALL, [0.5, 2, 1, 8, 3, 4, 5, 3, 25], strict=True))


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [({}, 60), ({}, 80), (UNEVEN, 120), (UNEVEN, 240), (UNEVEN, 360), (UNEVEN, 480)],
)
def test_the_time_limit_is_used_while_there_is_work_left(clock, seconds, limit):
    """With the refit and the margin, which come after it. A further repeat needs two splits."""
    plan, groups = in_time(clock, seconds, limit)
    assert len(plan.fits) < len(ALL) or len(groups) < 10
    used = clock.now + 2.25 + plan.margin
    assert used <= 1.05 * limit
    smallest = 2 * sum(seconds.get(fit, 1.0) for fit in plan.fits)
    assert used >= 0.8 * limit or (len(groups) == 5 and used + smallest > limit)
    assert len(groups) >= 5
    assert f"{len(groups)} of 10 splits were run in the time limit" in " ".join(plan.notes) or (
        "left out for want of time" in plan.notes[0]
    )


def test_more_candidates_come_before_a_second_repeat(clock):
    plan, groups = in_time(clock, {}, limit=70)
    assert list(plan.fits) == ALL
    assert 5 <= len(groups) < 10


def test_fits_that_leave_no_time_for_a_repeat_are_left_out(clock):
    plan, groups = in_time(clock, {"ensemble": 40.0}, limit=120)
    assert list(plan.fits) == ALL[:-1]
    assert len(groups) >= 5
    assert clock.now < 120
    assert "left out for want of time: ensemble" in plan.notes


def test_a_fit_without_end_is_stopped(clock):
    plan, groups = in_time(clock, {"networks": 1e9}, limit=60)
    assert "networks" not in plan.fits
    assert len(groups) >= 5
    assert clock.now <= 60


def test_three_fits_and_one_split_are_run_in_any_case(clock):
    plan, groups = in_time(clock, dict.fromkeys(ALL, 100.0), limit=1)
    assert len(plan.fits) == FEWEST_FITS
    assert len(groups) == 1
    assert "took longer" in plan.notes[-1]


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


# --- splits by time -------------------------------------------------------------------------------


def test_by_time_no_row_is_trained_on_after_one_that_is_tested():
    random = np.random.default_rng(0)
    times = random.permutation(np.arange(120) // 2)  # rows of one time stay in one block
    X = random.standard_normal((120, 2))
    y = random.integers(0, 2, 120)
    table = check_dataset(X, y, None, None, None, 5, "together", times)
    given = dict.fromkeys(("n_jobs", "backend", "progress", "directory"))
    plan = Plan(
        table, "f1", [], folds=5, repeats=1, sizes=Sizes(), random_state=0, resume=False,
        started=0.0, time_limit=np.inf, **given
    )  # fmt: skip
    experiment = plan.experiment()
    assert experiment.count == 5
    tested = []
    for split in range(5):
        train, test = experiment.rows(split)
        assert times[train].max() < times[test].min()
        tested += test.tolist()
    assert len(set(tested)) == len(tested) == 100
    assert 0.25 < plan.test_fraction < 0.5


def test_a_comparison_by_time():
    random = np.random.default_rng(0)
    X = random.standard_normal((200, 2))
    y = (X[:, 0] + random.standard_normal(200) > 0.5).astype(int)
    dates = np.datetime64("2024-01-01") + np.arange(200)
    given = {"candidates": ["linear", "linear-tuned"], "quick": True, "n_jobs": 1}
    found = compare(X, y, times=dates, **given)
    assert "5 splits (by time" in found.splits.note
    # Nadeau and Bengio: each split trains on 1, 2, ... 5 blocks and tests the next one.
    reach = student.ppf(0.975, 4) * np.sqrt(1 / 5 + np.mean([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]))
    for row in (*found.candidates, *found.gains.stages):
        half = reach * np.std(row.scores, ddof=1)
        assert row.high == pytest.approx(min(1, row.mean + half))
        assert row.low == pytest.approx(max(0, row.mean - half))
    first, second = (np.array(c.scores) for c in found.candidates)
    least = reach * np.std(first - second, ddof=1)  # or what one row is worth
    (gap,) = (c.difference for c in found.candidates if c.difference)
    assert gap.high - gap.mean >= least - 1e-9
    text = compare(X, y, times=dates.astype(str), **given)
    assert [c.scores for c in text.candidates] == [c.scores for c in found.candidates]
    for times, message in [
        (dates[:9], "one value for each of 200 rows"),
        (["soon"] * 200, "must be dates or numbers; row 1"),
        (np.argsort(np.argsort(y, kind="stable")), "block 1 of 6 in time has no row of some class"),
    ]:
        with pytest.raises(ValueError, match=message):
            compare(X, y, times=times, **given)
    with pytest.raises(ValueError, match="groups and times"):
        compare(X, y, times=dates, groups=np.arange(200), **given)


# --- what was changed is refused ------------------------------------------------------------------


@pytest.mark.parametrize("change", ["third class", "no checksum"])
def test_a_changed_line_of_runs_is_refused(tmp_path, change):
    X = np.random.default_rng(0).standard_normal((60, 2))
    given = {"candidates": ["linear", "linear-tuned"], "directory": tmp_path, "n_jobs": 1, "cv": 2}
    compare(X, np.arange(60) % 2, quick=True, **given)
    path = tmp_path / "runs.jsonl"
    header, line, *others = path.read_text().splitlines()
    record = {k: v for k, v in json.loads(line).items() if k != "checksum"}
    if change == "third class":
        record["result"]["candidates"]["linear"]["predictions"]["target"][0] = 2
        record = sealed(record)
    path.write_text("\n".join([header, json.dumps(record), *others, ""]))
    message = "class numbers below 2" if change == "third class" else "checksum"
    with pytest.raises(SavedFileError, match=message):
        compare(X, np.arange(60) % 2, quick=True, resume=True, **given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confidence", 0.9),
        ("metric", "f2"),
        ("random_state", 1),
        ("repeats", 2),
        ("folds", 3),
        ("sample_cost", np.ones((60, 4))),
        ("fits", {"linear": ["linear"]}),
        ("sizes", Sizes(patience=3)),
    ],
)
def test_a_file_of_runs_belongs_to_all_that_its_results_depend_on(name, value):
    rng = np.random.default_rng(0)
    table = check_dataset(
        rng.normal(size=(60, 2)), np.arange(60) % 2, None, None, None, 5, "ignore"
    )
    empty = dict.fromkeys(("n_jobs", "backend", "progress", "directory"))
    more = {"random_state": 0, "resume": False, "started": 0, "time_limit": np.inf}
    plan = Plan(table, "f1", [], folds=5, repeats=1, sizes=Sizes(), **more, **empty)
    before = plan._settings(plan.experiment())
    setattr(plan, name, value)
    plan.by_id = {"linear": None}
    after = plan._settings(plan.experiment())
    # More repeats of the same folds go on where the file ends.
    assert (after == before) == (name == "repeats")
