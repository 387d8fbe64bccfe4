"""One tuner: cuts in gaps, kept only if they help rows they were not tuned on."""

from __future__ import annotations

import numpy as np
import pytest

import softset as ss
from softset.decisions import tuner as module
from softset.decisions.decision import Decision
from softset.decisions.tuner import RULES, Tuner
from softset.metrics.registry import get_metric

F1 = get_metric("f1")


def test_a_long_tuning_shows_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(module, "LONG", 50)
    z, y = np.linspace(-1, 1, 60), np.arange(60) % 2
    Tuner("f1", "binary", verbose=1).crossed(z, y, np.ones(60))
    assert "tune 5 of 5" in capsys.readouterr().err
    Tuner("f1", "binary").crossed(z, y, np.ones(60))
    assert not capsys.readouterr().err


def test_tuning_is_kept_only_if_it_helps_rows_it_was_not_tuned_on():
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.2).astype(int)
    shifted = rng.normal(np.where(y, -1.0, -3.0), 0.2)
    tuner = Tuner(F1, "binary")
    assert -2.5 < tuner.tune(shifted, y).logit < -1.5
    good = np.where(y == 1, 2.0, -2.0)
    assert tuner.tune(good, y).logit == 0
    assert tuner.tune(shifted[:10], y[:10]).logit == 0  # too few rows


@pytest.mark.parametrize("rule", RULES)
def test_a_gap_is_cut_at_its_middle_and_a_rounding_step_changes_nothing(rule):
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [200, 20])
    z = np.where(y, -1.0, -7.0) + rng.uniform(-0.5, 0.5, 220)
    decision = Tuner(F1, "binary", rule).tune(z, y)
    assert decision.logit == pytest.approx((z[y == 1].min() + z[y == 0].max()) / 2)
    for towards in (-np.inf, np.inf):
        np.testing.assert_array_equal(decision(np.nextafter(z, towards)), y)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("low", "high"), [(-3.0, 0.0), (-3.0, 1e-17), (-1e-18, 4.0), (-1.0, 7.0), (-9.0, -0.0)]
)
def test_a_cut_at_a_half_that_needs_no_tuning_lies_in_the_gap_too(rule, low, high):
    y = np.repeat([0, 1], [60, 20])
    z = np.where(y, high, low)
    decision = Tuner(F1, "binary", rule).tune(z, y)
    assert decision.logit == (low + high) / 2
    for towards in (-np.inf, np.inf):
        np.testing.assert_array_equal(decision(np.nextafter(z, towards)), y)
    several = Tuner(F1, "multilabel", rule).tune(np.column_stack([z, -z]), np.column_stack([y, y]))
    assert several.logit[0] == (low + high) / 2


@pytest.mark.parametrize("rule", RULES)
def test_scores_of_one_half_are_not_decided_by_rounding(rule):
    """As forests have them, among others, with rows on either side of the cut that are wrong."""
    y = np.repeat([0, 1, 0, 1, 0, 1], [40, 3, 4, 20, 3, 30])
    z = np.repeat([-2.0, 0.0, 2.0], [43, 24, 33])
    decision = Tuner(F1, "binary", rule).tune(z, y)
    for towards in (-np.inf, np.inf):
        np.testing.assert_array_equal(decision(np.nextafter(z, towards)), z >= 0)
    assert Tuner(F1, "binary", rule).tune(z + 0.01, y).logit == 0  # nothing is on the cut


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("metric", "problems"),
    [("f1", 40)]
    + [pytest.param(m, 200, marks=pytest.mark.slow) for m in ("f1", "mcc", "balanced_accuracy")],
)
def test_tuning_does_not_hurt_new_rows_on_average(rule, metric, problems):
    """Over random problems the mean gain is not below zero by more than two errors."""
    gains = []
    for seed in range(problems):
        rng = np.random.default_rng(seed)
        prevalence, effect = rng.uniform(0.03, 0.5), rng.uniform(0.3, 3)
        rows, off = int(rng.integers(30, 400)), rng.normal(0, 0.5)

        def draw(n, rng=rng, prevalence=prevalence, effect=effect, off=off):
            y = (rng.random(n) < prevalence).astype(int)
            y[:2] = [0, 1]
            prior = np.log(prevalence / (1 - prevalence))
            return effect * rng.normal(effect * y, 1) - effect**2 / 2 + prior + off, y

        decision = Tuner(get_metric(metric), "binary", rule).tune(*draw(rows))
        z, y = draw(2000)
        values = [
            ss.evaluate(d(z).astype(float), y, metric, from_logits=False)
            for d in (decision, Decision.plain("binary"))
        ]
        gains.append(values[0] - values[1])
    mean, error = np.mean(gains), np.std(gains) / np.sqrt(len(gains))
    assert mean > -2 * error
    assert mean > 0  # and in truth it helps


def test_scores_that_saturate_as_probabilities_are_told_apart():
    z = np.repeat([40.0, 60.0], 30)  # both are 1.0 as probabilities
    y = np.repeat([0, 1], 30)
    decision = Tuner(F1, "binary").tune(z, y)
    assert decision.logit == 50
    np.testing.assert_array_equal(decision(z), y)


def test_each_label_has_its_cut():
    rng = np.random.default_rng(0)
    y = (rng.random((300, 2)) < 0.3).astype(int)
    z = 6 * y + np.array([-8.0, 1.0]) + rng.uniform(-1, 1, y.shape)
    decision = Tuner(F1, "multilabel").tune(z, y)
    np.testing.assert_allclose(decision.logit, [-5.0, 4.0], atol=0.1)


def test_offsets_need_more_than_one_row_to_speak_for_them():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    z = np.eye(3)[y] * 8
    z[0] = [3.0, 3.1, 0.0]
    y[0] = 0
    tuner = Tuner(get_metric("f1"), "multiclass")
    np.testing.assert_array_equal(tuner.tune(z, y).logit, 0)
    shifted = z + np.array([0.0, 0.0, -12.0])
    assert (tuner.tune(shifted, y)(shifted) == y).mean() > 0.99


def test_a_cut_that_is_better_at_all_is_enough_where_that_is_asked_for():
    """One row decides, the positive at -0.5: left out, nothing is gained."""
    z = np.concatenate([np.linspace(-9, -3, 60), np.linspace(1, 9, 40), [-0.5]])
    y = np.repeat([0, 1], [60, 41])
    assert Tuner(F1, "binary").tune(z, y).logit == 0
    assert Tuner(F1, "binary", clear=False).tune(z, y).logit == -1.75


def test_the_heaviest_row_that_speaks_for_a_cut_is_left_out():
    """Two positives lie between -1 and 0; one of them has nearly all of the weight of both."""
    z = np.concatenate([np.linspace(-9, -3, 60), np.linspace(1, 9, 40), [-0.5, -0.4]])
    y, w = np.repeat([0, 1], [60, 42]), np.ones(102)
    assert Tuner(F1, "binary").tune(z, y, w).logit < 0
    for light in (-1, -2):
        w = np.ones(102)
        w[light] = 1e-9
        assert Tuner(F1, "binary").tune(z, y, w).logit == 0


# --- few positives --------------------------------------------------------------------------------


@pytest.mark.parametrize("positives", [4, 40])
def test_a_cut_is_drawn_to_a_known_one_as_if_by_three_positives(positives):
    rng = np.random.default_rng(0)
    y = (np.arange(400) < positives).astype(int)
    z, w = rng.normal(size=400) - 3 + 1.5 * y, np.full(400, 5.0)
    own = float(Tuner(F1, "binary").best(z, y, w).logit)
    tuner = Tuner(F1, "binary", toward=-4.0)
    drawn = (positives * own - 12) / (positives + 3)
    assert float(tuner.best(z, y, w).logit) == pytest.approx(drawn)
    assert float(tuner.tune(z, y, w).logit) == pytest.approx(drawn)  # nothing is asked for


@pytest.mark.parametrize("toward", [None, -4.0])
def test_neither_rows_of_weight_zero_nor_the_scale_of_weights_move_a_smooth_cut(toward):
    rng = np.random.default_rng(0)
    y = (np.arange(400) < 20).astype(int)
    z, w = rng.normal(size=400) - 3 + 1.5 * y, rng.integers(0, 3, 400).astype(float)
    z[w == 0] *= 100
    tuner, some = Tuner(F1, "binary", toward=toward), w > 0
    found = [
        float(tuner.best(*rows).logit)
        for rows in ((z, y, w), (z[some], y[some], w[some]), (z, y, 1000 * w))
    ]
    assert found == pytest.approx([found[0]] * 3)
