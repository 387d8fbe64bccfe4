from __future__ import annotations

import json

import pytest

import softset as ss


def test_temperatures_fall_geometrically():
    schedule = ss.Annealing(0.2, 0.8, patience=2, cooling_patience=10)
    seen = []
    for _ in range(9):
        seen.append(round(schedule.temperature, 6))
        schedule.update(1.0)
    # the first epoch at a temperature is its best, two more wait
    assert seen == [0.2] * 3 + [0.16] * 3 + [0.128] * 3
    assert schedule.step == ss.LinearStep.at_temperature(0.2 * 0.8**3)


def test_it_stops_when_cooling_no_longer_helps():
    schedule = ss.Annealing(patience=1, cooling_patience=2)
    losses = [0.5, 0.6, 0.4, 0.6, 0.45, 0.5, 0.45, 0.5, 0.1]
    heard = [schedule.update(x) for x in losses]
    assert heard == [
        "improved", "cooled", "improved", "cooled", "waiting", "cooled", "waiting", "stopped",
        "stopped",
    ]  # fmt: skip
    assert schedule.best == 0.4
    assert schedule.coolings == 3
    assert schedule.stopped


def test_a_nan_never_improves():
    schedule = ss.Annealing(patience=2)
    assert schedule.update(float("nan")) == "waiting"
    assert schedule.update(0.3) == "improved"


def test_it_resumes_where_it_was():
    losses = [0.5, 0.6, 0.4, 0.6, 0.45, 0.5, 0.45, 0.5, 0.1]
    whole = ss.Annealing(patience=1, cooling_patience=2)
    expected = [whole.update(x) for x in losses]
    for stop in range(len(losses)):
        first = ss.Annealing(patience=1, cooling_patience=2)
        heard = [first.update(x) for x in losses[:stop]]
        second = ss.Annealing()
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert heard + [second.update(x) for x in losses[stop:]] == expected
    with pytest.raises(ValueError, match="state does not fit"):
        second.load_state_dict({"start": 0.2})


@pytest.mark.parametrize(
    "settings",
    [
        {"start": 0.4},
        {"start": 0},
        {"start": 1e-300},
        {"start": 10**400},
        {"rate": 1.0},
        {"rate": 0},
        {"patience": 0},
        {"patience": float("inf")},
        {"patience": 1.5},
        {"cooling_patience": 0},
        {"cooling_patience": 10**400},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be "):
        ss.Annealing(**settings)


def test_it_cools_no_further_than_a_step_can_be_sharp():
    schedule = ss.Annealing(0.2, 1e-20, patience=1, cooling_patience=10**6)
    for _ in range(100):
        schedule.update(1.0)
        assert 0 < schedule.step.delta <= 0.2
    assert schedule.temperature == pytest.approx(1e-10)
