"""Nothing is called significant where there is no gain, and a planted gain is."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from softset.comparison.statistics import gains_by_stage, paired
from verdicts import SETTINGS, SIZES, STAGES, Setting, correlated, count_significant, decided, upper


def test_the_upper_end_by_hand():
    assert upper(0, 58) == pytest.approx(1 - 0.05 ** (1 / 58))
    assert upper(5, 5) == 1


FEW = [s for s in SETTINGS if "x 1" in s.name and "1000 rows" not in s.name]


@pytest.mark.slow
@pytest.mark.parametrize("setting", FEW, ids=lambda s: s.name)
def test_equal_candidates_are_seldom_significant(setting):
    assert count_significant(setting, 100, seed=1) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_equal_candidates_are_significant_in_six_of_a_hundred_at_most(setting):
    assert upper(count_significant(setting, 2000, seed=0), 2000) <= 0.06


def test_a_test_that_takes_splits_for_independent_would_be_wrong_far_more_often(monkeypatch):
    """So that the tests above can fail."""
    naive = lambda a, b, _, row: paired(a, b, 1e-9, row)  # noqa: E731
    monkeypatch.setattr("softset.comparison.statistics.paired", naive)
    setting = next(s for s in SETTINGS if s.name == "correlated splits, 10 folds x 2")
    assert count_significant(setting, 100, seed=1) > 12


def test_the_best_of_sixteen_flatters_itself_and_choosing_does_not(monkeypatch):
    def mean_gain():
        random = np.random.default_rng(0)
        tables = [decided(random, 400, 0.1, 5, 1, "f1", 0.5, 0.2) for _ in range(100)]
        found = [gains_by_stage(t, STAGES, SIZES, folds=5, one_row=grain) for t, grain in tables]
        return np.mean([f.total.mean for f in found])

    honest = mean_gain()
    monkeypatch.setattr(
        "softset.comparison.statistics.ScoreTable.nested_scores",
        lambda table: table.scores[table.names.index(table.best())].tolist(),
    )
    flattering = mean_gain()
    assert flattering > 0.02
    assert abs(honest) < flattering / 3


@pytest.mark.parametrize(("gainers", "step"), [("t", 1), ("m", 2), ("e", 3)])
def test_a_planted_gain_is_found_in_its_stage(gainers, step):
    gains = {name: 0.12 for name in STAGES if name.startswith(gainers)}
    draw = partial(correlated, folds=5, repeats=3, gains=gains)
    random, found = np.random.default_rng(0), []
    for _ in range(50):
        scores, grain = draw(random)
        found.append(gains_by_stage(scores, STAGES, SIZES, folds=5, one_row=grain))
    assert sum(f.total.significant for f in found) >= 45
    assert sum(f.stages[step].gain.significant for f in found) >= 45
    others = [r for f in found for k, r in enumerate(f.stages) if k not in (0, step)]
    assert sum(r.gain.significant for r in others) <= 5
    assert np.mean([f.total.mean for f in found]) == pytest.approx(0.12, abs=0.03)


def test_settings_have_names_of_their_own():
    assert len({s.name for s in SETTINGS}) == len(SETTINGS)
    assert all(isinstance(s, Setting) for s in SETTINGS)
