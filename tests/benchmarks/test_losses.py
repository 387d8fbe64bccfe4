"""The drawing of shapes, and one small run of everything that is measured."""

from __future__ import annotations

import statistics

import pytest
import torch

import losses
import softset as ss
from losses import FAMILIES, draws, make, measure, naive_iou, summary


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_are_within_bounds_and_the_same_for_a_seed(family):
    found = list(draws(family, 5, 60))
    assert found[:20] == list(draws(family, 5, 20))
    assert found != list(draws(family, 6, 60))
    for draw in found:
        assert 2**8 <= draw.scores <= 2**24
        assert draw.shape[0] <= 2**23
        assert len(draw.shape) < 2 or draw.shape[1] <= 2000
        assert not draw.ignored or draw.task == "multiclass"
    assert {draw.weighted for draw in found} == {True, False}
    assert {draw.layout for draw in found} >= {"contiguous", "strided"}
    assert len({draw.metric for draw in found}) > len(losses.METRICS) / 2
    assert {draw.step for draw in found} == set(losses.STEPS)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_draw_can_be_run_on_both_paths(family, monkeypatch):
    monkeypatch.setattr(losses, "PAIRS", 1)
    rows = []
    for draw in draws(family, 1, 6, most=2**12):
        problem = make(draw)
        assert problem.z.shape == draw.shape
        assert problem.ours().isfinite()
        assert problem.reference().isfinite()
        row = measure(draw, plain=True)
        assert row["pytorch"][0] > 0
        assert ("naive" in row) == (family == "images")
        rows.append(row)
    table = list(summary(rows, "pytorch"))
    assert f"| {family} | below 2^16 | 6 |" in table[2]
    median = statistics.median(row["pytorch"][0] for row in rows)
    assert f"| {median:.2f} |" in table[2]


def test_the_soft_iou_written_by_hand_is_ours_with_the_identity():
    z, y = torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2, 8, 8))
    y[0, :2] = losses.IGNORED
    step, ignored = ss.IdentityStep(), losses.IGNORED
    ours = ss.metric_loss(z, y, "jaccard", task="multiclass", step=step, ignore_index=ignored)
    torch.testing.assert_close(naive_iou(z, y, True), ours, rtol=1e-5, atol=1e-6)
