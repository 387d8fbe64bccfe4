"""The figures that need no training show the papers' formulas."""

from __future__ import annotations

import math

import pytest

from softset_papers.figures import panels


@pytest.mark.parametrize(
    ("panel", "label", "formula"),
    [
        (0, "BCE", lambda q: -math.log(1 - q)),
        (0, "MAE", lambda q: 2 * q),
        (0, "surrogate (on BCE)", lambda q: -math.log(1 - q)),
        (1, "BCE", lambda q: -math.log(1 - q)),
        (1, "MAE", lambda q: 2 * q),
        (1, "surrogate, β = 1", lambda q: math.log(1 + q)),
        (1, "surrogate, β = 3", lambda q: math.log(9 + q)),
    ],
)
def test_the_two_terms_of_a_loss(panel, label, formula):
    """Paper 004 eq. 16, 18 and 21."""
    q, value = panels("004-figure-1")[panel][2][label]
    assert value == pytest.approx([formula(x) for x in q], abs=1e-9)


def test_slopes_are_those_of_the_steps():
    steps, slopes = panels("000-figure-2"), panels("000-figure-3")
    assert [title for title, *_ in steps] == [title for title, *_ in slopes]
    for (_, _, values), (_, _, tangents) in zip(steps, slopes, strict=True):
        for label, (p, h) in values.items():
            rise = (h[301] - h[299]) / (p[301] - p[299])
            assert tangents[label][1][300] == pytest.approx(rise, rel=0.01, abs=1e-6)
