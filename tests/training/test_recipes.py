"""Recipes on real data, where it is there: the benchmark's own code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


def benchmark():
    spec = importlib.util.spec_from_file_location("recipes", ROOT / "benchmarks" / "recipes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")
@pytest.mark.parametrize("name", ["mammography", "adult"])
def test_warm_is_not_worse_than_cross_entropy_with_tuned_threshold(name):
    pytest.importorskip("pyarrow")
    run = benchmark()
    warm, entropy = (
        np.mean([row[1] for row in run.scores(name, recipe, DATA, 5, {})])
        for recipe in ("warm", "cross-entropy")
    )
    assert warm - entropy > -0.005


def test_the_benchmark_says_so_where_the_data_is_absent(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["recipes.py", "--data-dir", str(tmp_path)])
    benchmark().main()
    assert "has no mammography.parquet" in capsys.readouterr().out
