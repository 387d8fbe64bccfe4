from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("pandas")
common = pytest.importorskip("common")


def test_gains_over_sets_are_those_of_scipy():
    gains = [0.03, 0.01, -0.004, 0.02, 0.05, 0.0]
    found = common.over_sets(gains)
    low, high = stats.t.interval(0.95, 5, np.mean(gains), stats.sem(gains))
    assert found[:3] == pytest.approx((np.mean(gains), low, high))
    assert (found.better, found.worse, found.equal) == (4, 1, 1)
    assert found.p == pytest.approx(stats.wilcoxon(gains[:5]).pvalue)
    assert found.p_above == pytest.approx(stats.wilcoxon(gains[:5], alternative="greater").pvalue)


def test_sets_that_are_all_equal_show_nothing():
    assert common.over_sets([0.0, 0.0, 0.0])[-2:] == (1.0, 1.0)


def test_a_line_cut_off_by_a_stop_is_dropped(tmp_path):
    out = tmp_path / "results" / "a.jsonl"
    assert common.read(out) == []
    common.append(out, {"a": 1})
    common.append(out, {"a": 2})
    whole = out.read_bytes()
    for cut in range(len(whole) // 2 + 1, len(whole)):
        out.write_bytes(whole[:cut])
        assert common.read(out) == [{"a": 1}]
        common.append(out, {"a": 3})
        assert common.read(out) == [{"a": 1}, {"a": 3}]


def test_more_splits_begin_with_the_same_ones():
    y = np.repeat([0, 1], [40, 10])
    few, many = common.splits(y, 2), common.splits(y, 4)
    for a, b in zip(few, many, strict=False):
        assert all((p == q).all() for p, q in zip(a, b, strict=True))
    assert [len(part) for part in few[0]] == [35, 15]
    assert y[few[0][1]].sum() == 3
