from __future__ import annotations

import numpy as np
import pytest

from softset.report.calibration import brier, calibration_error, recalibrate, reliability
from softset.report.counts import Scores


def drawn(rows: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Honest probabilities, and labels drawn with them."""
    random = np.random.default_rng(seed)
    p = random.beta(0.8, 2, rows).clip(1e-4, 1 - 1e-4)
    return p, random.random(rows) < p


def apply(code: str, p: np.ndarray) -> np.ndarray:
    """The map as the reader would run it."""
    names = {"np": np, "p": p}
    exec(code, names)
    return names["recalibrated"]


@pytest.mark.parametrize(
    ("kind", "distort"),
    [
        ("Platt's map", lambda p: p**3 / (p**3 + (1 - p) ** 3)),  # log-odds times three
        ("An isotonic map", lambda p: np.where(p < 0.4, 0.02 + p / 50, 0.5 + p / 3)),
    ],
)
def test_distorted_scores_become_honest_and_keep_their_order(kind, distort):
    p, y = drawn()
    bent = distort(p)
    found = recalibrate(Scores(bent, y))
    assert found.kind == kind
    assert calibration_error(found.p, y) < 0.4 * calibration_error(bent, y)
    assert brier(found.p, y) < brier(bent, y)
    mapped = apply(found.code, np.sort(bent))
    assert (np.diff(mapped) >= 0).all()
    assert calibration_error(apply(found.code, bent), y) < 0.03


def test_a_row_does_not_see_its_own_label():
    # Scores without meaning: a map fitted on the same rows would beat the plain share.
    random = np.random.default_rng(0)
    p, y = random.random(400), random.random(400) < 0.3
    assert brier(recalibrate(Scores(p, y)).p, y) > y.mean() * (1 - y.mean()) - 1e-3


def test_few_rows_of_a_class_are_left_as_they_are():
    p = np.linspace(0.01, 0.99, 200)
    assert recalibrate(Scores(p, p > 0.95)) is None


def test_reliability_counts_every_row_once():
    p, y = drawn(500)
    bins = reliability(p, y, fewest=1)
    assert bins.rows.sum() == 500
    assert (bins.rows * bins.fraction).sum() == pytest.approx(y.sum())


def test_scores_of_exactly_0_and_1_are_fine():
    p, y = drawn()
    found = recalibrate(Scores((p > 0.5).astype(float), y))
    assert np.isfinite(found.p).all()
