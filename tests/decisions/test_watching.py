"""Betting tests over looks: rarely wrong, and able to start late."""

import numpy as np

from softset.decisions.watching import (
    Episode,
    drift_evidence,
    drift_start,
    episodes,
    log_evidence,
    look_intervals,
    watched_rate,
)


def streams(rate, count, seed, looks=100):
    random = np.random.default_rng(seed)
    n = random.integers(2, 51, size=(count, looks))
    return random.binomial(n, rate), n


def test_evidence_is_the_mean_of_all_late_starts():
    """The recursion, against the sum that it stands for."""
    errors, rows = np.array([1, 0, 4, 2]), np.array([9, 5, 8, 6])
    odds = np.array([1.25, 1.5, 2.0, 3.0, 5.0, 10.0]) * 0.1 / 0.9
    worse = odds / (1 + odds)
    total = 1 / 5.0  # what enters after the fourth look
    for start in range(4):
        k, n = errors[start:].sum(), rows[start:].sum()
        ratio = (worse / 0.1) ** k * ((1 - worse) / 0.9) ** (n - k)
        total += ratio.mean() / ((start + 1) * (start + 2))
    assert np.isclose(log_evidence(errors, rows, 0.1)[-1], np.log(total))


def test_a_rate_at_its_bound_is_rarely_called_broken():
    hits, rows = streams(0.9, 300, 0)
    found = [
        watched_rate("recall", k, n, alpha=0.05, bound=0.9).found is not None
        for k, n in zip(hits, rows, strict=True)
    ]
    assert np.mean(found) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)


def test_a_late_fall_is_found_where_it_began():
    delays, starts = [], []
    for seed in range(40):
        before, n = streams(0.9, 1, seed, 50)
        after, m = streams(0.8, 1, 100 + seed, 50)
        hits, rows = np.append(before, after), np.append(n, m)
        rate = watched_rate("recall", hits, rows, alpha=0.05, bound=0.9)
        if rate.found is not None and rate.found >= 50:
            delays.append(rate.found - 50)
            starts.append(rate.since)
    assert len(delays) >= 36
    assert np.median(delays) < 20
    assert 45 <= np.median(starts) <= 55


def test_what_was_broken_holds_again_and_can_break_again():
    delays, errors, states = [], [], []
    for seed in range(30):
        parts = [streams(r, 1, 10 * seed + k, 40) for k, r in enumerate((0.9, 0.75, 0.93, 0.7))]
        hits, rows = (np.concatenate([p[i][0] for p in parts]) for i in (0, 1))
        # Until it is bad again: the last state is that it holds.
        early = watched_rate("recall", hits[:120], rows[:120], alpha=0.05, bound=0.9)
        states.append([e.until is None for e in early.episodes])
        found = watched_rate("recall", hits, rows, alpha=0.05, bound=0.9)
        assert found.since is not None
        assert found.broken_at(159)
        if [e.until is None for e in found.episodes] == [False, True]:
            first, second = found.episodes
            errors += [first.since - 40, first.until - 80, second.since - 120]
            delays.append(first.back - 80)
            assert not found.broken_at(first.until)
    assert states.count([False]) >= 27
    assert len(delays) >= 27
    assert np.median(delays) < 15
    assert np.median(np.abs(errors)) <= 2


def test_what_stays_as_bad_is_rarely_called_mended():
    mended = 0
    for hits, rows in zip(*streams(0.75, 200, 5), strict=True):
        each = episodes(rows - hits, rows, 0.1, 0.05)
        assert each[0].since < 10
        mended += each[0].until is not None
    assert mended <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)
    assert Episode(3, 5) == Episode(since=3, found=5, until=None, back=None)


def test_at_most_is_the_mirror_of_at_least():
    least = watched_rate("recall", [8, 3], [10, 10], alpha=0.05, bound=0.8)
    most = watched_rate("fpr", [2, 7], [10, 10], alpha=0.05, bound=0.2, sign=-1)
    np.testing.assert_allclose(least.evidence, most.evidence)
    assert most.constraint == "fpr <= 0.2"


def test_intervals_of_all_looks_hold_together():
    missed = []
    for k, n in zip(*streams(0.7, 200, 1), strict=True):
        low, high = look_intervals(k, n, 0.05)
        missed.append(not all(a <= 0.7 <= b for a, b in zip(low, high, strict=True)))
    assert np.mean(missed) <= 0.05


def test_drift_is_rare_without_a_change_and_found_with_one():
    random = np.random.default_rng(3)
    alarms, found = [], 0
    expected = np.array([0.1, 0.5, 0.9])
    for _ in range(100):
        u = random.random((60, 50))
        above = np.stack([(u < q).sum(1) for q in expected])
        rows = np.full(60, 50)
        alarms.append(drift_evidence(above, rows, expected, 2000).max() > np.log(20))
        u[30:] **= 1.8
        changed = np.stack([(u < q).sum(1) for q in expected])
        evidence = drift_evidence(changed, rows, expected, 2000)
        found += int(evidence.max() > np.log(20))
        last = int(evidence.argmax())
    assert np.mean(alarms) <= 0.05
    assert found > 90
    assert 25 <= drift_start(changed, rows, expected, 2000, last) <= 35
