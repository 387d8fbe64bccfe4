"""``benchmarks/rare.py``: its batches are right on average, and its tables read its results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rare
import softset as ss


def part(n=400, positives=20, weight=18.0):
    g = torch.Generator().manual_seed(0)
    y = (torch.arange(n) < positives).long()
    x = torch.randn(n, 3, generator=g) + y[:, None]
    return rare.Part(x, y, torch.where(y == 1, 1.0, weight).double())


@pytest.mark.parametrize("way", [rare.drawn, rare.stratified, rare.whole])
def test_counts_of_batches_are_right_on_average(way):
    rows = part()
    share = float((rows.w * rows.y).sum() / rows.w.sum())
    z = rows.x.sum(1)
    flagged = float((rows.w * (z > 1) * (1 - rows.y)).sum() / rows.w.sum())
    batches = way(rows, 64, torch.Generator().manual_seed(0))
    found = []
    for _ in range(400):
        x, y, w = next(batches)
        w = torch.ones(len(y)) if w is None else w
        wrong = (w * (x.sum(1) > 1) * (1 - y)).sum()
        found.append([float((w * y).sum() / w.sum()), float(wrong / w.sum())])
    assert np.mean(found, 0) == pytest.approx([share, flagged], rel=0.15)


def test_a_training(monkeypatch):
    monkeypatch.setattr(rare, "UPDATES", 30)
    monkeypatch.setattr(rare, "CHECK", 10)
    sides = (part(), part(), part())
    for name, way in rare.WAYS.items():
        found = rare.trained(way, 64, 0.01, 0, sides)
        assert found["updates"] == 30, name
        assert 0 <= found["test_half"] <= 1
        assert found["held_tuned"] >= found["held_half"] - 1e-9


def test_one_batch_in_five_has_a_positive():
    """492 frauds among 284,807 rows, in batches of 128."""
    none = (1 - 492 / 284_807) ** 128
    assert 1 - none == pytest.approx(0.2, abs=0.01)
    assert ss.StratifiedBatches(part().y, 64).taken[1] == 8


def test_tables(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(rare, "TRIALS", 3)
    records = []
    for name, trial, way, size, rate in rare.jobs():
        value = 0.5 + 0.1 * (way != "plain mini-batches") + 0.01 * trial
        best = rate == rare.RATES[1]
        one = {"job": [name, trial, way, size, rate], "seconds": 1.0, "updates": 1}
        for at in ("half", "tuned"):
            one |= {f"held_{at}": float(best), f"test_{at}": value if best else 0.0}
        records.append(one)
    for record in records[:-1]:
        rare.append(tmp_path / "results.jsonl", record)
    rare.show(tmp_path / "results.jsonl")
    told = capsys.readouterr().out
    assert "trials [0, 1] of 3" in told  # the last is not whole
    assert "| plain mini-batches | 0.505 ± 0.007" in told
    assert "full batch - plain = +0.100" in told
    assert "wins back 100 % of the gap" in told
