"""Figures show the papers' formulas, and a line and a panel for each row that was trained."""

from __future__ import annotations

import math
import re

import pytest

from softset_papers.pages.figures import draw_all, draw_curves, draw_scatter, panels
from softset_papers.specification import Row, paper
from softset_papers.tables import find_table


@pytest.mark.parametrize(
    ("panel", "label", "formula"),
    [
        (0, "BCE", lambda q: -math.log(1 - q)),
        (0, "MAE", lambda q: q),
        (0, "surrogate (on BCE)", lambda q: -math.log(1 - q)),
        (1, "BCE", lambda q: -math.log(1 - q)),
        (1, "MAE", lambda q: q),
        (1, "surrogate, β = 1", lambda q: math.log(1 + q)),
        (1, "surrogate, β = 3", lambda q: math.log(9 + q)),
    ],
)
def test_the_two_terms_of_a_loss(panel, label, formula):
    """Paper 004 eq. 16, 18 and 21; MAE as its figure has it, half of its equation."""
    q, value = panels("004-figure-1")[panel][2][label]
    assert value == pytest.approx([formula(x) for x in q], abs=1e-9)


def test_slopes_are_those_of_the_steps():
    steps, slopes = panels("000-figure-2"), panels("000-figure-3")
    assert [title for title, *_ in steps] == [title for title, *_ in slopes]
    for (_, _, values), (_, _, tangents) in zip(steps, slopes, strict=True):
        for label, (p, h) in values.items():
            rise = (h[301] - h[299]) / (p[301] - p[299])
            assert tangents[label][1][300] == pytest.approx(rise, rel=0.01, abs=1e-6)


def drawn(*rows):
    names = ("loss", "score", "f1 train", "f1 validation", "accuracy test")
    curves = [{name: [0.1, 0.4, 0.3] for name in names}]
    result = {"curves": curves, "values": {"fair": {"correlation": [-0.5]}}}
    return [(row, result) for row in rows]


def test_a_line_and_a_panel_for_each_row():
    rows = drawn(Row("one", "one"), Row("two", "two"))
    lines, scatter = draw_curves(rows), draw_scatter(rows)
    assert lines.count("<svg") == scatter.count("<svg") == 1
    assert scatter.count("r = −0.50") + scatter.count("r = -0.50") == 2
    assert draw_scatter(rows) == scatter  # the same every time


def test_convergence_is_in_small_multiples():
    """A column for each loss and a row for each measure, at most four lines in a panel."""
    rows = find_table("004-figures-5-to-7").rows
    page = draw_curves(drawn(*rows))
    losses = {(row.options().get("loss"), row.options().get("balanced")) for row in rows}
    assert len(set(re.findall(r'id="(axes_\d+)"', page))) == 3 * len(losses) == 15


def test_a_correlation_that_is_undefined_is_said_to_be():
    rows = drawn(Row("one", "one"))
    rows[0][1]["values"]["fair"]["correlation"] = [None]
    assert "r = undefined" in draw_scatter(rows)


def test_loss_against_score_for_each_loss_that_has_betas():
    one, two = (Row(f"s{b}", "surrogate", paper(loss="surrogate", beta=b)) for b in (1.0, 2.0))
    soft = Row("i", "smoothed", paper(loss="identity", beta=1.0, balanced=True))
    mae = Row("mae", "MAE", paper(loss="mae"))
    figures = draw_all(drawn(one, two, soft, mae))
    assert [figure.count("r = ") for figure in figures] == [0, 2, 1]
